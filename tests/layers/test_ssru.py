import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import assert_all_close, check_example, check_executions_agree, check_gradients, check_saving
from layer_checks import random_array as array

from keras_attention.layers import SSRU, SSRUDecoderLayer
from keras_attention.layers.ssru import linear_recurrence

B, T, S, D, HEADS, INNER = 3, 11, 7, 10, 2, 13


def make_unit(**options):
    unit = SSRU(**options)
    unit.build((None, None, D))
    for i, weight in enumerate(unit.weights):
        weight.assign(array(*weight.shape, seed=i))
    return unit


def by_the_equation(unit, inputs, mask=None):
    projection, gate, bias = (np.asarray(weight, "float64") for weight in unit.weights)
    outputs = np.zeros(inputs.shape)
    for b in range(len(inputs)):
        state = np.zeros(inputs.shape[-1])
        for t in range(inputs.shape[1]):
            if mask is None or mask[b, t]:
                forget = 1 / (1 + np.exp(-(inputs[b, t] @ gate + bias)))
                state = forget * state + (1 - forget) * (inputs[b, t] @ projection)
            outputs[b, t] = np.maximum(state, 0)
    return outputs


@pytest.mark.parametrize("length", [1, 2, 3, 8, T])
def test_equals_its_equation(length):
    unit, inputs = make_unit(), array(B, length, D, seed=7)
    assert_all_close([unit(inputs)], [by_the_equation(unit, inputs)], 1e-5)


def test_steps_equal_the_whole():
    unit, inputs = make_unit(), array(B, T, D, seed=7)
    expected, state = np.asarray(unit(inputs)), np.zeros((B, D), "float32")
    for t in range(T):
        output, state = unit.step(inputs[:, t], state)
        assert_all_close([output], [expected[:, t]], 1e-5)


def test_masked_steps_leave_the_state_unchanged():
    unit, inputs = make_unit(), array(B, T, D, seed=7)
    mask = np.random.default_rng(5).random((B, T)) < 0.6
    hostile = np.where(mask[..., None], inputs, np.nan).astype("float32")
    assert_all_close([unit(hostile, mask=mask)], [by_the_equation(unit, inputs, mask)], 1e-5)


def test_sequences_of_any_length_in_one_graph():
    unit = make_unit()
    program = tf.function(unit, input_signature=[tf.TensorSpec((None, None, D))])
    for length in (1, 2, 5, T):
        inputs = array(B, length, D, seed=length)
        assert_all_close([program(inputs)], [by_the_equation(unit, inputs)], 1e-5)


def test_no_output_depends_on_later_inputs():
    kept, added = array(B, T, D, seed=1, low=0.1), array(B, T, D, seed=2)
    later = added.copy()
    later[:, 6:] = 1e30
    assert_all_close([linear_recurrence(kept, added)[:, :6]], [linear_recurrence(kept, later)[:, :6]], 0)


def test_long_memories_do_not_fade_by_rounding():
    kept, added = np.ones((1, 1000, 1), "float32"), np.ones((1, 1000, 1), "float32")
    np.testing.assert_array_equal(linear_recurrence(kept, added)[0, :, 0], np.arange(1, 1001))


def test_half_precision_keeps_the_state_in_float32():
    inputs = array(B, T, D, seed=7)
    unit, half = make_unit(), make_unit(dtype="mixed_bfloat16")
    assert half(inputs).dtype == "bfloat16"
    assert half.step(inputs[:, 0], np.zeros((B, D), "float32"))[1].dtype == "float32"
    assert_all_close([keras.ops.cast(half(inputs), "float32")], [unit(inputs)], 3e-2)


def test_gradients_of_the_unit():
    check_gradients(lambda: SSRU(dtype="float64"), {"inputs": array(B, T, D, seed=7)})


@pytest.mark.parametrize("inputs", [{"inputs": array(B, T, D, seed=7)}])
def test_executions_and_saving_of_the_unit(inputs, tmp_path):
    check_executions_agree(SSRU(), inputs)
    check_saving(SSRU, {}, inputs, tmp_path)


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("normalize_first", [False, True])
def test_the_decoder_layer_equals_its_equation(normalize_first):
    """Its sub-layers, which have tests of their own, are put together as the paper's figure shows."""
    layer = SSRUDecoderLayer(INNER, HEADS, normalize_first=normalize_first)
    target, source = array(B, T, D, seed=3), array(B, S, D, seed=5)
    mask = np.arange(S) < np.array([[7], [2], [5]])
    outputs = layer(target, source, encoder_padding_mask=mask)
    functions = [
        layer.ssru,
        lambda x: layer.cross_attention(x, source, attention_mask=mask[:, None, :]),
        layer.feed_forward,
    ]
    x = target
    for function in functions:
        added = np.asarray(function((layer_norm(x) if normalize_first else x).astype("float32")))
        x = x + added if normalize_first else layer_norm(x + added)
    assert_all_close([outputs], [x], 1e-5)


def test_steps_of_the_decoder_layer_equal_the_whole():
    layer = SSRUDecoderLayer(INNER, HEADS, normalize_first=True)
    target, source = array(B, T, D, seed=3), array(B, S, D, seed=5)
    expected, weights = layer(target, source, return_attention_scores=True)
    assert weights.shape == (B, HEADS, T, S)
    projected, state = layer.project_source(source), np.zeros((B, 1, D), "float32")
    for t in range(T):
        output, of_step, state = layer(
            target[:, t : t + 1], cross_attention_cache=projected, state=state, return_attention_scores=True
        )
        assert_all_close([output[:, 0], of_step[:, :, 0]], [expected[:, t], weights[:, :, t]], 1e-5)


def test_padding_has_no_effect_on_the_decoder_layer():
    layer = SSRUDecoderLayer(INNER, HEADS)
    target, source = array(B, T, D, seed=3), array(B, S, D, seed=5)
    used, read = np.arange(T) < np.array([[T], [4], [9]]), np.arange(S) < np.array([[S], [3], [1]])
    expected = np.asarray(layer(target, source, decoder_padding_mask=used, encoder_padding_mask=read))
    target[~used], source[~read] = 1e30, np.nan
    outputs = np.asarray(layer(target, source, decoder_padding_mask=used, encoder_padding_mask=read))
    assert_all_close([outputs[used]], [expected[used]], 1e-6)


def test_gradients_and_saving_of_the_decoder_layer(tmp_path):
    settings = {"intermediate_dim": INNER, "num_heads": HEADS, "normalize_first": True, "layer_norm_epsilon": 1e-3}
    inputs = {"decoder_sequence": array(B, 5, D, seed=3), "encoder_sequence": array(B, S, D, seed=5)}
    check_gradients(lambda: SSRUDecoderLayer(**settings, activation="gelu", dtype="float64"), inputs)
    check_saving(SSRUDecoderLayer, settings, inputs, tmp_path)


def test_errors_name_the_value():
    with pytest.raises(ValueError, match="num_heads=3"):
        SSRUDecoderLayer(INNER, 3).build((B, T, D))
    with pytest.raises(ValueError, match="intermediate_dim=0"):
        SSRUDecoderLayer(0, HEADS)


def test_the_examples_run():
    check_example(SSRU, inputs=array(B, T, D, seed=7))
    names = {"targets": array(B, T, 8, seed=3), "sources": array(B, S, 8, seed=5)}
    check_example(SSRUDecoderLayer, **names, source_ids=np.ones((B, S), "int32"))
