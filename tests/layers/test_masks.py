import numpy as np
import pytest
import tensorflow as tf

from keras_attention.layers import AdditiveAttention, causal_mask, masked_softmax, padding_mask, zero_masked

B, T, S, D = 2, 3, 5, 7


def test_padding_mask_marks_the_tokens():
    np.testing.assert_array_equal(padding_mask([[3, 0, 4], [5, 6, 0]]), [[True, False, True], [True, True, False]])
    np.testing.assert_array_equal(padding_mask([[3, 0, 4]], pad_id=4), [[True, True, False]])


@pytest.mark.parametrize("num_keys", [None, T, S])
def test_causal_mask_shows_no_future(num_keys):
    mask = np.asarray(causal_mask(T, num_keys))
    offset = (num_keys or T) - T
    assert mask.shape == (1, T, num_keys or T)
    for t in range(T):
        for s in range(num_keys or T):
            assert mask[0, t, s] == (s <= t + offset)


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


def test_zero_masked_stops_content_and_gradient():
    inputs = tf.Variable(np.full((B, S, D), 2.0, "float32"))
    inputs[1, 3].assign(np.full(D, np.nan))
    mask = np.ones((B, S), bool)
    mask[1, 3] = False
    with tf.GradientTape() as tape:
        outputs = zero_masked(inputs, mask)
        loss = tf.reduce_sum(outputs**2)
    expected = np.where(mask[..., None], np.full((B, S, D), 2.0), 0.0)
    np.testing.assert_array_equal(outputs, expected)
    np.testing.assert_array_equal(tape.gradient(loss, inputs), 2 * expected)
    assert zero_masked(inputs, None) is inputs


@pytest.mark.parametrize(
    ("mask", "error", "text"),
    [
        (np.ones((B, S), bool), ValueError, r"\(2, 5\)"),
        (np.ones((B, 1, T, S), bool), ValueError, r"\(2, 1, 3, 5\)"),
        (np.ones((B, 1, S), "int32"), TypeError, "int32"),
        (np.ones((B, 1, S), "float32"), TypeError, "float32"),
    ],
)
def test_a_wrong_mask_is_named(mask, error, text):
    query, value = np.zeros((B, T, D), "float32"), np.zeros((B, S, D), "float32")
    with pytest.raises(error, match=f"`attention_mask` must.*Received:.*{text}"):
        AdditiveAttention(11)(query, value, attention_mask=mask)
