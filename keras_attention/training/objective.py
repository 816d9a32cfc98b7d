"""Loss functions: sums over a batch, from labels and logits.

Shapes: B batch, T tokens, V vocabulary, K classes. Logits may have any precision; losses are computed in float32. The
label of padding (tokens, or examples that fill up a batch) is 0 for a token, -1 for a class, NaN for a number.
"""

from typing import NamedTuple

from keras import ops

NO_TOKEN, NO_CLASS = 0, -1


class Loss(NamedTuple):
    """The result of a loss function: sums over the labels of a batch without padding, float32 scalars.

    Attributes:
        total: summed loss in nats, which the training reports.
        count: number of labels, or the sum of their weights.
        correct: number of labels that have the highest logit.
        penalty: added to `total` for the gradient, but not reported; or None.
    """

    total: object
    count: object
    correct: object
    penalty: object = None

    def mean(self):
        """The loss to minimize: the mean of total and penalty per label."""
        total = self.total if self.penalty is None else self.total + self.penalty
        return total / ops.maximum(self.count, 1.0)


def token_cross_entropy(labels, logits, label_smoothing=0.0, pad_id=NO_TOKEN):
    """The `Loss` of tokens: combines `masked_cross_entropy` and `count_correct`.

    Args:
        labels: int tensor (B, T).
        logits: float tensor (B, T, V).
        label_smoothing: float in [0, 1), see `masked_cross_entropy`.
        pad_id: int. Labels with this id are ignored.
    """
    total, count = masked_cross_entropy(labels, logits, label_smoothing, pad_id)
    return Loss(total, count, count_correct(labels, logits, pad_id))


def masked_cross_entropy(labels, logits, label_smoothing=0.0, pad_id=NO_TOKEN):
    """Sums the cross-entropy over all labels except padding.

        loss = (1 - e) * -log p(label) + e * mean over the vocabulary of -log p

    With the logits z, this equals `logsumexp(z) - (1 - e) * z[label] - e * mean(z)`, which needs no target distribution
    of the size of the logits.

    Args:
        labels: int tensor (B, T).
        logits: float tensor (B, T, V).
        label_smoothing: float in [0, 1), the probability e that the target spreads evenly over all V tokens.
        pad_id: int. Labels with this id are ignored.

    Returns:
        Pair of the summed loss in nats and the number of labels, two float32 scalars.

    Raises:
        ValueError: if `label_smoothing` is out of range.

    Source: Szegedy et al. (2016), section 7; Vaswani et al. (2017), section 5.4. No differences.
    """
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(f"`label_smoothing` must be in [0, 1). Received: label_smoothing={label_smoothing}")
    logits = ops.cast(logits, "float32")
    loss = ops.logsumexp(logits, axis=-1) - (1.0 - label_smoothing) * _take_labels(labels, logits)  # (B, T)
    if label_smoothing:
        loss = loss - label_smoothing * ops.mean(logits, axis=-1)
    real = ops.not_equal(labels, pad_id)  # (B, T)
    return ops.sum(ops.where(real, loss, 0.0)), _count(real)


def count_correct(labels, logits, pad_id=NO_TOKEN):
    """Counts the labels (B, T) that have the highest logit (B, T, V), without padding: float32 scalar."""
    logits = ops.cast(logits, "float32")
    best = ops.equal(_take_labels(labels, logits), ops.max(logits, axis=-1))  # (B, T)
    return _count(ops.logical_and(best, ops.not_equal(labels, pad_id)))


def symmetric_divergence(labels, first, second, pad_id=NO_TOKEN):
    """Sums the symmetric divergence of two predictions over all labels except padding.

        D = (KL(p || q) + KL(q || p)) / 2 = sum over the vocabulary of (p - q) (log p - log q) / 2

    Args:
        labels: int tensor (B, T).
        first, second: float tensors (B, T, V), the logits of p and of q.
        pad_id: int. Labels with this id are ignored.

    Returns:
        float32 scalar, nats.

    Source: Liang et al. (2021), R-Drop, equation 2, https://arxiv.org/abs/2106.14448. No differences.
    """
    first, second = (ops.log_softmax(ops.cast(logits, "float32"), axis=-1) for logits in (first, second))
    apart = ops.sum((ops.exp(first) - ops.exp(second)) * (first - second), axis=-1) / 2.0  # (B, T)
    return ops.sum(ops.where(ops.not_equal(labels, pad_id), apart, 0.0))


def class_cross_entropy(labels, logits, weights=None, label_smoothing=0.0):
    """The `Loss` of a classification into K classes.

    Args:
        labels: int tensor (B,).
        logits: float tensor (B, K).
        weights: list of K floats, the weight of an example of each class; None for equal weights.
        label_smoothing: float in [0, 1), see `masked_cross_entropy`.
    """
    if weights is None:
        return token_cross_entropy(labels, logits, label_smoothing, NO_CLASS)
    correct = count_correct(labels, logits, NO_CLASS)
    each = ops.convert_to_tensor(weights, "float32")
    real = ops.not_equal(labels, NO_CLASS)  # (B,)
    counts = ops.where(real, ops.take(each, ops.maximum(labels, 0)), 0.0)  # (B,)
    logits = ops.cast(logits, "float32")
    picked = ops.take_along_axis(logits, ops.maximum(labels, 0)[:, None], axis=-1)[:, 0]  # (B,)
    losses = ops.logsumexp(logits, axis=-1) - (1.0 - label_smoothing) * picked  # (B,)
    losses = losses - label_smoothing * ops.mean(logits, axis=-1)
    return Loss(ops.sum(counts * losses), ops.sum(counts), correct)


def multilabel_cross_entropy(labels, logits, weights=None):
    """The `Loss` of a multilabel classification, summed over K labels; `correct` counts exact matches.

    Args:
        labels: float tensor (B, K), 1 if an example has the label, else 0.
        logits: float tensor (B, K).
        weights: list of K floats, the weight of a positive example of each label; None for equal weights.
    """
    real = ops.logical_not(ops.isnan(labels))  # (B, K)
    yes = ops.where(real, labels, 0.0)
    logits = ops.cast(logits, "float32")
    counts = 1.0 if weights is None else 1.0 + (ops.convert_to_tensor(weights, "float32") - 1.0) * yes
    losses = counts * (ops.softplus(logits) - yes * logits)  # (B, K), binary cross-entropy
    right = ops.logical_and(ops.equal(logits > 0, yes > 0.5), real)
    labelled = ops.any(real, axis=-1)  # (B,)
    all_right = ops.logical_and(ops.all(right, axis=-1), labelled)
    return Loss(ops.sum(ops.where(real, losses, 0.0)), _count(labelled), _count(all_right))


def squared_error(labels, logits):
    """The `Loss` of a regression: labels float (B,), logits (B, 1). `correct` is 0."""
    real = ops.logical_not(ops.isnan(labels))  # (B,)
    distance = ops.where(real, ops.cast(logits, "float32")[:, 0] - ops.where(real, labels, 0.0), 0.0)
    return Loss(ops.sum(ops.square(distance)), _count(real), ops.zeros(()))


def _take_labels(labels, logits):
    """The logit of each label: (B, T) from (B, T, V)."""
    return ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]  # (B, T)


def _count(truths):
    return ops.sum(ops.cast(truths, "float32"))
