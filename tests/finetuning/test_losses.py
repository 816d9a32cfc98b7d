"""What a student learns: the labels, and the answers of its teacher."""

import functools

import numpy as np
import pytest
from keras import ops

from keras_attention.finetuning.label_training import classification_loss, distillation_loss, with_soft_labels

B, K, T = 7, 3, 1.7
GENERATOR = np.random.default_rng(11)


class Network:
    """Answers with given logits."""

    def __init__(self, logits):
        self.logits = logits
        self.settings = {"num_labels": logits.shape[1]}

    def __call__(self, inputs, training):
        assert training
        return ops.convert_to_tensor(self.logits)


def softmax(x):
    x = np.exp(x.astype("float64"))
    return x / x.sum(-1, keepdims=True)


def problem(kind):
    """Targets, and the logits of student and teacher."""
    count = {"binary": 2, "regression": 1}.get(kind, K)
    student, teacher = (GENERATOR.normal(size=(B, count)).astype("float32") for _ in range(2))
    if kind == "regression":
        return GENERATOR.normal(size=B).astype("float32"), student, teacher
    if kind == "multilabel":
        return GENERATOR.integers(0, 2, (B, count)).astype("float32"), student, teacher
    return GENERATOR.integers(0, count, B).astype("int32"), student, teacher


def distance(kind, student, teacher):
    """How far one student's answer (K,) is from its teacher's, by the equation."""
    if kind == "regression":
        return (student[0] - teacher[0]) ** 2
    questions = [(student, teacher)]
    if kind == "multilabel":
        questions = [(np.array([0.0, s]), np.array([0.0, t])) for s, t in zip(student, teacher, strict=True)]
    total = 0.0
    for own, asked in questions:
        p, q = softmax(asked / T), softmax(own / T)
        total += T * T * float(np.sum(p * (np.log(p) - np.log(q))))
    return total


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "regression"])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_loss_is_that_of_the_labels_and_of_the_teacher(kind, alpha):
    targets, student, teacher = problem(kind)
    network = Network(student)
    loss = functools.partial(distillation_loss, kind=kind, temperature=T, alpha=alpha)
    labels = with_soft_labels(targets, teacher)
    loss_value = loss(network, {}, ops.convert_to_tensor(labels))
    hard = classification_loss(network, {}, ops.convert_to_tensor(targets), kind)
    soft = sum(distance(kind, s, t) for s, t in zip(student, teacher, strict=True))
    np.testing.assert_allclose(loss_value.total, (1 - alpha) * float(hard.total) + alpha * soft, rtol=1e-5)
    assert (float(loss_value.count), float(loss_value.correct)) == (float(hard.count), float(hard.correct))

    labels[3:] = np.nan  # rows that fill up a batch
    filled = loss(network, {}, ops.convert_to_tensor(labels))
    alone = loss(Network(student[:3]), {}, ops.convert_to_tensor(labels[:3]))
    np.testing.assert_allclose(filled.total, alone.total, rtol=1e-5)
    assert float(filled.count) == 3
