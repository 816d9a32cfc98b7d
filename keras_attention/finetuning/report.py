"""What a fine-tuned classifier is worth, on rows that it was not trained on."""

from typing import NamedTuple

import numpy as np

from keras_attention.finetuning import measures
from keras_attention.finetuning.baseline import bag_of_words_scores
from keras_attention.zoo.answers import label_text

SHOWN = 120  # characters of a text in a table
MISTAKES = 20


class Report(NamedTuple):
    """Attributes:
    where: str, the rows it was measured on.
    scores, baseline: dict from a score's name to its value, see `measures.scores`; of the classifier, and of TF-IDF
        with logistic regression trained on the same rows.
    per_class: list of [label, precision, recall, F1, rows].
    confusion: int array (K, K), rows are true labels; None for other tasks than binary and multiclass.
    mistakes: list of [line or number of the row, true label, given label, how wrong, text].
    """

    where: str
    scores: dict
    baseline: dict
    per_class: list
    confusion: np.ndarray | None
    mistakes: list


def make_report(finetuned, test=None):
    """Measures a classifier.

    Args:
        finetuned: Finetuned.
        test: Examples, or None: the rows that chose the epoch, on which the scores are a little too good.

    Returns:
        Report.

    Raises:
        UserError: if a label of `test` is unknown.
    """
    classifier, task = finetuned.classifier, finetuned.task
    examples = finetuned.validation if test is None else test
    targets = examples.targets(task)
    rows = classifier.rows(examples.texts, examples.texts_b)
    logits = np.stack([logits for (logits,) in classifier.compiled.run(rows)])
    found = measures.predictions(logits, task, classifier.task["threshold"])
    confusion = None
    if task.kind in ("binary", "multiclass"):
        labels = len(task.label_names)
        confusion = np.zeros((labels, labels), int)
        np.add.at(confusion, (targets, found.chosen), 1)
    return Report(
        f"{'validation' if test is None else 'test'}, {len(examples):,} rows",
        measures.scores(targets, found, task),
        bag_of_words_scores(finetuned.train, examples, task),
        measures.per_class(targets, found, task),
        confusion,
        [
            _mistake(classifier, examples, row, logits[row], distance)
            for row, distance in measures.worst_mistakes(targets, found, task, MISTAKES)
        ],
    )


def _mistake(classifier, examples, row, logits, distance):
    given = label_text(classifier.answer(logits).label, classifier.task)
    text = examples.texts[row] if examples.texts_b is None else f"{examples.texts[row]} / {examples.texts_b[row]}"
    shown = text if len(text) <= SHOWN else text[: SHOWN - 1] + "\N{HORIZONTAL ELLIPSIS}"
    place = row + 1 if examples.lines is None else examples.lines[row]
    return [place, examples.labels[row], given, distance, " ".join(shown.split())]
