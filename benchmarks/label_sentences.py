"""Labelled sentences out of labelled reviews: what teachers say of a sentence, and what its review says.

    python benchmarks/label_sentences.py TABLE --teacher MODEL [--teacher MODEL ...] --without TEST --out sentences.tsv

TABLE holds long texts with two labels; the teachers are classifiers of sentences with the same labels. Some sentences
of each text, written as in the Penn Treebank (small letters, blanks around signs, "do n't"), are given to the teachers,
whose logits are averaged. A teacher is often too sure of itself, so its logits are replaced by how right those of their
size are, which shows in how often they agree with the label of the review. What the review says is added as evidence of
its own, and sentences of which both together are not sure are left out. A student that learns from them before it
learns from its own table has seen more than its teachers (Lee 2013, "Pseudo-Label"; Blum & Mitchell 1998,
"Co-Training"). Texts that stand in --without are left out.
"""

import argparse
import re
import sys
import warnings

import numpy as np

from keras_attention.cli import guarded
from keras_attention.errors import UserError
from keras_attention.finetuning.examples import read_examples
from keras_attention.whole_file import whole_file

WORDS = range(5, 39)  # of a sentence
SENTENCES_PER_TEXT = 4
BINS = 16
SURE = 0.88  # how often the surest sentences can agree with a text: some of it says the contrary
TEXT_LOGIT = 1.4  # what the label of a text says of one of its sentences
LEAST_LOGIT = 1.0


def sentences(text):
    """The sentences of a text that begin with a capital and are neither short nor long."""
    parts = re.split(r"(?<=[.!?])\s+", text.replace("<br />", " ").strip())
    return [part for part in parts if len(part.split()) in WORDS and part[-1] in ".!?" and part[0].isupper()]


def as_in_the_treebank(sentence):
    """The sentence in small letters, cut into words and signs as the Penn Treebank is."""
    sentence = re.sub(r'(^|[\s(])"(?=\S)', r"\1`` ", sentence.lower()).replace('"', " '' ")
    sentence = re.sub(r"([.,;:?!()\[\]…]+)", r" \1 ", sentence)
    sentence = re.sub(r"\s-{1,3}\s|--+", " -- ", sentence)
    sentence = re.sub(r"(\w)-(\w)", r"\1 - \2", sentence)
    sentence = re.sub(r"(\w)n't\b", r"\1 n't", sentence)
    return " ".join(re.sub(r"'(s|m|d|ll|re|ve)\b", r" '\1", sentence).split())


def calibrated(logits, agrees):
    """Logits as sure as they may be: of their size, `agrees` says how often they agree with the texts."""
    bins = np.array_split(np.argsort(np.abs(logits)), BINS)
    sizes = [np.abs(logits[some]).mean() for some in bins]
    right = np.array([(agrees[some].mean() - (1 - SURE)) / (2 * SURE - 1) for some in bins])
    right = np.maximum.accumulate(np.clip(right, 0.5, 0.98))
    return np.sign(logits) * np.interp(np.abs(logits), sizes, np.log(right / (1 - right)))


def teach(teachers, texts):
    """The mean over the teachers of the logits (N,) of their second label."""
    import keras_attention

    found, labels = [], None
    for name in teachers:
        classifier = keras_attention.load(name)
        labels = labels or classifier.task["label_names"]
        if classifier.task["label_names"] != labels or len(labels) != 2:
            raise UserError(f"{name} has the labels {classifier.task['label_names']}. Expected: two, as {teachers[0]}.")
        logits = classifier.logits(classifier.rows(texts))
        found.append(logits[:, 1] - logits[:, 0])
        print(f"{name} has read {len(texts):,} sentences", flush=True)
    return np.mean(found, axis=0), labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", metavar="TABLE")
    parser.add_argument("--teacher", dest="teachers", action="append", required=True, metavar="MODEL")
    parser.add_argument("--without", metavar="TABLE", help="a table whose texts are left out: the test")
    parser.add_argument("--text", default="text")
    parser.add_argument("--label", default="label")
    parser.add_argument("--count", type=int, default=80_000, help="sentences that are given to the teachers")
    parser.add_argument("--seed", type=int, default=7, help="choice of the sentences")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # of sentences that are cut
    columns = arguments.text, arguments.label
    train, said = read_examples(arguments.table, *columns)
    known = set(read_examples(arguments.without, *columns)[0].texts) if arguments.without else set()
    random, chosen = np.random.default_rng(arguments.seed), []
    for text, label in zip(train.texts, train.labels, strict=True):
        parts = [] if text in known else sentences(text)
        order = random.permutation(len(parts))[:SENTENCES_PER_TEXT]
        chosen += [(as_in_the_treebank(parts[place]), label) for place in order]
    chosen = [chosen[place] for place in random.permutation(len(chosen))[: arguments.count]]
    logits, labels = teach(arguments.teachers, [sentence for sentence, _ in chosen])
    of_texts = np.array([labels.index(label) for _, label in chosen])
    both = calibrated(logits, (logits > 0) == of_texts) + TEXT_LOGIT * (2 * of_texts - 1)
    rows = [
        f"{sentence}\t{labels[int(logit > 0)]}\n"
        for (sentence, _), logit in zip(chosen, both, strict=True)
        if abs(logit) > LEAST_LOGIT
    ]
    with whole_file(arguments.out) as file:
        file.writelines(["\t".join(columns) + "\n", *rows])
    print(f"{said}; {len(rows):,} of {len(chosen):,} sentences labelled")


if __name__ == "__main__":
    sys.exit(guarded(main, "label_sentences.py", debug="--debug" in sys.argv))
