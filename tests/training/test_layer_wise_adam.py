"""Small steps for the lower layers: against AdamW where all factors are 1, and against its equation where not."""

import keras
import numpy as np
import pytest

from keras_attention.training.layer_wise_adam import LayerWiseAdamW, layer_factors

GRADIENTS = [np.array([0.5, -1.0, 2.0]), np.array([[3.0, -0.25]])]
RATE, DECAY = 0.01, 0.1


def variables():
    values = (np.array([1.0, 2.0, 3.0]), np.array([[4.0, 5.0]]))
    return [keras.Variable(value, name=name) for value, name in zip(values, ("low", "high"), strict=True)]


def after_steps(optimizer, weights, steps=3):
    optimizer.build(weights)
    for _ in range(steps):
        optimizer.apply([keras.ops.convert_to_tensor(g, "float32") for g in GRADIENTS], weights)
    return [keras.ops.convert_to_numpy(w.value) for w in weights]


def test_factors_of_one_are_adamw():
    ours = after_steps(LayerWiseAdamW(RATE, {}, DECAY), variables())
    for found, expected in zip(ours, after_steps(keras.optimizers.AdamW(RATE, DECAY), variables()), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_step_is_multiplied_and_the_decay_is_not():
    weights = variables()
    low, high = after_steps(LayerWiseAdamW(RATE, {weights[0].path: 0.5}, DECAY), weights)
    # A constant gradient g makes m / sqrt(v) its sign, whatever the step.
    expected = [np.array([1.0, 2.0, 3.0]), np.array([[4.0, 5.0]])]
    for _ in range(3):
        for i, factor in enumerate((0.5, 1.0)):
            expected[i] = expected[i] * (1 - RATE * DECAY) - factor * RATE * np.sign(GRADIENTS[i])
    np.testing.assert_allclose(low, expected[0], atol=1e-6)
    np.testing.assert_allclose(high, expected[1], atol=1e-6)


def test_factors_grow_from_layer_to_layer():
    low, high = variables()
    assert layer_factors([[low], [high]], 0.5) == {low.path: 0.25, high.path: 0.5}


def test_a_saved_optimizer_keeps_its_factors():
    config = LayerWiseAdamW(RATE, {"a/b": 0.25}).get_config()
    assert LayerWiseAdamW.from_config(config).factors == {"a/b": 0.25}


@pytest.mark.parametrize("decay", [0.0, 1.5])
def test_refuses_a_decay_out_of_range(decay):
    with pytest.raises(ValueError, match=f"decay={decay}"):
        layer_factors([], decay)
