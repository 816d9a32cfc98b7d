"""Scores of classifiers, calibration of their probabilities, and a significance test for two classifiers."""

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


def scores(targets, predicted, task):
    """The scores of Predictions by name; the first one, `task.main_score`, is used for model selection.

    Accuracy, macro-F1 and Matthews correlation; for a multilabel task macro-F1, micro-F1 and the share of rows without
    any error; for a regression Pearson and Spearman correlation and mean squared error. Shares and correlations are
    in per cent.
    """
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    if task.kind == "regression":
        return _regression_scores(np.asarray(targets, "float64"), predicted.chosen)
    exact = 100 * float(accuracy_score(targets, predicted.chosen))
    macro = 100 * float(f1_score(targets, predicted.chosen, average="macro", zero_division=0))
    if task.kind == "multilabel":
        micro = 100 * float(f1_score(targets, predicted.chosen, average="micro", zero_division=0))
        return {"macro-F1": macro, "micro-F1": micro, "exact match": exact}
    named = {
        "accuracy": exact,
        "macro-F1": macro,
        "Matthews": 100 * float(matthews_corrcoef(targets, predicted.chosen)),
    }
    main = getattr(task, "main_score", None) or "accuracy"
    return {main: named.pop(main), **named}


# Classes are skewed if the largest has more than this share of the rows, or this many times the rows of the smallest.
LARGEST_SHARE, LARGEST_RATIO = 0.6, 4.0


def main_score_of(targets, kind):
    """The score that suits a table: "macro-F1" if its classes are skewed, else "accuracy"; None without classes.

    With 70 % of the rows in one class, a constant answer has an accuracy of 70 %, and a macro-F1 of at most 41 %.

    Args:
        targets: int array (N,) of classes; other arrays for other kinds.
        kind: str, one of `label_task.KINDS`.
    """
    if kind not in ("binary", "multiclass"):
        return None
    counts = np.bincount(targets)
    counts = counts[counts > 0]
    skewed = counts.max() > LARGEST_SHARE * counts.sum() or counts.max() > LARGEST_RATIO * counts.min()
    return "macro-F1" if skewed else "accuracy"


def has_skewed_classes(task):
    """Whether models for a Task are compared by macro-F1, because its classes are skewed, see `main_score_of`."""
    return task.kind in ("binary", "multiclass") and getattr(task, "main_score", None) == "macro-F1"


def score_of(logits, targets, task):
    """Name and value of the main score of logits; for a multilabel task, at the best thresholds."""
    predicted = predictions(logits, task)
    if task.kind == "multilabel":
        predicted = predictions(logits, task, best_thresholds(targets, predicted.values))
    return next(iter(scores(targets, predicted, task).items()))


def rarely_answered(targets, predicted, task):
    """Labels of a task with one label a row that are answered for less than a fifth of the rows that have them.

    Returns:
        List of (label, number of rows that have it, number of rows for which it is answered), with at least
        `ROWS_TO_JUDGE` rows each.
    """
    if task.kind not in ("binary", "multiclass"):
        return []
    size = len(task.label_names)
    true, given = (np.bincount(each, minlength=size) for each in (targets, predicted.chosen))
    few = np.flatnonzero((true >= ROWS_TO_JUDGE) & (given < RARELY * true))
    return [(task.label_names[label], int(true[label]), int(given[label])) for label in few]


RARELY, ROWS_TO_JUDGE = 0.2, 10


def _regression_scores(targets, chosen):
    from scipy.stats import spearmanr

    error = float(np.square(targets - chosen).mean())
    if len(targets) < 2 or targets.std() == 0 or chosen.std() == 0:  # no correlation is defined
        return {"Pearson": 0.0, "Spearman": 0.0, "squared error": error}
    pearson = 100 * float(np.corrcoef(targets, chosen)[0, 1])
    return {"Pearson": pearson, "Spearman": 100 * float(spearmanr(targets, chosen).statistic), "squared error": error}


def per_class(targets, predicted, task):
    """Precision, recall and F1 of each label, in per cent, and the number of rows with the label.

    Returns:
        List of [label, precision, recall, F1, rows]; empty for a regression.
    """
    from sklearn.metrics import precision_recall_fscore_support

    if task.kind == "regression":
        return []
    labels = np.arange(len(task.label_names))
    columns = precision_recall_fscore_support(targets, predicted.chosen, labels=labels, zero_division=0)
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


def _f1(yes, predicted):
    """F1 of each column; 0 if the label is neither true nor predicted in any row."""
    return 2 * (predicted & yes).sum(axis=0) / np.maximum(predicted.sum(axis=0) + yes.sum(axis=0), 1)


def _middle_of_best(values):
    """Index of the largest value along the first axis; of equal values, the middle between the first and the last."""
    return (values.argmax(axis=0) + len(values) - 1 - values[::-1].argmax(axis=0)) // 2


def worst_mistakes(targets, predicted, task, count=20):
    """The rows with the largest errors.

    Returns:
        List of (row, error), largest first, without correct rows. The error is 1 minus the probability of the true
        label; in a multilabel task, the largest distance between a probability and its target; in a regression, the
        distance.
    """
    if task.kind == "regression":
        distance = np.abs(targets - predicted.values)
        wrong = distance > 0
    elif task.kind == "multilabel":
        distance = np.abs(targets - predicted.values).max(axis=1)
        wrong = (predicted.chosen != (targets > 0.5)).any(axis=1)
    else:
        distance = 1 - predicted.values[np.arange(len(targets)), targets]
        wrong = predicted.chosen != targets
    order = [int(row) for row in np.argsort(-distance, kind="stable") if wrong[row]]
    return [(row, float(distance[row])) for row in order[:count]]


BINS = 15
COLDEST, HOTTEST = 1 / 3, 20.0
PRIOR = 10.0  # strength of the prior on log T, in rows


def temperature(logits, targets, kind):
    """The temperature T that minimizes the cross-entropy of logits / T.

    With few rows, or if all answers are correct, the estimate is unreliable; a normal prior on log T keeps it near 1.

    Args:
        logits: array (N, K).
        targets: array, see `label_task.encode_labels`, of rows that the model was not trained on.
        kind: "binary", "multiclass" or "multilabel".

    Returns:
        float > 0.

    Source: Guo et al. (2017), section 4.2, https://arxiv.org/abs/1706.04599. The prior is not in the paper.
    """
    from scipy.optimize import minimize_scalar

    logits = np.asarray(logits, "float64")

    def loss(log_temperature):
        return (
            len(logits) * cross_entropy(logits * np.exp(-log_temperature), targets, kind)
            + PRIOR * log_temperature**2 / 2
        )

    return float(np.exp(minimize_scalar(loss, bounds=np.log([COLDEST, HOTTEST]), method="bounded").x))


def calibrated_loss(logits, targets, kind):
    """The loss of `cross_entropy` after division by the best `temperature`: it does not punish large logits as such."""
    divisor = 1.0 if kind == "regression" else temperature(logits, targets, kind)
    return cross_entropy(logits / divisor, targets, kind)


def cross_entropy(logits, targets, kind):
    """Mean cross-entropy of logits (N, K), over all labels of a multilabel task; in a regression, squared error."""
    logits = np.asarray(logits, "float64")
    if kind == "regression":
        return float(np.mean((logits[:, 0] - targets) ** 2))
    if kind == "multilabel":
        return float(np.mean(np.logaddexp(0.0, logits) - targets * logits))
    return float(np.mean(np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(logits)), targets]))


def expected_calibration_error(probabilities, targets, kind):
    """The gap between confidence and accuracy, in per cent: mean over 15 bins of equal width, weighted by rows.

        ECE = sum_b (n_b / n) |accuracy_b - confidence_b|

    Args:
        probabilities: array (N, K).
        targets: array; in a multilabel task, every label of a row counts as one prediction.
        kind: "binary", "multiclass" or "multilabel".

    Source: Guo et al. (2017), equation 3.
    """
    if kind == "multilabel":
        sure = np.maximum(probabilities, 1 - probabilities).ravel()
        right = ((probabilities > 0.5) == (targets > 0.5)).ravel()
    else:
        sure, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == targets
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=right - sure, minlength=BINS)
    return 100 * float(np.abs(gaps).sum() / len(sure))


SAMPLES = 1000


class Comparison(NamedTuple):
    """A comparison of two classifiers on the same rows.

    Attributes:
        score: str, the name of the score that is compared.
        difference: float, the second classifier's score minus the first's.
        p_value: float in [0, 1], two-sided: the probability of such a difference by chance.
        test: str, the name of the test.
    """

    score: str
    difference: float
    p_value: float
    test: str

    def text(self, first, second):
        """The comparison as a sentence; `first` and `second` are the names of the classifiers."""
        doubt = "more than chance explains" if self.p_value < 0.05 else "chance may explain it"
        result = f"{self.score} {self.difference:+.2f}, p = {self.p_value:.3f} ({self.test})"
        return f"{second} beside {first}: {result}: {doubt}"


def compare(targets, first, second, task, seed=0):
    """Compares two classifiers on rows that neither was trained on.

    For classes: McNemar's exact test, on the rows that only one of them classifies correctly. Otherwise: a paired
    bootstrap of the first score of `scores`.

    Args:
        targets: array, see `label_task.encode_labels`.
        first, second: Predictions of the same rows.
        task: Task.
        seed: int, of the bootstrap.

    Returns:
        Comparison.

    Source: McNemar (1947); Efron & Tibshirani (1993), section 16.4, for the bootstrap.
    """
    from scipy.stats import binomtest

    name, before = next(iter(scores(targets, first, task).items()))
    difference = scores(targets, second, task)[name] - before
    if task.kind in ("binary", "multiclass"):
        right = first.chosen == targets, second.chosen == targets
        lost, won = int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())
        p_value = float(binomtest(won, lost + won).pvalue) if lost + won else 1.0
        return Comparison(name, difference, p_value, "exact McNemar test")
    random = np.random.default_rng(seed)
    differences = []
    for _ in range(SAMPLES):
        rows = random.integers(0, len(targets), len(targets))
        both = (Predictions(predicted.values[rows], predicted.chosen[rows]) for predicted in (first, second))
        one, other = (scores(targets[rows], predicted, task)[name] for predicted in both)
        differences.append(other - one)
    differences = np.array(differences)
    p_value = 2 * min((differences <= 0).mean(), (differences >= 0).mean())
    return Comparison(name, difference, float(min(1.0, p_value)), f"paired bootstrap, {SAMPLES} samples")
