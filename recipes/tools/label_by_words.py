"""Labels unlabelled texts with a linear model of words, where it is confident enough.

    python recipes/tools/label_by_words.py TRAIN TEXTS --without TEST --out labelled.tsv

TRAIN is a table of two labels. The teacher is logistic regression on TF-IDF of one to three words, each weighted by the
logarithm of how much more frequent it is with one label than with the other (Wang & Manning 2012, "Baselines and
Bigrams"). A network that is first trained on these labels, then on TRAIN, has seen more texts of this kind (Lee 2013,
"Pseudo-Label"). TEXTS has one text per line; texts that are in TRAIN or in --without are left out.
"""

import argparse
import sys

import numpy as np

from keras_attention.cli.main import guarded
from keras_attention.data.files import read_lines
from keras_attention.data.tables.label_task import find_task
from keras_attention.finetuning.examples import read_examples
from keras_attention.support.atomic_files import whole_file
from keras_attention.support.errors import UserError


def teacher(texts, labels):
    """A function from texts to the probability of label 1; `labels` are 0 and 1."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    words = TfidfVectorizer(
        ngram_range=(1, 3), min_df=3, sublinear_tf=True, token_pattern=r"(?u)\b\w+\b|[!?]", strip_accents="unicode"
    )
    counts = words.fit_transform(map(plain, texts))
    sums = [1 + np.asarray(counts[labels == label].sum(axis=0)).ravel() for label in (0, 1)]
    ratios = np.log(sums[1] / sums[1].sum()) - np.log(sums[0] / sums[0].sum())
    judge = LogisticRegression(C=100.0, max_iter=300).fit(counts.multiply(ratios).tocsr(), labels)
    return lambda texts: judge.predict_proba(words.transform(map(plain, texts)).multiply(ratios).tocsr())[:, 1]


def plain(text):
    """The text without the line breaks of web pages."""
    return text.replace("<br />", " ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", metavar="TRAIN")
    parser.add_argument("texts", metavar="TEXTS")
    parser.add_argument("--without", metavar="TABLE", help="a table whose texts are left out: the test")
    parser.add_argument("--text", default="text")
    parser.add_argument("--label", default="label")
    parser.add_argument("--least", type=float, default=0.6, help="probability that a label needs")
    parser.add_argument("--out", required=True)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    arguments = parser.parse_args()
    columns = arguments.text, arguments.label
    train, summary = read_examples(arguments.table, *columns)
    task = find_task(train.labels, task="binary")
    known = set(train.texts)
    if arguments.without:
        known.update(read_examples(arguments.without, *columns)[0].texts)
    texts = [text for text in dict.fromkeys(read_lines(arguments.texts)) if text.strip() and text not in known]
    if not texts:
        raise UserError(f"{arguments.texts} has no text that is not in {arguments.table} or in --without.")
    chances = teacher(train.texts, train.targets(task))(texts)
    rows = [
        f"{text}\t{task.label_names[int(chance > 0.5)]}\n"
        for text, chance in zip(texts, chances, strict=True)
        if max(chance, 1 - chance) > arguments.least
    ]
    with whole_file(arguments.out) as file:
        file.writelines(["\t".join(columns) + "\n", *rows])
    print(f"{summary}; {len(rows):,} of {len(texts):,} texts labelled")


if __name__ == "__main__":
    sys.exit(guarded(main, "label_by_words.py", debug="--debug" in sys.argv))
