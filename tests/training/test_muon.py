"""Muon against its equations, and beside AdamW in a training."""

import keras
import numpy as np
import pytest

from keras_attention.models import GPT
from keras_attention.training.optim import Muon

RATE, DECAY, STEPS = 0.01, 0.5, 3


def variable(shape, path, seed):
    values = np.random.default_rng(seed).normal(size=shape).astype("float32")
    return keras.Variable(values, name=path)


def gradients_of(weights, step):
    return [np.random.default_rng([step, i]).normal(size=v.shape).astype("float32") for i, v in enumerate(weights)]


def orthogonal(matrix):
    """Five iterations x <- a x + (b x x^T + c (x x^T)^2) x on the wide form of a matrix of length 1."""
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if tall else matrix) / (np.sqrt((matrix**2).sum()) + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.T if tall else x


@pytest.mark.parametrize(
    ("layer", "shape", "matrix"),
    [
        ("dense", (5, 7), (5, 7)),
        ("query", (11, 2, 5), (11, 10)),
        ("key", (10, 2, 5), (10, 10)),
        ("value", (7, 2, 5), (7, 10)),
        ("query", (5, 7), (5, 7)),
        ("attention_output", (2, 5, 11), (10, 11)),
        ("convolution", (3, 7, 5), (21, 5)),
    ],
)
def test_kernels_follow_the_equations(layer, shape, matrix):
    with keras.name_scope(layer):
        weight = variable(shape, "kernel", 3)
    assert weight.path == f"{layer}/kernel"
    expected, momentum = weight.numpy().reshape(matrix).astype("float64"), np.zeros(matrix)
    optimizer = Muon(RATE, weight_decay=DECAY)
    optimizer.build([weight])
    for number in range(STEPS):
        (gradient,) = gradients_of([weight], number)
        momentum = 0.95 * momentum + gradient.reshape(matrix)
        step = orthogonal(gradient.reshape(matrix) + 0.95 * momentum)
        expected = expected * (1 - RATE * DECAY) - RATE * 0.2 * np.sqrt(max(matrix)) * step
        optimizer.apply([keras.ops.convert_to_tensor(gradient)], [weight])
    np.testing.assert_allclose(weight.numpy(), expected.reshape(shape), atol=2e-5)


def test_all_else_follows_adamw():
    def weights():
        return [variable((7, 5), "embeddings", 1), variable((2, 5), "bias", 2), variable((11,), "gamma", 3)]

    ours, theirs = weights(), weights()
    adamw = keras.optimizers.AdamW(RATE, weight_decay=DECAY, beta_2=0.99)
    for optimizer, variables in ((Muon(RATE, DECAY, adam_lr_ratio=1.0), ours), (adamw, theirs)):
        optimizer.build(variables)
        for number in range(STEPS):
            optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients_of(variables, number)], variables)
    for actual, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(actual.numpy(), expected.numpy(), atol=1e-6)


def test_a_step_turns_all_directions_equally():
    singular = np.linalg.svd(orthogonal(np.diag([1.0, 0.3, 0.1]) @ np.ones((3, 3)) + np.eye(3)), compute_uv=False)
    assert ((singular > 0.5) & (singular < 1.3)).all()


def test_a_gpt_has_all_its_kernels_as_matrices():
    model = GPT(31, hidden_dim=12, intermediate_dim=17, num_heads=2, num_layers=1, max_length=5)
    model.build()
    optimizer = Muon(1e-3)
    optimizer.build(model.trainable_variables)
    kernels = [v for v in model.trainable_variables if v.path.endswith("kernel")]
    assert len(kernels) == 6
    for v in model.trainable_variables:
        assert optimizer._should_use_adamw(v) == (not v.path.endswith("kernel"))


def test_excluded_layers_follow_adamw():
    weights = []
    for layer in ("head", "body"):
        with keras.name_scope(layer):
            weights.append(variable((7, 5), "kernel", 1))
    optimizer = Muon(RATE, exclude_layers=["^head/"])
    optimizer.build(weights)
    assert [optimizer._should_use_adamw(weight) for weight in weights] == [True, False]


def test_a_saved_optimizer_has_the_same_settings():
    optimizer = Muon(RATE, weight_decay=DECAY, momentum=0.9)
    loaded = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(loaded, Muon)
    assert loaded.get_config() == optimizer.get_config()
