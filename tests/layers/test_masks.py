import numpy as np
import pytest
import tensorflow as tf

from keras_attention.layers import AdditiveAttention, causal_mask, padding_mask, zero_masked

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
