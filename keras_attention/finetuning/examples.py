"""Labelled texts, and how they become what a model reads."""

from dataclasses import dataclass, replace

import numpy as np

from keras_attention.data.label_task import encode_labels
from keras_attention.data.table import read_table


@dataclass
class Examples:
    """Labelled texts.

    Attributes:
        texts: list of str.
        labels: list of str, as they stand in the table; those of a multilabel task joined by its separator.
        texts_b: list of str, the second texts of pairs, or None.
        lines: list of int, where each row stands in its file, or None.
        where: str, the file or another name for messages.
    """

    texts: list
    labels: list
    texts_b: list | None = None
    lines: list | None = None
    where: str = "the examples"

    def __len__(self):
        return len(self.texts)

    def some(self, numbers):
        """The examples with these numbers, in this order."""

        columns = {name: getattr(self, name) for name in ("texts", "labels", "texts_b", "lines")}
        kept = {name: values and [values[number] for number in numbers] for name, values in columns.items()}
        return replace(self, **kept)

    def first(self, count):
        """The first `count` examples, or all if there are fewer."""
        return self.some(range(min(count, len(self))))

    def targets(self, task):
        """The labels as numbers, see `label_task.encode_labels`."""
        return encode_labels(self.labels, task, self.lines, self.where)


def read_examples(path, text, label, text_b=None, **options):
    """Reads Examples from a table, see `data.table.read_table`; returns them and a line that says what was read."""
    table = read_table(path, text, label, text_b, **options)
    return Examples(table.texts, table.labels, table.texts_b, table.lines, str(path)), f"{path}: {table.summary()}"


def class_weights(targets, kind, num_labels):
    """A weight for each label, so that rare ones count more: N / (K count); of several labels the root of no / yes.

    Args:
        targets: array by `encode_labels`.
        kind: str, one of `label_task.KINDS`.
        num_labels: int > 0, K.

    Returns:
        List of K floats, or None for a regression.
    """
    if kind == "regression":
        return None
    if kind == "multilabel":
        yes = np.maximum(targets.sum(axis=0), 1)
        return np.sqrt((len(targets) - yes) / yes).clip(1.0).tolist()
    counts = np.bincount(targets, minlength=num_labels)
    return (len(targets) / (len(counts) * np.maximum(counts, 1))).tolist()
