"""The rows of a training: their task, the rows held out for validation, and the labels as numbers."""

from collections import Counter
from typing import NamedTuple

import numpy as np

from keras_attention.catalog.classification import MAX_LABEL_CHARACTERS, MAX_LABELS
from keras_attention.data.tables.label_task import Task, find_task, split_validation
from keras_attention.data.tables.raw_rows import listed, shown
from keras_attention.evaluation.classification_scores import main_score_of
from keras_attention.finetuning.examples import SEPARATOR, Examples
from keras_attention.support.errors import UserError, counted, is_a_name

FEW_ROWS = 20  # validation rows; with 20, the standard error of an accuracy of 80 % is 9 points


class TrainingRows(NamedTuple):
    """The rows of a training.

    Attributes:
        task: Task.
        train, validation: Examples.
        targets, validation_targets: arrays, see `label_task.encode_labels`; `targets` of a regression are standardized.
        center, spread: floats, mean and standard deviation of the numbers in a regression, else 0 and 1.
    """

    task: Task
    train: Examples
    validation: Examples
    targets: np.ndarray
    validation_targets: np.ndarray
    center: float
    spread: float

    @property
    def pairs(self):
        """bool. Whether each row has two texts."""
        return self.train.texts_b is not None

    @property
    def num_labels(self):
        """int > 0, the width of the logits: 1 for a regression."""
        return max(1, len(self.task.label_names))

    def standardized(self, targets):
        """Targets as the network learns them: the numbers of a regression with mean 0 and standard deviation 1."""
        return (targets - self.center) / self.spread if self.task.kind == "regression" else targets


def training_rows(examples, validation, test, task, share, seed):
    """Holds out validation rows and turns the labels into numbers.

    Args:
        examples: Examples to train on.
        validation: Examples that determine the best weights, or None to hold out a share of `examples`.
        test: Examples for the report, or None. Their labels are checked.
        task: Task.
        share: float in (0, 1), used if `validation` is None.
        seed: int.

    Returns:
        TrainingRows.

    Raises:
        UserError: if a label is unknown, or only some of the tables have text pairs.
    """
    examples = examples.respelled(task)
    if validation is None:
        examples, validation = _held_out(examples, task, share, seed)
    _check_same_columns(examples, validation, test)
    targets, validation_targets, _ = ([] if one is None else one.targets(task) for one in (examples, validation, test))
    task = task._replace(main_score=task.main_score or main_score_of(targets, task.kind))
    rows = TrainingRows(task, examples, validation, targets, validation_targets, *_standard(targets, task))
    return rows._replace(targets=rows.standardized(targets))


def task_of(examples, task=None, separator=None, lists=False):
    """The Task of Examples; raises UserError if no task fits the labels, or a model cannot have one of them."""
    try:
        label_task = find_task(examples.labels, task=task, separator=separator, lists=lists)
    except UserError as error:
        raise UserError(f"{examples.where}: {error}") from error
    check_label_names(label_task, examples)
    return label_task


def task_of_lists(examples, kind, lists, columns):
    """The Task of Examples from Python; `columns` are the names of columns of 0 and 1, or None."""
    if columns is None:
        return task_of(examples, kind, SEPARATOR if lists else None, lists)
    counts = Counter(name for label in examples.labels for name in label.split(SEPARATOR) if name)
    if not counts:
        raise UserError(f"The {len(columns)} columns of labels hold no 1: there is nothing to learn.")
    never = [name for name in columns if not counts[name]]
    because = f"{len(columns):,} columns of 0 and 1, {counts.total() / len(examples):.2f} labels for each text"
    because += ": multi-label classification" + (f"; no text has {listed(never, 3)}" if never else "")
    if kind not in (None, "multilabel"):
        raise UserError(f"Columns of 0 and 1 are for the task multilabel. Received: {kind}")
    task = Task("multilabel", tuple(columns), SEPARATOR, because)
    check_label_names(task, examples)
    return task


def check_label_names(task, examples):
    """Raises an error for labels that a model cannot have.

    Args:
        task: Task.
        examples: Examples of the task.

    Raises:
        UserError: names file, line and column of the first such label.
    """
    if len(task.label_names) > MAX_LABELS:
        raise UserError(
            f"{examples.where}: {len(task.label_names):,} different labels. A model has at most {MAX_LABELS:,}. Join "
            "rare ones, or check the label column."
        )
    for name in task.label_names:
        if len(name) <= MAX_LABEL_CHARACTERS and is_a_name(name):
            continue
        row = next(row for row, label in enumerate(examples.labels) if name in label)
        if len(name) > MAX_LABEL_CHARACTERS:
            fault = f"has {len(name):,} characters. A label has at most {MAX_LABEL_CHARACTERS}"
        else:
            sign = next(sign for sign in name if not is_a_name(sign))
            fault = f"holds the character U+{ord(sign):04X}. A label has neither line breaks nor control characters"
        raise UserError(f"{examples.place(row)}: the label {shown(name)} {fault}.")


def _held_out(examples, task, share, seed):
    """Holds out a share of the Examples; returns the remaining and the held-out Examples."""
    classes = task.kind in ("binary", "multiclass")
    labels = examples.labels if classes else examples.targets(task)  # numbers and sets of labels are no strata
    kept, held = split_validation(labels, share, seed, texts=examples.keys)
    kept, held = examples.some(kept), examples.some(held)
    if classes and len(set(kept.labels)) < 2:
        raise UserError(
            f"{kept.where}: with {counted(len(held), 'row')} held out for validation, all others are "
            f"{kept.labels[0]!r}. "
            "Rows with the same text stay on one side. Expected: two different texts of each label. Add rows, or give "
            "a --validation."
        )
    return kept, held


def _standard(targets, task):
    """Mean and standard deviation of the numbers of a regression, for standardization."""
    if task.kind != "regression":
        return 0.0, 1.0
    return float(np.mean(targets, dtype="float64")), float(np.std(targets, dtype="float64")) or 1.0


def _check_same_columns(examples, *others):
    """Raises UserError if some tables have text pairs and others have single texts."""
    for other in others:
        if other is not None and (other.texts_b is None) != (examples.texts_b is None):
            raise UserError(f"{examples.where} and {other.where} must both hold pairs, or both single texts.")
