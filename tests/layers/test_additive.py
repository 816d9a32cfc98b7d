import equations
import keras
import numpy as np
import pytest
from layer_checks import TOLERANCES, assert_all_close, check_example, random_array

from keras_attention.layers import AdditiveAttention

B, T, S, DQ, DK, DV, UNITS = 2, 3, 7, 5, 13, 11, 17


def make_inputs(dtype="float32"):
    mask = np.random.default_rng(1).random((B, T, S)) < 0.7
    mask[1, 2] = False
    arrays = {
        "query": random_array(B, T, DQ, seed=2),
        "value": random_array(B, S, DV, seed=3),
        "key": random_array(B, S, DK, seed=4),
    }
    compute_dtype = keras.DTypePolicy(dtype).compute_dtype
    return {**{name: array.astype(compute_dtype) for name, array in arrays.items()}, "attention_mask": mask}


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_it_equals_the_equation(dtype):
    layer, inputs = AdditiveAttention(UNITS, dtype=dtype), make_inputs(dtype)
    outputs = layer(**inputs, return_attention_scores=True)
    W_a = np.asarray(layer.query_projection.kernel).T
    U_a = np.asarray(layer.key_projection.kernel).T
    v_a = np.asarray(layer.score_projection.kernel)[:, 0]
    mask = inputs.pop("attention_mask")
    assert_all_close(
        outputs, equations.additive_attention(**inputs, mask=mask, W_a=W_a, U_a=U_a, v_a=v_a), TOLERANCES[dtype]
    )


def test_it_agrees_with_keras_on_projected_inputs():
    layer, inputs = AdditiveAttention(UNITS), make_inputs()
    mask = np.arange(S)[None, :] < np.array([[S], [3]])  # (B, S)
    outputs = layer(**{**inputs, "attention_mask": mask[:, None, :]}, return_attention_scores=True)
    other = keras.layers.AdditiveAttention()
    projected = [layer.query_projection(inputs["query"]), inputs["value"], layer.key_projection(inputs["key"])]
    other.build([x.shape for x in projected])
    other.set_weights([np.asarray(layer.score_projection.kernel)[:, 0]])
    assert_all_close(outputs, other(projected, mask=[None, mask], return_attention_scores=True), 1e-5)


def test_scores_beyond_the_range_of_float16():
    layer, inputs = AdditiveAttention(UNITS, dtype="mixed_float16"), make_inputs()
    layer(**inputs)
    layer.score_projection.kernel.assign(np.full((UNITS, 1), 5e4))
    inputs["query"] = 50 * inputs["query"]
    _, weights = layer(**inputs, return_attention_scores=True)
    rows = np.asarray(weights).sum(axis=-1)
    np.testing.assert_allclose(rows, inputs["attention_mask"].any(axis=-1), atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"units": 0}, "`units` must be a positive integer. Received: units=0"),
        ({"units": 2.5}, "Received: units=2.5"),
        ({"units": True}, "Received: units=True"),
        ({"units": 3, "dropout": 1.0}, r"`dropout` must be in \[0, 1\). Received: dropout=1.0"),
        ({"units": 3, "dropout": -0.1}, "Received: dropout=-0.1"),
    ],
)
def test_a_wrong_argument_is_named(settings, text):
    with pytest.raises(ValueError, match=text):
        AdditiveAttention(**settings)


def test_the_example_runs():
    inputs = make_inputs()
    check_example(AdditiveAttention, query=inputs["query"], value=inputs["value"], mask=inputs["attention_mask"])
