"""Masks: boolean, and True means "may be attended to"."""

import functools
from typing import Any

import keras
from keras import ops

from keras_attention.support import keras_private

Tensor = Any  # tensor of the Keras backend, symbolic tensor or array


def padding_mask(token_ids: Tensor, pad_id: int = 0) -> Tensor:
    """True at all tokens except padding.

    Args:
        token_ids: int tensor (B, S).
        pad_id: int, the id of padding.

    Returns:
        bool (B, S). To use it as `attention_mask`, add a query axis: `padding_mask(token_ids)[:, None, :]`.
    """
    return ops.not_equal(token_ids, pad_id)


def causal_mask(num_queries: int, num_keys: int | None = None) -> Tensor:
    """True at keys up to the position of the query, False at later keys.

    Args:
        num_queries: int > 0 (T).
        num_keys: int >= `num_queries` (S), by default `num_queries`. If larger, the queries are the last T of the S
            positions, as in decoding with a cache.

    Returns:
        bool (1, T, S). `ops.logical_and` combines it with a padding mask (B, 1, S).
    """
    num_keys = num_queries if num_keys is None else num_keys
    query_positions = ops.arange(num_queries, dtype="int32")[:, None] + (num_keys - num_queries)  # (T, 1)
    return (query_positions >= ops.arange(num_keys, dtype="int32")[None, :])[None]  # (1, T, S)


def check_attention_mask(attention_mask):
    """Checks that the mask is None, or boolean with the three axes (B, T, S).

    Raises:
        TypeError: if the mask is not boolean, because 0/1 masks and additive masks are easily confused.
        ValueError: if the mask does not have three axes, because with two, (B, S) and (T, S) are ambiguous.
    """
    if attention_mask is None:
        return
    if keras.backend.standardize_dtype(attention_mask.dtype) != "bool":
        raise TypeError(
            "`attention_mask` must be boolean, where True means 'may be attended to'. "
            f"Received: attention_mask.dtype={keras.backend.standardize_dtype(attention_mask.dtype)}"
        )
    if len(attention_mask.shape) != 3:
        raise ValueError(
            "`attention_mask` must have three axes and broadcast to (batch, queries, keys). For a padding mask "
            "(batch, keys), use `padding_mask[:, None, :]`. "
            f"Received: attention_mask.shape={tuple(attention_mask.shape)}"
        )


def combined_mask(query_mask=None, value_mask=None, key_mask=None, attention_mask=None):
    """Combines padding masks and an attention mask by "and".

    Args:
        query_mask, value_mask, key_mask: tensors (B, T), (B, S), (B, S) or None. True (or nonzero) at tokens, False at
            padding.
        attention_mask: bool tensor that broadcasts to (B, T, S), or None.

    Returns:
        bool, broadcasts to (B, T, S), or None if all masks are None.

    Raises:
        TypeError, ValueError: see `check_attention_mask`.
    """
    check_attention_mask(attention_mask)
    masks = [] if query_mask is None else [ops.cast(query_mask, "bool")[:, :, None]]  # (B, T, 1)
    masks += [ops.cast(mask, "bool")[:, None, :] for mask in (value_mask, key_mask) if mask is not None]  # (B, 1, S)
    masks += [] if attention_mask is None else [attention_mask]
    return functools.reduce(ops.logical_and, masks) if masks else None


def keras_mask(tensor):
    """Returns the implicit mask that Keras has attached to a tensor, or None."""
    return keras_private.get_keras_mask(tensor)


def with_keras_mask(tensor, mask):
    """Attaches an implicit mask to a tensor, for the layers that receive it; returns the tensor. None: no mask."""
    if mask is not None:
        keras_private.set_keras_mask(tensor, mask)
    return tensor


def zero_masked(inputs: Tensor, mask: Tensor | None) -> Tensor:
    """Sets masked positions to 0. They may contain NaN, and 0 * NaN is NaN, so a weight of 0 is not enough.

    Args:
        inputs: tensor (B, S, ...).
        mask: bool tensor that broadcasts to (B, S), or None to change nothing.

    Returns:
        Tensor (B, S, ...). No gradient flows to the masked positions.
    """
    if mask is None:
        return inputs
    mask = ops.reshape(mask, (*ops.shape(mask), *[1] * (len(inputs.shape) - 2)))  # (B, S, 1, ...)
    return ops.where(mask, inputs, ops.zeros_like(inputs))


def used_keys(attention_mask):
    """True at keys that at least one query may attend to.

    Args:
        attention_mask: bool tensor that broadcasts to (B, T, S), or None.

    Returns:
        bool, broadcasts to (B, S), or None.

    Raises:
        TypeError, ValueError: see `check_attention_mask`.
    """
    check_attention_mask(attention_mask)
    return None if attention_mask is None else ops.any(attention_mask, axis=1)


def zero_unused(
    query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Sets queries, keys and values to 0 if they are masked in all pairs.

    Args:
        query, key, value: tensors (B, T, Dq), (B, S, Dk), (B, S, Dv).
        attention_mask: bool tensor that broadcasts to (B, T, S), or None.

    Returns:
        The three tensors.
    """
    if attention_mask is None:
        return query, key, value
    used = used_keys(attention_mask)
    return zero_masked(query, ops.any(attention_mask, axis=2)), zero_masked(key, used), zero_masked(value, used)
