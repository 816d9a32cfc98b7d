"""Scaled dot-product attention of many heads, all pairs at once or in chunks."""

from keras import ops

from keras_attention.layers.chunked_attention import chunked_attention
from keras_attention.layers.masks import masked_softmax
from keras_attention.layers.pair_scores import DotScore, matmul_by_head


def attend(query, key, value, mask, dropout, training):
    """Averages the values, weighted by softmax(query key^T / sqrt(K)).

    Args:
        query: float tensor (B, T, H, K).
        key, value: float tensors (B, S, Hkv, K), (B, S, Hkv, V); each of their heads serves H / Hkv heads of queries.
        mask: bool tensor that broadcasts to (B, H, T, S), or None.
        dropout: `Dropout` layer for the weights. Its dtype is the one of scores and weights.
        training: bool. Whether to apply it.

    Returns:
        Context (B, T, H, V) in the dtype of `value` and weights (B, H, T, S), without dropout.
    """
    query, key, value = heads_first(query, key, value, dropout.compute_dtype)
    weights = masked_softmax(DotScore()(query, key), mask)  # (B, H, T, S)
    context = matmul_by_head(ops.cast(dropout(weights, training=training), value.dtype), value)  # (B, H, T, V)
    return ops.transpose(context, (0, 2, 1, 3)), weights


def attend_in_chunks(query, key, value, pairs, dropout, training):
    """The same for `AllowedPairs` in place of the mask, in memory that grows with T + S instead of T S.

    Returns:
        Context (B, T, H, V), and the bool tensor (B, T) that is False where every key is masked for all heads.
    """
    query, key, value = heads_first(query, key, value, dropout.compute_dtype)
    dropout = dropout.next_draw(training)
    context, seen = chunked_attention(query, key, value, DotScore(), pairs=pairs, dropout=dropout)
    return ops.transpose(context, (0, 2, 1, 3)), ops.any(seen, axis=1)


def heads_first(query, key, value, score_dtype):
    """Returns the scaled query (B, H, T, K) and key (B, Hkv, S, K) as `score_dtype`, and value (B, Hkv, S, V)."""
    query = ops.cast(query, score_dtype) / query.shape[-1] ** 0.5
    return (ops.transpose(x, (0, 2, 1, 3)) for x in (query, ops.cast(key, score_dtype), value))
