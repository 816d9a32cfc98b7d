"""What holds for each attention layer, in each of its forms."""

import keras
import numpy as np
import pytest
from layer_checks import (
    assert_all_close,
    check_executions_agree,
    check_gradients,
    check_saving,
    outputs_and_gradients,
    poisoned,
    random_array,
)

from keras_attention.layers import AdditiveAttention, HardAttention, LocationAwareAttention, LuongAttention

B, T, S, D, DV = 2, 3, 7, 5, 11
FORMS = {"additive": (AdditiveAttention, {"units": 13}), "hard": (HardAttention, {"units": 13})}
FORMS["location"] = (LocationAwareAttention, {"units": 13, "num_filters": 3, "kernel_size": 5})
for score in ("dot", "general", "concat"):
    for mode in ("global", "local_m", "local_p"):
        FORMS[f"{score}-{mode}"] = (LuongAttention, {"score": score, "mode": mode, "window": 2, "units": 13})

pytestmark = [
    pytest.mark.sampled(3),
    pytest.mark.parametrize(("layer_class", "settings"), FORMS.values(), ids=FORMS),
]


def make_inputs():
    """Row 0 has keys masked for some queries and key 6 for all; row 1 has a query with every key masked."""
    mask = np.random.default_rng(1).random((B, T, S)) < 0.7
    mask[0, :, 6] = False
    mask[1, 2] = False
    return {
        "query": random_array(B, T, D, seed=2),
        "value": random_array(B, S, DV, seed=3),
        "key": random_array(B, S, D, seed=4),
        "attention_mask": mask,
        "return_attention_scores": True,
    }


@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e30])
def test_masked_content_has_no_effect(layer_class, settings, poison):
    layer, inputs = layer_class(**settings), make_inputs()
    outputs, gradients = outputs_and_gradients(layer, inputs)
    same_outputs, same_gradients = outputs_and_gradients(layer, poisoned(inputs, poison))
    assert_all_close(same_outputs + same_gradients, outputs + gradients, 0)


def test_masked_rows_are_exactly_zero(layer_class, settings):
    inputs = {**make_inputs(), "attention_mask": np.zeros((B, 1, S), bool)}
    outputs, gradients = outputs_and_gradients(layer_class(**settings), inputs)
    for array in outputs + gradients:
        assert (array == 0).all()


def test_executions_agree(layer_class, settings):
    check_executions_agree(layer_class(**settings), poisoned(make_inputs(), np.nan))


def test_gradients_agree_with_finite_differences(layer_class, settings):
    check_gradients(lambda: layer_class(**settings, dtype="float64"), make_inputs())


@pytest.mark.parametrize("mask_shape", [(B, T, S), (B, 1, S), (1, T, S), (B, T, 1), (1, 1, 1)])
def test_the_mask_broadcasts(layer_class, settings, mask_shape):
    layer, inputs = layer_class(**settings), make_inputs()
    mask = np.random.default_rng(7).random(mask_shape) < 0.7
    narrow = layer(**{**inputs, "attention_mask": mask})
    wide = layer(**{**inputs, "attention_mask": np.broadcast_to(mask, (B, T, S))})
    assert_all_close(narrow, wide, 1e-6)


def test_no_mask_is_a_mask_of_only_true(layer_class, settings):
    layer, inputs = layer_class(**settings), make_inputs()
    masked = layer(**{**inputs, "attention_mask": np.ones((B, T, S), bool)})
    assert_all_close(layer(**{**inputs, "attention_mask": None}), masked, 1e-6)


def test_projected_keys_stand_for_the_keys(layer_class, settings):
    layer, inputs = layer_class(**settings), poisoned(make_inputs(), np.nan)
    expected = layer(**inputs)
    key = inputs.pop("key")
    assert_all_close(layer(**inputs, projected_key=layer.project_keys(key)), expected, 0)
    projected_key = layer.project_keys(key, inputs["attention_mask"])
    assert_all_close([projected_key], [np.nan_to_num(projected_key)], 0)
    assert_all_close(layer(**inputs, projected_key=projected_key), expected, 0)


def test_the_value_is_the_default_key(layer_class, settings):
    layer, inputs = layer_class(**settings), make_inputs()
    inputs["value"] = inputs["key"]
    expected = layer(**inputs)
    del inputs["key"]
    assert_all_close(layer(**inputs), expected, 0)


def test_shapes_and_dtypes(layer_class, settings):
    layer, inputs = layer_class(**settings, dtype="mixed_bfloat16"), make_inputs()
    context, weights = layer(**inputs)
    assert (context.shape, context.dtype) == ((B, T, DV), "bfloat16")
    assert (weights.shape, weights.dtype) == ((B, T, S), "float32")
    shapes = [inputs[name].shape for name in ("query", "value", "key")]
    assert layer.compute_output_shape(*shapes) == context.shape
    assert layer.compute_output_shape(*shapes, return_attention_scores=True) == (context.shape, weights.shape)
    symbols = [keras.Input((None, shape[-1])) for shape in shapes]
    context, weights = layer(*symbols, return_attention_scores=True)
    assert (context.shape, context.dtype) == ((None, None, DV), "bfloat16")
    assert (weights.shape, weights.dtype) == ((None, None, None), "float32")
    assert layer(*symbols).shape == (None, None, DV)


def test_dropout_drops_weights_and_scales_the_rest(layer_class, settings):
    if layer_class is HardAttention:
        pytest.skip("it has no dropout; tests/layers/test_hard_attention.py")
    layer, inputs = layer_class(**settings, dropout=0.25), make_inputs()
    for name in ("query", "key", "attention_mask"):
        inputs[name] = np.repeat(inputs[name], 101, axis=0)
    inputs["value"] = np.broadcast_to(np.eye(S, dtype="float32"), (101 * B, S, S))  # the context shows the weights used
    context, weights = (np.asarray(x) for x in layer(**inputs, training=False))
    np.testing.assert_array_equal(context, weights)
    context, same_weights = (np.asarray(x) for x in layer(**inputs, training=True))
    np.testing.assert_array_equal(same_weights, weights)
    kept = context != 0
    np.testing.assert_allclose(context[kept], weights[kept] / 0.75, rtol=1e-6)
    assert 0.7 < kept.sum() / (weights != 0).sum() < 0.8


def test_saving_keeps_settings_and_outputs(layer_class, settings, tmp_path):
    dropout = {} if layer_class is HardAttention else {"dropout": 0.2}
    check_saving(layer_class, settings | dropout, make_inputs(), tmp_path)
