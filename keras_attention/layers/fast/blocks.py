"""Masks computed block by block. A block pairs a chunk of queries with one or several chunks of keys."""

import numpy as np
from keras import ops

from keras_attention.layers.dropout import bits_at
from keras_attention.layers.masks import check_attention_mask

# Maximum number of values in the largest tensor of a block; may be exceeded by the shortest chunks.
MOST_IN_A_BLOCK = 2**22
SHORTEST_CHUNK, LONGEST_CHUNK = 128, 512


class AllowedPairs:
    """The conjunction of all masks, which is computed only for the requested block of pairs.

    Args:
        masks: bool tensors with four axes that broadcast to (B, H, T, S). True means "may be attended to".
        causal: bool. Whether a query may attend only to keys up to its own position.
        pattern: `Pattern` of positions, or None.
        start: int or scalar int tensor. The position of the first query; the first key is at position 0.
        positions: pair of int tensors (B, T), (B, S), the positions of queries and keys for the pattern; None if they
            are in order.
    """

    def __init__(self, masks=(), causal=False, pattern=None, start=0, positions=None):
        self.masks = tuple(masks)
        self.causal = causal
        self.pattern = pattern
        self.start = start
        if pattern is not None and positions is not None:
            queries, keys = positions
            self.masks += (pattern.allows(queries[:, None, :, None], keys[:, None, None, :], causal),)  # (B, 1, T, S)
            self.pattern = pattern = None
        self.every_query_sees_itself = not self.masks and (pattern is None or pattern.every_query_sees_itself)

    def all(self, num_queries, num_keys):
        """Returns the mask of all pairs: bool, broadcasts to (B, H, T, S), or None if all pairs are allowed."""
        return conjunction(
            [*self.masks, self.by_position(ops.arange(num_queries, dtype="int32"), ops.arange(num_keys, dtype="int32"))]
        )

    def used(self, num_queries, num_keys, roughly=False):
        """Returns which queries (B, T) and keys (B, S) belong to an allowed pair: bool, or None if all do.

        With `roughly`, each mask is examined separately: faster, but too many queries and keys may count as used.
        """
        lengths_known = isinstance(num_queries, int) and isinstance(num_keys, int)
        if self.every_query_sees_itself and (roughly or (lengths_known and num_queries == num_keys)):
            return None, None
        masks = self.masks if roughly else [self.all(num_queries, num_keys)]
        queries = conjunction(None if mask is None else ops.any(mask, axis=(1, 3)) for mask in masks)
        keys = conjunction(None if mask is None else ops.any(mask, axis=(1, 2)) for mask in masks)
        return queries, keys

    def used_new(self, num_queries):
        """Returns which keys at the positions of the queries are used: bool (B, T), or None for all."""
        if self.every_query_sees_itself:
            return None
        queries = ops.arange(num_queries, dtype="int32")
        return ops.any(self.block(queries, queries + self.start), axis=(1, 2))

    def block(self, queries, keys):
        """Returns the mask of a block, given the indices of its queries (Tc,) and of its keys (Sc,)."""
        return conjunction([*(cut(mask, queries, keys) for mask in self.masks), self.by_position(queries, keys)])

    def by_position(self, queries, keys):
        """Returns the mask (1, 1, T, S) of causal attention and the pattern for queries (T,) and keys (S,), or None."""
        queries, keys = (queries + self.start)[:, None], keys[None, :]
        rules = [queries >= keys] if self.causal else []
        if self.pattern is not None:
            rules.append(self.pattern.allows(queries, keys, self.causal))
        return conjunction(rules)[None, None] if rules else None  # (1, 1, T, S)


def cut(mask, queries, keys):
    """Cuts the block of queries (Tc,) and keys (Sc,) out of a mask (B, H, T, S), whose axes may have length 1."""
    start, shape = [0, 0, 0, 0], list(ops.shape(mask))
    for axis, indices in ((2, queries), (3, keys)):
        if mask.shape[axis] != 1:
            start[axis], shape[axis] = indices[0], indices.shape[0]
    return ops.slice(mask, start, shape)


def conjunction(masks):
    """Combines masks by "and"; None stands for a mask that is True everywhere."""
    allowed = None
    for mask in masks:
        if mask is not None:
            allowed = mask if allowed is None else ops.logical_and(allowed, mask)
    return allowed


def four_axes(query_mask=None, value_mask=None, key_mask=None, attention_mask=None):
    """Reshapes the masks (B, T), (B, S), (B, S), (B, T, S) or (B, H, T, S) to four axes; leaves out None."""
    masks = []
    if query_mask is not None:
        masks.append(ops.cast(query_mask, "bool")[:, None, :, None])  # (B, 1, T, 1)
    for mask in (value_mask, key_mask):
        if mask is not None:
            masks.append(ops.cast(mask, "bool")[:, None, None, :])  # (B, 1, 1, S)
    if attention_mask is not None:
        has_heads = len(attention_mask.shape) == 4
        check_attention_mask(attention_mask[:, 0] if has_heads else attention_mask)
        masks.append(attention_mask if has_heads else attention_mask[:, None])  # (B, H, T, S)
    return masks


def with_batch_axis(attention_mask, num_queries):
    """Returns a mask (T, S) as (1, T, S), and any other mask unchanged."""
    if attention_mask is None or len(attention_mask.shape) != 2:
        return attention_mask
    if isinstance(num_queries, int) and attention_mask.shape[0] not in (1, None, num_queries):
        raise ValueError(
            "`attention_mask` with two axes is (queries, keys); a padding mask (batch, keys) is given as `value_mask`. "
            f"Received: attention_mask.shape={tuple(attention_mask.shape)} for {num_queries} queries"
        )
    return attention_mask[None]


class Blocks:
    """Start, mask and dropout of each block. A block pairs chunk i of the queries with the keys of step j.

    All chunks have the same length. The last chunk overlaps its neighbour and masks the overlap.

    Args:
        query, key: tensors (B, H, T, K), (B, Hkv, S, K).
        numbers_per_pair: int > 0. Number of values that the score computes for one pair in one head.
        pairs: `AllowedPairs`.
        dropout: None, or the pair of dropout rate and seed.
    """

    query_order = key_order = None  # int (T,) and (S,): indices of queries and keys, in the order of the chunks

    def __init__(self, query, key, numbers_per_pair, pairs, dropout=None):
        self.batch, self.heads, self.num_queries, _ = ops.shape(query)
        self.num_keys = ops.shape(key)[2]
        self.pairs = pairs
        self.dropout = dropout
        self.numbers = numbers_per_pair * self.heads * (self.batch if isinstance(self.batch, int) else 1)
        self._choose_chunks()
        self.num_query_chunks = -(-self.num_queries // self.query_length)

    def _choose_chunks(self):
        length = LONGEST_CHUNK
        while length > SHORTEST_CHUNK and self.numbers * length**2 > MOST_IN_A_BLOCK:
            length //= 2
        self.query_length, self.key_length = min(length, self.num_queries), min(length, self.num_keys)

    def query_start(self, i):
        return ops.minimum(i * self.query_length, self.num_queries - self.query_length)

    def key_start(self, j):
        return ops.minimum(j * self.key_length, self.num_keys - self.key_length)

    def key_steps(self, i):
        """Returns the range (first, end) of the steps over the keys that queries of chunk i may attend to."""
        end = self.num_keys
        if self.pairs.causal:
            end = ops.minimum(end, self.query_start(i) + self.query_length + self.pairs.start)
        return 0, -(-end // self.key_length)

    def read_keys(self, inputs, j):
        """Returns the keys (B, H, Sc, ...) of step j."""
        return read_chunk(inputs, self.key_start(j), self.key_length)

    def add_to_keys(self, inputs, j, update):
        """Returns (B, H, S, ...) with `update` (B, H, Sc, ...) added to the keys of step j."""
        return add_to_chunk(inputs, self.key_start(j), update)

    def allowed(self, i, j, each_query_once=False):
        """Returns the mask of the block: bool, broadcasts to (B, H, Tc, Sc), or None if all pairs are allowed.

        Keys in the overlap with chunk j - 1 are masked; with `each_query_once`, also queries in the overlap with i - 1.
        """
        masks = [self._allowed_pairs(i, j)]
        if each_query_once and self.num_queries % self.query_length:
            queries = self.query_start(i) + ops.arange(self.query_length, dtype="int32")
            masks.append((queries >= i * self.query_length)[None, None, :, None])  # (1, 1, Tc, 1)
        return conjunction(masks)

    def kept(self, i, j, dtype):
        """Returns the dropout factor (B, H, Tc, Sc). Each pair has the same factor as in `Dropout` with this seed."""
        rate, seed = self.dropout
        row = ops.reshape(ops.arange(self.batch * self.heads, dtype="int32"), (self.batch, self.heads, 1, 1))
        row, queries, keys = (ops.cast(x, "uint32") for x in (row, self._queries(i)[:, None], self._keys(j)))
        positions = (row * self.num_queries + queries) * self.num_keys + keys  # (B, H, Tc, Sc), modulo 2^32
        kept = bits_at(seed, positions) >= ops.cast(int(rate * 2**32), "uint32")
        return ops.cast(kept, dtype) / (1 - rate)

    def _allowed_pairs(self, i, j):
        keys = self._keys(j)
        masks = [self.pairs.block(self._queries(i), keys)]
        if self.num_keys % self.key_length:
            masks.append((keys >= j * self.key_length)[None, None, None, :])  # (1, 1, 1, Sc)
        return conjunction(masks)

    def _queries(self, i):
        return self.query_start(i) + ops.arange(self.query_length, dtype="int32")  # (Tc,)

    def _keys(self, j):
        return self.key_start(j) + ops.arange(self.key_length, dtype="int32")  # (Sc,)


MOST_CHUNKS_AT_ONCE = 8
COST_OF_A_STEP = 2**14  # overhead of a step, expressed as a number of values to compute


def blocks_for(query, key, numbers_per_pair, pairs, dropout):
    """Returns `ListedBlocks` if there is a pattern and `pairs.start` is known at tracing time, else `Blocks`."""
    known = pairs.pattern is not None and isinstance(pairs.start, (int, np.integer))
    return (ListedBlocks if known else Blocks)(query, key, numbers_per_pair, pairs, dropout)


class ListedBlocks(Blocks):
    """Blocks of a pattern. A step reads one or several chunks of keys, which need not be neighbours.

    Queries and keys are sorted first if the pattern defines an order. The lengths of the chunks and the number of
    chunks per step are chosen to minimize the cost of all steps.
    """

    def _choose_chunks(self):
        pattern, causal = self.pairs.pattern, self.pairs.causal
        queries, keys = np.arange(self.num_queries) + int(self.pairs.start), np.arange(self.num_keys)
        self.query_order, self.key_order = order_by(pattern.query_order(queries)), order_by(pattern.key_order(keys))
        queries = queries if self.query_order is None else queries[self.query_order]
        keys = keys if self.key_order is None else keys[self.key_order]
        length, best = LONGEST_CHUNK, None
        while best is None or length >= SHORTEST_CHUNK // 2:
            sizes = min(length, self.num_queries), min(length, self.num_keys)
            query_chunks, key_chunks = chunks(queries, sizes[0]), chunks(keys, sizes[1])
            touched = pattern.touches(query_chunks, key_chunks, causal)
            if causal:
                touched = touched & (key_chunks.min(axis=1) <= query_chunks.max(axis=1)[:, None])
            counts = touched.sum(axis=1)
            for at_once in (1, 2, 4, MOST_CHUNKS_AT_ONCE):
                numbers = self.numbers * sizes[0] * sizes[1] * at_once
                cost = (-(-counts // at_once)).sum() * (numbers + COST_OF_A_STEP)
                fits = numbers <= MOST_IN_A_BLOCK or length <= SHORTEST_CHUNK and at_once == 1
                if best is None or (fits, -cost) > best[0]:
                    best = (fits, -cost), sizes, touched, at_once
            length //= 2
        _, (self.query_length, self.key_length), touched, at_once = best
        self._list(touched, at_once)
        self.masks = [self._sorted_mask(mask) for mask in self.pairs.masks]

    def _list(self, touched, at_once):
        """Lists the key chunks of each step (N, `at_once`), padded with -1, and the first step of each query chunk."""
        steps, first_steps = [], [0]
        for row in touched:
            needed = np.flatnonzero(row)
            steps.append(np.pad(needed, (0, -len(needed) % at_once), constant_values=-1).reshape(-1, at_once))
            first_steps.append(first_steps[-1] + len(steps[-1]))
        self.at_once = at_once
        self.steps = ops.convert_to_tensor(np.concatenate(steps).astype("int32"))
        self.first_steps = ops.convert_to_tensor(np.array(first_steps, "int32"))

    def _sorted_mask(self, mask):
        mask = mask if mask.shape[2] == 1 else in_order(mask, self.query_order)
        return mask if mask.shape[3] == 1 or self.key_order is None else ops.take(mask, self.key_order, axis=3)

    def key_steps(self, i):
        return ops.take(self.first_steps, i), ops.take(self.first_steps, i + 1)

    def read_keys(self, inputs, j):
        return ops.take(inputs, self._key_indices(j), axis=2)

    def add_to_keys(self, inputs, j, update):
        chunks = ops.take(self.steps, j, axis=0)
        for n in range(self.at_once):
            part = update[:, :, n * self.key_length : (n + 1) * self.key_length]
            inputs = add_to_chunk(inputs, ops.maximum(self.key_start(chunks[n]), 0), part)
        return inputs

    def _key_indices(self, j):
        """Indices (Sc,) of the keys of step j, in the order of the chunks; a missing chunk is read as the first."""
        starts = ops.maximum(self.key_start(ops.take(self.steps, j, axis=0)), 0)
        return ops.reshape(starts[:, None] + ops.arange(self.key_length, dtype="int32"), (-1,))

    def _allowed_pairs(self, i, j):
        queries, keys = self.query_start(i) + ops.arange(self.query_length, dtype="int32"), self._key_indices(j)
        chunks = ops.repeat(ops.take(self.steps, j, axis=0), self.key_length)  # (Sc,)
        once = ops.logical_and(chunks >= 0, keys >= chunks * self.key_length)  # not in the overlap
        masks = [self.pairs.by_position(self._queries(i), self._keys(j)), once[None, None, None, :]]
        for mask in self.masks:
            mask = cut(mask, queries, ops.arange(self.num_keys, dtype="int32"))
            masks.append(mask if mask.shape[3] == 1 else ops.take(mask, keys, axis=3))
        return conjunction(masks)

    def _queries(self, i):
        queries = self.query_start(i) + ops.arange(self.query_length, dtype="int32")  # (Tc,)
        return queries if self.query_order is None else ops.take(self.query_order, queries)

    def _keys(self, j):
        keys = self._key_indices(j)
        return keys if self.key_order is None else ops.take(self.key_order, keys)


def order_by(numbers):
    """Returns the indices that sort the numbers; the sort is stable. None stays None."""
    return None if numbers is None else np.argsort(numbers, kind="stable").astype("int32")


def chunks(positions, length):
    """Returns positions (T,) as chunks (M, length); the last chunk may overlap its neighbour."""
    starts = np.minimum(np.arange(0, len(positions), length), len(positions) - length)
    return positions[starts[:, None] + np.arange(length)]


def read_chunk(inputs, start, length):
    """Returns a slice of `length` elements along axis 2 of (B, H, T, ...)."""
    batch, heads, _, *rest = ops.shape(inputs)
    shape = (batch, heads, length, *rest)
    # The reshape keeps what is static of the shape, which `slice` loses in a graph with a dynamic batch.
    return ops.reshape(ops.slice(inputs, (0, 0, start, *[0] * len(rest)), shape), shape)


def write_chunk(inputs, start, update):
    """Returns (B, H, T, ...) with the slice from `start` along axis 2 replaced by `update`."""
    return ops.slice_update(inputs, (0, 0, start, *[0] * (len(inputs.shape) - 3)), update)


def add_to_chunk(inputs, start, update):
    """Returns (B, H, T, ...) with `update` added to the slice from `start` along axis 2."""
    return write_chunk(inputs, start, read_chunk(inputs, start, ops.shape(update)[2]) + update)


def in_order(inputs, order):
    """Reorders (B, H, T, ...) along axis 2 by the indices `order` (T,); None changes nothing."""
    return inputs if order is None else ops.take(inputs, order, axis=2)
