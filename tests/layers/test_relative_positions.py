"""Relative attention against loops, by both of its paths."""

import numpy as np
import pytest
from keras import ops
from layer_checks import assert_all_close, random_array

from keras_attention.layers import MultiHeadAttention, RelativeScores

B, H, K = 2, 3, 5


def relative(query, vectors, positions):
    """S by the equation: query (B, T, H, K), vectors (R, H, K), positions (B, T) and (B, S)."""
    of_queries, of_keys = positions
    shape = len(query), query.shape[2], of_queries.shape[1], of_keys.shape[1]
    scores = np.zeros(shape)
    for b, h, t, s in np.ndindex(*shape):
        distance = of_queries[b, t] - of_keys[b, s]
        if distance >= 0:
            scores[b, h, t, s] = query[b, t, h] @ vectors[min(distance, len(vectors) - 1), h]
    return scores


@pytest.mark.parametrize("max_distance", [1, 4, 7, 11])
def test_skewing_equals_loops(max_distance):
    layer, length = RelativeScores(max_distance), 7
    query = random_array(B, length, H, K, seed=1)
    actual = np.tril(ops.convert_to_numpy(layer(query)))
    places = np.tile(np.arange(length), (B, 1))
    assert_all_close(actual, relative(query, np.asarray(layer.embeddings), (places, places)), 1e-5)
    by_positions = np.tril(ops.convert_to_numpy(layer(query, positions=(places, places))))
    assert_all_close(by_positions, actual, 1e-5)


def test_positions_in_any_order_equal_loops():
    layer = RelativeScores(5)
    query, random = random_array(B, 3, H, K, seed=2), np.random.default_rng(3)
    positions = random.integers(0, 13, (B, 3)), random.integers(0, 13, (B, 7))
    expected = relative(query, np.asarray((layer(query), layer.embeddings)[1]), positions)
    before = (positions[0][:, :, None] >= positions[1][:, None])[:, None]
    assert_all_close(np.where(before, ops.convert_to_numpy(layer(query, positions=positions)), 0.0), expected, 1e-5)


def attention(max_distance=4):
    layer = MultiHeadAttention(H, K, max_relative_distance=max_distance, kernel_initializer="random_normal")
    layer.build((None, None, 11), (None, None, 11))
    for i, weight in enumerate(layer.weights):
        weight.assign(random_array(*weight.shape, seed=(4, i), low=-0.7, high=0.7))
    return layer


def test_attention_adds_them_before_the_scale():
    layer, x = attention(), random_array(B, 7, 11, seed=5)
    mask = np.random.default_rng(6).random((B, 1, 7)) < 0.7
    _, weights = layer(x, x, attention_mask=mask, use_causal_mask=True, return_attention_scores=True)
    query, key = (
        np.einsum("btd,dhk->bthk", x, np.asarray(part.kernel)) + np.asarray(part.bias)
        for part in (layer.query_projection, layer.key_projection)
    )
    places = np.tile(np.arange(7), (B, 1))
    scores = np.einsum("bthk,bshk->bhts", query, key)
    scores = (scores + relative(query, np.asarray(layer.relative_scores.embeddings), (places, places))) / K**0.5
    allowed = np.tril(np.ones((7, 7), bool))[None, None] & mask[:, None]
    expected = np.where(allowed, np.exp(scores), 0.0)
    total = expected.sum(axis=-1, keepdims=True)
    assert_all_close(ops.convert_to_numpy(weights), expected / np.where(total == 0, 1, total), 1e-5)


@pytest.mark.parametrize("length", [7, 67])  # the second is long: only the written part of the cache is read
def test_a_cache_gives_the_same_outputs_step_by_step(length):
    layer, x = attention(), random_array(B, length, 11, seed=7)
    expected = ops.convert_to_numpy(layer(x, x, use_causal_mask=True))
    cache, places = layer.empty_cache(B, length), np.tile(np.arange(length), (B, 1))
    for step in range(0, length, 3):
        some = x[:, step : step + 3]
        positions = places[:, step : step + 3], places
        actual, cache = layer(some, some, cache=cache, cache_index=step, positions=positions)
        assert_all_close(ops.convert_to_numpy(actual), expected[:, step : step + 3], 1e-5)


def test_the_future_has_no_effect():
    layer, x = attention(), random_array(B, 7, 11, seed=8)
    other = np.concatenate([x[:, :4], random_array(B, 3, 11, seed=9)], axis=1)
    first, second = (ops.convert_to_numpy(layer(one, one, use_causal_mask=True)) for one in (x, other))
    np.testing.assert_array_equal(first[:, :4], second[:, :4])
    assert (first[:, 4:] != second[:, 4:]).any()


def test_settings_and_errors():
    config = RelativeScores(7).get_config()
    assert RelativeScores.from_config(config).max_distance == 7
    assert MultiHeadAttention.from_config(attention(5).get_config()).max_relative_distance == 5
    with pytest.raises(ValueError, match="max_distance=0"):
        RelativeScores(0)
    with pytest.raises(ValueError, match="max_relative_distance=-1"):
        MultiHeadAttention(H, K, max_relative_distance=-1)
    x = random_array(B, 7, 11, seed=10)
    with pytest.raises(ValueError, match="causal self-attention"):
        attention()(x, x)
    with pytest.raises(ValueError, match="a cache needs `positions`"):
        attention()(x, x, cache=attention().empty_cache(B, 7), cache_index=0)
