"""Masks computed block by block: a block is a chunk of queries by a chunk of keys."""

from keras import ops

from keras_attention.layers.dropout import bits_at
from keras_attention.layers.masks import check_attention_mask

# Maximum number of values in the largest tensor of a block, unless the shortest chunks exceed it.
MOST_IN_A_BLOCK = 2**22
SHORTEST_CHUNK, LONGEST_CHUNK = 128, 1024


class AllowedPairs:
    """The conjunction of all masks, which is computed only for the requested block of pairs.

    Args:
        masks: bool tensors with four axes that broadcast to (B, H, T, S). True means "may be attended to".
        causal: bool. Whether a query may attend only to keys up to its own position.
        window: int > 0, tokens, or None. If set, a query may attend only to keys less than `window` positions away.
        start: int or scalar int tensor. The position of the first query; the first key is at position 0.
    """

    def __init__(self, masks=(), causal=False, window=None, start=0):
        self.masks = tuple(masks)
        self.causal = causal
        self.window = window
        self.start = start

    def all(self, num_queries, num_keys):
        """Returns the mask of all pairs: bool, broadcasts to (B, H, T, S), or None if all pairs are allowed."""
        return conjunction([*self.masks, self._by_position(ops.arange(num_queries), ops.arange(num_keys))])

    def used(self, num_queries, num_keys, roughly=False):
        """Returns the queries (B, T) and the keys (B, S) that belong to an allowed pair: bool, or None if all do.

        `roughly` examines each mask separately. That is faster, but may mark too many queries and keys as used.
        """
        lengths_known = isinstance(num_queries, int) and isinstance(num_keys, int)
        if not self.masks and (roughly or (lengths_known and num_queries == num_keys)):
            return None, None
        masks = self.masks if roughly else [self.all(num_queries, num_keys)]
        queries = conjunction(None if mask is None else ops.any(mask, axis=(1, 3)) for mask in masks)
        keys = conjunction(None if mask is None else ops.any(mask, axis=(1, 2)) for mask in masks)
        return queries, keys

    def used_new(self, num_queries):
        """Returns which keys at the positions of the queries may be attended to: bool (B, T), or None for all."""
        if not self.masks:  # positions alone always allow a query to attend to itself
            return None
        queries = ops.arange(num_queries)
        return ops.any(self.block(queries, queries + self.start), axis=(1, 2))

    def block(self, queries, keys):
        """Returns the mask of a block, given the indices of its queries (Tc,) and of its keys (Sc,)."""
        return conjunction([*(cut(mask, queries, keys) for mask in self.masks), self._by_position(queries, keys)])

    def key_range(self, first_query, end_query, num_keys):
        """Returns the range (first, end) of the keys that positions allow for queries in [first_query, end_query)."""
        first, end = 0, num_keys
        if self.causal:
            end = ops.minimum(end, end_query + self.start)
        if self.window is not None:
            first = ops.maximum(first, first_query + self.start - self.window + 1)
            end = ops.minimum(end, end_query + self.start + self.window - 1)
        return first, end

    def _by_position(self, queries, keys):
        """The causal and window mask (1, 1, T, S) for queries (T,) and keys (S,), or None."""
        if not self.causal and self.window is None:
            return None
        distance = (queries + self.start)[:, None] - keys[None, :]  # (T, S)
        rules = [distance >= 0] if self.causal else []
        if self.window is not None:
            rules.append(ops.abs(distance) < self.window)
        return conjunction(rules)[None, None]  # (1, 1, T, S)


def cut(mask, queries, keys):
    """Returns the block of a mask (B, H, T, S), any of which may be 1, for queries (Tc,) and keys (Sc,)."""
    start, shape = [0, 0, 0, 0], list(ops.shape(mask))
    for axis, indices in ((2, queries), (3, keys)):
        if mask.shape[axis] != 1:
            start[axis], shape[axis] = indices[0], indices.shape[0]
    return ops.slice(mask, start, shape)


def conjunction(masks):
    """Combines masks by "and"; None means a mask of only True."""
    allowed = None
    for mask in masks:
        if mask is not None:
            allowed = mask if allowed is None else ops.logical_and(allowed, mask)
    return allowed


def four_axes(query_mask=None, value_mask=None, key_mask=None, attention_mask=None):
    """Returns the masks (B, T), (B, S), (B, S), (B, T, S) that are not None, with the axes (B, H, T, S)."""
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


class Blocks:
    """Start, mask and dropout of each block.

    All chunks have the same length. The last chunk overlaps its neighbour and masks the overlap.

    Args:
        query, key: tensors (B, H, T, K), (B, Hkv, S, K).
        numbers_per_pair: int > 0. Number of values that the score computes for one pair in one head.
        pairs: `AllowedPairs`.
        dropout: None, or the pair of dropout rate and seed.
    """

    def __init__(self, query, key, numbers_per_pair, pairs, dropout=None):
        self.batch, self.heads, self.num_queries, _ = ops.shape(query)
        self.num_keys = ops.shape(key)[2]
        self.pairs = pairs
        self.dropout = dropout
        numbers = numbers_per_pair * self.heads * (self.batch if isinstance(self.batch, int) else 1)
        length = LONGEST_CHUNK
        while length > SHORTEST_CHUNK and numbers * length**2 > MOST_IN_A_BLOCK:
            length //= 2
        self.query_length, self.key_length = min(length, self.num_queries), min(length, self.num_keys)
        self.num_query_chunks = -(-self.num_queries // self.query_length)

    def query_start(self, i):
        return ops.minimum(i * self.query_length, self.num_queries - self.query_length)

    def key_start(self, j):
        return ops.minimum(j * self.key_length, self.num_keys - self.key_length)

    def key_chunks(self, i):
        """Returns the range (first, end) of the chunks of keys that positions allow for queries of chunk i."""
        start = self.query_start(i)
        first, last = self.pairs.key_range(start, start + self.query_length, self.num_keys)
        return first // self.key_length, -(-last // self.key_length)

    def allowed(self, i, j, each_query_once=False):
        """Returns the mask of the block: bool, broadcasts to (B, H, Tc, Sc), or None if all pairs are allowed.

        Keys in the overlap with chunk j - 1 are masked; with `each_query_once`, also queries in the overlap with i - 1.
        """
        queries, keys = self._queries(i), self._keys(j)
        masks = [self.pairs.block(queries, keys)]
        if self.num_keys % self.key_length:
            masks.append((keys >= j * self.key_length)[None, None, None, :])  # (1, 1, 1, Sc)
        if each_query_once and self.num_queries % self.query_length:
            masks.append((queries >= i * self.query_length)[None, None, :, None])  # (1, 1, Tc, 1)
        return conjunction(masks)

    def kept(self, i, j, dtype):
        """Returns the dropout factor (B, H, Tc, Sc). Each pair has the same factor as in `Dropout` with this seed."""
        rate, seed = self.dropout
        row = ops.reshape(ops.arange(self.batch * self.heads), (self.batch, self.heads, 1, 1))
        row, queries, keys = (ops.cast(x, "uint32") for x in (row, self._queries(i)[:, None], self._keys(j)))
        positions = (row * self.num_queries + queries) * self.num_keys + keys  # (B, H, Tc, Sc), modulo 2^32
        kept = bits_at(seed, positions) >= ops.cast(int(rate * 2**32), "uint32")
        return ops.cast(kept, dtype) / (1 - rate)

    def _queries(self, i):
        return self.query_start(i) + ops.arange(self.query_length)  # (Tc,)

    def _keys(self, j):
        return self.key_start(j) + ops.arange(self.key_length)  # (Sc,)


def read_chunk(inputs, start, length):
    """Returns a slice of `length` elements along axis 2 of (B, H, T, ...)."""
    shape = ops.shape(inputs)
    return ops.slice(inputs, (0, 0, start, *[0] * (len(shape) - 3)), (*shape[:2], length, *shape[3:]))


def write_chunk(inputs, start, update):
    """Returns (B, H, T, ...) with the slice from `start` along axis 2 replaced by `update`."""
    return ops.slice_update(inputs, (0, 0, start, *[0] * (len(inputs.shape) - 3)), update)


def add_to_chunk(inputs, start, update):
    """Returns (B, H, T, ...) with `update` added to the slice from `start` along axis 2."""
    return write_chunk(inputs, start, read_chunk(inputs, start, ops.shape(update)[2]) + update)
