"""Allowed tokens and maximum lengths: the same rules for every search."""

from keras import ops


def row_limits(batch_size, max_length, min_length, max_steps):
    """Checks the lengths and returns (the static number of steps, the int32 limit of each row (B,)).

    Lengths count END. `max_length` is an int >= 1, or an int tensor (B,) with one limit per row; then `max_steps` (int)
    is the static upper bound of the limits. A limit of 0 leaves the row empty, for padding rows of a batch. If a row's
    limit is below `min_length`, the limit wins.
    """
    if isinstance(max_length, int):
        if max_length < 1:
            raise ValueError(f"`max_length` must be at least 1 token. Received: max_length={max_length}")
        max_steps = max_length if max_steps is None else min(max_length, max_steps)
    elif max_steps is None:
        raise ValueError(
            f"`max_steps` (int) is needed with one `max_length` per row. Received: max_length={max_length}"
        )
    if max_steps < 1:
        raise ValueError(f"`max_steps` must be at least 1 token. Received: max_steps={max_steps}")
    if not 0 <= min_length <= max_steps:
        raise ValueError(
            f"`min_length` must lie between 0 and the maximum length. Received: min_length={min_length}, "
            f"max_length={max_steps}"
        )
    limits = ops.broadcast_to(ops.cast(max_length, "int32"), (batch_size,))
    return max_steps, ops.clip(limits, 0, max_steps)


def forbidden_ids(start_id, end_id, pad_id, unknown_id):
    """Checks the special ids and returns those that are never generated, without END."""
    if end_id in (start_id, pad_id):
        raise ValueError(
            "`end_id` must differ from `start_id` and `pad_id`. "
            f"Received: start_id={start_id}, end_id={end_id}, pad_id={pad_id}"
        )
    if unknown_id is not None and unknown_id == end_id:
        raise ValueError(f"`unknown_id` must differ from `end_id`. Received: unknown_id={unknown_id}, end_id={end_id}")
    return [start_id, pad_id] if unknown_id is None else [start_id, pad_id, unknown_id]


def forbid(logits, ids, condition=True):
    """Returns the logits (..., V), -infinity at each of `ids` (list of int) if `condition` (scalar bool) holds."""
    tokens = ops.arange(logits.shape[-1], dtype="int32")  # (V,)
    hit = tokens < 0
    for token in ids:
        hit = ops.logical_or(hit, ops.equal(tokens, token))
    return ops.where(ops.logical_and(hit, condition), -float("inf"), logits)
