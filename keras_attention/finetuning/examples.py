"""Labelled texts, and texts encoded as token ids for machines without TensorFlow."""

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.data.tables.label_task import encode_labels
from keras_attention.data.tables.table import read_table
from keras_attention.errors import UNREADABLE, UserError
from keras_attention.models import BertClassifier
from keras_attention.training.devices import dtype_policy
from keras_attention.whole_file import check_holds_only, whole_folder


@dataclass
class Examples:
    """Labelled texts.

    Attributes:
        texts: list of str.
        labels: list of str, as in the table; the labels of a multilabel row are joined by the separator.
        texts_b: list of str, the second texts of pairs, or None.
        lines: list of int, the line of each row in its file, or None.
        where: str, the file, or another name, for messages.
        label_column: str or None, the name of the label column, for messages.
    """

    texts: list
    labels: list
    texts_b: list | None = None
    lines: list | None = None
    where: str = "the examples"
    label_column: str | None = None

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

    def place(self, row):
        """The file, line and column of the label of a row, for messages."""
        column = "" if self.label_column is None else f", column {self.label_column!r}"
        return f"{self.where}, " + (f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}") + column

    def targets(self, task):
        """The labels as numbers, see `label_task.encode_labels`."""
        return encode_labels(self.labels, task, self.lines, self.where)


def read_examples(path, text, label, text_b=None, **options):
    """Reads Examples from a table, see `data.tables.table.read_table`; returns them and a summary for the user."""
    table = read_table(path, text, label, text_b, **options)
    examples = Examples(table.texts, table.labels, table.texts_b, table.lines, str(path), label)
    return examples, f"{path}: {table.summary()}"


SEPARATOR = "|"  # between the labels of a text with several labels


def given_examples(texts, labels, texts_b, lists, where="the examples"):
    """Makes Examples from Python lists.

    Args:
        texts, labels, texts_b: see `keras_attention.finetune`.
        lists: bool. Whether each label is a list of labels.
        where: str, for messages.

    Returns:
        Examples; the labels of lists are joined by `SEPARATOR`.

    Raises:
        UserError: if the numbers of texts and labels differ, or a label of a list holds the separator.
    """
    if len(texts) != len(labels) or (texts_b is not None and len(texts) != len(texts_b)):
        found = [len(part) for part in (texts, labels, texts_b) if part is not None]
        raise UserError(f"There must be one label for each text. Received: {' and '.join(map(str, found))}")
    for name in (name for label in labels if lists for name in label):
        if SEPARATOR in str(name):
            raise UserError(f"A label must not contain {SEPARATOR!r}. Received: {name!r}")
    labels = [SEPARATOR.join(map(str, label)) if lists else str(label) for label in labels]
    return Examples(list(texts), labels, None if texts_b is None else list(texts_b), None, where)


def class_weights(targets, kind, num_labels):
    """A weight for each label that makes rare labels count more: N / (K count); in a multilabel task sqrt(no / yes).

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


ROWS, MODEL, WEIGHTS = "rows.npz", "model.json", "weights.npz"


class IdSequence(NamedTuple):
    """`token_ids` and `segment_ids` are int arrays (T,)."""

    token_ids: np.ndarray
    segment_ids: np.ndarray


def save_encoded_examples(folder, prepared):
    """Writes the model, its weights and the encoded examples.

    Args:
        folder: str or Path; takes the place of a former one.
        prepared: Prepared, see `workflow.prepare`.

    Raises:
        UserError: if the folder holds anything else.
    """
    model = prepared.classifier.model
    described = {"kind": prepared.task.kind, "model": model.settings}
    arrays = {name: np.concatenate([getattr(one, name) for one in prepared.sequences]) for name in IdSequence._fields}
    arrays |= {"ends": np.cumsum([len(one.token_ids) for one in prepared.sequences]), "targets": prepared.targets}
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(folder, partial(check_holds_only, names=(ROWS, MODEL, WEIGHTS))) as new:
        (new / MODEL).write_text(json.dumps(described), encoding="utf-8")
        np.savez(new / WEIGHTS, *model.get_weights())
        np.savez_compressed(new / ROWS, **arrays)


def load_encoded_examples(folder, settings):
    """Reads a folder written by `save_encoded_examples`; does not need TensorFlow.

    Args:
        folder: str or Path.
        settings: FinetuneSettings; only the number format is used.

    Returns:
        BertClassifier, built, with the initial weights; list of IdSequence; targets; and the kind of the task.

    Raises:
        UserError: if a file is missing or invalid.
    """
    folder = Path(folder)
    try:
        described = json.loads((folder / MODEL).read_text(encoding="utf-8"))
        model = BertClassifier(**described["model"], dtype=dtype_policy(settings))
        model.build()
        with np.load(folder / WEIGHTS, allow_pickle=False) as file:
            model.set_weights([file[f"arr_{number}"] for number in range(len(file.files))])
        with np.load(folder / ROWS, allow_pickle=False) as file:
            sides = [np.split(file[name], file["ends"][:-1]) for name in IdSequence._fields]
            targets = file["targets"]
    except UNREADABLE as error:
        raise UserError(
            f"{folder}: no encoded examples ({error}). Expected: a folder written with --encode-to."
        ) from error
    return model, [IdSequence(*ids) for ids in zip(*sides, strict=True)], targets, described["kind"]
