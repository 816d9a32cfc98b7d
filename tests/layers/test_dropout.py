"""The masks of dropout. Run as a program, this file saves those of the backend in use: `test_dropout.py FILE`."""

import importlib.util
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_attention.layers.dropout import Dropout

N, D = 211, 499
RATES = [0.1, 0.3, 0.5, 0.9]


def kept(layer, shape=(N, D)):
    """Which inputs the next call keeps, 0 or 1."""
    return (np.asarray(layer(np.ones(shape, "float32"), training=True)) != 0).astype("float64")


def masks_of_this_backend():
    layers = [Dropout(rate, seed=seed) for seed, rate in enumerate(RATES)]
    return np.stack([kept(layer, (3, 5, 7)) for layer in layers for _ in range(2)])


@pytest.mark.parametrize("rate", RATES)
def test_drops_its_share_and_scales_the_rest(rate):
    layer, inputs = Dropout(rate, seed=1), np.random.default_rng(0).uniform(1, 2, (N, D)).astype("float32")
    outputs = np.asarray(layer(inputs, training=True))
    stays = outputs != 0
    deviation = (rate * (1 - rate) / stays.size) ** 0.5
    assert abs((1 - stays.mean()) - rate) < 4 * deviation
    np.testing.assert_allclose(outputs[stays], inputs[stays] / (1 - rate), rtol=1e-6)


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_does_nothing_unless_training(rate):
    inputs = np.random.default_rng(0).normal(size=(N, D)).astype("float32")
    np.testing.assert_array_equal(Dropout(rate)(inputs, training=False), inputs)
    np.testing.assert_array_equal(Dropout(rate)(inputs), inputs)
    np.testing.assert_array_equal(Dropout(0.0)(inputs, training=True), inputs)


def correlation(a, b):
    """In standard deviations of the correlation of independent masks."""
    return abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) * a.size**0.5


def test_calls_and_layers_are_independent():
    layers = [Dropout(0.3, seed=seed) for seed in (0, 1, 2, None)]
    masks = [kept(layer) for _ in range(3) for layer in layers]
    for i, mask in enumerate(masks):
        for other in masks[:i]:
            assert correlation(mask, other) < 5


def test_adjacent_units_are_dropped_independently():
    mask = kept(Dropout(0.5, seed=1))
    flat = mask.ravel()
    for distance in (1, 2, 3, 7, 8, 64, 128, D, 1024, 16384):
        assert correlation(flat[:-distance], flat[distance:]) < 5, distance
    for axis in (0, 1):  # No row and no column is dropped more than chance would
        assert 0.7 < mask.mean(axis=axis).var() * mask.shape[axis] / 0.25 < 1.3


def test_the_state_of_the_seed_decides_the_masks():
    layer = Dropout(0.3, seed=5)
    state = np.asarray(layer.seed_generator.state)
    first, second = kept(layer), kept(layer)
    assert (first != second).any()
    layer.seed_generator.state.assign(state)
    np.testing.assert_array_equal([kept(layer), kept(layer)], [first, second])
    np.testing.assert_array_equal(kept(Dropout(0.3, seed=5)), first)


def test_executions_drop_the_same():
    import tensorflow as tf
    from layer_checks import EXECUTIONS

    inputs = tf.constant(np.random.default_rng(0).normal(size=(N, D)).astype("float32"))
    outputs = {}
    for execution, wrap in EXECUTIONS.items():
        layer = Dropout(0.3, seed=5)
        apply = wrap(lambda x, layer=layer: layer(x, training=True))
        outputs[execution] = np.stack([apply(inputs), apply(inputs)])
        assert (outputs[execution][0] != outputs[execution][1]).any()
    for execution in ("graph", "xla"):
        np.testing.assert_array_equal(outputs[execution] != 0, outputs["eager"] != 0)
        # A compiler may multiply by 1 / 0.7 where eager divides by 0.7.
        np.testing.assert_allclose(outputs[execution], outputs["eager"], rtol=2e-7)


def test_a_batch_of_unknown_size():
    import tensorflow as tf

    layer = Dropout(0.3, seed=5)
    apply = tf.function(lambda x: layer(x, training=True), input_signature=[tf.TensorSpec((None, None))])
    expected = kept(Dropout(0.3, seed=5))
    np.testing.assert_array_equal(apply(np.ones((N, D), "float32")).numpy() != 0, expected)


def test_dropped_units_have_no_gradient_and_may_be_infinite():
    import tensorflow as tf

    layer = Dropout(0.5, seed=5)
    stays = kept(Dropout(0.5, seed=5)) != 0
    inputs = tf.constant(np.where(stays, 3.0, np.inf).astype("float32"))
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs, training=True)
    np.testing.assert_array_equal(outputs, np.where(stays, 6, 0))
    np.testing.assert_array_equal(tape.gradient(outputs, inputs), np.where(stays, 2, 0))


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16", "float16"])
def test_half_precision_keeps_its_dtype_and_the_masks(dtype):
    outputs = Dropout(0.3, seed=5, dtype=dtype)(np.ones((N, D), "float32"), training=True)
    assert outputs.dtype == dtype.removeprefix("mixed_")
    outputs = np.asarray(outputs).astype("float32")
    np.testing.assert_array_equal(outputs != 0, kept(Dropout(0.3, seed=5)))
    np.testing.assert_allclose(outputs[outputs != 0], 1 / 0.7, rtol=4e-3)


def test_saving_keeps_settings_and_masks(tmp_path):
    layer = Dropout(0.3, seed=5)
    symbols = keras.Input((D,))
    model = keras.Model(symbols, layer(symbols))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras").layers[1]
    assert type(loaded) is Dropout
    assert (loaded.rate, loaded.seed) == (0.3, 5)
    np.testing.assert_array_equal(kept(loaded), kept(layer))
    np.testing.assert_array_equal(kept(Dropout.from_config(loaded.get_config())), kept(Dropout(0.3, seed=5)))


@pytest.mark.parametrize("rate", [1, 1.5, -0.1, float("nan")])
def test_errors_name_the_value(rate):
    with pytest.raises(ValueError, match=rf"`rate` must be in \[0, 1\). Received: rate={rate}"):
        Dropout(rate)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_jax_gives_the_same_masks(tmp_path):
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, __file__, str(tmp_path / "masks.npy")]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "masks.npy"), masks_of_this_backend())


if __name__ == "__main__":
    assert keras.backend.backend() == "jax"
    np.save(sys.argv[1], masks_of_this_backend())
