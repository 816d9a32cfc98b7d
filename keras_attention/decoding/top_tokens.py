"""The largest entries of each row, fast with XLA on a CPU."""

from keras import ops

BLOCKS = 256
MANY = 16
TAKEN = 2**31 - 1


def top_tokens(values, count):
    """Returns (the `count` largest entries, their int32 indices), both (R, count), largest first, ties by index.

    On a CPU, XLA's own top-k and argmax walk through a row entry by entry, while a maximum uses vector instructions. A
    long row is therefore cut into blocks: the `count` largest entries lie in the `count` blocks of largest maximum, and
    only these are searched.

    Args:
        values: float32 tensor (R, C).
        count: int in [1, C].
    """
    rows, columns = values.shape
    if count > MANY:
        top, indices = ops.top_k(values, count)
        return top, ops.cast(indices, "int32")
    if columns < 4 * BLOCKS:
        return _take_largest(values, ops.arange(columns, dtype="int32"), count, columns - 1)
    size = -(-columns // BLOCKS)
    padded = ops.pad(values, ((0, 0), (0, BLOCKS * size - columns)), constant_values=-float("inf"))
    blocks = ops.reshape(padded, (rows, BLOCKS, size))
    numbers = ops.arange(BLOCKS, dtype="int32")
    _, chosen = _take_largest(ops.max(blocks, axis=-1), numbers, count, BLOCKS - 1)  # (R, count)
    block_rows = ops.arange(rows, dtype="int32")[:, None] * BLOCKS + chosen
    candidates = ops.take(ops.reshape(blocks, (rows * BLOCKS, size)), ops.reshape(block_rows, (-1,)), axis=0)
    indices = chosen[:, :, None] * size + ops.arange(size, dtype="int32")  # (R, count, size)
    shape = (rows, count * size)
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
