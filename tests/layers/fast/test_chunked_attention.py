"""Attention in chunks is attention: the layers' own path for short sequences is the reference."""

import functools
import time
import weakref

import numpy as np
import pytest
import tensorflow as tf
from layer_checks import (
    TOLERANCES,
    assert_all_close,
    check_executions_agree,
    check_gradients,
    outputs_and_gradients,
    poisoned,
    random_array,
)

from keras_attention.layers import AdditiveAttention, MultiHeadAttention
from keras_attention.layers.fast import blocks, chunked_attention

pytestmark = pytest.mark.sampled(3)

B, T, S, DQ, DK, DV, H, HKV, K, V = 2, 11, 13, 7, 5, 17, 6, 3, 3, 2
multi_head = functools.partial(MultiHeadAttention, H, K, V, bias_initializer="normal")
MULTI_HEAD_FORMS = {
    "full": (multi_head, {}),
    "causal": (multi_head, {"use_causal_mask": True}),
    "window": (functools.partial(multi_head, sliding_window=3), {}),
    "grouped": (functools.partial(multi_head, num_key_value_heads=HKV), {}),
    "everything": (functools.partial(multi_head, num_key_value_heads=2, sliding_window=5), {"use_causal_mask": True}),
    "dropout": (functools.partial(multi_head, dropout=0.3), {"training": True}),
}
FORMS = {
    **MULTI_HEAD_FORMS,
    "additive": (functools.partial(AdditiveAttention, 5), {}),
    "additive-dropout": (functools.partial(AdditiveAttention, 5, dropout=0.3), {"training": True}),
}
every_form = pytest.mark.parametrize(("make_layer", "call"), FORMS.values(), ids=FORMS)
two_forms = pytest.mark.parametrize(
    ("make_layer", "call"), [FORMS["everything"], FORMS["additive"]], ids=["multi-head", "additive"]
)


@pytest.fixture
def in_chunks(monkeypatch):
    """Returns a function that makes the layers attend in chunks of 4: the last one overlaps its neighbour."""

    def switch(on=True):
        monkeypatch.setattr(chunked_attention, "MOST_AT_ONCE", 0 if on else 2**22)

    monkeypatch.setattr(blocks, "LONGEST_CHUNK", 4)
    monkeypatch.setattr(blocks, "SHORTEST_CHUNK", 4)
    return switch


def make_inputs(**call):
    mask = np.random.default_rng(1).random((B, T, S)) < 0.4
    mask[0, :, 6] = False
    mask[1, 2] = False
    return {
        "query": random_array(B, T, DQ, seed=2),
        "value": random_array(B, S, DV, seed=3),
        "key": random_array(B, S, DK, seed=4),
        "attention_mask": mask,
        **call,
    }


def run(layer, inputs):
    """Outputs and gradients, with the same dropout each time."""
    layer(**inputs)
    state = layer.weight_dropout.seed_generator.state
    state.assign([3, 5])
    original, layer.weight_dropout.seed_generator.next = layer.weight_dropout.seed_generator.next, lambda: state.value
    outputs, gradients = outputs_and_gradients(layer, inputs)
    layer.weight_dropout.seed_generator.next = original
    return outputs + gradients


@pytest.mark.sampled(5)
@every_form
@pytest.mark.parametrize("masked", [True, False])
def test_outputs_and_gradients_are_the_same(make_layer, call, masked, in_chunks):
    layer, inputs = make_layer(), make_inputs(**call)
    if not masked:
        del inputs["attention_mask"]
    expected = run(layer, inputs)
    in_chunks()
    assert_all_close(run(layer, inputs), expected, 1e-5)


@two_forms
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision(make_layer, call, dtype, in_chunks):
    layer, inputs = make_layer(dtype=dtype), make_inputs(**call)
    expected = layer(**inputs)
    in_chunks()
    output = layer(**inputs)
    assert output.dtype == expected.dtype == layer.compute_dtype
    assert_all_close([output], [expected], TOLERANCES[dtype])


@two_forms
@pytest.mark.parametrize("poison", [np.nan, 1e30])
def test_masked_content_has_no_effect(make_layer, call, poison, in_chunks):
    in_chunks()
    layer, inputs = make_layer(), make_inputs(**call)
    expected = run(layer, inputs)
    assert_all_close(run(layer, poisoned(inputs, poison)), expected, 0)


@two_forms
def test_masked_rows_are_exactly_zero(make_layer, call, in_chunks):
    in_chunks()
    for array in run(make_layer(), make_inputs(**{**call, "attention_mask": np.zeros((B, 1, S), bool)})):
        assert (array == 0).all()


@pytest.mark.slow
@two_forms
def test_gradients_agree_with_finite_differences(make_layer, call, in_chunks):
    in_chunks()
    check_gradients(lambda: make_layer(dtype="float64"), make_inputs(**call))


@pytest.mark.slow
@two_forms
def test_executions_agree(make_layer, call, in_chunks):
    in_chunks()
    check_executions_agree(make_layer(), poisoned(make_inputs(**call), np.nan))


def test_a_mask_for_each_head(in_chunks):
    layer, mask = multi_head(num_key_value_heads=HKV), np.random.default_rng(5).random((B, H, T, S)) < 0.3
    expected = run(layer, make_inputs(attention_mask=mask))
    in_chunks()
    assert_all_close(run(layer, make_inputs(attention_mask=mask)), expected, 1e-5)


@pytest.mark.slow
def test_no_future_leak(in_chunks):
    in_chunks()
    layer, inputs = multi_head(dropout=0.3), make_inputs(use_causal_mask=True, training=True)
    inputs = {**inputs, "query": inputs["value"], "key": None, "attention_mask": None}
    (before, *_), j = run(layer, inputs), 6
    inputs["value"] = inputs["value"].copy()
    inputs["value"][:, j] = 7
    after, *_ = run(layer, {**inputs, "query": inputs["value"]})
    np.testing.assert_array_equal(after[:, :j], before[:, :j])
    assert (after[:, j] != before[:, j]).any()


def test_a_long_start_of_a_cache(in_chunks):
    layer, inputs = multi_head(sliding_window=5), random_array(B, S, DQ, seed=1)
    whole = layer(inputs, inputs, use_causal_mask=True)
    in_chunks()
    _, cache = layer(inputs[:, :2], inputs[:, :2], cache=layer.empty_cache(B, S), cache_index=0)
    output, _ = layer(inputs[:, 2:], inputs[:, 2:], cache=cache, cache_index=np.int32(2))
    assert_all_close([output], [whole[:, 2:]], 1e-5)


def numbers_in_largest_tensor(graph):
    sizes = [tensor.shape.num_elements() for op in graph.get_operations() for tensor in op.outputs]
    inner = [numbers_in_largest_tensor(function.graph) for function in graph._functions.values()]
    return max([size or 0 for size in sizes] + inner)


@pytest.mark.slow
@pytest.mark.parametrize(("length", "chunks"), [(2048, False), (2049, True)])
def test_long_sequences_choose_chunks_by_themselves(length, chunks):
    """2^22 scores is the most at once; the graph of a longer call, with its gradient, has no tensor of such a size."""
    layer = MultiHeadAttention(1, K)
    layer(np.zeros((1, 2, DQ)), np.zeros((1, 2, DQ)))

    @tf.function
    def gradient(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(layer(inputs, inputs, use_causal_mask=True))
        return tape.gradient(loss, inputs)

    graph = gradient.get_concrete_function(tf.TensorSpec((1, length, DQ))).graph
    assert (numbers_in_largest_tensor(graph) < length**2) == chunks


def test_an_eager_call_keeps_no_scores_for_the_gradient(in_chunks, monkeypatch):
    in_chunks()
    layer, inputs, scores = multi_head(), make_inputs(), []
    original = chunked_attention.DotScore.__call__

    def remembering(self, query, key):
        result = original(self, query, key)
        scores.append(weakref.ref(result))
        return result

    monkeypatch.setattr(chunked_attention.DotScore, "__call__", remembering)
    inputs["query"] = tf.constant(inputs["query"])
    with tf.GradientTape() as tape:
        tape.watch(inputs["query"])
        output = layer(**inputs)
    assert len(scores) > 3
    assert not [score for score in scores if score() is not None]
    assert tape.gradient(output, inputs["query"]) is not None


def test_a_graph_computes_block_after_block(in_chunks, monkeypatch):
    """Else TensorFlow holds the scores of ten blocks at a time: 508 instead of 98 MB at 16,384 tokens."""
    in_chunks()
    layer, inputs, events = multi_head(), make_inputs(), []
    layer(**inputs)

    def noting(function, event, seconds=0.0):
        def note(result):
            events.append(event)
            time.sleep(seconds)
            return result

        def call(*arguments):
            result = function(*arguments)
            return tf.ensure_shape(tf.numpy_function(note, [result], result.dtype, stateful=False), result.shape)

        return call

    score, product = chunked_attention.DotScore.__call__, chunked_attention.matmul_by_head
    monkeypatch.setattr(chunked_attention.DotScore, "__call__", noting(score, "scores"))
    monkeypatch.setattr(chunked_attention, "matmul_by_head", noting(product, "context", 0.01))
    tf.function(lambda: layer(**inputs))()
    assert len(events) > 6
    block = ["context", "scores", "context"]  # the scores are a product as well
    assert events == block * (len(events) // len(block))


@two_forms
def test_a_batch_without_rows(make_layer, call, in_chunks):
    in_chunks()
    inputs = {"query": np.zeros((0, T, DQ)), "value": np.zeros((0, S, DV)), "key": np.zeros((0, S, DK))}
    for jit_compile in (None, False, True):
        layer = make_layer()
        attend = layer if jit_compile is None else tf.function(layer, jit_compile=jit_compile)
        assert attend(**inputs, **call).shape[:2] == (0, T)


@every_form
@pytest.mark.parametrize("static", [(), (1,)], ids=["all-dynamic", "static-length"])
def test_a_graph_for_any_number_of_rows(make_layer, call, static, in_chunks):
    in_chunks()
    layer, inputs = make_layer(), make_inputs(**{**call, "training": False})
    options = {name: inputs.pop(name) for name in call | {"training": False}}

    def outputs_and_squares(inputs):
        with tf.GradientTape() as tape:
            output = layer(**inputs, **options)
            loss = tf.reduce_sum(output**2)
        return output, *tape.gradient(loss, layer.trainable_variables)

    expected = outputs_and_squares(inputs)
    shapes = {
        name: [*(x.shape[axis] if axis in static else None for axis in (0, 1)), *x.shape[2:]]
        for name, x in inputs.items()
    }
    signature = {name: tf.TensorSpec(shapes[name], x.dtype) for name, x in inputs.items()}
    graph = tf.function(outputs_and_squares, input_signature=[signature])
    assert_all_close(graph(inputs), expected, 1e-5)
