"""Scores of classifiers: the score for model selection, and the tables of the report."""

from typing import NamedTuple

import numpy as np

CANDIDATES = np.geomspace(0.02, 0.9, 40)  # thresholds of a label


class Predictions(NamedTuple):
    """The predictions of a classifier for N rows.

    `values` are probabilities (N, K), or numbers (N,) of a regression; `chosen` int (N,), bool (N, K) or the numbers.
    """

    values: np.ndarray
    chosen: np.ndarray


def predictions(logits: np.ndarray, task, threshold: float | list[float] = 0.5) -> Predictions:
    """Predictions from logits (N, K); `threshold` is one for all labels of a multilabel task, or a list of K."""
    logits = np.asarray(logits, "float64")
    if task.kind == "regression":
        return Predictions(logits[:, 0], logits[:, 0])
    if task.kind == "multilabel":
        values = np.exp(-np.logaddexp(0.0, -logits))
        return Predictions(values, values >= np.asarray(threshold))
    values = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    return Predictions(values, values.argmax(axis=1))


def scores(targets, found, task):
    """The scores of Predictions by name; the first one is used for model selection.

    Accuracy, macro-F1 and Matthews correlation; for a multilabel task macro-F1, micro-F1 and the share of rows without
    any error; for a regression Pearson and Spearman correlation and mean squared error. Shares and correlations are
    in per cent.
    """
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    if task.kind == "regression":
        return _regression_scores(np.asarray(targets, "float64"), found.chosen)
    exact = 100 * float(accuracy_score(targets, found.chosen))
    macro = 100 * float(f1_score(targets, found.chosen, average="macro", zero_division=0))
    if task.kind == "multilabel":
        micro = 100 * float(f1_score(targets, found.chosen, average="micro", zero_division=0))
        return {"macro-F1": macro, "micro-F1": micro, "exact match": exact}
    return {"accuracy": exact, "macro-F1": macro, "Matthews": 100 * float(matthews_corrcoef(targets, found.chosen))}


def _regression_scores(targets, chosen):
    from scipy.stats import spearmanr

    error = float(np.square(targets - chosen).mean())
    if len(targets) < 2 or targets.std() == 0 or chosen.std() == 0:  # no correlation is defined
        return {"Pearson": 0.0, "Spearman": 0.0, "squared error": error}
    pearson = 100 * float(np.corrcoef(targets, chosen)[0, 1])
    return {"Pearson": pearson, "Spearman": 100 * float(spearmanr(targets, chosen).statistic), "squared error": error}


def per_class(targets, found, task):
    """Precision, recall and F1 of each label, in per cent, and the number of rows with the label.

    Returns:
        List of [label, precision, recall, F1, rows]; empty for a regression.
    """
    from sklearn.metrics import precision_recall_fscore_support

    if task.kind == "regression":
        return []
    labels = np.arange(len(task.label_names))
    columns = precision_recall_fscore_support(targets, found.chosen, labels=labels, zero_division=0)
    return [
        [name, *(100 * float(value) for value in row[:3]), int(row[3])]
        for name, *row in zip(task.label_names, *columns, strict=True)
    ]


def best_thresholds(targets, probabilities):
    """The threshold of each label of a multilabel task that maximizes its F1.

    With few positive rows the best threshold is uncertain: with n of them, the label's own best threshold has weight
    n / (n + 3), the best common threshold the rest, in the mean of their logarithms.

    Args:
        targets: array (N, K) of 0 and 1.
        probabilities: array (N, K).

    Returns:
        List of K floats.
    """
    yes = np.asarray(targets) > 0.5  # (N, K)
    f1 = np.array([_f1(yes, probabilities >= candidate) for candidate in CANDIDATES])  # (C, K)
    common = CANDIDATES[_middle_of_best(f1.mean(axis=1))]
    own = CANDIDATES[_middle_of_best(f1)]  # (K,)
    share = yes.sum(axis=0) / (yes.sum(axis=0) + 3)
    return [round(float(each), 4) for each in own**share * common ** (1 - share)]


def _f1(yes, given):
    """F1 of each column; 0 if no row has or gets the label."""
    return 2 * (given & yes).sum(axis=0) / np.maximum(given.sum(axis=0) + yes.sum(axis=0), 1)


def _middle_of_best(values):
    """Index of the largest value along the first axis; of equal values, the middle between the first and the last."""
    return (values.argmax(axis=0) + len(values) - 1 - values[::-1].argmax(axis=0)) // 2


def worst_mistakes(targets, found, task, count=20):
    """The rows with the largest errors.

    Returns:
        List of (row, error), largest first, without correct rows. The error is 1 minus the probability of the true
        label, or the distance of a regression.
    """
    if task.kind == "regression":
        distance = np.abs(targets - found.values)
        wrong = distance > 0
    elif task.kind == "multilabel":
        distance = np.abs(targets - found.values).max(axis=1)
        wrong = (found.chosen != (targets > 0.5)).any(axis=1)
    else:
        distance = 1 - found.values[np.arange(len(targets)), targets]
        wrong = found.chosen != targets
    order = [int(row) for row in np.argsort(-distance, kind="stable") if wrong[row]]
    return [(row, float(distance[row])) for row in order[:count]]
