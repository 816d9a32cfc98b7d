"""Scaled dot-product attention of many heads, all pairs at once or in chunks."""

from keras import ops

from keras_attention.layers.chunked_attention import chunked_attention
from keras_attention.layers.masks import masked_softmax, zero_masked
from keras_attention.layers.pair_scores import DotScore

LONG_CACHE = 64  # positions from which on it pays to read no more of a cache than is written


def attend(query, key, value, mask, dropout, training, written=None):
    """Averages the values, weighted by softmax(query key^T / sqrt(K)).

    Args:
        query: float tensor (B, T, H, K).
        key, value: float tensors (B Hkv, K, S), (B Hkv, S, V), as `heads_first` lays them out; each of their heads
            serves H / Hkv heads of queries.
        mask: bool tensor that broadcasts to (B, H, T, S), or None.
        dropout: `Dropout` layer for the weights. Its dtype is the one of scores and weights.
        training: bool. Whether to apply it.
        written: int or scalar int tensor, if the mask allows only the first so many keys and nobody asks for the
            weights; or None. While they are at most a quarter of `LONG_CACHE` keys or more, only that quarter is read.

    Returns:
        Context (B, T, H, V) in the dtype of `value` and weights (B, H, T, S), without dropout; None with `written`.
    """
    if written is None:
        return _attend(query, key, value, mask, dropout, training)
    num_keys = ops.shape(value)[1]
    if training or not isinstance(num_keys, int) or num_keys < LONG_CACHE:
        return _attend(query, key, value, mask, dropout, training)[0], None
    quarter = -(-num_keys // 4)

    def read(end):
        some = None if mask is None else mask[..., :end]
        return _attend(query, key[..., :end], value[:, :end], some, dropout, training)[0]

    written = ops.convert_to_tensor(written)
    return ops.cond(written <= quarter, lambda: read(quarter), lambda: read(num_keys)), None


def _attend(query, key, value, mask, dropout, training):
    """The same with all keys."""
    query, key = scaled(query, dropout.compute_dtype), ops.cast(key, dropout.compute_dtype)
    by_query, (groups, width, num_keys) = ops.shape(query)[:3], ops.shape(key)
    scores = ops.matmul(ops.reshape(query, (groups, -1, width)), key)  # (B Hkv, H/Hkv T, S)
    weights = masked_softmax(ops.reshape(scores, (*by_query, num_keys)), mask)  # (B, H, T, S)
    kept = ops.cast(dropout(weights, training=training), value.dtype)
    context = ops.matmul(ops.reshape(kept, (groups, -1, num_keys)), value)  # (B Hkv, H/Hkv T, V)
    context = ops.reshape(context, (*by_query, ops.shape(value)[-1]))  # (B, H, T, V)
    return ops.transpose(context, (0, 2, 1, 3)), weights


def attend_in_chunks(query, key, value, pairs, dropout, training):
    """The same for `AllowedPairs` in place of the mask, in memory that grows with T + S instead of T S.

    Returns:
        Context (B, T, H, V), and the bool tensor (B, T) that is False where every key is masked for all heads.
    """
    query, key = scaled(query, dropout.compute_dtype), ops.cast(key, dropout.compute_dtype)
    key = ops.transpose(key, (0, 2, 1))  # (B Hkv, S, K)
    key, value = (ops.reshape(x, (ops.shape(query)[0], -1, *ops.shape(x)[1:])) for x in (key, value))
    dropout = dropout.next_draw(training)
    context, seen = chunked_attention(query, key, value, DotScore(), pairs=pairs, dropout=dropout)
    return ops.transpose(context, (0, 2, 1, 3)), ops.any(seen, axis=1)


def scaled(query, score_dtype):
    """Returns query / sqrt(K) as (B, H, T, K) in `score_dtype`."""
    return ops.transpose(ops.cast(query, score_dtype) / query.shape[-1] ** 0.5, (0, 2, 1, 3))


def heads_first(key, value):
    """Returns key (B, S, Hkv, K) as (B Hkv, K, S) and value (B, S, Hkv, V) as (B Hkv, S, V).

    So laid out they go into the products of attention as they are. Other layouts cost XLA a copy at every step of a
    decoder; with B and Hkv apart and B = 1 it also copies a cache that it would otherwise update in place.
    """
    keys, values = ops.transpose(key, (0, 2, 3, 1)), ops.transpose(value, (0, 2, 1, 3))
    return tuple(ops.reshape(x, (-1, *ops.shape(x)[2:])) for x in (keys, values))


def zero_masked_by_head(key, value, mask, heads):
    """`zero_masked` for key (B Hkv, K, S) and value (B Hkv, S, V); the mask broadcasts to (B, S), or is None."""
    if mask is None:
        return key, value
    groups, num_keys = ops.shape(value)[:2]
    mask = ops.repeat(ops.broadcast_to(mask, (groups // heads, num_keys)), heads, axis=0)  # (B Hkv, S)
    return ops.where(mask[:, None, :], key, ops.zeros_like(key)), zero_masked(value, mask)
