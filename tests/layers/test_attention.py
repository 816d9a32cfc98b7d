import numpy as np
import pytest
import tensorflow as tf
from equations import attention, dot_score

from keras_attention.layers import MultiHeadAttention, attend, masked_softmax, record_attention
from keras_attention.layers.attention import dot_product

B, T, S, D, DV = 2, 3, 5, 7, 11


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def some_mask():
    mask = np.random.default_rng(1).random((B, T, S)) < 0.6
    mask[1, 2] = False
    return mask


def test_attend_equals_its_equation():
    query, key, value, mask = random(B, T, D), random(B, S, D, seed=1), random(B, S, DV, seed=2), some_mask()
    context, weights = attend(query, key, value, mask)
    expected = attention(query, key, value, mask, lambda q, k: dot_score(q, k) / np.sqrt(D))
    np.testing.assert_allclose(context, expected[0], atol=1e-5)
    np.testing.assert_allclose(weights, expected[1], atol=1e-6)
    context, weights = attend(query, key, value)
    expected = attention(query, key, value, np.ones((B, T, S), bool), lambda q, k: dot_score(q, k) / np.sqrt(D))
    np.testing.assert_allclose(context, expected[0], atol=1e-5)


def test_attend_takes_any_leading_axes():
    query, key, value = random(2, B, T, D), random(2, B, S, D, seed=1), random(2, B, S, DV, seed=2)
    context, weights = attend(query, key, value, some_mask())
    assert (context.shape, weights.shape) == ((2, B, T, DV), (2, B, T, S))
    alone, _ = attend(query[1], key[1], value[1], some_mask())
    np.testing.assert_allclose(context[1], alone, atol=1e-6)


def test_attend_drops_weights_and_returns_them_whole():
    query, key, value = random(B, T, D), random(B, S, D, seed=1), random(B, S, DV, seed=2)
    context, weights = attend(query, key, value, drop=lambda weights: weights * np.eye(T, S, dtype="float32"))
    np.testing.assert_allclose(np.sum(weights, axis=-1), 1, atol=1e-6)
    np.testing.assert_allclose(context, np.diagonal(weights, axis1=1, axis2=2)[..., None] * value[:, :T], atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_attend_computes_scores_in_float32(dtype):
    query, key = (tf.cast(tf.fill((B, T, D), 300.0), dtype) for _ in range(2))  # a product of 630,000
    context, weights = attend(query, key, tf.cast(random(B, T, DV), dtype))
    assert (context.dtype, weights.dtype) == (dtype, "float32")
    np.testing.assert_allclose(weights, 1 / T, atol=1e-6)


def test_attention_is_recorded_inside_the_block_only():
    layer, states = MultiHeadAttention(2, 4), random(B, T, D)
    layer(states, states)
    with record_attention() as records:
        output, weights = layer(states, random(B, S, D, seed=1), return_attention_scores=True)
        with record_attention() as inner:
            layer(states, states)
    layer(states, states)
    first, second = records
    assert second.query is inner[0].query
    assert len(inner) == 1
    assert (first.query.shape, first.key.shape, second.key.shape) == ((B, 2, T, 4), (B, 2, S, 4), (B, 2, T, 4))
    expected = masked_softmax(dot_product(first.query, first.key) / 2)
    np.testing.assert_allclose(weights, expected, atol=1e-6)


def test_masked_softmax_is_the_softmax_of_the_unmasked_scores():
    scores = np.random.default_rng(0).normal(size=(B, T, S)).astype("float32")
    mask = np.random.default_rng(1).random((B, T, S)) < 0.6
    mask[1, 2] = False
    scores[~mask] = np.nan
    weights = np.asarray(masked_softmax(tf.constant(scores), mask))
    for b in range(B):
        for t in range(T):
            kept = np.exp(scores[b, t][mask[b, t]].astype("float64"))
            np.testing.assert_allclose(weights[b, t][mask[b, t]], kept / kept.sum(), atol=1e-6)
    assert (weights[~mask] == 0).all()


def test_masked_softmax_is_float32_and_does_not_overflow():
    weights = masked_softmax(tf.constant([[6e4, 5e4, -6e4]], "float16"), [[True, False, True]])
    assert weights.dtype == "float32"
    np.testing.assert_array_equal(weights, [[1, 0, 0]])
    # A lone key gets all the weight, however low its score.
    np.testing.assert_array_equal(masked_softmax(tf.constant([[-3e29, 7.0]]), [[True, False]]), [[1, 0]])


def test_masked_softmax_without_mask():
    scores = tf.constant([[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(masked_softmax(scores), masked_softmax(scores, [[True, True, True]]))
