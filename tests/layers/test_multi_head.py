import re

import equations
import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import (
    TOLERANCES,
    assert_all_close,
    check_example,
    check_executions_agree,
    check_gradients,
    check_saving,
    outputs_and_gradients,
    poisoned,
    random_array,
)

from keras_attention.layers import MultiHeadAttention
from keras_attention.layers.fast.heads_first import HeadProjection, project

pytestmark = pytest.mark.sampled(3)

B, T, S, DQ, DK, DV, H, HKV, K, V, D = 2, 5, 7, 11, 13, 17, 6, 3, 19, 23, 29
SETTINGS = {"num_heads": H, "key_dim": K, "value_dim": V, "output_shape": D, "bias_initializer": "normal"}
FORMS = {
    "full": ({}, {}),
    "causal": ({}, {"use_causal_mask": True}),
    "window": ({"sliding_window": 3}, {}),
    "grouped": ({"num_key_value_heads": HKV}, {}),
    "everything": ({"num_key_value_heads": 2, "sliding_window": 2}, {"use_causal_mask": True}),
}
every_form = pytest.mark.parametrize(("settings", "call"), FORMS.values(), ids=FORMS)


def make_inputs(**call):
    """Row 0 has keys masked for some queries and key 6 for all; row 1 has a query with every key masked."""
    mask = np.random.default_rng(1).random((B, T, S)) < 0.7
    mask[0, :, 6] = False
    mask[1, 2] = False
    return {
        "query": random_array(B, T, DQ, seed=2),
        "value": random_array(B, S, DV, seed=3),
        "key": random_array(B, S, DK, seed=4),
        "attention_mask": mask,
        "return_attention_scores": True,
        **call,
    }


def expected(layer, inputs):
    causal = inputs.get("use_causal_mask", False)
    mask = inputs["attention_mask"] & equations.positional_mask(T, S, causal, layer.sliding_window)
    mask = np.broadcast_to(mask[:, None], (B, H, T, S))
    return equations.multi_head_attention(
        inputs["query"], inputs["key"], inputs["value"], mask, [np.asarray(weight) for weight in layer.weights]
    )


@every_form
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_it_equals_the_equation(settings, call, dtype):
    layer, inputs = MultiHeadAttention(**SETTINGS, **settings, dtype=dtype), make_inputs(**call)
    output, weights = layer(**inputs)
    assert (output.dtype, weights.dtype) == (layer.compute_dtype, "float32")
    assert_all_close([output, weights], expected(layer, inputs), TOLERANCES[dtype])
    del inputs["return_attention_scores"]
    assert_all_close([layer(**inputs)], [output], 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("start", [0, *(pytest.param(start, marks=pytest.mark.thorough) for start in (100, 200, 300))])
def test_random_configurations_equal_the_equation(start):
    """With 100 whole models of tests/models/test_transformer.py these are 500 configurations."""
    for seed in range(start, start + 100):
        random = np.random.default_rng(seed)
        groups, shared = (int(random.integers(1, 4)) for _ in range(2))
        layer = MultiHeadAttention(
            groups * shared,
            int(random.integers(1, 6)),
            value_dim=int(random.integers(1, 6)),
            output_shape=int(random.integers(1, 9)),
            num_key_value_heads=groups,
            sliding_window=(None, 1, 2, 3)[random.integers(4)],
        )
        batch, queries, keys = (int(random.integers(1, 5)) for _ in range(3))
        inputs = {
            name: random.normal(size=(batch, length, int(random.integers(1, 8)))).astype("float32")
            for name, length in (("query", queries), ("value", keys), ("key", keys))
        }
        inputs["attention_mask"] = random.random((batch, queries, keys)) < 0.8
        causal = bool(random.integers(2))
        layer(**inputs)
        layer.set_weights([random.normal(size=weight.shape) for weight in layer.weights])
        actual = layer(**inputs, use_causal_mask=causal, return_attention_scores=True)
        seen = equations.positional_mask(queries, keys, causal, layer.sliding_window) & inputs.pop("attention_mask")
        mask = np.broadcast_to(seen[:, None], (batch, layer.num_heads, queries, keys))
        expected = equations.multi_head_attention(**inputs, mask=mask, weights=layer.get_weights())
        assert_all_close(actual, expected, 2e-5)


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("causal", [False, True])
def test_it_takes_the_place_of_keras(window, causal):
    other = keras.layers.MultiHeadAttention(**SETTINGS, sliding_window=window)
    layer = MultiHeadAttention(**SETTINGS, sliding_window=window)
    inputs = {**make_inputs(use_causal_mask=causal), "attention_mask": np.arange(S) < np.array([[[S]], [[4]]])}
    outputs = other(**inputs)
    layer(**inputs)
    assert [weight.path.split("/")[1:] for weight in layer.weights] == [
        weight.path.split("/")[1:] for weight in other.weights
    ]
    layer.set_weights(other.get_weights())
    assert_all_close(layer(**inputs), outputs, 1e-5)
    positional = [inputs["query"], inputs["value"], inputs["key"]]
    assert_all_close([layer(*positional)], [other(*positional)], 1e-5)


def test_it_takes_the_place_of_keras_grouped_queries():
    other = keras.layers.GroupQueryAttention(K, H, HKV, bias_initializer="normal")
    layer = MultiHeadAttention(H, K, num_key_value_heads=HKV)
    inputs = {**make_inputs(), "attention_mask": np.arange(S) < np.array([[[S]], [[4]]])}
    outputs = other(**inputs)
    layer(**inputs)
    layer.set_weights(other.get_weights())
    assert_all_close(layer(**inputs), outputs, 1e-5)


def test_masks_that_keras_sends_along():
    token_ids = np.array([[3, 5, 2, 0, 0], [4, 4, 1, 2, 6]])
    embedded = keras.layers.Embedding(7, DQ, mask_zero=True)(token_ids)
    layer = MultiHeadAttention(H, K, bias_initializer="normal")
    output, weights = layer(embedded, embedded, return_attention_scores=True)
    real = token_ids != 0
    plain = np.asarray(embedded)
    mask = real[:, :, None] & real[:, None, :]
    assert_all_close([output, weights], layer(plain, plain, attention_mask=mask, return_attention_scores=True), 0)
    assert_all_close([output], [layer(plain, plain, query_mask=real, value_mask=real)], 0)
    np.testing.assert_array_equal(output._keras_mask, real)


def test_a_mask_for_each_head():
    layer, inputs = MultiHeadAttention(**SETTINGS, num_key_value_heads=HKV), make_inputs()
    mask = np.random.default_rng(5).random((B, H, T, S)) < 0.6
    mask[1, :, 3] = False
    mask[0, 4, 2] = False
    weights = layer(**{**inputs, "attention_mask": mask}) and [np.asarray(weight) for weight in layer.weights]
    outputs = equations.multi_head_attention(inputs["query"], inputs["key"], inputs["value"], mask, weights)
    assert_all_close(layer(**{**inputs, "attention_mask": mask}), outputs, 1e-5)


@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e30])
def test_masked_content_has_no_effect(poison):
    layer, inputs = MultiHeadAttention(**SETTINGS, num_key_value_heads=HKV), make_inputs()
    outputs, gradients = outputs_and_gradients(layer, inputs)
    same_outputs, same_gradients = outputs_and_gradients(layer, poisoned(inputs, poison))
    assert_all_close(same_outputs + same_gradients, outputs + gradients, 0)


def test_masked_rows_are_exactly_zero():
    inputs = {**make_inputs(), "attention_mask": np.zeros((B, 1, S), bool)}
    outputs, gradients = outputs_and_gradients(MultiHeadAttention(**SETTINGS), inputs)
    for array in outputs + gradients:
        assert (array == 0).all()


def test_keys_out_of_sight_by_position_have_no_effect():
    layer, inputs = MultiHeadAttention(**SETTINGS), make_inputs(use_causal_mask=True, attention_mask=None)
    outputs = layer(**inputs)
    inputs["key"][:, T:] = inputs["value"][:, T:] = np.nan
    assert_all_close(layer(**inputs), outputs, 0)


@every_form
@pytest.mark.parametrize("padding", [None, 2])
def test_a_cache_changes_nothing(settings, call, padding):
    """The first 3 tokens at once, then one by one; the left `padding` tokens of row 1 are masked and hold NaN."""
    layer, inputs = MultiHeadAttention(**SETTINGS, **settings), random_array(B, S, DQ, seed=2)
    mask = None
    if padding:
        mask = np.arange(S) >= np.array([[[0]], [[padding]]])  # (B, 1, S)
        inputs[1, :padding] = np.nan
    options = {"attention_mask": mask, "return_attention_scores": True}
    whole = layer(inputs, inputs, use_causal_mask=True, **options)
    cache = layer.empty_cache(B, S)
    for start, end in ((0, 3), (3, 4), (4, 5), (5, 6), (6, 7)):
        new = inputs[:, start:end]
        output, weights, cache = layer(new, new, cache=cache, cache_index=np.int32(start), **options)
        assert_all_close([output, weights], [whole[0][:, start:end], whole[1][:, :, start:end]], 1e-5)


@every_form
@pytest.mark.parametrize("mask", [False, True])
def test_empty_positions_of_a_long_cache_are_masked(settings, call, mask):
    """While a quarter is written, and behind it, it is what all at once gives."""
    layer, length = MultiHeadAttention(**SETTINGS, **settings), 67
    inputs = random_array(B, length, DQ, seed=2)
    mask = np.random.default_rng(5).random((B, length, length)) < 0.7 if mask else None
    whole = layer(inputs, inputs, use_causal_mask=True, attention_mask=mask)
    cache = tuple(np.array(part) for part in layer.project_keys_values(inputs))
    for position in (0, 5, 16, 17, 40, 66):
        start = cache[0].copy(), cache[1].copy()
        start[0][:, :, position:], start[1][:, position:] = 0, 0
        new = inputs[:, position : position + 1]
        allowed = None if mask is None else mask[:, position : position + 1]
        output, _ = layer(new, new, cache=start, cache_index=position, attention_mask=allowed)
        assert_all_close([output], [whole[:, position : position + 1]], 1e-5)


def test_the_empty_cache():
    keys, values = MultiHeadAttention(**SETTINGS, num_key_value_heads=HKV, dtype="mixed_float16").empty_cache(B, S)
    assert (keys.shape, keys.dtype) == ((B * HKV, K, S), "float16")
    assert (values.shape, values.dtype) == ((B * HKV, S, V), "float16")


@pytest.mark.parametrize("num_key_value_heads", [H, HKV])
def test_projected_keys_and_values_stand_for_the_value(num_key_value_heads):
    layer, inputs = MultiHeadAttention(**SETTINGS, num_key_value_heads=num_key_value_heads), make_inputs()
    inputs = poisoned(inputs, np.nan)
    projected = layer.project_keys_values(inputs["value"], inputs["key"])  # before the layer is built
    outputs = layer(**inputs)
    del inputs["key"]
    assert_all_close(layer(**{**inputs, "value": None}, projected_key_value=projected), outputs, 1e-6)


@pytest.mark.parametrize("return_attention_scores", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_no_future_leak(dtype, return_attention_scores):
    layer = MultiHeadAttention(H, K, dropout=0.3, dtype=dtype)
    inputs = random_array(B, S, DQ, seed=1)

    def outputs(inputs):
        layer.weight_dropout.seed_generator.state.assign([3, 5])
        call = {"use_causal_mask": True, "return_attention_scores": return_attention_scores, "training": True}
        return [np.asarray(x, "float32") for x in keras.tree.flatten(layer(inputs, inputs, **call))]

    layer(inputs, inputs)
    before = outputs(inputs)
    for j in range(1, S):
        changed = inputs.copy()
        changed[:, j] = 7
        after = outputs(changed)
        np.testing.assert_array_equal(after[0][:, :j], before[0][:, :j])
        assert (after[0][:, j] != before[0][:, j]).any()
        for weights, same in zip(after[1:], before[1:], strict=True):
            np.testing.assert_array_equal(weights[:, :, :j], same[:, :, :j])


def test_padding_and_batch_change_nothing():
    layer, sentence = MultiHeadAttention(H, K), random_array(1, T, DQ, seed=1)
    alone = layer(sentence, sentence)
    for start in (0, S - T):  # padded right, padded left
        batch = random_array(32, S, DQ, seed=2)
        batch[3, start : start + T] = sentence[0]
        mask = np.ones((32, 1, S), bool)
        mask[3] = (np.arange(S) >= start) & (np.arange(S) < start + T)
        assert_all_close([layer(batch, batch, attention_mask=mask)[3:4, start : start + T]], [alone], 1e-5)


@pytest.mark.slow
def test_executions_agree():
    settings, call = FORMS["everything"]
    check_executions_agree(MultiHeadAttention(**SETTINGS, **settings), poisoned(make_inputs(**call), np.nan))


@every_form
def test_gradients_agree_with_finite_differences(settings, call):
    check_gradients(lambda: MultiHeadAttention(**SETTINGS, **settings, dtype="float64"), make_inputs(**call))


def test_scores_beyond_the_range_of_float16():
    layer, inputs = MultiHeadAttention(**SETTINGS, dtype="mixed_float16"), make_inputs()
    output, weights = layer(**{**inputs, "query": 3e3 * inputs["query"], "key": 3e3 * inputs["key"]})
    assert np.isfinite(output).all()
    np.testing.assert_allclose(np.sum(weights, axis=-1)[:, 0], inputs["attention_mask"].any(axis=-1), atol=1e-6)


def test_shapes_of_symbolic_inputs():
    layer = MultiHeadAttention(**SETTINGS, dtype="mixed_bfloat16")
    symbols = [keras.Input((None, width)) for width in (DQ, DV, DK)]
    output, weights = layer(*symbols, use_causal_mask=True, return_attention_scores=True)
    assert (output.shape, output.dtype) == ((None, None, D), "bfloat16")
    assert (weights.shape, weights.dtype) == ((None, H, None, None), "float32")
    shapes = ((B, T, D), (B, H, T, S))
    assert layer.compute_output_shape((B, T, DQ), (B, S, DV), return_attention_scores=True) == shapes
    assert layer.compute_output_shape((B, T, DQ), (B, S, DV)) == shapes[0]


def test_saving_keeps_settings_and_outputs(tmp_path):
    settings = {"num_heads": H, "key_dim": K, "value_dim": V, "dropout": 0.2, "use_bias": False}
    settings |= {"num_key_value_heads": HKV, "sliding_window": 3}
    check_saving(MultiHeadAttention, settings, make_inputs(), tmp_path)
    copy = MultiHeadAttention.from_config(MultiHeadAttention(**SETTINGS).get_config())
    assert copy(random_array(B, T, DQ, seed=1), random_array(B, S, DV, seed=2)).shape == (B, T, D)
    assert type(copy.bias_initializer) is type(keras.initializers.get("normal"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"num_heads": 0}, "`num_heads` must be a positive integer. Received: num_heads=0"),
        ({"key_dim": 2.5}, "`key_dim` must be a positive integer. Received: key_dim=2.5"),
        ({"value_dim": -1}, "Received: value_dim=-1"),
        ({"output_shape": True}, "Received: output_shape=True"),
        ({"sliding_window": 0}, "Received: sliding_window=0"),
        ({"num_key_value_heads": 4}, "must divide `num_heads`. Received: num_key_value_heads=4, num_heads=6"),
        ({"dropout": 1.0}, r"`dropout` must be in \[0, 1\). Received: dropout=1.0"),
    ],
)
def test_a_wrong_argument_is_named(settings, text):
    with pytest.raises(ValueError, match=text):
        MultiHeadAttention(**{"num_heads": H, "key_dim": K, **settings})


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        ({"attention_mask": np.ones((B, S), bool)}, ValueError, r"Received: attention_mask.shape=\(2, 7\)"),
        ({"attention_mask": np.ones((B, T, S), "int32")}, TypeError, "Received: attention_mask.dtype=int32"),
        ({"attention_mask": np.ones((B, H, T, S), "int32")}, TypeError, "Received: attention_mask.dtype=int32"),
        ({"value": None}, ValueError, "must be given. Received: neither"),
        ({"cache_index": 3}, ValueError, "must be given together. Received: cache_index=3"),
    ],
)
def test_a_wrong_call_is_named(call, error, text):
    layer, inputs = MultiHeadAttention(H, K), {**make_inputs(), "key": None, "attention_mask": None}
    layer(**inputs)
    with pytest.raises(error, match=text):
        layer(**{**inputs, **call})


def test_positions_along_several_axes_are_refused():
    x, positions = random_array(B, T, S, DQ, seed=1), np.zeros((B, T), "int32")
    with pytest.raises(ValueError, match="`positions` are for inputs of three axes"):
        MultiHeadAttention(H, K, sliding_window=2)(x, x, positions=(positions, positions))


def test_the_example_runs():
    inputs = make_inputs()
    check_example(MultiHeadAttention, query=inputs["query"], value=inputs["value"], mask=inputs["attention_mask"])


@pytest.mark.parametrize("bias_axes", ["hk", None], ids=["bias", "no-bias"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("shape", [(1, 1), (1, T), (B, 1)], ids=["one-vector", "one-text", "one-step"])
def test_joined_projections_equal_each_alone(shape, count, bias_axes):
    projections = []
    for seed, heads in zip(range(count), (H, HKV, HKV), strict=False):
        options = {"bias_axes": bias_axes, "bias_initializer": keras.initializers.RandomNormal(seed=seed)}
        projections.append(HeadProjection("btd,dhk->bthk", output_shape=(None, heads, K), **options))
        projections[-1].build((None, None, DQ))
    x = np.random.default_rng(0).normal(size=(*shape, DQ)).astype("float32")
    joined = project(projections, (x,) * count, joined=True)
    for output, projection in zip(joined, projections, strict=True):
        np.testing.assert_allclose(output, projection(x), atol=1e-5)


def test_one_vector_is_multiplied_by_matrices_made_before_the_loop():
    """XLA's program of a loop over a kernel that is reshaped inside reads it number by number: 8 times as slow."""
    layer = MultiHeadAttention(num_heads=H, key_dim=K)
    value = np.random.default_rng(0).normal(size=(1, S, H * K)).astype("float32")
    layer(value, value)
    source = layer.project_keys_values(value)

    @tf.function(jit_compile=True, autograph=False)
    def steps(x):
        return keras.ops.fori_loop(0, T, lambda i, x: layer(x, None, projected_key_value=source), x)

    program = steps.experimental_get_compiler_ir(tf.constant(value[:, :1]))(stage="optimized_hlo")
    assert "dot(" in program
    assert not re.search(r"\bbitcast_dot_fusion", program)


def test_the_gradient_of_a_projection_is_one_product():
    """And not one for each sequence, added up afterwards, as from `keras.ops.einsum`: a tenth of a training's time."""
    projection = HeadProjection("btd,dhk->bthk", output_shape=(None, H, K))
    projection.build((None, None, DQ))

    @tf.function(autograph=False)
    def gradient(inputs):
        with tf.GradientTape() as tape:
            loss = keras.ops.sum(projection(inputs) ** 2)
        return tape.gradient(loss, projection.kernel.value)

    operations = gradient.get_concrete_function(tf.TensorSpec((B, T, DQ))).graph.get_operations()
    products = [operation.type for operation in operations if "MatMul" in operation.type]
    assert products == ["MatMul", "MatMul"]
