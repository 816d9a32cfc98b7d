"""From logits to labels: probabilities, thresholds, and the answers of every classifier as text and as JSON."""

from typing import Any, NamedTuple

import numpy as np

from keras_attention.inputs import Field
from keras_attention.support.errors import UserError, quoted


class Classification(NamedTuple):
    """One answer.

    Attributes:
        label: str, or None (unsure) if the probability of the best label is below the threshold. In a multilabel task,
            the list of all labels that reach the threshold, most probable first; in a regression, a float. None for an
            empty or blank text.
        probabilities: dict from label to float in [0, 1], most probable first. They sum to 1, except in a multilabel
            task, where the labels are independent. Empty for a regression, and for an empty or blank text.
        truncated: bool. Whether the text exceeded the model's limit and was cut.
    """

    label: str | list[str] | float | None
    probabilities: dict[str, float]
    truncated: bool


# The fields of a request to /v1/classify beside the inputs, and those of an answer.
LABEL_REQUEST = {
    "threshold": Field(float | None, "Minimum probability of a label.", None, 0, 1),
    "top": Field(int | None, "Number of probabilities per {item}; default: all.", None, 1),
}
LABEL_ANSWER = {
    "label": Field(str | list[str] | float | None, "One label, a list where a {item} may have several, or a number."),
    "probabilities": Field(dict[str, float], "Probability of each label, most probable first."),
}


def label_fields(fields: dict[str, Field], item: str) -> dict[str, Field]:
    """`LABEL_REQUEST` or `LABEL_ANSWER` for items such as "text"."""
    return {name: field._replace(meaning=field.meaning.format(item=item)) for name, field in fields.items()}


def classification_as_json(answer: Classification, top: int | None = None) -> dict[str, Any]:
    """Converts a Classification into a dict of JSON types, with the `top` most probable labels or all."""
    best = dict(list(answer.probabilities.items())[:top])
    return {"label": answer.label, "probabilities": best, "truncated": answer.truncated}


def given_labels(answer: Classification) -> tuple:
    """The label of a Classification and its probability, or lists of both if multilabel; None if one is missing."""
    label, probabilities = answer.label, answer.probabilities
    if isinstance(label, list):
        return label, [probabilities[name] for name in label]
    return label, probabilities.get(label)  # type: ignore[arg-type]


def check_threshold(threshold: Any, task: dict[str, Any]) -> None:
    """Raises UserError unless the threshold of a request is None or a number in [0, 1], and the task has labels."""
    is_number = isinstance(threshold, (int, float)) and not isinstance(threshold, bool)
    if threshold is not None and not (is_number and 0 <= threshold <= 1):
        raise UserError(f"`threshold` must be a number from 0 to 1. Received: threshold={quoted(threshold)}")
    if threshold is not None and task["kind"] == "regression":
        raise UserError(f"This model predicts a number: leave out `threshold`. Received: threshold={quoted(threshold)}")


def label_answer(logits: np.ndarray, task: dict[str, Any], threshold: float | None = None) -> Classification:
    """Converts logits into an answer.

    Args:
        logits: float array (K,), one for each label; of a regression (1,), the number.
        task: dict, see `catalog.classification.TASK`.
        threshold: float in [0, 1], the minimum probability of a label; None: that of the task.

    Returns:
        Classification that is not truncated.
    """
    kind = task["kind"]
    if kind == "regression":
        return Classification(float(logits[0]), {}, False)
    logits = np.asarray(logits, "float64")
    if kind == "multilabel":
        values = np.exp(-np.logaddexp(0.0, -logits))  # the sigmoid
    else:
        values = np.exp(logits - np.logaddexp.reduce(logits))
    order = np.argsort(-values, kind="stable")
    probabilities = {task["label_names"][i]: float(values[i]) for i in order}
    if kind == "multilabel":
        given = values >= np.asarray(task["threshold"] if threshold is None else threshold)
        label = [task["label_names"][i] for i in order if given[i]]
    else:
        best, value = next(iter(probabilities.items()))
        needed = task.get("min_probability") if threshold is None else threshold
        label = best if needed is None or value >= needed else None
    return Classification(label, probabilities, False)


def label_text(label: str | list[str] | float | None, task: dict[str, Any]) -> str:
    """A label as text for a table: several labels are joined, a number has two decimals."""
    if label is None:
        return "unsure"
    if isinstance(label, list):
        return task["separator"].join(label)
    return f"{label:.2f}" if task["kind"] == "regression" else str(label)


def agreement_of_labels(pairs: list[tuple[Classification, Classification]], task: dict[str, Any]) -> dict[str, float]:
    """The share of equal labels in pairs of answers, and the largest change of a probability (or of a number)."""
    if task["kind"] == "regression":
        return {"largest change": max(abs(mine.label - its.label) for mine, its in pairs)}  # type: ignore[operator]
    changes = [abs(p - its.probabilities[name]) for mine, its in pairs for name, p in mine.probabilities.items()]
    same = 100.0 * sum(mine.label == its.label for mine, its in pairs) / len(pairs)
    return {"same labels (%)": same, "largest change of a probability": max(changes)}
