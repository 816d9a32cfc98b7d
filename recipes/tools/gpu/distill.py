"""Distil two published encoders into `minilm_small_en` on a GPU, and train classifiers from it there.

    python recipes/tools/gpu/distill.py carry --out OUT --seconds 560

Reads what `pack.py` has written; needs PyTorch and tokenizers, and no network. The stages, each with a share of the
time, at whose end its learning rate is 0:

1. Both teachers, all-MiniLM-L6-v2 and all-mpnet-base-v2, compute the vectors of all tokens. These are joined,
   projected to 384 dimensions and kept.
2. The student, layers 0, 3 and 5 of all-MiniLM-L6-v2, learns them, and their mean over each text.
3. all-mpnet-base-v2 is fine-tuned for sentiment and for paraphrases, and labels texts that have no label.
4. The student is fine-tuned on these answers and on the labels.

OUT gets the student, the classifiers, with the names of Hugging Face's BERT, and the answers of the teacher.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from batches import DEVICE, Corpus, endless, in_order
from encoders import Classifier, load_teacher, make_student, mean_of_tokens, published_name
from pack import pack_tensors
from texts import SENTENCE_END, Tokenizer, altered_pairs, labelled, read_files, texts_to_ids, units

BEGAN = time.monotonic()
LAYERS, WIDTH = (0, 3, 5), 384
MPNET_SHIFT = 4  # its ids are BERT's plus 4; <s> is 0 and </s> is 2
ENDS = {"student": 0.58, "sentiment teacher": 0.74, "sentiment": 0.88, "pair teacher": 0.93, "pairs": 0.985}
TOKENS = 32_768  # of an update of the student
REVIEW_TOKENS = 384, 512  # limits of the teacher and of the student


class Setup:
    """What all stages share: tokenizer, ids of special tokens, the number of processes, the clock."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.files = read_files(arguments.folder / "texts")
        student, teacher = (
            path.read_text(encoding="utf-8").split("\n")
            for path in (arguments.folder / "texts" / "student_vocab.txt", arguments.folder / "minilm" / "vocab.txt")
        )
        self.tokenizer = Tokenizer(*([piece for piece in pieces if piece] for pieces in (student, teacher)))
        self.cls, self.sep = (self.tokenizer.teacher_vocabulary.index(piece) for piece in ("[CLS]", "[SEP]"))
        self.student_sep = int(self.tokenizer.to_student[self.sep])
        self.labels, self.ids = {}, {}

    def encode(self, name, texts, labels=(), limits=(256, 256), pairs=None):
        """Keeps the ids of texts and their labels, -1 for a text without one, under a name."""
        self.ids[name] = texts_to_ids(self.tokenizer, texts, *limits, pairs, self.arguments.processes)
        self.labels[name] = np.array([*labels, *[-1] * (len(texts) - len(labels))])
        report(f"{name}: {len(texts):,} texts, {self.ids[name].student.size:,} tokens")

    def encode_all(self):
        """Before the GPU is used, since processes are forked."""
        files, arguments = self.files, self.arguments
        self.encode("units", units(files, arguments.most_words, arguments.seed))
        if arguments.only_encoder:
            return
        labels, texts = labelled(files["reviews_train.tsv"])
        self.encode("reviews", texts + files["reviews_unlabelled.txt"], labels, REVIEW_TOKENS)
        labels, texts = labelled(files["phrases_train.tsv"])
        texts += files["phrases_neutral.txt"] + some_sentences(files["reviews_unlabelled.txt"], 300_000)
        self.encode("phrases", texts, labels)
        for name in ("reviews_validation", "phrases_validation"):
            labels, texts = labelled(files[name + ".tsv"])
            self.encode(name, texts, labels, REVIEW_TOKENS)
        for name in ("pairs_train", "pairs_validation"):
            rows = [line.split("\t") for line in files[name + ".tsv"]]
            pairs = [tuple(row[1:]) for row in rows]
            if name == "pairs_train":
                pairs += altered_pairs(pairs, min(120_000, int(arguments.most_words / 30)), arguments.seed)
            first, second = ([pair[i] for pair in pairs] for i in (0, 1))
            self.encode(name, first, [int(row[0]) for row in rows], (128, 128), second)

    def teachers_corpus(self, name):
        return Corpus(self.ids[name].teacher, self.ids[name].teacher_lengths)

    def students_corpus(self, name, segments=False):
        return Corpus(self.ids[name].student, self.ids[name].student_lengths, segments)

    def gold(self, name):
        return torch.from_numpy(self.labels[name]).to(DEVICE)

    def accuracy(self, logits, name):
        return f"{name} {100 * float((logits.argmax(1) == self.gold(name)).float().mean()):.2f}"

    def mpnet_ids(self, ids):
        """MPNet's ids of BERT's ids; padding stays padding, because it is masked."""
        shifted = ids + MPNET_SHIFT
        return torch.where(ids == self.cls, 0, torch.where(ids == self.sep, 2, shifted))

    def until(self, stage):
        share = ENDS["pairs"] if self.arguments.only_encoder else ENDS[stage]
        return BEGAN + share * self.arguments.seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--most-words", type=float, default=30e6, help="of the student's training texts")
    parser.add_argument("--only-encoder", action="store_true", help="give stages 1 and 2 all the time")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.backends.cuda.matmul.allow_tf32 = True
    arguments.out.mkdir(parents=True, exist_ok=True)
    setup = Setup(arguments)
    report(f"read {len(setup.files)} files on {torch.cuda.get_device_name() if DEVICE.type == 'cuda' else 'the CPU'}")
    setup.encode_all()
    student = distilled_encoder(setup)
    save(student, arguments.out, "encoder")
    classifiers = {} if arguments.only_encoder else {"sentiment": sentiment, "pairs": paraphrases}
    for name, stage in classifiers.items():
        try:
            save(stage(setup, student), arguments.out, name)
        except Exception as error:  # the other stage may still work, and the time is paid for
            report(f"{name} failed: {error!r}")


def distilled_encoder(setup):
    """Stages 1 and 2."""
    theirs, own = setup.teachers_corpus("units"), setup.students_corpus("units")
    order = np.arange(len(theirs))
    sources = torch.from_numpy(setup.ids["units"].source).to(DEVICE)
    minilm, mpnet = (load_teacher(setup.arguments.folder / name).to(DEVICE).eval() for name in ("minilm", "mpnet"))
    rows = np.array([setup.tokenizer.teacher_vocabulary.index(piece) for piece in setup.tokenizer.student_ids])
    student = make_student(minilm, LAYERS, rows).to(DEVICE)
    teachers = Teachers(setup, minilm, mpnet, theirs)
    teachers.fit(np.random.default_rng(0).permutation(len(theirs))[:60_000])
    vectors = torch.empty((own.ids.shape[0], WIDTH), dtype=torch.bfloat16, device=DEVICE)
    means = torch.empty((len(own), WIDTH), device=DEVICE)
    for begin, chosen in in_order(theirs, order, 65_536):
        tokens, mean = teachers.targets(chosen)  # (B, T, D), (B, D)
        places, mask = own.places(chosen)
        of_token = sources[places] + torch.arange(len(chosen), device=DEVICE)[:, None] * tokens.shape[1]
        vectors[places[mask]] = tokens.flatten(0, 1)[of_token[mask]]
        means[torch.from_numpy(chosen).to(DEVICE)] = mean
        if begin % 200 == 0:
            report(f"teachers: {int(100 * begin / len(order))} % of the texts")
    report("the teachers have computed all vectors")
    del mpnet, minilm, teachers
    learn_vectors(setup, student, own, vectors, means)
    return student


class Teachers:
    """Joins the vectors of two teachers and projects them to the width of one.

    The projection keeps most of the sum of both similarities (the leading eigenvectors), and is turned so that the
    result is as near as possible to the vectors of all-MiniLM-L6-v2, from which the student starts (orthogonal
    Procrustes).
    """

    def __init__(self, setup, minilm, mpnet, corpus):
        self.setup, self.minilm, self.mpnet, self.corpus = setup, minilm, mpnet, corpus

    @torch.no_grad()
    def read(self, chosen):
        """Vectors of the tokens (B, T, 384 + 768), scaled so that each teacher's mean over a text has length 1."""
        ids, mask, _ = self.corpus.batch(chosen, self.setup.sep)
        with half():
            vectors = self.minilm(ids, mask), self.mpnet(self.setup.mpnet_ids(ids), mask)
        lengths = [mean_of_tokens(x, mask).norm(dim=-1) for x in vectors]
        joined = torch.cat([x.float() / n[:, None, None] for x, n in zip(vectors, lengths, strict=True)], -1) / 2**0.5
        return joined, mask, lengths[0]

    def fit(self, sample):
        means, scales = [], []
        for _, chosen in in_order(self.corpus, sample, 65_536):
            joined, mask, scale = self.read(chosen)
            means.append(mean_of_tokens(joined, mask))
            scales.append(scale)
        means = torch.cat(means)
        self.scale = float(torch.cat(scales).mean())
        _, leading = torch.linalg.eigh((means.T @ means).double().cpu())
        leading = leading.flip(1)[:, :WIDTH].float().to(DEVICE)
        reduced, first = means @ leading, means[:, :WIDTH]
        u, _, v = torch.linalg.svd((reduced.T @ first).double().cpu())
        self.projection = leading @ (u @ v).float().to(DEVICE)
        near = F.cosine_similarity(means @ self.projection, first).mean()
        kept = (means @ self.projection).square().sum() / means.square().sum()
        report(f"projection: {kept:.4f} of the squares, cosine {near:.4f} to all-MiniLM-L6-v2, scale {self.scale:.3f}")

    def targets(self, chosen):
        """Vectors of the tokens (B, T, 384), in the student's scale, and of the texts (B, 384), of length 1."""
        joined, mask, _ = self.read(chosen)
        tokens = joined @ self.projection
        return (tokens * self.scale).to(torch.bfloat16), F.normalize(mean_of_tokens(tokens, mask), dim=-1)


def learn_vectors(setup, student, corpus, vectors, means):
    """Stage 2: one minus the cosine for every text, and the relative squared error for every token."""
    draw = np.random.default_rng(setup.arguments.seed)
    order = draw.permutation(len(corpus))
    held, train = order[: min(4096, len(order) // 10)], order[min(4096, len(order) // 10) :]
    unit = float(vectors[: 1 << 20].float().square().mean())

    def loss(chosen):
        ids, mask, _ = corpus.batch(chosen, setup.student_sep)
        places, _ = corpus.places(chosen)
        with half():
            x = student(ids, mask)
        cosine = F.cosine_similarity(mean_of_tokens(x, mask), means[torch.from_numpy(chosen).to(DEVICE)], dim=-1)
        squares = (x.float() - vectors[places].float()).square().mean(-1) * mask  # (B, T)
        return (1 - cosine).mean() + squares.sum() / mask.sum() / unit, cosine

    def score():
        with torch.no_grad():
            cosines = [loss(chosen)[1] for chosen in corpus.batches(TOKENS, draw, held)]
        return f"cosine on held-out texts {float(torch.cat(cosines).mean()):.4f}"

    report(f"the start: {score()}")
    batches = endless(lambda: corpus.batches(TOKENS, draw, train))
    fit(student, lambda: loss(next(batches))[0], setup.until("student"), 1e-3, score)


def fit(model, loss, end, rate, score=lambda: "", warmup=0.03):
    """Updates of AdamW until the clock shows `end`; the learning rate rises, then falls to 0 with the time."""
    decayed = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    others = [p for p in model.parameters() if p.requires_grad and p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, rate, betas=(0.9, 0.98), eps=1e-6, fused=DEVICE.type == "cuda")
    begin, updates, reported, mean = time.monotonic(), 0, 0.0, 0.0
    model.train()
    while (now := time.monotonic()) < end or updates < 2:
        done = (now - begin) / max(end - begin, 1e-9)
        for group in optimizer.param_groups:
            group["lr"] = rate * max(min(done / warmup, (1 - done) / (1 - warmup)), 0.002)
        value = loss()
        value.backward()
        torch.nn.utils.clip_grad_norm_(decayed + others, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        updates += 1
        mean = value.detach() if updates == 1 else 0.98 * mean + 0.02 * value.detach()
        if updates % 50 == 0 and DEVICE.type == "cuda":
            torch.cuda.synchronize()
        if done > reported + 0.2:
            reported = done
            report(f"  {updates:,} updates, loss {float(mean):.4f} {score()}")
            model.train()
    model.eval()
    report(f"  end: {updates:,} updates, loss {float(mean):.4f} {score()}")


def sentiment(setup, encoder):
    """Stages 3 and 4 for the sentiment of reviews and of sentences from reviews."""
    draw, names = np.random.default_rng(setup.arguments.seed), ("reviews", "phrases")
    checks = ("reviews_validation", "phrases_validation")
    teacher = Classifier(load_teacher(setup.arguments.folder / "mpnet", 0.1), 768).to(DEVICE)
    theirs, gold = [setup.teachers_corpus(name) for name in names], [setup.gold(name) for name in names]
    streams = [labelled_batches(setup, name, tokens, draw) for name, tokens in zip(names, (16_384, 4_096), strict=True)]

    def teacher_loss():
        kind = int(draw.random() < 0.4)
        chosen = next(streams[kind])
        with half():
            answers = teacher(*mpnet_batch(setup, theirs[kind], chosen))
        return F.cross_entropy(answers, gold[kind][torch.from_numpy(chosen).to(DEVICE)])

    def score(model, corpora, read):
        return ", ".join(setup.accuracy(logits(setup, model, corpora[name], read), name) for name in checks)

    held = {name: setup.teachers_corpus(name) for name in checks}
    own_held = {name: setup.students_corpus(name) for name in checks}
    fit(teacher, teacher_loss, setup.until("sentiment teacher"), 3e-5, lambda: score(teacher, held, mpnet_batch))
    answers = [logits(setup, teacher, corpus, mpnet_batch) for corpus in theirs]
    kept = {name: one.half().cpu().numpy() for name, one in zip(names, answers, strict=True)}
    np.savez(setup.arguments.out / "teacher_logits.npz", **kept)
    report("the sentiment teacher has labelled all texts")
    own = [setup.students_corpus(name) for name in names]
    return imitate(setup, encoder, own, answers, gold, "sentiment", lambda m: score(m, own_held, student_batch))


def paraphrases(setup, encoder):
    """Stages 3 and 4 for pairs of sentences; the teacher is the mean of two."""
    theirs, held = (setup.teachers_corpus(name) for name in ("pairs_train", "pairs_validation"))
    gold, draw = setup.gold("pairs_train"), np.random.default_rng(setup.arguments.seed)
    begin, end, answers, answers_held = time.monotonic(), setup.until("pair teacher"), 0.0, 0.0
    for seed in (1, 2):
        torch.manual_seed(seed)
        teacher = Classifier(load_teacher(setup.arguments.folder / "mpnet", 0.1), 768).to(DEVICE)
        stream = labelled_batches(setup, "pairs_train", 2048, draw)

        def teacher_loss(teacher=teacher, stream=stream):
            chosen = next(stream)
            with half():
                logits = teacher(*mpnet_batch(setup, theirs, chosen))
            return F.cross_entropy(logits, gold[torch.from_numpy(chosen).to(DEVICE)])

        fit(teacher, teacher_loss, begin + (end - begin) * (0.05 + 0.4 * seed), 3e-5)
        answers_held = answers_held + logits(setup, teacher, held, mpnet_batch)
        report(f"{seed} teachers: {setup.accuracy(answers_held, 'pairs_validation')}")
        answers = answers + logits(setup, teacher, theirs, mpnet_batch) / 2
    own, own_held = (setup.students_corpus(name, segments=True) for name in ("pairs_train", "pairs_validation"))

    def score(model):
        return setup.accuracy(logits(setup, model, own_held, student_batch), "pairs_validation")

    return imitate(setup, encoder, [own], [answers], [gold], "pairs", score)


def labelled_batches(setup, name, tokens, draw):
    """Endless batches for the teacher of texts that have a label."""
    corpus, known = setup.teachers_corpus(name), np.flatnonzero(setup.labels[name] >= 0)
    return endless(lambda: corpus.batches(tokens, draw, known))


def imitate(setup, encoder, corpora, answers, gold, stage, score):
    """The student learns the teacher's probabilities; where there is a label, it has a tenth of the weight."""
    torch.manual_seed(setup.arguments.seed)
    draw = np.random.default_rng(setup.arguments.seed)
    copy = make_student(encoder, range(len(LAYERS)), np.arange(len(encoder.tokens.weight)), dropout=0.1)
    student = Classifier(copy, WIDTH).to(DEVICE)
    targets = [mixed(a, g) for a, g in zip(answers, gold, strict=True)]
    streams = [endless(lambda c=c: c.batches(16_384, draw)) for c in corpora]

    def loss():
        kind = int(draw.integers(len(corpora)))
        chosen = next(streams[kind])
        with half():
            logits = student(*student_batch(setup, corpora[kind], chosen))
        return F.cross_entropy(logits, targets[kind][torch.from_numpy(chosen).to(DEVICE)])

    fit(student, loss, setup.until(stage), 4e-4, lambda: score(student))
    return student


def mixed(answers, gold):
    """The teacher's probabilities (N, 2), with a tenth of the label where it is not -1."""
    probabilities = answers.softmax(-1)
    known = (gold >= 0)[:, None]
    return torch.where(known, 0.9 * probabilities + 0.1 * F.one_hot(gold.clamp(min=0), 2), probabilities)


@torch.no_grad()
def logits(setup, model, corpus, read):
    """Logits (N, 2) of all texts."""
    model.eval()
    logits = torch.empty((len(corpus), 2), device=DEVICE)
    for _, chosen in in_order(corpus, np.arange(len(corpus)), 65_536):
        with half():
            logits[torch.from_numpy(chosen).to(DEVICE)] = model(*read(setup, corpus, chosen))
    return logits


def mpnet_batch(setup, corpus, chosen):
    ids, mask, _ = corpus.batch(chosen, setup.sep)
    return setup.mpnet_ids(ids), mask


def student_batch(setup, corpus, chosen):
    return corpus.batch(chosen, setup.student_sep)


def some_sentences(texts, count):
    sentences = [sentence for text in texts for sentence in SENTENCE_END.split(text) if 2 < sentence.count(" ") < 60]
    return [sentences[i] for i in np.random.default_rng(0).permutation(len(sentences))[:count]]


def half():
    return torch.autocast(DEVICE.type, torch.bfloat16)


def save(model, out, name):
    """Weights with Hugging Face's names: the encoder's in float16, in two files; a classifier's rounded to 7 bits."""
    arrays = {}
    for key, value in model.state_dict().items():
        part = key.removeprefix("encoder.")
        arrays[part if part.startswith("head.") else published_name(part)] = value.float().cpu().numpy()
    if name == "encoder":
        vectors = {key: value.astype(np.float16) for key, value in arrays.items() if "word_embeddings" in key}
        np.savez(out / "encoder_tokens.npz", **vectors)
        np.savez(out / "encoder.npz", **{key: arrays[key].astype(np.float16) for key in arrays if key not in vectors})
    else:
        (out / f"{name}.xz").write_bytes(pack_tensors(arrays, steps=24))
    report(f"saved {name}: {sum(value.size for value in arrays.values()):,} numbers")


def report(text):
    print(f"{time.monotonic() - BEGAN:6.1f} s  {text}", flush=True)


if __name__ == "__main__":
    main()
