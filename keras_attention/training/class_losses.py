"""The losses of classification and regression, each for `make_train_step`: (labels, logits) -> sums over a batch.

Rows that only fill up a batch are marked by a label that is none: -1 for a class, NaN for anything else.
"""

from keras import ops

from keras_attention.training.losses import count_correct, masked_cross_entropy

NO_CLASS = -1


def class_loss(weights=None, label_smoothing=0.0):
    """Cross-entropy of one class out of K.

    Args:
        weights: list of K floats, how much a row of each class counts, or None for 1 each.
        label_smoothing: float in [0, 1).

    Returns:
        callable(labels int (B,), logits (B, K)) -> (summed loss, rows or their summed weights, rows that are right).
    """

    def loss(labels, logits):
        correct = count_correct(labels, logits, NO_CLASS)
        if weights is None:
            return *masked_cross_entropy(labels, logits, label_smoothing, NO_CLASS), correct
        each = ops.convert_to_tensor(weights, "float32")
        real = ops.not_equal(labels, NO_CLASS)  # (B,)
        counts = ops.where(real, ops.take(each, ops.maximum(labels, 0)), 0.0)  # (B,)
        logits = ops.cast(logits, "float32")
        picked = ops.take_along_axis(logits, ops.maximum(labels, 0)[:, None], axis=-1)[:, 0]  # (B,)
        losses = ops.logsumexp(logits, axis=-1) - (1.0 - label_smoothing) * picked  # (B,)
        losses = losses - label_smoothing * ops.mean(logits, axis=-1)
        return ops.sum(counts * losses), ops.sum(counts), correct

    return loss


def multilabel_loss(weights=None):
    """Cross-entropy of K questions with yes or no, summed over them.

    Args:
        weights: list of K floats, how much a yes of each label counts, or None for 1 each.

    Returns:
        callable(labels float (B, K), logits (B, K)) -> (summed loss, rows, rows in which every answer is right).
    """

    def loss(labels, logits):
        real = ops.logical_not(ops.isnan(labels))  # (B, K)
        yes = ops.where(real, labels, 0.0)
        logits = ops.cast(logits, "float32")
        counts = 1.0 if weights is None else 1.0 + (ops.convert_to_tensor(weights, "float32") - 1.0) * yes
        losses = counts * (ops.softplus(logits) - yes * logits)  # (B, K): -log of the answer's probability
        right = ops.logical_and(ops.equal(logits > 0, yes > 0.5), real)
        rows = ops.any(real, axis=-1)  # (B,)
        all_right = ops.logical_and(ops.all(right, axis=-1), rows)
        return ops.sum(ops.where(real, losses, 0.0)), _count(rows), _count(all_right)

    return loss


def squared_error(labels, logits):
    """Squared distance of one number: labels float (B,), logits (B, 1). No row is counted as right."""
    real = ops.logical_not(ops.isnan(labels))  # (B,)
    distance = ops.where(real, ops.cast(logits, "float32")[:, 0] - ops.where(real, labels, 0.0), 0.0)
    return ops.sum(ops.square(distance)), _count(real), ops.zeros(())


def _count(truths):
    return ops.sum(ops.cast(truths, "float32"))
