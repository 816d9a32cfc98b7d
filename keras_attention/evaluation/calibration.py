"""Whether probabilities mean what they say, and the temperature that makes them."""

import numpy as np

BINS = 15
COLDEST, HOTTEST = 1 / 3, 20.0
PRIOR = 10.0  # a deviation of log T from 0 costs as much as in so many rows


def temperature(logits, targets, kind):
    """The number by which to divide logits so that their cross-entropy is least.

    Few rows say little about it, and nothing if all are right: a normal prior on log T keeps it near 1 then.

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


def cross_entropy(logits, targets, kind):
    """Mean cross-entropy of logits (N, K), of several questions their mean; of a regression the mean squared error."""
    logits = np.asarray(logits, "float64")
    if kind == "regression":
        return float(np.mean((logits[:, 0] - targets) ** 2))
    if kind == "multilabel":
        return float(np.mean(np.logaddexp(0.0, logits) - targets * logits))
    return float(np.mean(np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(logits)), targets]))


def expected_calibration_error(probabilities, targets, kind):
    """How far confidence and accuracy lie apart, in per cent: the mean over 15 bins of equal width, by their rows.

        ECE = sum_b (n_b / n) |accuracy_b - confidence_b|

    Args:
        probabilities: array (N, K).
        targets: array; of a multilabel task every label of a row is a question of its own.
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
