"""Loss functions of labels and logits, and of a student and its teacher.

Shapes: B batch, T tokens (of the student), S tokens of the teacher, H heads, V vocabulary, K classes. Logits may have
any precision; losses are computed in float32. Padding (tokens, or examples that fill up a batch) has the label 0 for
tokens, -1 for classes and NaN for numbers.
"""

from typing import NamedTuple

from keras import ops

NO_TOKEN, NO_CLASS = 0, -1


class Loss(NamedTuple):
    """The result of a loss function: sums over the labels of a batch without padding, float32 scalars.

    Attributes:
        total: summed loss in nats (squared error for a regression), which the training reports.
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

    With logits z, this equals `logsumexp(z) - (1 - e) * z[label] - e * mean(z)`, which avoids a target distribution as
    large as the logits.

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
    _check_smoothing(label_smoothing)
    logits = ops.cast(logits, "float32")
    loss = ops.logsumexp(logits, axis=-1) - (1.0 - label_smoothing) * _take_labels(labels, logits)  # (B, T)
    if label_smoothing:
        loss = loss - label_smoothing * ops.mean(logits, axis=-1)
    real = ops.not_equal(labels, pad_id)  # (B, T)
    return ops.sum(ops.where(real, loss, 0.0)), _count(real)


def count_correct(labels, logits, pad_id=NO_TOKEN):
    """Counts the labels (B, T) that have the highest logit (B, T, V), except padding; returns a float32 scalar."""
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
    divergence = ops.sum((ops.exp(first) - ops.exp(second)) * (first - second), axis=-1) / 2.0  # (B, T)
    return ops.sum(ops.where(ops.not_equal(labels, pad_id), divergence, 0.0))


def alignment_cross_entropy(alignment, weights):
    """Sums the cross-entropy between word alignments and attention weights over all target tokens.

        loss = sum over t of -sum_s alignment(t, s) log(weights(t, s))

    Args:
        alignment: float tensor (B, T, S). Each target token has a sum of 1 over S, or of 0 if it is not aligned.
        weights: float32 tensor (B, T, S), attention weights.

    Returns:
        float32 scalar, nats.

    Source: Chen et al. (2016), https://arxiv.org/abs/1607.01628; Garg et al. (2019), https://arxiv.org/abs/1909.02074.
    There, it is an average over the target tokens. A small constant keeps the logarithm finite.
    """
    return -ops.sum(alignment * ops.log(weights + 1e-9))


def class_cross_entropy(labels, logits, weights=None, label_smoothing=0.0):
    """The `Loss` of a classification into K classes.

    Args:
        labels: int tensor (B,), NO_CLASS for padding; without `weights`, of any shape.
        logits: float tensor (B, K), K classes for each label.
        weights: list of K floats, the weight of an example of each class; None for equal weights.
        label_smoothing: float in [0, 1), see `masked_cross_entropy`.

    Raises:
        ValueError: if `label_smoothing` is out of range.
    """
    if weights is None:
        return token_cross_entropy(labels, logits, label_smoothing, NO_CLASS)
    _check_smoothing(label_smoothing)
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
    return Loss(ops.sum(ops.square(distance)), _count(real), ops.zeros((), "float32"))


def _check_smoothing(label_smoothing):
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(f"`label_smoothing` must be in [0, 1). Received: label_smoothing={label_smoothing}")


def _take_labels(labels, logits):
    """The logit of each label: (B, T) from (B, T, V)."""
    return ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]  # (B, T)


def _count(truths):
    return ops.sum(ops.cast(truths, "float32"))


def vector_loss(vector, teacher_vector):
    """1 - cosine similarity of the two vectors of each text: (B,), from float tensors (B, D).

    Source: Reimers & Gurevych (2020), section 2, https://arxiv.org/abs/2004.09813. The paper uses the squared error.
    """
    return 1.0 - ops.sum(ops.normalize(vector, axis=-1) * ops.normalize(teacher_vector, axis=-1), axis=-1)


def hidden_loss(hidden, teacher_hidden, aligned):
    """The squared error of the hidden states, relative to the squared norm of the teacher's.

        loss = sum |s - t|^2 / sum |t|^2        over the tokens that occur in both

    Args:
        hidden: float tensor (B, T, D), s.
        teacher_hidden: float tensor (B, S, D), t.
        aligned: int tensor (B, T), the teacher's position of each token, or -1 if the teacher does not have the token.

    Returns:
        float32 scalar.

    Source: Jiao et al. (2020), TinyBERT, equation 8, https://arxiv.org/abs/1909.10351. The paper does not divide.
    """
    target = ops.take_along_axis(teacher_hidden, ops.maximum(aligned, 0)[:, :, None], axis=1)  # (B, T, D)
    shared = ops.cast(aligned >= 0, "float32")[:, :, None]  # (B, T, 1)
    error = ops.sum(ops.square(hidden - target) * shared)
    return error / ops.maximum(ops.sum(ops.square(target) * shared), 1e-6)


def attention_loss(weights, teacher_weights, aligned):
    """The Kullback-Leibler divergence of the attention weights in nats, averaged over heads and queries.

        loss = mean of KL(t || s)

    where s and t are the weights of one query for the tokens that occur in both, scaled to sum to 1.

    Args:
        weights: float tensor (B, H, T, T), s.
        teacher_weights: float tensor (B, H, S, S), t.
        aligned: int tensor (B, T), see `hidden_loss`.

    Returns:
        float32 scalar.

    Source: Wang et al. (2020), MiniLM, section 3.1, https://arxiv.org/abs/2002.10957. In the paper, both
    have the same tokens.
    """
    places = ops.maximum(aligned, 0)
    target = ops.take_along_axis(teacher_weights, places[:, None, :, None], axis=2)  # (B, H, T, S)
    target = ops.take_along_axis(target, places[:, None, None, :], axis=3)  # (B, H, T, T)
    shared = ops.cast(aligned >= 0, "float32")
    keys, queries = shared[:, None, None, :], shared[:, None, :]  # (B, 1, 1, T), (B, 1, T)
    student, teacher = (_scaled(x * keys) for x in (weights, target))
    divergence = ops.sum(keys * teacher * (ops.log(teacher) - ops.log(student)), axis=-1)  # (B, H, T)
    return ops.sum(divergence * queries) / ops.maximum(ops.sum(queries) * ops.shape(weights)[1], 1.0)


def value_loss(values, teacher_values, aligned):
    """The Kullback-Leibler divergence of the value relations in nats, averaged over heads and queries.

        loss = mean of KL(t || s),    s = softmax(V V^T / sqrt(K)) of the student's values V, t of the teacher's

    The softmax is over the tokens that occur in both.

    Args:
        values: float tensor (B, T, H, K), of the student's last layer.
        teacher_values: float tensor (B, S, H, K), of the teacher's.
        aligned: int tensor (B, T), see `hidden_loss`.

    Returns:
        float32 scalar.

    Source: Wang et al. (2020), MiniLM, section 3.2, https://arxiv.org/abs/2002.10957. In the paper, both
    have the same tokens.
    """
    target = ops.take_along_axis(teacher_values, ops.maximum(aligned, 0)[:, :, None, None], axis=1)  # (B, T, H, K)
    is_shared = (aligned >= 0)[:, None, None, :]  # (B, 1, 1, T)
    student, teacher = (_log_relations(x, is_shared) for x in (values, target))  # (B, H, T, T)
    divergence = ops.sum(ops.where(is_shared, ops.exp(teacher) * (teacher - student), 0.0), axis=-1)  # (B, H, T)
    queries = ops.cast(is_shared[:, 0], "float32")  # (B, 1, T)
    return ops.sum(divergence * queries) / ops.maximum(ops.sum(queries) * ops.shape(values)[2], 1.0)


def prediction_loss(labels, logits, teacher_logits, temperature=2.0):
    """The `soft_label_loss` of the predictions of masked tokens, averaged over all labels except padding.

    Args:
        labels: int tensor (B, P), the masked tokens; only padding matters.
        logits, teacher_logits: float tensors (B, P, V), for the pieces of the student.
        temperature: float > 0.

    Returns:
        float32 scalar.

    Source: Sanh et al. (2019), DistilBERT, sections 2 and 3, https://arxiv.org/abs/1910.01108. The paper adds the
    cross-entropy of the masked tokens. There, student and teacher have the same pieces.
    """
    real = ops.not_equal(labels, NO_TOKEN)  # (B, P)
    divergence = soft_label_loss(logits, teacher_logits, temperature)  # (B, P)
    return ops.sum(ops.where(real, divergence, 0.0)) / ops.maximum(_count(real), 1.0)


def soft_label_loss(logits, teacher_logits, temperature=2.0):
    """The divergence of the softened probabilities, times the squared temperature: (...), from logits (..., K).

        loss = temperature^2 KL(softmax(t / temperature) || softmax(s / temperature))

    Source: Hinton et al. (2015), section 2, https://arxiv.org/abs/1503.02531. The paper minimizes the cross-entropy,
    which differs by the entropy of the teacher, a constant.

    Raises:
        ValueError: if `temperature` is not positive.
    """
    if temperature <= 0:
        raise ValueError(f"`temperature` must be positive. Received: temperature={temperature}")
    student, teacher = (ops.log_softmax(x / temperature, axis=-1) for x in (logits, teacher_logits))
    return temperature**2 * ops.sum(ops.exp(teacher) * (teacher - student), axis=-1)


def _log_relations(values, is_shared):
    """log softmax(V V^T / sqrt(K)) over the tokens that occur in both: (B, H, T, T), from (B, T, H, K)."""
    scores = ops.einsum("bthk,bshk->bhts", values, values) / values.shape[-1] ** 0.5
    return ops.log_softmax(ops.where(is_shared, scores, -1e9), axis=-1)


def _scaled(weights):
    """Scales to a sum of 1 over the last axis; a small constant keeps the logarithm finite."""
    weights = weights + 1e-7
    return weights / ops.sum(weights, axis=-1, keepdims=True)
