"""Label-smoothed cross-entropy over the real tokens of a padded batch."""

from keras import ops


def masked_cross_entropy(labels, logits, label_smoothing=0.0, pad_id=0):
    """Sums the cross-entropy of every label that is not padding.

        loss = (1 - e) * -log p(label) + e * mean over the vocabulary of -log p

    With z the logits this is `logsumexp(z) - (1 - e) * z[label] - e * mean(z)`, so that no one-hot targets and no
    smoothed distribution of the size of the logits are made. Shapes: B batch, T queries, V vocabulary.

    Args:
        labels: int tensor (B, T).
        logits: float tensor (B, T, V) of any precision; the loss is computed in float32.
        label_smoothing: float in [0, 1), the share e of the target that is spread evenly over all V tokens.
        pad_id: int. Labels with this id count nothing.

    Returns:
        The pair of the summed loss in nats and the number of labels counted, two float32 scalars.

    Raises:
        ValueError: if `label_smoothing` is out of range.

    Source: Szegedy et al. (2016), section 7; Vaswani et al. (2017), section 5.4. No differences.
    """
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(f"`label_smoothing` must be in [0, 1). Received: label_smoothing={label_smoothing}")
    logits = ops.cast(logits, "float32")
    label_logits = _take_labels(labels, logits)  # (B, T)
    loss = ops.logsumexp(logits, axis=-1) - (1.0 - label_smoothing) * label_logits  # (B, T)
    if label_smoothing:
        loss = loss - label_smoothing * ops.mean(logits, axis=-1)
    real = ops.not_equal(labels, pad_id)  # (B, T)
    return ops.sum(ops.where(real, loss, 0.0)), ops.sum(ops.cast(real, "float32"))


def token_loss(label_smoothing=0.0, pad_id=0):
    """The loss of `make_train_step` for token labels (B, T): `masked_cross_entropy` and `count_correct` together."""

    def loss(labels, logits):
        summed, tokens = masked_cross_entropy(labels, logits, label_smoothing, pad_id)
        return summed, tokens, count_correct(labels, logits, pad_id)

    return loss


def count_correct(labels, logits, pad_id=0):
    """Counts the labels that have the highest logit; padding counts nothing.

    Args:
        labels: int tensor (B, T).
        logits: float tensor (B, T, V).
        pad_id: int. Labels with this id count nothing.

    Returns:
        float32 scalar.
    """
    logits = ops.cast(logits, "float32")
    best = ops.equal(_take_labels(labels, logits), ops.max(logits, axis=-1))  # (B, T)
    real = ops.not_equal(labels, pad_id)  # (B, T)
    return ops.sum(ops.cast(ops.logical_and(best, real), "float32"))


def symmetric_divergence(labels, first, second, pad_id=0):
    """Sums how far two predictions of every label that is not padding lie apart.

        D = (KL(p || q) + KL(q || p)) / 2 = sum over the vocabulary of (p - q) (log p - log q) / 2

    Args:
        labels: int tensor (B, T).
        first, second: float tensors (B, T, V), the logits of p and of q.
        pad_id: int. Labels with this id count nothing.

    Returns:
        float32 scalar, nats.

    Source: Liang et al. (2021), R-Drop, equation 2, https://arxiv.org/abs/2106.14448. No differences.
    """
    first, second = (ops.log_softmax(ops.cast(logits, "float32"), axis=-1) for logits in (first, second))
    apart = ops.sum((ops.exp(first) - ops.exp(second)) * (first - second), axis=-1) / 2.0  # (B, T)
    return ops.sum(ops.where(ops.not_equal(labels, pad_id), apart, 0.0))


def _take_labels(labels, logits):
    """The logit of each label: (B, T) from (B, T, V)."""
    return ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]  # (B, T)
