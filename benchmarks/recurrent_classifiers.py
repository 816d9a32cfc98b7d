"""LSTM and LSTMN as classifiers of sentences: accuracy of equal widths, over several seeds.

    python benchmarks/recurrent_classifiers.py --train fiveclass.train.txt.gz --test fiveclass.dev.txt.gz
    python benchmarks/recurrent_classifiers.py --train trees.txt --test trees.txt --epochs 1 --seeds 1 --width 8

Files have one tree per line in the brackets of the Penn Treebank, with the classes as labels, like the Stanford
Sentiment Treebank (Socher et al. 2013). The networks train on all phrases of the training sentences, and are tested on
sentences only. A tenth of the training sentences, with their phrases, is held out; the weights of the epoch that is
best on them are tested. The classifier of Cheng, Dong & Lapata (2016), section 5.2, has pre-trained word vectors; here
they start random, which costs both networks some points. The mean of the outputs of a sentence goes into two dense
layers.
"""

import argparse
import gzip
import random
import re
import statistics
from collections import Counter
from pathlib import Path

import numpy as np

from keras_attention.cli.main import guarded
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


def run(cell, seed, trees, test, options):
    """Trains one classifier; its accuracy on the test sentences at the best epoch, and its number of weights."""
    import keras

    from keras_attention.models import RecurrentClassifier

    keras.utils.set_random_seed(seed)
    shuffled = random.Random(seed).sample(trees, len(trees))
    held_out, train = np.split(np.arange(len(trees)), [max(1, len(trees) // 10)])
    examples = [phrase for i in train for phrase in shuffled[i]]
    counts = Counter(word for i in train for word in shuffled[i][-1][1])
    words = {word: 2 + place for place, (word, count) in enumerate(sorted(counts.items())) if count > 1}
    classes = 1 + max(label for label, _ in examples)
    model = RecurrentClassifier(2 + len(counts), options.width, classes, cell=cell, dropout=options.dropout)
    model.build()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(options.rate, clipnorm=1.0), loss, jit_compile=True)
    watched = list(padded_groups([shuffled[i][-1] for i in held_out], words))
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
    if options.picture and cell == "lstmn":
        draw_links(model, words, test, options.picture)
    return best[1], model.count_params()


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
    options = parser.parse_args(arguments)
    trees, test = read_trees(options.train), read_trees(options.test)
    print(f"{len(trees):,} training sentences, {sum(map(len, trees)):,} phrases, {len(test):,} test sentences")
    for cell in options.cells:
        runs = [run(cell, seed, trees, test, options) for seed in options.seeds]
        scores = [score for score, _ in runs]
        mean, each = statistics.mean(scores), ", ".join(f"{score:.1f}" for score in scores)
        print(f"{cell}: accuracy {mean:.1f} ({each}), {runs[0][1]:,} parameters", flush=True)


if __name__ == "__main__":
    raise SystemExit(guarded(main, "recurrent_classifiers.py"))
