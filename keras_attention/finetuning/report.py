"""What a fine-tuned classifier is worth, on rows that it was not trained on."""

from typing import NamedTuple

import numpy as np

from keras_attention.data.label_task import Task
from keras_attention.finetuning import measures
from keras_attention.finetuning.baseline import bag_of_words_scores
from keras_attention.zoo.answers import label_text
from keras_attention.zoo.card import table_text

SHOWN = 120  # characters of a text in a table
MISTAKES, MISTAKES_SHOWN = 20, 10
CLASS_COLUMNS = ["label", "precision", "recall", "F1", "rows"]
MISTAKE_COLUMNS = ["line", "true", "given", "how wrong", "text"]


class Report(NamedTuple):
    """Attributes:
    where: str, the rows it was measured on.
    scores: dict from a score's name to its value, see `measures.scores`.
    baseline: dict likewise, of TF-IDF with logistic regression trained on the same rows; None where it was not trained.
    per_class: list of rows of CLASS_COLUMNS.
    confusion: int array (K, K), rows are true labels; None for other tasks than binary and multiclass.
    mistakes: list of rows of MISTAKE_COLUMNS; a row that has no line has its number.
    """

    where: str
    scores: dict
    baseline: dict | None
    per_class: list
    confusion: np.ndarray | None
    mistakes: list

    def as_json(self):
        """A dict of JSON types."""
        return {**self._asdict(), "confusion": None if self.confusion is None else self.confusion.tolist()}


def make_report(finetuned, test=None):
    """Measures a classifier that was just trained, and a bag of words beside it.

    Args:
        finetuned: Finetuned.
        test: Examples, or None: the rows that chose the epoch, on which the scores are a little too good.

    Returns:
        Report.

    Raises:
        UserError: if a label of `test` is unknown.
    """
    examples = finetuned.validation if test is None else test
    report = measure(finetuned.classifier, examples, "validation" if test is None else "test")
    return report._replace(
        baseline=bag_of_words_scores(finetuned.train, finetuned.validation, examples, finetuned.task)
    )


def measure(classifier, examples, name="test"):
    """Measures a classifier; `baseline` stays None.

    Args:
        classifier: Classifier.
        examples: Examples.
        name: str, what the examples are.

    Returns:
        Report.

    Raises:
        UserError: if a label is unknown to the classifier.
    """
    settings = classifier.task
    names, separator = tuple(settings["label_names"]), settings["separator"]
    task = Task(settings["kind"], names, separator, "as config.json says")
    targets = examples.targets(task)
    logits = classifier.logits(classifier.rows(examples.texts, examples.texts_b))
    found = measures.predictions(logits, task, classifier.task["threshold"])
    confusion = None
    if task.kind in ("binary", "multiclass"):
        labels = len(task.label_names)
        confusion = np.zeros((labels, labels), int)
        np.add.at(confusion, (targets, found.chosen), 1)
    return Report(
        f"{name}, {len(examples):,} rows",
        measures.scores(targets, found, task),
        None,
        measures.per_class(targets, found, task),
        confusion,
        [
            _mistake(classifier, examples, row, logits[row], distance)
            for row, distance in measures.worst_mistakes(targets, found, task, MISTAKES)
        ],
    )


def report_text(report):
    """The report as lines for a terminal."""
    lines = [f"\nOn {report.where}:"]
    for name, value in report.scores.items():
        beside = f"   TF-IDF + linear: {report.baseline[name]:7.2f}" if report.baseline else ""
        lines.append(f"  {name:14} {value:7.2f}{beside}")
    if report.per_class:
        lines += ["", table_text(CLASS_COLUMNS, report.per_class)]
    if report.mistakes:
        lines += ["", "Worst mistakes:", table_text(MISTAKE_COLUMNS, report.mistakes[:MISTAKES_SHOWN])]
    return "\n".join(lines)


def _mistake(classifier, examples, row, logits, distance):
    given = label_text(classifier.answer(logits).label, classifier.task)
    text = examples.texts[row] if examples.texts_b is None else f"{examples.texts[row]} / {examples.texts_b[row]}"
    shown = text if len(text) <= SHOWN else text[: SHOWN - 1] + "\N{HORIZONTAL ELLIPSIS}"
    place = row + 1 if examples.lines is None else examples.lines[row]
    return [place, examples.labels[row], given, distance, " ".join(shown.split())]
