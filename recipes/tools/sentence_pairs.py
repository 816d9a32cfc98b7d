"""Generates pairs of sentences of the same or different meaning from plain text, to pre-train the comparison of texts.

    python recipes/tools/sentence_pairs.py TEXTS... --out pairs.tsv

Half of the pairs are "same": a sentence, and a copy of it with its clauses swapped, a few words removed, or some words
of another sentence inserted. The others are "different": the copy has a fifth to a half of its content words replaced
by those of neighbouring sentences, or it is the sentence of the same document that shares the most words. Masked
language modelling does not teach a network to compare two texts, and a paraphrase task has too few pairs to learn it
from. Blank lines separate the documents.

Source: none; noise as in Lample et al. (2018), "Unsupervised Machine Translation Using Monolingual Corpora Only",
section 2.3, https://arxiv.org/abs/1711.00043, which drops and moves words.
"""

import argparse
import re
import sys

import numpy as np

from keras_attention.cli.main import guarded
from keras_attention.data.files import read_lines
from keras_attention.support.atomic_files import whole_file
from keras_attention.support.errors import UserError

SAME, DIFFERENT = "same", "different"
SHORTEST, LONGEST = 10, 34  # words of a sentence
FEWEST_SENTENCES, MOST_PAIRS = 6, 14  # of a document
NEIGHBOURS = 5  # sentences to each side, whose words replace others
END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"])")
COMMON_WORDS = (
    "the a an of in on at to for and or but with by from as is was were are be been it its he she his her they their "
    "that this which who had has have not no than then so"
)
COMMON = frozenset(COMMON_WORDS.split())


def bare(word):
    return word.lower().strip(',."')


def is_telling(word):
    return word.lower().strip(",.") not in COMMON


def sentences(document):
    """The sentences of a document as lists of words."""
    parts = [part for line in document.split("\n") for part in END_OF_SENTENCE.split(line)]
    return [part.split() for part in parts if SHORTEST <= len(part.split()) <= LONGEST and part[-1] in ".!?"]


class Noise:
    """Changes to sentences, which are lists of words."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def lose(self, words):
        """Removes one to three runs of a few words."""
        for _ in range(self.random.integers(1, 4)):
            if len(words) < 8:
                break
            size = self.random.integers(1, min(5, len(words) // 5 + 1) + 1)
            start = self.random.integers(0, len(words) - size)
            words = words[:start] + words[start + size :]
        return words

    def swap(self, words):
        """Moves the part before a comma to the end."""
        commas = [place for place, word in enumerate(words) if word.endswith(",") and 3 <= place < len(words) - 4]
        if not commas:
            return words
        place = commas[self.random.integers(len(commas))]
        *first, comma = words[: place + 1]
        *second, last = words[place + 1 :]
        return [*second, last.rstrip(".") + ",", *first, comma.rstrip(",") + "."]

    def put_in(self, words, other):
        """Inserts one to three words of another sentence."""
        size = self.random.integers(1, 4)
        start = self.random.integers(0, max(1, len(other) - size))
        place = self.random.integers(1, len(words))
        return words[:place] + other[start : start + size] + words[place:]

    def reword(self, words, other):
        """Applies some of the three changes above."""
        if self.random.random() < 0.3:
            words = self.swap(words)
        if self.random.random() < 0.8:
            words = self.lose(words)
        if self.random.random() < 0.3:
            words = self.put_in(words, other)
        return words

    def replace(self, words, others):
        """Replaces a fifth to a half of the content words by those of other sentences; None if these have too few."""
        places = [place for place, word in enumerate(words) if is_telling(word)]
        count = max(2, int(len(places) * self.random.uniform(0.2, 0.5)))
        pool = [word for other in others for word in other if is_telling(word)]
        if len(pool) < 5:
            return None
        words = list(words)
        for place in self.random.permutation(places)[:count]:
            words[place] = pool[self.random.integers(len(pool))]
        return words

    def pairs(self, document):
        """Yields (sentence, sentence, label) for pairs from a document."""
        parts = sentences(document)
        if len(parts) < FEWEST_SENTENCES:
            return
        words = [set(map(bare, sentence)) - COMMON for sentence in parts]
        for i in self.random.permutation(len(parts))[:MOST_PAIRS]:
            sentence, other = parts[i], parts[self.random.integers(len(parts))]
            kind = self.random.random()
            if kind < 0.5:
                second, label = self.reword(sentence, other), SAME
            elif kind < 0.75:
                near = [parts[j] for j in range(max(0, i - NEIGHBOURS), min(len(parts), i + NEIGHBOURS + 1)) if j != i]
                second, label = self.replace(sentence, near), DIFFERENT
                if second is not None and self.random.random() < 0.7:
                    second = self.reword(second, other)
            else:
                second, label = parts[most_alike(words, i)], DIFFERENT
            if second is None or (label == DIFFERENT and second == sentence):
                continue
            pair = (sentence, second) if self.random.random() >= 0.5 else (second, sentence)
            yield *map(" ".join, pair), label


def most_alike(words, i):
    """The index of the set with the largest overlap with set i, relative to the smaller set."""

    def shared(j):
        return len(words[i] & words[j]) / (1 + min(len(words[i]), len(words[j])))

    return max((j for j in range(len(words)) if j != i), key=shared)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", metavar="TEXTS", nargs="+")
    parser.add_argument("--most", type=int, default=60_000, help="pairs that are kept")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--out", required=True)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    arguments = parser.parse_args()
    noise = Noise(arguments.seed)
    documents = [part for path in arguments.texts for part in "\n".join(read_lines(path)).split("\n\n")]
    rows = [pair for document in documents for pair in noise.pairs(document)]
    if not rows:
        raise UserError(f"{arguments.texts[0]}: found no document of {FEWEST_SENTENCES} sentences or more.")
    noise.random.shuffle(rows)
    rows = rows[: arguments.most]
    with whole_file(arguments.out) as file:
        file.writelines("\t".join(row) + "\n" for row in [("text_a", "text_b", "label"), *rows])
    print(f"{len(rows):,} pairs, {sum(label == SAME for *_, label in rows):,} of them the same")


if __name__ == "__main__":
    sys.exit(guarded(main, "sentence_pairs.py", debug="--debug" in sys.argv))
