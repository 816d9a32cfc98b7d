"""`attention_axes` for inputs with more than three axes: folds them into (batch, length, width) and back."""

import math

from keras import ops


def standard_axes(attention_axes, rank):
    """Returns `attention_axes` as non-negative axes of inputs (B, ..., D) with `rank` axes; None: all except B and D.

    Raises:
        ValueError: if there are no axes, or one is that of the batch or the width.
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
    """Reshapes inputs (B, ..., D) to (B O, T, D), where T joins `axes` and O joins the other axes between B and D."""
    sizes = ops.shape(inputs)
    others = other_axes(len(sizes), axes)
    inputs = ops.transpose(inputs, (0, *others, *axes, len(sizes) - 1))
    batch_size, length = math.prod(sizes[axis] for axis in (0, *others)), math.prod(sizes[axis] for axis in axes)
    return ops.reshape(inputs, (batch_size, length, sizes[-1]))


def fold_padding_mask(mask, axes):
    """Reshapes a padding mask (B, ...) to (B O, T); None stays None."""
    return None if mask is None else fold(ops.cast(mask, "bool")[..., None], axes)[..., 0]


def fold_attention_mask(mask, query, key, axes):
    """Reshapes an attention mask to (B O, H or 1, T, S); None stays None.

    The last axes of the mask are the attended axes of the query and then of the key. Before them come B, the other axes
    and H, of which the last ones may be missing. Query and key are the inputs (B, ..., D).
    """
    if mask is None:
        return None
    sizes = ops.shape(query)
    batch = [sizes[axis] for axis in (0, *other_axes(len(sizes), axes))]
    attended = [ops.shape(x)[axis] for x in (query, key) for axis in axes]
    first = len(mask.shape) - len(attended)
    if not 0 <= first <= len(batch) + 1:
        raise ValueError(
            f"`attention_mask` must end with the {len(attended)} attended axes of query and key, with at most "
            f"{len(batch) + 1} axes before them. Received: attention_mask.shape={tuple(mask.shape)}"
        )
    leading = ops.shape(mask)[:first]
    leading = (*leading, *[1] * (len(batch) + 1 - first))
    mask = ops.reshape(mask, (*leading, *ops.shape(mask)[first:]))
    mask = ops.broadcast_to(mask, (*batch, leading[-1], *attended))  # (B, O, H or 1, T axes, S axes)
    lengths = math.prod(attended[: len(axes)]), math.prod(attended[len(axes) :])
    return ops.reshape(mask, (math.prod(batch), leading[-1], *lengths))


def unfold(outputs, query, axes):
    """Reshapes outputs (B O, T, D, ...) to the axes of the query (B, ..., D)."""
    sizes = ops.shape(query)
    others = other_axes(len(sizes), axes)
    order = (0, *others, *axes)
    width = ops.shape(outputs)[2:]
    outputs = ops.reshape(outputs, (*(sizes[axis] for axis in order), *width))
    back = [order.index(axis) for axis in range(len(order))]
    return ops.transpose(outputs, (*back, *range(len(order), len(order) + len(width))))


def unfold_weights(weights, query, key, axes):
    """Reshapes weights (B O, H, T, S) to (B, O, H, attended axes of the query, attended axes of the key)."""
    sizes = ops.shape(query)
    batch = [sizes[axis] for axis in (0, *other_axes(len(sizes), axes))]
    attended = [ops.shape(x)[axis] for x in (query, key) for axis in axes]
    return ops.reshape(weights, (*batch, ops.shape(weights)[1], *attended))


def other_axes(rank, axes):
    return [axis for axis in range(1, rank - 1) if axis not in axes]
