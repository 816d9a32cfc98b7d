"""Scaled dot-product attention (Vaswani et al. 2017) and the masked softmax."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import keras
from keras import ops

from keras_attention.layers.masks import Tensor

_RECORDS: ContextVar[tuple[list, ...]] = ContextVar("records of attend", default=())


def dot_product(query: Tensor, key: Tensor) -> Tensor:
    """Returns Q K^T (..., T, S) for queries (..., T, d) and keys (..., S, d)."""
    return ops.matmul(query, ops.swapaxes(key, -1, -2))


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    drop: Callable[[Tensor], Tensor] = lambda weights: weights,
    similarity: Callable[[Tensor, Tensor], Tensor] = dot_product,
    average: Callable[[Tensor, Tensor], Tensor] = ops.matmul,
) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention: averages the values, weighted by the similarity of their keys to the query.

        attend(Q, K, V) = softmax(Q K^T / sqrt(d)) V

    Args:
        query: float tensor (..., T, d).
        key: float tensor (..., S, d).
        value: float tensor (..., S, Dv).
        mask: bool tensor that broadcasts to (..., T, S), or None. True means "may be attended to".
        drop: function of the weights (..., T, S), for example a `Dropout` layer in training.
        similarity: function (Q / sqrt(d), K) -> scores, the product Q K^T / sqrt(d); another one for keys in another
            layout, see `layers.fast.heads_first`.
        average: function (weights, V) -> context, the product of both; another one for values in another layout.

    Returns:
        Context (..., T, Dv) in the dtype of `value`, and the weights (..., T, S), before `drop`. Scores and weights are
        float32 (float64 if the query is). If all keys of a query are masked, its weights and its context are 0.

    Source: Vaswani et al. (2017), section 3.2.1, equation 1, https://arxiv.org/abs/1706.03762. The mask is from section
    3.2.3; dropout of the weights is not in the paper.

    Example:
        context, weights = attend(token_embeddings, token_embeddings, token_embeddings)
    """
    for records in _RECORDS.get():
        records.append(AttentionRecord(query, key, value))
    dtype = keras.backend.result_type(query.dtype, "float32")
    query, key = ops.cast(query, dtype), ops.cast(key, dtype)
    scores = similarity(query / query.shape[-1] ** 0.5, key)  # Q K^T / sqrt(d): (..., T, S)
    weights = masked_softmax(scores, mask)
    return average(ops.cast(drop(weights), value.dtype), value), weights  # (..., T, Dv)


class AttentionRecord(NamedTuple):
    """What one call of `attend` was given: the tensors (..., T, d), (..., S, d) and (..., S, Dv)."""

    query: Tensor
    key: Tensor
    value: Tensor


@contextmanager
def record_attention() -> Iterator[list[AttentionRecord]]:
    """Records the queries, keys and values of every call of `attend` in the `with` block.

    For looking inside a model: `MultiHeadAttention` calls `attend` once for each layer, with tensors (B, H, T, d). Call
    the model itself, not `predict`: in a compiled program the records are symbols without values. Calls in other
    threads are not recorded, nor is attention that is computed in chunks.

    Returns:
        A context manager; it gives a list of AttentionRecord that grows with each call, in their order.

    Example:
        with record_attention() as records:
            attend(token_embeddings, token_embeddings, token_embeddings)  # or call a model
        scores = dot_product(records[0].query, records[0].key)  # Q K^T (..., T, S)
    """
    records: list[AttentionRecord] = []
    token = _RECORDS.set((*_RECORDS.get(), records))
    try:
        yield records
    finally:
        _RECORDS.reset(token)


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """The softmax over the last axis, restricted to the keys that may be attended to.

    Args:
        scores: float tensor (..., S). Scores of masked keys have no effect, even if they are NaN.
        mask: bool tensor that broadcasts to `scores`, or None to attend to everything.

    Returns:
        Weights (..., S) in float32 (float64 if the scores are). They are 0 at masked keys and sum to 1 over S, or to
        exactly 0 if every key is masked.
    """
    scores = ops.cast(scores, keras.backend.result_type(scores.dtype, "float32"))
    # Keras warns about a softmax over an axis of length 1; the result is 1.
    softmax = ops.ones_like if scores.shape[-1] == 1 else ops.softmax
    if mask is None:
        return softmax(scores)
    lowest = -1e30 * ops.ones_like(scores)
    weights = softmax(ops.where(mask, scores, lowest))
    # If all keys are masked, the weights are equal here. The second `where` sets them and their gradients to 0.
    return ops.where(mask, weights, ops.zeros_like(weights))
