"""Sparse attention against the dense mask of its pattern, in loops."""

import equations
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import (
    assert_all_close,
    check_executions_agree,
    check_gradients,
    check_saving,
    outputs_and_gradients,
    random_array,
)

from keras_attention.layers import MultiHeadAttention, TransformerDecoderLayer, TransformerEncoderLayer
from keras_attention.layers.fast import blocks, chunked_attention
from keras_attention.layers.sparse_patterns import BigBird, parse_pattern, pattern_of_layer

pytestmark = pytest.mark.sampled(5)

B, T, D, H, K = 2, 23, 7, 6, 3
PATTERNS = {
    "window": "window:width=5",
    "strided-1": "strided:stride=3,part=1",
    "strided-2": "strided:stride=5,part=2",
    "fixed-1": "fixed:stride=5,part=1",
    "fixed-2": "fixed:stride=7,summary=2,part=2",
    "bigbird": "bigbird:block=3,window=3,globals=1,random=2,seed=1,length=23",
    "no-random": "bigbird:block=2,window=1,globals=1,random=0",
}
every_pattern = pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
both_ways = pytest.mark.parametrize("causal", [False, True], ids=["both-ways", "causal"])


@pytest.fixture
def in_chunks(monkeypatch):
    """Returns a function that makes the layers attend in chunks of 2 or 4."""

    def switch(on=True):
        monkeypatch.setattr(chunked_attention, "MOST_AT_ONCE", 0 if on else 2**22)

    monkeypatch.setattr(blocks, "LONGEST_CHUNK", 4)
    monkeypatch.setattr(blocks, "SHORTEST_CHUNK", 4)
    return switch


def dense_mask(pattern, num_queries, num_keys, causal):
    pattern = parse_pattern(str(pattern))
    random_blocks = pattern.random_blocks(causal).tolist() if pattern.kind == "bigbird" else ()
    return equations.sparse_mask(pattern.kind, vars(pattern), num_queries, num_keys, causal, random_blocks)


def make_layer(pattern, **settings):
    return MultiHeadAttention(H, K, bias_initializer="normal", attention_pattern=pattern, **settings)


def make_inputs(**call):
    """Row 1 ends with padding."""
    x = random_array(B, T, D, seed=1)
    return {"query": x, "value": x, "value_mask": np.arange(T) < np.array([[T], [T - 5]]), **call}


@every_pattern
@both_ways
def test_it_equals_the_equation(pattern, causal, in_chunks):
    layer, inputs = make_layer(pattern), make_inputs(use_causal_mask=causal)
    output, weights = layer(**inputs, return_attention_scores=True)
    mask = dense_mask(pattern, T, T, causal) & inputs["value_mask"][:, None]
    every_head = np.broadcast_to(mask[:, None], (B, H, T, T))
    kernels = [np.asarray(weight) for weight in layer.weights]
    expected = equations.multi_head_attention(inputs["query"], inputs["value"], inputs["value"], every_head, kernels)
    assert_all_close([output, weights], expected, 1e-5)
    in_chunks()
    assert_all_close([layer(**inputs)], [expected[0]], 1e-5)


def test_a_pattern_is_computed_in_chunks_earlier():
    """Two heads at 784 tokens, the pixels of an image, for which chunks are 1.5 to 3 times as fast."""
    query, pattern = np.zeros((1, 784, 2)), parse_pattern("strided:stride=28,part=1")
    assert chunked_attention.is_large(query, 784, 2, pattern)
    assert not chunked_attention.is_large(query, 784, 2)
    assert not chunked_attention.is_large(query[:, :1], 784, 2, pattern)  # a step with a cache


def random_pattern(random):
    kind = ("window", "strided", "fixed", "bigbird")[random.integers(4)]
    stride = int(random.integers(1, 9))
    sizes = {
        "window": {"width": stride},
        "strided": {"stride": stride, "part": random.integers(1, 3)},
        "fixed": {"stride": stride, "summary": random.integers(1, stride + 1), "part": random.integers(1, 3)},
        "bigbird": {
            "block": random.integers(1, 6),
            "window": (1, 3, 5)[random.integers(3)],
            "globals": random.integers(3),
            "random": random.integers(4),
            "seed": random.integers(100),
            "length": random.integers(1, 40),
        },
    }
    return f"{kind}:" + ",".join(f"{name}={value}" for name, value in sizes[kind].items())


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, *(pytest.param(start, marks=pytest.mark.thorough) for start in (50, 100, 150))])
def test_random_configurations_and_their_gradients_equal_the_dense_mask(start, in_chunks, monkeypatch):
    """In chunks against whole score matrices, which `test_it_equals_the_equation` holds to the loops."""
    for seed in range(start, start + 50):
        random = np.random.default_rng(seed)
        pattern, causal = random_pattern(random), bool(random.integers(2))
        groups, batch, length = (int(random.integers(1, most)) for most in (3, 3, 35))
        heads, width = groups * int(random.integers(1, 3)), int(random.integers(1, 6))
        sparse = MultiHeadAttention(heads, width, num_key_value_heads=groups, attention_pattern=pattern)
        dense = MultiHeadAttention(heads, width, num_key_value_heads=groups)
        x = random.normal(size=(batch, length, 3)).astype("float32")
        masks = {"value_mask": np.arange(length) < random.integers(1, length + 1, (batch, 1))}
        if random.random() < 0.5:
            masks["attention_mask"] = random.random((batch, length, length)) < 0.7
        inputs = {"query": x, "value": x, **masks, "use_causal_mask": causal}
        dense(**inputs), sparse(**inputs)
        sparse.set_weights([random.normal(size=weight.shape) for weight in dense.weights])
        dense.set_weights(sparse.get_weights())
        allowed = dense_mask(pattern, length, length, causal) & masks.get("attention_mask", True)
        whole = {**inputs, "attention_mask": np.broadcast_to(allowed, (batch, length, length))}
        in_chunks(False)
        expected = outputs_and_gradients(dense, whole)
        in_chunks()
        monkeypatch.setattr(blocks, "LONGEST_CHUNK", (2, 4, 8)[random.integers(3)])
        for actual, wanted in zip(outputs_and_gradients(sparse, inputs), expected, strict=True):
            assert_all_close(actual, wanted, 1e-4)


@every_pattern
@both_ways
def test_dropout_drops_the_same_pairs_in_chunks(pattern, causal, in_chunks):
    layer, inputs = make_layer(pattern, dropout=0.3), make_inputs(use_causal_mask=causal, training=True)
    layer(**inputs)
    seed = layer.weight_dropout.seed_generator.state.value
    layer.weight_dropout.seed_generator.next = lambda: seed
    expected = layer(**inputs)
    in_chunks()
    assert_all_close([layer(**inputs)], [expected], 1e-5)


@pytest.mark.slow
@every_pattern
def test_gradients_agree_with_finite_differences(pattern, in_chunks):
    in_chunks()
    inputs = {**make_inputs(use_causal_mask=True), "value": random_array(B, T, D, seed=2)}
    check_gradients(lambda: make_layer(pattern, dtype="float64"), inputs)


@pytest.mark.slow
@every_pattern
def test_executions_agree(pattern, in_chunks):
    in_chunks()
    check_executions_agree(make_layer(pattern), make_inputs())


@every_pattern
def test_step_by_step_with_a_cache_equals_the_whole(pattern):
    layer, x = make_layer(pattern), make_inputs()["query"]
    whole, cache = np.asarray(layer(x, x, use_causal_mask=True)), layer.empty_cache(B, T)
    for t in range(T):
        output, cache = layer(x[:, t : t + 1], x[:, t : t + 1], cache=cache, cache_index=t)
        assert_all_close([output], [whole[:, t : t + 1]], 1e-5)


@every_pattern
def test_a_long_start_of_a_cache(pattern, in_chunks):
    layer, x = make_layer(pattern), make_inputs()["query"]
    whole = layer(x, x, use_causal_mask=True)
    in_chunks()
    for start in (3, tf.constant(3)):  # known when traced, or not
        _, cache = layer(x[:, :3], x[:, :3], cache=layer.empty_cache(B, T), cache_index=0)
        output, _ = layer(x[:, 3:], x[:, 3:], cache=cache, cache_index=start)
        assert_all_close([output], [whole[:, 3:]], 1e-5)


@every_pattern
def test_given_positions_are_those_of_the_pattern(pattern):
    """Two texts side by side, each seen as if it were alone."""
    layer, x = make_layer(pattern), random_array(B, T, D, seed=1)
    middle, index = 9, np.arange(T)[None]
    positions = np.where(index < middle, index, index - middle)
    apart = (index[0] < middle)[:, None] == (index[0] < middle)
    output = layer(x, x, attention_mask=apart, positions=(positions, positions))
    alone = [layer(text, text) for text in (x[:, :middle], x[:, middle:])]
    assert_all_close([output], [np.concatenate(alone, axis=1)], 1e-5)


def test_random_blocks_are_other_blocks():
    for causal in (False, True):
        actual = BigBird(block=2, window=3, globals=2, random=3, seed=5, length=58).random_blocks(causal)
        assert actual.shape == (29, 3)
        assert (actual[:2] == -1).all()
        for i, row in enumerate(actual[2:], start=2):
            others = [j for j in range(2, i if causal else 29) if abs(i - j) > 1]
            chosen = [j for j in row if j >= 0]
            assert len(set(chosen)) == len(chosen) == min(3, len(others))
            assert set(chosen) <= set(others)
    other = BigBird(block=2, window=3, globals=2, random=3, seed=6, length=58).random_blocks(True)
    assert (other != actual).any()


def test_layers_of_a_model_alternate_and_draw_other_blocks():
    assert [parse_pattern(pattern_of_layer("strided:stride=5", i, 31)).part for i in range(4)] == [1, 2, 1, 2]
    assert [parse_pattern(pattern_of_layer("fixed:part=2", i, 31)).part for i in range(3)] == [2, 2, 2]
    actual = [parse_pattern(pattern_of_layer("bigbird:block=3,seed=7", i, 31)) for i in range(2)]
    assert [(pattern.seed, pattern.length, pattern.block) for pattern in actual] == [(7, 31, 3), (8, 31, 3)]
    assert parse_pattern(pattern_of_layer(f"bigbird:seed={2**31 - 1}", 1, 31)).seed == 0
    assert pattern_of_layer(None, 0, 31) is None
    assert pattern_of_layer("window", 3, 31) == "window:width=256"


def test_saving(tmp_path):
    settings = {"num_heads": H, "key_dim": K, "attention_pattern": PATTERNS["bigbird"]}
    check_saving(MultiHeadAttention, settings, make_inputs(), tmp_path)


@pytest.mark.parametrize("layer_class", [TransformerEncoderLayer, TransformerDecoderLayer])
def test_transformer_layers_pass_it_to_self_attention(layer_class):
    layer = layer_class(11, 2, attention_pattern=PATTERNS["strided-2"])
    causal = layer_class is TransformerDecoderLayer
    name = "decoder_sequence" if causal else "inputs"
    weights = layer(**{name: random_array(B, T, 8, seed=1)}, return_attention_scores=True)[1]
    mask = dense_mask(PATTERNS["strided-2"], T, T, causal)
    np.testing.assert_array_equal(np.asarray(weights) > 0, np.broadcast_to(mask, weights.shape))
    assert layer_class.from_config(layer.get_config()).attention_pattern == layer.attention_pattern


def test_an_encoder_layer_at_some_positions():
    layer, x = TransformerEncoderLayer(11, 2, attention_pattern=PATTERNS["fixed-1"]), random_array(B, T, 8, seed=1)
    wanted = np.array([[2, 19, 3], [22, 0, 5]])
    whole = np.asarray(layer(x))
    assert_all_close([layer(x, query_positions=wanted)], [np.take_along_axis(whole, wanted[..., None], 1)], 1e-5)
    moved = np.broadcast_to(np.arange(T) + 1, (B, T))
    whole = np.asarray(layer(x, positions=moved))
    actual = layer(x, query_positions=wanted, positions=moved)
    assert_all_close([actual], [np.take_along_axis(whole, wanted[..., None], 1)], 1e-5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("dense", "must be one of window, strided, fixed, bigbird. Received: dense"),
        ("strided:width=3", "integer sizes stride, part, as in strided:stride=64. Received: strided:width=3"),
        ("strided:stride=-3", "Received: strided:stride=-3"),
        ("strided:stride=3,stride=4", "Received: strided:stride=3,stride=4"),
        ("strided:stride=0,part=1", "stride=0"),
        ("strided", r"needs `part` \(1 or 2, which layers alternate\). Received: strided"),
        ("bigbird", r"needs `length` \(tokens, for the random blocks\). Received: bigbird"),
        ("bigbird:window=2,length=7", "must be odd. Received: window=2"),
    ],
)
def test_refuses(pattern, message):
    with pytest.raises(ValueError, match=message):
        make_layer(pattern)


def test_refuses_two_patterns():
    with pytest.raises(ValueError, match="sliding_window=3, attention_pattern=window"):
        make_layer("window", sliding_window=3)
