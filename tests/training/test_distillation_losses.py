"""The losses of distillation against loops."""

import numpy as np
import pytest
from keras import ops

from keras_attention.training.objective import attention_loss, hidden_loss, soft_label_loss, vector_loss

B, T, S, D, H, K = 3, 5, 7, 11, 2, 13
GENERATOR = np.random.default_rng(5)
ALIGNED = np.array([[0, 1, 2, 3, 6], [0, -1, -1, 4, 5], [0, 3, -1, -1, -1]], "int32")


def normal(*shape):
    return GENERATOR.normal(size=shape).astype("float32")


def softmax(x):
    x = np.exp(x.astype("float64"))
    return x / x.sum(-1, keepdims=True)


def test_vector_loss():
    first, second = normal(B, D), normal(B, D)
    expected = [1 - a @ b / np.sqrt((a @ a) * (b @ b)) for a, b in zip(first, second, strict=True)]
    np.testing.assert_allclose(vector_loss(first, second), expected, atol=1e-6)
    np.testing.assert_allclose(vector_loss(first, 3 * first), 0, atol=1e-6)


def test_hidden_loss():
    hidden, teacher = normal(B, T, D), normal(B, S, D)
    error = squares = 0.0
    for b in range(B):
        for t in range(T):
            if ALIGNED[b, t] >= 0:
                wanted = teacher[b, ALIGNED[b, t]]
                error += ((hidden[b, t] - wanted) ** 2).sum()
                squares += (wanted**2).sum()
    np.testing.assert_allclose(hidden_loss(hidden, teacher, ALIGNED), error / squares, rtol=1e-5)
    assert float(hidden_loss(hidden, teacher, ALIGNED * 0 - 1)) == 0


def test_attention_loss():
    student, teacher = softmax(normal(B, H, T, T)), softmax(normal(B, H, S, S))
    apart = []
    for b in range(B):
        here = [t for t in range(T) if ALIGNED[b, t] >= 0]
        for h in range(H):
            for query in here:
                s = np.array([student[b, h, query, key] for key in here])
                t = np.array([teacher[b, h, ALIGNED[b, query], ALIGNED[b, key]] for key in here])
                s, t = s / s.sum(), t / t.sum()
                apart.append((t * np.log(t / s)).sum())
    found = attention_loss(student.astype("float32"), teacher.astype("float32"), ALIGNED)
    np.testing.assert_allclose(found, np.mean(apart), rtol=1e-4)
    same = np.tile(np.arange(T, dtype="int32"), (B, 1))
    np.testing.assert_allclose(attention_loss(student.astype("float32"), student.astype("float32"), same), 0, atol=1e-6)


def test_what_only_one_of_them_has_changes_nothing():
    hidden, teacher = normal(B, T, D), normal(B, S, D)
    student, wanted = softmax(normal(B, H, T, T)).astype("float32"), softmax(normal(B, H, S, S)).astype("float32")
    before = [float(hidden_loss(hidden, teacher, ALIGNED)), float(attention_loss(student, wanted, ALIGNED))]
    hidden[1, 1:3] = 7.0
    teacher[2, 5] = 7.0
    student[2, :, 3] = student[2, :, :, 3] = 0.9
    after = [float(hidden_loss(hidden, teacher, ALIGNED)), float(attention_loss(student, wanted, ALIGNED))]
    assert after == pytest.approx(before, rel=1e-5)


def test_soft_label_loss():
    logits, teacher, temperature = normal(B, K), normal(B, K), 3.0
    p, q = softmax(teacher / temperature), softmax(logits / temperature)
    expected = [9 * sum(a * np.log(a / b) for a, b in zip(*both, strict=True)) for both in zip(p, q, strict=True)]
    np.testing.assert_allclose(soft_label_loss(logits, teacher, temperature), expected, rtol=1e-4)
    assert ops.shape(soft_label_loss(logits, teacher)) == (B,)
    with pytest.raises(ValueError, match="`temperature` must be positive. Received: temperature=0"):
        soft_label_loss(logits, teacher, 0)
