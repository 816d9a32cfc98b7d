"""A fine-tuned classifier whose answers a smaller one learns."""

from typing import NamedTuple

import numpy as np

from keras_attention.data.tables.raw_rows import listed
from keras_attention.finetuning.starting_model import order_of
from keras_attention.pipelines.base import load_pipeline
from keras_attention.support.errors import UserError
from keras_attention.zoo.registry import open_entry


class Teacher(NamedTuple):
    """A Classifier with the labels of a table.

    Attributes:
        name: str, the name of its entry.
        classifier: Classifier.
        order: int array (K,), the classifier's index of each label of the table.
    """

    name: str
    classifier: object
    order: np.ndarray

    def logits(self, examples):
        """Its logits for Examples: float32 array (N, K), the labels in the order of the table."""
        classifier = self.classifier
        logits_of_teacher = classifier.logits(classifier.sequences(examples.texts, examples.texts_b))
        return classifier.blended(logits_of_teacher, examples.texts, examples.texts_b)[:, self.order].astype("float32")


def load_teacher(start, task, pairs):
    """Loads a teacher for a task.

    Args:
        start: str or Path, an entry with a classifier.
        task: Task.
        pairs: bool, whether the table has pairs of texts.

    Returns:
        Teacher.

    Raises:
        UserError: if there is no such entry, it is not a classifier, or it has another task than the table.
    """
    entry = open_entry(start)
    if "classify" not in entry.architecture.task.tasks:
        raise UserError(f"{entry.folder} is a {entry.architecture.name}. Expected: a classifier as the --teacher.")
    classifier = load_pipeline(entry)
    known = classifier.task
    labels, wanted = known["label_names"], list(task.label_names)
    order = order_of(wanted, labels)
    if known["kind"] != task.kind or order is None:
        received, expected = _described(known["kind"], labels), _described(task.kind, wanted)
        raise UserError(f"The teacher {entry.name} has the task {received}. Expected, as in the table: {expected}.")
    if known["pair"] != pairs:
        sides = ("pairs of texts", "single texts")
        raise UserError(f"The teacher {entry.name} reads {sides[not known['pair']]}. The table has {sides[not pairs]}.")
    return Teacher(entry.name, classifier, np.array(order or [0]))


def _described(kind, labels):
    return f"{kind} ({listed(labels)})" if labels else kind
