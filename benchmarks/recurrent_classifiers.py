"""LSTM and LSTMN as classifiers of sentences: accuracy of equal widths, over several seeds.

    python benchmarks/recurrent_classifiers.py --train fiveclass.train.txt.gz --test fiveclass.dev.txt.gz
    python benchmarks/recurrent_classifiers.py --train ... --test ... --vectors glove.txt --seeds 1 2 3 4 5 --out r.json
    python benchmarks/recurrent_classifiers.py --train trees.txt --test trees.txt --epochs 1 --seeds 1 --width 8

Files have one tree per line in the brackets of the Penn Treebank, with the classes as labels, like the Stanford
Sentiment Treebank (Socher et al. 2013). The networks train on all phrases of the training sentences, and are tested on
sentences only. A tenth of the training sentences, with their phrases, is held out; the weights of the epoch that is
best on them are tested. The mean of the outputs of a sentence goes into two dense layers.

The classifier of Cheng, Dong & Lapata (2016), section 5.2, starts from pre-trained word vectors. Without --vectors,
they start random here. With --vectors, the embeddings have the width of the vectors, and all words of both files that
have a vector are known; other words are known if they occur twice in training. All embeddings are trained. With --out,
each finished training is stored, and the same command goes on after the last.
"""

import argparse
import gzip
import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
from stored_results import cell, store_results, stored_results

from keras_attention.cli.main import guarded
from keras_attention.data.word_embeddings import embedding_table
from keras_attention.data.word_vectors import read_word_vectors
from keras_attention.support.errors import UserError

UNKNOWN, BUCKETS = 1, (4, 8, 16, 24, 32, 64)  # 0 is padding; lengths of padded phrases
TOKEN = re.compile(r"[()]|[^\s()]+")


def phrases(line):
    """The (label, words) of all phrases of a tree, the whole sentence last; raises UserError for anything else."""
    labelled, open_phrases = [], []
    tokens = iter(TOKEN.findall(line))
    for token in tokens:
        if token == "(":
            open_phrases.append((next(tokens, ""), []))
        elif token == ")" and open_phrases:
            label, words = open_phrases.pop()
            labelled.append((label, words))
            if open_phrases:
                open_phrases[-1][1].extend(words)
        elif open_phrases:
            open_phrases[-1][1].append(token.lower())
    if open_phrases or not labelled or not all(label.isdigit() for label, _ in labelled):
        raise UserError(f"Not a tree: {line[:60]!r}. Expected: (3 (2 It) (4 works)).")
    return [(int(label), words) for label, words in labelled]


def read_trees(path):
    """A list of the phrases of each sentence."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [phrases(line) for line in file if line.strip()]


def padded_groups(examples, words):
    """(token_ids (N, T), labels (N,)) for each bucket of lengths; words beyond the longest are cut."""
    groups = {}
    for label, text in examples:
        ids = [words.get(word, UNKNOWN) for word in text][: BUCKETS[-1]]
        groups.setdefault(next(size for size in BUCKETS if size >= len(ids)), []).append((ids, label))
    for size, rows in sorted(groups.items()):
        ids = np.array([row + [0] * (size - len(row)) for row, _ in rows], "int32")
        yield ids, np.array([label for _, label in rows], "int32")


def accuracy(model, groups):
    right = [model.predict_on_batch({"token_ids": ids}).argmax(-1) == labels for ids, labels in groups]
    return 100 * float(np.concatenate(right).mean())


def known_words(trees, train, test, vectors):
    """The words that have an id, in the order of their ids, which begin after UNKNOWN."""
    counts = Counter(word for tree in train for word in tree[-1][1])
    words = {word for word, count in counts.items() if count > 1}
    if vectors is not None:
        words |= {word for tree in (*trees, *test) for word in tree[-1][1] if vectors.place(word) is not None}
    return sorted(words)


def run(kind, seed, data, options):
    """Trains one classifier; a dict with its accuracy on the test sentences at the best epoch, and its sizes."""
    import keras

    from keras_attention.models import RecurrentClassifier

    trees, test, vectors = data
    keras.utils.set_random_seed(seed)
    shuffled = random.Random(seed).sample(trees, len(trees))
    held_out = max(1, len(trees) // 10)
    train = shuffled[held_out:]
    examples = [phrase for tree in train for phrase in tree]
    vocabulary = known_words(trees, train, test, vectors)
    words = {word: UNKNOWN + 1 + place for place, word in enumerate(vocabulary)}
    sizes = {"hidden_dim": options.width, "num_labels": 1 + max(label for label, _ in examples)}
    if vectors is not None:
        sizes["embedding_dim"] = vectors.vectors.shape[1]
    model = RecurrentClassifier(UNKNOWN + 1 + len(vocabulary), **sizes, cell=kind, dropout=options.dropout)
    model.build()
    result = {"words": len(vocabulary), "parameters": model.count_params()}
    if vectors is not None:
        table, known = embedding_table([None, None, *vocabulary], vectors)
        model.token_embedding.embeddings.assign(table)
        result["words with a vector"] = int(known.sum())
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(options.rate, clipnorm=1.0), loss, jit_compile=True)
    watched = list(padded_groups([tree[-1] for tree in shuffled[:held_out]], words))
    tested = list(padded_groups([tree[-1] for tree in test], words))
    batches = [
        (ids[first : first + options.rows], labels[first : first + options.rows])
        for ids, labels in padded_groups(examples, words)
        for first in range(0, max(1, len(ids) - options.rows + 1), options.rows)  # full ones, or a single one
    ]
    best = (-1.0, 0.0)
    for _ in range(options.epochs):
        random.shuffle(batches)
        for ids, labels in batches:
            model.train_on_batch({"token_ids": ids}, labels)
        best = max(best, (accuracy(model, watched), accuracy(model, tested)), key=lambda scores: scores[0])
    if options.picture and kind == "lstmn":
        draw_links(model, words, test, options.picture)
    return {"held-out accuracy": round(best[0], 2), "accuracy": round(best[1], 2)} | result


LINKED_WORDS = range(9, 13)


def draw_links(model, words, test, path):
    """Draws the words that each word of a sentence recalls: of the first sentence of medium length."""
    from keras_attention.visualize.figures import links_plot

    sentence = next((tree[-1][1] for tree in test if len(tree[-1][1]) in LINKED_WORDS), test[0][-1][1])
    ids = np.array([[words.get(word, UNKNOWN) for word in sentence]], "int32")
    _, weights = model({"token_ids": ids}, return_attention_scores=True)
    links_plot(sentence, np.asarray(weights)[0, 0, 0], path)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True, help="file of trees")
    parser.add_argument("--test", type=Path, required=True, help="file of trees")
    parser.add_argument("--cells", nargs="+", choices=["lstm", "lstmn"], default=["lstm", "lstmn"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--width", type=int, default=168, help="of the word vectors and the cell")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=32, help="phrases of an update")
    parser.add_argument("--rate", type=float, default=1e-3, help="of Adam")
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--picture", type=Path, help="draws the words that each word of a sentence recalls (LSTMN)")
    parser.add_argument("--vectors", type=Path, help="GloVe or word2vec file; the first embeddings of words")
    parser.add_argument("--out", type=Path, help="JSON file of the results")
    options = parser.parse_args(arguments)
    trees, test = read_trees(options.train), read_trees(options.test)
    vectors = read_word_vectors(options.vectors) if options.vectors else None
    print(f"{len(trees):,} training sentences, {sum(map(len, trees)):,} phrases, {len(test):,} test sentences")
    settings = {name: getattr(options, name) for name in ("width", "epochs", "rows", "rate", "dropout")}
    settings |= {name: path and path.name for name in ("train", "test", "vectors") for path in [getattr(options, name)]}
    results = stored_results(options.out, settings) if options.out else {}
    for seed in options.seeds:
        for kind in options.cells:
            if str(seed) in results.get(kind, {}):
                continue
            result = run(kind, seed, (trees, test, vectors), options)
            results.setdefault(kind, {})[str(seed)] = result
            if options.out:
                store_results(options.out, settings, results)
            print(f"{kind}, seed {seed}: {', '.join(f'{name} {value}' for name, value in result.items())}", flush=True)
    for kind in options.cells:
        each = list(results[kind].values())
        scores = [result["accuracy"] for result in each]
        listed = ", ".join(f"{score:.1f}" for score in scores)
        print(f"{kind}: accuracy {cell(scores)}, of each seed {listed}; {each[0]['parameters']:,} parameters")


if __name__ == "__main__":
    raise SystemExit(guarded(main, "recurrent_classifiers.py"))
