"""Which tokens may come next, and the best of them: the same rules for every search."""

from keras import ops


def length_limits(batch_size, max_length, min_length, max_steps):
    """Checks the lengths and returns (the static number of steps, the int32 limit of each sentence (B,)).

    Lengths count END. `max_length` is an int >= 1, or an int tensor (B,) with one limit per sentence; then `max_steps`
    (int) is the static upper bound of the limits. A limit of 0 leaves the answer empty, for the padding of a batch. If
    a limit is below `min_length`, the limit wins.
    """
    if isinstance(max_length, int):
        if max_length < 1:
            raise ValueError(f"`max_length` must be at least 1 token. Received: max_length={max_length}")
        max_steps = max_length if max_steps is None else min(max_length, max_steps)
    elif max_steps is None:
        raise ValueError(
            f"`max_steps` (int) is needed with one `max_length` per sentence. Received: max_length={max_length}"
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


BLOCKS = 256
MANY = 16
TAKEN = 2**31 - 1


def top_tokens(values, count):
    """Returns (the `count` largest entries, their int32 indices), both (R, count), largest first, ties by index.

    On a CPU, XLA's own top-k and argmax walk through the logits one by one, while a maximum uses vector instructions. A
    long list is therefore cut into blocks: the `count` largest entries lie in the `count` blocks of largest maximum,
    and only these are searched.

    Args:
        values: float32 tensor (R, C).
        count: int in [1, C].
    """
    lists, columns = values.shape
    if count > MANY:
        top, indices = ops.top_k(values, count)
        return top, ops.cast(indices, "int32")
    if columns < 4 * BLOCKS:
        return _take_largest(values, ops.arange(columns, dtype="int32"), count, columns - 1)
    size = -(-columns // BLOCKS)
    padded = ops.pad(values, ((0, 0), (0, BLOCKS * size - columns)), constant_values=-float("inf"))
    blocks = ops.reshape(padded, (lists, BLOCKS, size))
    numbers = ops.arange(BLOCKS, dtype="int32")
    _, chosen = _take_largest(ops.max(blocks, axis=-1), numbers, count, BLOCKS - 1)  # (R, count)
    block_places = ops.arange(lists, dtype="int32")[:, None] * BLOCKS + chosen
    candidates = ops.take(ops.reshape(blocks, (lists * BLOCKS, size)), ops.reshape(block_places, (-1,)), axis=0)
    indices = chosen[:, :, None] * size + ops.arange(size, dtype="int32")  # (R, count, size)
    shape = (lists, count * size)
    return _take_largest(ops.reshape(candidates, shape), ops.reshape(indices, shape), count, columns - 1)


def _take_largest(values, indices, count, last):
    """Takes the largest entry of values (R, C) `count` times, of equal ones that of lowest index (R, C) or (C,).

    No index is larger than `last`, not even where all values are NaN.
    """
    top, top_indices = [], []
    for _ in range(count):
        largest = ops.max(values, axis=-1, keepdims=True)  # (R, 1)
        index = ops.min(ops.where(values == largest, indices, TAKEN), axis=-1, keepdims=True)  # (R, 1)
        top.append(largest)
        top_indices.append(index)
        this = indices == index
        values, indices = ops.where(this, -float("inf"), values), ops.where(this, TAKEN, indices)
    return ops.concatenate(top, axis=-1), ops.minimum(ops.concatenate(top_indices, axis=-1), last)
