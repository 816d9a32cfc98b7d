"""Attention along some axes of inputs with many: the others join the batch, and the attended ones become one."""

import math

from keras import ops


def standard_axes(attention_axes, rank):
    """Returns the attended axes of inputs (B, ..., D) with `rank` axes, counted from 0; by default all but B and D.

    Raises:
        ValueError: if one of them is the batch or the width.
    """
    axes = tuple(range(1, rank - 1)) if attention_axes is None else tuple(attention_axes)
    counted = tuple(axis + rank if axis < 0 else axis for axis in axes)
    if not counted or not all(0 < axis < rank - 1 for axis in counted):
        raise ValueError(
            f"`attention_axes` must lie between the batch and the width of inputs with {rank} axes. "
            f"Received: attention_axes={axes}"
        )
    return counted


def fold(inputs, axes):
    """Returns inputs (B, ..., D) as (B O, T, D): T runs over `axes`, O over the other axes in between."""
    sizes = ops.shape(inputs)
    others = other_axes(len(sizes), axes)
    inputs = ops.transpose(inputs, (0, *others, *axes, len(sizes) - 1))
    rows, length = math.prod(sizes[axis] for axis in (0, *others)), math.prod(sizes[axis] for axis in axes)
    return ops.reshape(inputs, (rows, length, sizes[-1]))


def fold_padding_mask(mask, axes):
    """Returns a mask (B, ...), or None, as (B O, T)."""
    return None if mask is None else fold(ops.cast(mask, "bool")[..., None], axes)[..., 0]


def fold_attention_mask(mask, query, key, axes):
    """Returns a mask as (B O, H or 1, T, S), or None.

    Its last axes are the attended axes of the query, then those of the key; before them stand as many of B, O and H as
    it has, from the left. Query and key are the inputs (B, ..., D).
    """
    if mask is None:
        return None
    sizes = ops.shape(query)
    batch = [sizes[axis] for axis in (0, *other_axes(len(sizes), axes))]
    attended = [ops.shape(x)[axis] for x in (query, key) for axis in axes]
    first = len(mask.shape) - len(attended)
    if not 0 <= first <= len(batch) + 1:
        raise ValueError(
            f"`attention_mask` must have the {len(attended)} attended axes of query and key last, and at most "
            f"{len(batch) + 1} axes before them. Received: attention_mask.shape={tuple(mask.shape)}"
        )
    leading = ops.shape(mask)[:first]
    leading = (*leading, *[1] * (len(batch) + 1 - first))
    mask = ops.reshape(mask, (*leading, *ops.shape(mask)[first:]))
    mask = ops.broadcast_to(mask, (*batch, leading[-1], *attended))  # (B, O, H or 1, T axes, S axes)
    lengths = math.prod(attended[: len(axes)]), math.prod(attended[len(axes) :])
    return ops.reshape(mask, (math.prod(batch), leading[-1], *lengths))


def unfold(outputs, query, axes):
    """Returns outputs (B O, T, D, ...) with the axes of the query (B, ..., D) again."""
    sizes = ops.shape(query)
    others = other_axes(len(sizes), axes)
    order = (0, *others, *axes)
    width = ops.shape(outputs)[2:]
    outputs = ops.reshape(outputs, (*(sizes[axis] for axis in order), *width))
    back = [order.index(axis) for axis in range(len(order))]
    return ops.transpose(outputs, (*back, *range(len(order), len(order) + len(width))))


def unfold_weights(weights, query, key, axes):
    """Returns weights (B O, H, T, S) as (B, O, H, attended axes of the query, attended axes of the key)."""
    sizes = ops.shape(query)
    batch = [sizes[axis] for axis in (0, *other_axes(len(sizes), axes))]
    attended = [ops.shape(x)[axis] for x in (query, key) for axis in axes]
    return ops.reshape(weights, (*batch, ops.shape(weights)[1], *attended))


def other_axes(rank, axes):
    return [axis for axis in range(1, rank - 1) if axis not in axes]
