"""The losses of distillation against loops."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.training.losses import (
    attention_loss,
    hidden_loss,
    prediction_loss,
    soft_label_loss,
    value_loss,
    vector_loss,
)

B, T, S, D, H, K, P, V = 3, 5, 7, 11, 2, 13, 4, 17
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
    loss_value = attention_loss(student.astype("float32"), teacher.astype("float32"), ALIGNED)
    np.testing.assert_allclose(loss_value, np.mean(apart), rtol=1e-4)
    same = np.tile(np.arange(T, dtype="int32"), (B, 1))
    np.testing.assert_allclose(attention_loss(student.astype("float32"), student.astype("float32"), same), 0, atol=1e-6)


def test_value_loss():
    student, teacher = normal(B, T, H, K), normal(B, S, H, K)
    apart = []
    for b in range(B):
        here = [t for t in range(T) if ALIGNED[b, t] >= 0]
        for h in range(H):
            for query in here:
                s = np.array([student[b, query, h] @ student[b, key, h] for key in here])
                places = [ALIGNED[b, key] for key in here]
                t = np.array([teacher[b, ALIGNED[b, query], h] @ teacher[b, place, h] for place in places])
                s, t = (softmax(scores / np.sqrt(K)) for scores in (s, t))
                apart.append(sum(t * np.log(t / s)))
    np.testing.assert_allclose(value_loss(student, teacher, ALIGNED), np.mean(apart), rtol=1e-4)
    assert float(value_loss(student, teacher, ALIGNED * 0 - 1)) == 0


def test_value_loss_is_the_divergence_of_keras():
    student, teacher = normal(B, T, H, K), normal(B, T, H, K)
    same = np.tile(np.arange(T, dtype="int32"), (B, 1))
    first, second = (
        softmax(np.matmul(x.swapaxes(1, 2), x.transpose(0, 2, 3, 1)) / np.sqrt(K)) for x in (teacher, student)
    )
    expected = keras.losses.KLDivergence()(first.reshape(-1, T), second.reshape(-1, T))
    np.testing.assert_allclose(value_loss(student, teacher, same), expected, rtol=1e-4)
    np.testing.assert_allclose(value_loss(student, student, same), 0, atol=1e-6)


def test_tokens_of_one_model_alone_do_not_change_the_relations():
    student, teacher = normal(B, T, H, K), normal(B, S, H, K)
    before = float(value_loss(student, teacher, ALIGNED))
    student[1, 1:3] = 7.0
    student[2, 2:] = -7.0
    teacher[0, 4:6] = teacher[2, 4:] = 7.0
    assert float(value_loss(student, teacher, ALIGNED)) == pytest.approx(before, rel=1e-5)


def test_tokens_of_one_model_alone_do_not_change_the_losses():
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


LABELS = np.array([[3, 11, 2, 7], [5, 0, 0, 0], [0, 0, 0, 0]], "int32")


def test_prediction_loss():
    logits, teacher, temperature = normal(B, P, V), normal(B, P, V), 3.0
    p, q = softmax(teacher / temperature), softmax(logits / temperature)
    apart = [
        9 * sum(p[b, i, v] * np.log(p[b, i, v] / q[b, i, v]) for v in range(V))
        for b in range(B)
        for i in range(P)
        if LABELS[b, i]
    ]
    assert len(apart) == 5
    loss_value = prediction_loss(LABELS, logits, teacher, temperature)
    np.testing.assert_allclose(loss_value, np.mean(apart), rtol=1e-4)
    np.testing.assert_allclose(loss_value, 9 * keras.losses.KLDivergence()(p[LABELS > 0], q[LABELS > 0]), rtol=1e-4)
    np.testing.assert_allclose(prediction_loss(LABELS, logits, logits), 0, atol=1e-6)


def test_predictions_at_padding_change_nothing():
    logits, teacher = normal(B, P, V), normal(B, P, V)
    before = float(prediction_loss(LABELS, logits, teacher))
    logits[LABELS == 0] = 7 * logits[LABELS == 0]
    assert float(prediction_loss(LABELS, logits, teacher)) == before
    assert float(prediction_loss(LABELS * 0, logits, teacher)) == 0
