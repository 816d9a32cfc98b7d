"""The tables behind the chapters of the course: small translators that differ in one thing, over several seeds.

    python benchmarks/attention_studies.py heads --data pairs.tsv --out heads.json
    python benchmarks/attention_studies.py depth --data pairs.tsv --out depth.json
    python benchmarks/attention_studies.py norm --data pairs.tsv --out norm.json
    python benchmarks/attention_studies.py lengths --data pairs.tsv --out lengths.json --up-to 30 50 --plot lengths.png

heads: a Transformer with 1, 2, 4 and 8 heads of the same total width. depth: 1 to 6 layers in encoder and decoder,
post-norm and pre-norm. norm: layer normalization or residual connections taken away. lengths: a recurrent network with
and without attention, trained on all pairs and on short pairs (figure 2 of Bahdanau et al. 2015).

The data are pairs of sentences in the first two columns of a table. Where they are too short, `--join` makes longer
ones of sentences that follow one another. All trainings of a study have the same pairs, vocabulary, number of updates
and size of batches; the seed changes the initial weights, the dropout and the order of the pairs. No source or target
of a test pair is in the training pairs. Each finished training is stored in --out at once, and the same command goes on
after the last of them. Greedy search; BLEU B (sacrebleu, 13a); loss in nats per token of the test pairs. Float32, with
XLA but for lengths. `--docs` writes table and curves into docs/attention.md.
"""

import argparse
import bisect
import math
import os
import random
import re
import statistics
import time
from pathlib import Path

from stored_results import cell, store_results, stored_results

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_attention.cli.io.terminal import silent_libraries
from keras_attention.cli.main import guarded

with silent_libraries():
    import keras
    import tensorflow as tf

from keras_attention.data.batches import BucketedBatches
from keras_attention.data.translation.parallel_corpus import ParallelCorpus, read_tsv
from keras_attention.evaluation.translation_scores import bleu_by_source_length, bleu_tradition_b
from keras_attention.layers import TransformerDecoderLayer, TransformerEncoderLayer
from keras_attention.layers.masks import combined_mask
from keras_attention.layers.transformer_layers import attend_to_source
from keras_attention.models.seq2seq import AttentionSeq2Seq
from keras_attention.models.transformer import Transformer
from keras_attention.pipelines.translator import Translator
from keras_attention.support.atomic_files import whole_file
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import SentencePieceTokenizer
from keras_attention.training.backends import compile_update
from keras_attention.training.losses import token_cross_entropy
from keras_attention.training.optim import make_schedule
from keras_attention.visualize.figures import save_figure

ROOT = Path(__file__).parents[1]
PLOT, PAGE = ROOT / "docs/images/lengths.png", ROOT / "docs/attention.md"
PICTURE = f"![BLEU by source length](images/{PLOT.name})"
TOKENS_PER_WORD = 2  # longer sentences, in tokens, are cut
# Of each study: title of the first column, and the defaults of its options.
TRANSFORMERS = {
    "up_to": [12],
    "width": 128,
    "layers": 2,
    "updates": 1500,
    "rate": 2e-3,
    "tokens_per_batch": 2048,
    "buckets": 3,
}
# XLA would compile the unrolled steps of a recurrent network for minutes.
RECURRENT = {"up_to": [15, 30], "layers": 1, "updates": 2200, "rate": 3e-3, "tokens_per_batch": 4096, "buckets": 2}
RECURRENT |= {"no_xla": True}
STUDIES = {
    "heads": ("heads", TRANSFORMERS),
    "depth": ("layers", TRANSFORMERS),
    "norm": ("Transformer", TRANSFORMERS | {"layers": 4}),
    "lengths": ("network", TRANSFORMERS | RECURRENT),
}
TEST_EDGES = (6, 11, 16, 21, 26, 31, 41, 51)  # source words, where the ranges of `lengths` begin


class Studied:
    """What both kinds of layer share: sums and norms that may be missing."""

    def __init__(self, *args, residual=True, norm=True, **kwargs):
        super().__init__(*args, **kwargs)
        self.residual, self.norm = residual, norm

    def build(self, *shapes):
        super().build(*shapes)
        if not self.norm:
            for name in [name for name in vars(self) if name.endswith("_norm")]:
                getattr(self, name).trainable = False  # not used
                setattr(self, name, unchanged)

    def joined(self, x, change, norm, training):
        change = self.dropout_layer(change, training=training)
        return norm(x + change if self.residual else change)


def unchanged(x):
    return x


class StudiedEncoderLayer(Studied, TransformerEncoderLayer):
    """A post-norm encoder layer that may lack residual connections or norms.

    x = norm(x + attention(x, x))        x = norm(x + feed_forward(x))
    """

    def call(self, x, padding_mask=None, return_attention_scores=False, training=None):
        mask = combined_mask(value_mask=padding_mask)
        change = self.self_attention(x, x, attention_mask=mask, training=training)  # (B, S, D)
        x = self.joined(x, change, self.self_attention_norm, training)
        return self.joined(x, self.feed_forward(x), self.feed_forward_norm, training)


class StudiedDecoderLayer(Studied, TransformerDecoderLayer):
    """A post-norm decoder layer that may lack residual connections or norms.

    x = norm(x + attention(x, x))    x = norm(x + attention(x, source))    x = norm(x + feed_forward(x))
    """

    def call(
        self,
        x,
        encoder_sequence=None,
        encoder_padding_mask=None,
        decoder_attention_mask=None,
        self_attention_cache=None,
        self_attention_cache_update_index=None,
        cross_attention_cache=None,
        return_attention_scores=False,
        training=None,
    ):
        options = {"return_attention_scores": False, "training": training}
        place = {"cache": self_attention_cache, "cache_index": self_attention_cache_update_index}
        change = self.self_attention(
            x, x, attention_mask=decoder_attention_mask, use_causal_mask=True, **place, **options
        )  # (B, T, D), and the cache
        change, cache = change if self_attention_cache is not None else (change, None)
        x = self.joined(x, change, self.self_attention_norm, training)
        mask = combined_mask(value_mask=encoder_padding_mask)
        change = attend_to_source(self.cross_attention, x, encoder_sequence, mask, cross_attention_cache, options)
        x = self.joined(x, change, self.cross_attention_norm, training)
        x = self.joined(x, self.feed_forward(x), self.feed_forward_norm, training)
        return x if cache is None else (x, cache)


class StudiedTransformer(Transformer):
    """A post-norm Transformer that may lack residual connections or norms."""

    def __init__(self, *sizes, residual=True, norm=True, **settings):
        super().__init__(*sizes, **settings)
        inside = {name: settings[name] for name in ("intermediate_dim", "num_heads", "dropout", "attention_dropout")}
        inside |= {"residual": residual, "norm": norm}
        self.encoder_layers = [StudiedEncoderLayer(**inside) for _ in self.encoder_layers]
        self.decoder_layers = [StudiedDecoderLayer(**inside) for _ in self.decoder_layers]


def variants(study, options):
    """The trainings of a study: a dict from name to class, settings, and the most words of a training sentence."""
    longest = max(options.up_to)
    if study == "lengths":
        sizes = {"embedding_dim": options.width, "hidden_dim": options.width, "num_layers": options.layers}
        sizes |= {"tie_embeddings": "all", "dropout": options.dropout}
        return {
            f"{attention}, up to {words}": (AttentionSeq2Seq, sizes | {"attention": kind}, words)
            for kind, attention in (("additive", "with attention"), ("none", "without attention"))
            for words in sorted(options.up_to, reverse=True)
        }
    sizes = {"hidden_dim": options.width, "intermediate_dim": 2 * options.width, "num_heads": 4}
    sizes |= {"num_encoder_layers": options.layers, "num_decoder_layers": options.layers}
    sizes |= {"dropout": options.dropout, "attention_dropout": 0.0}
    if study == "heads":
        return {str(heads): (Transformer, sizes | {"num_heads": heads}, longest) for heads in (1, 2, 4, 8)}
    if study == "depth":
        depths = {
            f"{layers}{', pre-norm' * pre_norm}": {
                "num_encoder_layers": layers,
                "num_decoder_layers": layers,
                "normalize_first": pre_norm,
            }
            for pre_norm in (False, True)
            for layers in range(1, 7)
        }
        return {name: (Transformer, sizes | depth, longest) for name, depth in depths.items()}
    return {
        "post-norm": (Transformer, sizes, longest),
        "pre-norm": (Transformer, sizes | {"normalize_first": True}, longest),
        "no norm": (StudiedTransformer, sizes | {"norm": False}, longest),
        "no residuals": (StudiedTransformer, sizes | {"residual": False}, longest),
        "neither": (StudiedTransformer, sizes | {"norm": False, "residual": False}, longest),
    }


def joined(pairs, longest):
    """Pairs in order, each with those behind it up to a number of words that is drawn between 10 and `longest`."""
    draw, long_pairs, left = random.Random(0), [], iter(pairs)
    pair = next(left, None)
    while pair:
        most, following = draw.randint(10, longest), next(left, None)
        while following and words_of(longer := tuple(map(" ".join, zip(pair, following, strict=True)))) <= most:
            pair, following = longer, next(left, None)
        long_pairs.append(pair)
        pair = following
    return long_pairs


def words_of(pair):
    """The number of words of the longer side."""
    return max(len(text.split()) for text in pair)


def split(pairs, options):
    """Draws test pairs, as many of each range of source lengths; returns training pairs and test pairs.

    The split does not depend on the seed of a training. Each source occurs once in the test pairs.
    """
    pairs = [pair for pair in dict.fromkeys(pairs) if 0 < words_of(pair) <= max(options.up_to) and all(pair)]
    random.Random(0).shuffle(pairs)
    chosen, sources = {}, set()
    edges = edges_of(options)
    for source, target in pairs:
        of_length = chosen.setdefault(bisect.bisect(edges, len(source.split())), [])
        if source not in sources and len(of_length) < options.test_size // (len(edges) + 1):
            of_length.append((source, target))
            sources.add(source)
    test = [pair for length in sorted(chosen) for pair in chosen[length]]
    targets = {target for _, target in test}
    train = [pair for pair in pairs if pair[0] not in sources and pair[1] not in targets][: options.train_size]
    if not train or not test:
        raise UserError(
            f"{options.data}: {len(train):,} training and {len(test):,} test pairs of at most {max(options.up_to)} "
            "words. Expected: some of each. Give more pairs, or another --up-to."
        )
    return train, test


def edges_of(options):
    """The source lengths where the ranges of the test pairs begin; one range for all studies but `lengths`."""
    return [edge for edge in TEST_EDGES if edge <= max(options.up_to)] if options.study == "lengths" else []


def encoded(pairs, tokenizer, options):
    longest = TOKENS_PER_WORD * max(options.up_to)
    return ParallelCorpus.encode(*zip(*pairs, strict=True), tokenizer, tokenizer, longest)


def train(model, corpus, seed, options, clock=time.perf_counter):
    """Makes the updates of a training; returns the seconds, without those in which XLA compiles."""
    batches = BucketedBatches(corpus, options.tokens_per_batch, options.buckets, seed)
    rate = make_schedule("cosine", options.rate, max(1, options.updates // 5), options.updates + 1)
    optimizer = keras.optimizers.Adam(rate, beta_2=0.98, epsilon=1e-9)

    def loss(model, inputs, labels):
        return token_cross_entropy(labels, model(inputs, training=True), 0.1)

    update = compile_update(model, optimizer, loss, clip_norm=1.0, jit_compile=not options.no_xla)
    seconds, compiled, done, epoch = 0.0, set(), 0, 0
    while done < options.updates:
        for batch in batches.epoch(epoch):
            start, shape = clock(), batch["labels"].shape
            float(update(batch).total)
            seconds += clock() - start if shape in compiled else 0.0
            compiled.add(shape)
            done += 1
            if done == options.updates:
                break
        epoch += 1
    update.sync()
    return seconds


def loss_of(model, corpus, options):
    """Mean -log p of the tokens of a corpus, in nats."""

    @tf.function(reduce_retracing=True)
    def sums(inputs, labels):
        loss = token_cross_entropy(labels, model(inputs, training=False))
        return loss.total, loss.count

    total = count = 0.0
    for batch in BucketedBatches(corpus, options.tokens_per_batch, options.buckets, shuffle=False).epoch(0):
        of_batch = sums({name: tf.constant(ids) for name, ids in batch.items() if name != "labels"}, batch["labels"])
        total, count = total + float(of_batch[0]), count + float(of_batch[1])
    return total / count


def measure(kind, settings, longest, seed, data, options):
    """Trains and scores one translator; a dict of JSON types."""
    train_pairs, test_pairs, tokenizer = data
    keras.utils.set_random_seed(seed)
    model = kind(tokenizer.vocabulary_size, tokenizer.vocabulary_size, **settings)
    model.build()
    pairs = [pair for pair in train_pairs if words_of(pair) <= longest]
    seconds = train(model, encoded(pairs, tokenizer, options), seed, options)
    sources, references = zip(*test_pairs, strict=True)
    most = 2 * TOKENS_PER_WORD * max(options.up_to)  # tokens
    translator = Translator(model, tokenizer, tokenizer, {"max_source_length": most, "max_length": most})
    outputs = translator.translate(list(sources), beam_size=1, split=False, keep_items=False)
    outputs = [str(output) for output in outputs]
    ranges = bleu_by_source_length(outputs, references, sources, edges_of(options))
    return {
        "BLEU": round(bleu_tradition_b(outputs, list(references)).score, 2),
        "BLEU by length": [None if one.bleu is None else round(one.bleu, 2) for one in ranges],
        "loss": round(loss_of(model, encoded(test_pairs, tokenizer, options), options), 4),
        "parameters": sum(math.prod(weight.shape) for weight in model.trainable_weights),
        "training pairs": len(pairs),
        "seconds": round(seconds, 1),
        "example": outputs[len(outputs) // 2],
    }


def settings_of(options):
    """What must not change between the trainings of one file of results."""
    names = ("up_to", "train_size", "test_size", "vocabulary_size", "width", "layers", "dropout", "updates", "rate")
    names += ("tokens_per_batch",) + ("join",) * options.join
    return {"study": options.study, "data": options.data.name} | {name: getattr(options, name) for name in names}


def table(results, options):
    """The results as lines of Markdown: the mean, and the least and greatest value of the seeds."""
    columns = {"BLEU": lambda one: one["BLEU"]}
    if options.study == "lengths":
        columns = {}
        edges = [*edges_of(options), max(options.up_to) + 1]
        for place, (low, high) in enumerate(zip([1, *edges[:-1]], edges, strict=True)):
            columns[f"{low} to {high - 1} words"] = lambda one, place=place: one["BLEU by length"][place]
        columns["all"] = lambda one: one["BLEU"]
    head = [STUDIES[options.study][0], *columns, "loss", "parameters", "seconds", "seeds"]
    lines = [head, ["---"] * len(head)]
    for name, seeds in results.items():
        of_seeds = list(seeds.values())
        scores = ([value for one in of_seeds if (value := of(one)) is not None] for of in columns.values())
        row = [name, *(cell(values) if values else "" for values in scores)]
        row += [cell([one["loss"] for one in of_seeds], 3), f"{of_seeds[0]['parameters']:,}"]
        lines.append([*row, f"{statistics.mean(one['seconds'] for one in of_seeds):.0f}", str(len(of_seeds))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_table(page, name, lines):
    """Replaces what stands between the marks `<!-- NAME -->` and `<!-- /NAME -->` in a page of docs."""
    marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    text, count = marks.subn(lambda marks: f"{marks[1]}\n{lines}\n\n{marks[2]}", page.read_text(encoding="utf-8"))
    if not count:
        raise UserError(f"{page} has no marks <!-- {name} --> and <!-- /{name} -->.")
    with whole_file(page) as file:
        file.write(text)


def plot(results, options, path):
    """Draws BLEU by source length: one curve for each network, the mean over the seeds and their range."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0))
    axes = figure.add_subplot()
    edges = [*edges_of(options), max(options.up_to) + 1]
    middles = [(low + high - 1) / 2 for low, high in zip([1, *edges[:-1]], edges, strict=True)]
    longest = f"up to {max(options.up_to)}"
    for name, seeds in results.items():
        scores = list(zip(*(one["BLEU by length"] for one in seeds.values()), strict=True))
        known = [place for place, values in enumerate(scores) if None not in values]
        x = [middles[place] for place in known]
        colour = "#1863d6" if name.startswith("with ") else "#e07600"
        style = "-" if name.endswith(longest) else "--"
        axes.plot(x, [statistics.mean(scores[place]) for place in known], style, color=colour, label=name)
        low, high = ([how(scores[place]) for place in known] for how in (min, max))
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set(xlabel="words in the source", ylabel="BLEU", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, path)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--data", type=Path, required=True, help="table with source and target in the first columns")
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--only", nargs="+", help="some of the trainings, by the names in the first column")
    parser.add_argument("--up-to", nargs="+", type=int, help="most words of a sentence; lengths trains on each")
    parser.add_argument("--join", action="store_true", help="join pairs that follow one another, up to the most words")
    parser.add_argument("--train-size", type=int, default=60_000, help="pairs")
    parser.add_argument("--test-size", type=int, default=1_000, help="pairs")
    parser.add_argument("--vocabulary-size", type=int, default=3_000, help="pieces of the joint vocabulary")
    parser.add_argument("--width", type=int, help="of the layers")
    parser.add_argument("--layers", type=int, help="of encoder and decoder; not for depth")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--updates", type=int, help="of each training")
    parser.add_argument("--rate", type=float, help="peak learning rate of Adam")
    parser.add_argument("--tokens-per-batch", type=int, help="of an update, padding included, on the longer side")
    parser.add_argument("--buckets", type=int, help="shapes of batches; each is compiled once")
    parser.add_argument("--no-xla", action="store_true", default=None, help="starts faster and trains more slowly")
    parser.add_argument("--plot", type=Path, help="picture of the curves of lengths, such as lengths.png")
    parser.add_argument("--docs", action="store_true", help="write table and curves into docs/attention.md")
    options = parser.parse_args(arguments)
    for name, value in STUDIES[options.study][1].items():
        setattr(options, name, value if getattr(options, name) is None else getattr(options, name))

    results = stored_results(options.out, settings_of(options))
    pairs = list(zip(*read_tsv(options.data), strict=True))
    train_pairs, test_pairs = split(joined(pairs, max(options.up_to)) if options.join else pairs, options)
    tokenizer = SentencePieceTokenizer.train([text for pair in train_pairs for text in pair], options.vocabulary_size)
    print(f"{len(train_pairs):,} training pairs, {len(test_pairs):,} test pairs, {tokenizer.vocabulary_size:,} pieces")
    names = variants(options.study, options)
    if unknown := set(options.only or ()) - set(names):
        raise UserError(f"--only: {options.study} has no {unknown.pop()!r}. Expected some of: {'; '.join(names)}.")
    names = {name: how for name, how in names.items() if name in (options.only or names)}
    for seed in options.seeds:
        for name, how in names.items():
            if str(seed) in results.get(name, {}):
                continue
            measured = measure(*how, seed, (train_pairs, test_pairs, tokenizer), options)
            results.setdefault(name, {})[str(seed)] = measured
            store_results(options.out, settings_of(options), results)
            facts = ", ".join(f"{fact} {measured[fact]}" for fact in ("BLEU", "loss", "seconds", "example"))
            print(f"{name}, seed {seed}: {facts}", flush=True)
    results = {name: results[name] for name in names}
    print("\n" + table(results, options))
    if options.study == "lengths":
        for path in filter(None, (options.plot, PLOT if options.docs else None)):
            plot(results, options, path)
    if options.docs:
        picture = f"\n\n{PICTURE}" if options.study == "lengths" else ""
        write_table(PAGE, options.study, table(results, options) + picture)


if __name__ == "__main__":
    raise SystemExit(guarded(main, "attention_studies.py"))
