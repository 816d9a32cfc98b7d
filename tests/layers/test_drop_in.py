"""`MultiHeadAttention` takes the place of `keras.layers.MultiHeadAttention`, with equal weights and equal results."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import assert_all_close, check_saving, random_array

from keras_attention.layers import MultiHeadAttention

pytestmark = pytest.mark.sampled(3)

B, T, S, H, K, DQ, DV, DK = 2, 3, 5, 7, 4, 11, 13, 6
A, A2 = 2, 3  # further axes

QUERY, VALUE, KEY = random_array(B, T, DQ, seed=1), random_array(B, S, DV, seed=2), random_array(B, S, DK, seed=3)
SQUARE = np.random.default_rng(4).random((T, S)) < 0.7
SQUARE[:, 0] = True
SETTINGS = {
    "plain": {},
    "wide values": {"value_dim": 9},
    "no bias": {"use_bias": False},
    "output of one axis": {"output_shape": (17,)},
    "output of an int": {"output_shape": 17},
    "output of two axes": {"output_shape": (3, 5)},
    "window": {"sliding_window": 2},
    "regularized": {
        "kernel_regularizer": "l2",
        "bias_regularizer": "l1",
        "activity_regularizer": keras.regularizers.L2(0.1),
        "kernel_constraint": "non_neg",
        "bias_constraint": keras.constraints.MaxNorm(0.5),
    },
}


def both(settings, *inputs, **options):
    """Our layer and Keras's, with the same random weights, and the outputs of each."""
    theirs = keras.layers.MultiHeadAttention(H, K, **settings)
    ours = MultiHeadAttention(H, K, **settings)
    theirs(*inputs, **options)
    ours(*inputs, **options)
    random = np.random.default_rng(5)
    weights = [random.normal(size=w.shape) * 0.5 for w in theirs.weights if "seed" not in w.path]
    for layer in (theirs, ours):
        variables = [w for w in layer.weights if "seed" not in w.path]
        for variable, number in zip(variables, weights, strict=True):
            variable.assign(number)
    results = [tf.nest.flatten(layer(*inputs, **options)) for layer in (ours, theirs)]
    return ours, theirs, *results


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(
    "mask", [None, SQUARE, np.stack([SQUARE, ~SQUARE | SQUARE])], ids=["none", "(T, S)", "(B, T, S)"]
)
def test_equals_the_layer_of_keras(settings, mask):
    options = {"attention_mask": mask, "return_attention_scores": True}
    ours, theirs, results, expected = both(settings, QUERY, VALUE, KEY, **options)
    assert_all_close(results, expected, 1e-5)
    shapes = QUERY.shape, VALUE.shape, KEY.shape
    assert ours.compute_output_shape(*shapes) == theirs.compute_output_shape(*shapes) == results[0].shape
    assert len(ours.losses) == len(theirs.losses)
    assert_all_close(ours.losses, theirs.losses, 1e-3)
    names = [weight.path.split("/")[1:] for weight in ours.trainable_weights]
    assert names == [weight.path.split("/")[1:] for weight in theirs.trainable_weights]


def test_constraints_are_those_of_keras():
    ours, theirs, *_ = both(SETTINGS["regularized"], QUERY, VALUE)
    for one, other in zip(ours.trainable_weights, theirs.trainable_weights, strict=True):
        np.testing.assert_array_equal(one.constraint(one), other.constraint(other))


@pytest.mark.parametrize("axes", [None, 1, (2,), (-2,), (1, 2), (2, 1)], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_inputs_with_more_axes(axes, masked):
    settings = {"attention_axes": axes, "output_shape": (3, 5)}
    # Axes that are not attended along have the same length in query and value.
    attended = (1, 2) if axes is None else tuple(axis % 4 for axis in np.atleast_1d(axes))
    sizes = {1: (A, A2) if 1 in attended else (A, A), 2: (T, S) if 2 in attended else (T, T)}
    query = random_array(B, sizes[1][0], sizes[2][0], DQ, seed=1)
    value = random_array(B, sizes[1][1], sizes[2][1], DV, seed=2)
    mask = None
    if masked:
        lengths = [sizes[axis][side] for side in (0, 1) for axis in attended]
        mask = np.random.default_rng(6).random((B, *lengths)) < 0.7
        mask[(slice(None), *[slice(None)] * len(attended), *[0] * len(attended))] = True
    options = {"attention_mask": mask, "return_attention_scores": True}
    _, _, results, expected = both(settings, query, value, **options)
    assert_all_close(results, expected, 1e-5)


def test_more_axes_in_a_functional_model_and_their_shapes():
    layer = MultiHeadAttention(H, K, attention_axes=(2,))
    symbol = keras.Input((None, T, DQ))
    output, weights = layer(symbol, symbol, return_attention_scores=True)
    assert (output.shape, weights.shape) == ((None, None, T, DQ), (None, None, H, T, T))
    shape = (B, A, T, DQ)
    assert layer.compute_output_shape(shape, shape, return_attention_scores=True) == (shape, (B, A, H, T, T))
    inputs = random_array(*shape, seed=1)
    expected = layer(inputs, inputs, return_attention_scores=True)
    assert_all_close(keras.Model(symbol, [output, weights])(inputs), expected, 0)


def test_padding_masks_of_inputs_with_more_axes():
    layer, inputs = MultiHeadAttention(H, K, attention_axes=(2,)), random_array(B, A, T, DQ, seed=1)
    mask = np.ones((B, A, T), bool)
    mask[1, 0, 1:] = False
    output = np.asarray(layer(inputs, inputs, query_mask=mask, value_mask=mask))
    alone = np.asarray(layer(inputs[1:, :1, :1], inputs[1:, :1, :1]))
    np.testing.assert_allclose(output[1, 0, :1], alone[0, 0], atol=1e-6)
    assert (output[~mask] == 0).all()


def test_the_seed_decides_on_dropout():
    outputs = []
    for seed in (3, 3, 4):
        keras.utils.set_random_seed(0)
        outputs.append(np.asarray(MultiHeadAttention(H, K, dropout=0.5, seed=seed)(QUERY, VALUE, training=True)))
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert (outputs[0] != outputs[2]).any()


def test_arguments_are_those_of_keras():
    """In the same order, but for what the docstring says is not offered."""
    theirs = list(inspect.signature(keras.layers.MultiHeadAttention).parameters)
    expected = [name for name in theirs if name not in ("flash_attention", "use_gate", "kwargs")]
    ours = list(inspect.signature(MultiHeadAttention).parameters)
    assert ours[: len(expected)] == expected
    for name in ("flash_attention", "use_gate"):
        assert f"`{name}`" in MultiHeadAttention.__doc__
    theirs = list(inspect.signature(keras.layers.MultiHeadAttention.call).parameters)
    assert list(inspect.signature(MultiHeadAttention.call).parameters)[: len(theirs)] == theirs


@pytest.mark.parametrize("name", ["output of two axes", "regularized"])
def test_saving(name, tmp_path):
    inputs = {"query": QUERY, "value": VALUE, "key": KEY}
    check_saving(MultiHeadAttention, {"num_heads": H, "key_dim": K, "seed": 3}, inputs, tmp_path)
    layer = MultiHeadAttention(H, K, attention_axes=[1], **SETTINGS[name])
    copy = MultiHeadAttention.from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    assert copy(**inputs).shape == layer(**inputs).shape
    assert len(copy.losses) == len(layer.losses)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"attention_axes": 3}, r"attention_axes=\(3,\)"),
        ({"attention_axes": (0,)}, r"attention_axes=\(0,\)"),
        ({"output_shape": (3, 0)}, "output_shape=0"),
    ],
)
def test_wrong_settings_are_named(settings, text):
    with pytest.raises(ValueError, match=f"Received: {text}"):
        MultiHeadAttention(H, K, **settings)(QUERY, VALUE)


def test_a_padding_mask_as_attention_mask_is_named():
    with pytest.raises(
        ValueError, match=r"given as `value_mask`. Received: attention_mask.shape=\(2, 5\) for 3 queries"
    ):
        MultiHeadAttention(H, K)(QUERY, VALUE, attention_mask=np.ones((B, S), bool))
    with pytest.raises(ValueError, match=r"`attention_mask` must end with the 4 attended axes.*Received.*\(2, 3\)"):
        MultiHeadAttention(H, K)(QUERY[:, None], VALUE[:, None], attention_mask=np.ones((2, 3), bool))
