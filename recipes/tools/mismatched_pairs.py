"""Adds unrelated pairs to a table of text pairs, so that a classifier learns to recognize them.

    python recipes/tools/mismatched_pairs.py TABLE --label-of-them different --count 600 --out mixed.tsv

The pairs of a paraphrase corpus all have similar content; none are unrelated. Each new
pair is the first text of a row and the second of another.
"""

import argparse
import random
import sys

from keras_attention.cli.main import guarded
from keras_attention.finetuning.examples import read_examples
from keras_attention.support.atomic_files import whole_file
from keras_attention.support.errors import UserError


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", metavar="TABLE")
    parser.add_argument("--text", default="text_a")
    parser.add_argument("--text-b", default="text_b")
    parser.add_argument("--label", default="label")
    parser.add_argument("--label-of-them", required=True, help="the label that the new pairs get")
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", required=True)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    arguments = parser.parse_args()
    columns = arguments.text, arguments.text_b, arguments.label
    examples, summary = read_examples(arguments.table, arguments.text, arguments.label, arguments.text_b)
    if arguments.label_of_them not in examples.labels:
        labels = ", ".join(map(repr, sorted(set(examples.labels))[:10]))
        raise UserError(f"--label-of-them {arguments.label_of_them!r} is no label of the table. Found: {labels}")
    rows = list(zip(examples.texts, examples.texts_b, examples.labels, strict=True))
    draw, count = random.Random(arguments.seed), len(rows)
    if count < 2:
        raise UserError(f"{arguments.table} has one row. Expected: at least two, whose texts are then mixed.")
    for _ in range(arguments.count):
        first, second = draw.sample(range(count), 2)
        rows.append((rows[first][0], rows[second][1], arguments.label_of_them))
    draw.shuffle(rows)
    with whole_file(arguments.out) as file:
        for row in [columns, *rows]:
            file.write("\t".join(" ".join(field.split()) for field in row) + "\n")
    print(f"{summary}; {arguments.count:,} pairs added")


if __name__ == "__main__":
    sys.exit(guarded(main, "mismatched_pairs.py", debug="--debug" in sys.argv))
