"""Distillation losses. Shapes: B texts, T tokens of the student, S tokens of the teacher, H heads."""

from keras import ops


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
    wanted = ops.take_along_axis(teacher_hidden, ops.maximum(aligned, 0)[:, :, None], axis=1)  # (B, T, D)
    shared = ops.cast(aligned >= 0, "float32")[:, :, None]  # (B, T, 1)
    error = ops.sum(ops.square(hidden - wanted) * shared)
    return error / ops.maximum(ops.sum(ops.square(wanted) * shared), 1e-6)


def attention_loss(weights, teacher_weights, aligned):
    """The Kullback-Leibler divergence of the attention weights in nats, mean over heads and queries.

        loss = mean of KL(t || s)

    where s and t are the weights of one query for the tokens that occur in both, scaled to sum to 1.

    Args:
        weights: float tensor (B, H, T, T), s.
        teacher_weights: float tensor (B, H, S, S), t.
        aligned: int tensor (B, T), see `hidden_loss`.

    Returns:
        float32 scalar.

    Source: Wang et al. (2020), MiniLM, equation 5, https://arxiv.org/abs/2002.10957. The loss on the relations of the
    values, equation 7, is left out.
    """
    places = ops.maximum(aligned, 0)
    wanted = ops.take_along_axis(teacher_weights, places[:, None, :, None], axis=2)  # (B, H, T, S)
    wanted = ops.take_along_axis(wanted, places[:, None, None, :], axis=3)  # (B, H, T, T)
    shared = ops.cast(aligned >= 0, "float32")
    keys, queries = shared[:, None, None, :], shared[:, None, :]  # (B, 1, 1, T), (B, 1, T)
    student, teacher = (_scaled(x * keys) for x in (weights, wanted))
    apart = ops.sum(keys * teacher * (ops.log(teacher) - ops.log(student)), axis=-1)  # (B, H, T)
    return ops.sum(apart * queries) / ops.maximum(ops.sum(queries) * ops.shape(weights)[1], 1.0)


def soft_label_loss(logits, teacher_logits, temperature=2.0):
    """The divergence of the softened class probabilities, times the squared temperature: (B,), from logits (B, K).

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


def _scaled(weights):
    """Scales to a sum of 1 over the last axis; a small constant keeps the logarithm finite."""
    weights = weights + 1e-7
    return weights / ops.sum(weights, axis=-1, keepdims=True)
