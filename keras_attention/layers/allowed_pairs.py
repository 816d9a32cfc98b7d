"""Which query may attend to which key."""

from keras import ops

from keras_attention.layers.masks import check_attention_mask


class AllowedPairs:
    """The pairs of query and key that all rules allow, written down only for the block of pairs asked for.

    Args:
        masks: bool tensors with four axes that broadcast to (B, H, T, S). True means "may be attended to".
        causal: bool. Whether a query sees only the keys up to its own position.
        window: int > 0, tokens, or None. If set, a query sees only the keys less than `window` positions away.
        start: int or scalar int tensor. The position of the first query; the first key stands at position 0.
    """

    def __init__(self, masks=(), causal=False, window=None, start=0):
        self.masks = tuple(masks)
        self.causal = causal
        self.window = window
        self.start = start

    def all(self, num_queries, num_keys):
        """Returns the mask of all pairs: bool, broadcasts to (B, H, T, S), or None where every pair is allowed."""
        return conjunction([*self.masks, self._by_position(ops.arange(num_queries), ops.arange(num_keys))])

    def used(self, num_queries, num_keys, roughly=False):
        """Returns the queries (B, T) and the keys (B, S) that belong to an allowed pair: bool, or None where all do.

        With `roughly` it looks at each mask by itself instead of at all pairs, and may count too many as used.
        """
        lengths_known = isinstance(num_queries, int) and isinstance(num_keys, int)
        if not self.masks and (roughly or (lengths_known and num_queries == num_keys)):
            return None, None
        masks = self.masks if roughly else [self.all(num_queries, num_keys)]
        queries = conjunction(None if mask is None else ops.any(mask, axis=(1, 3)) for mask in masks)
        keys = conjunction(None if mask is None else ops.any(mask, axis=(1, 2)) for mask in masks)
        return queries, keys

    def used_new(self, num_queries):
        """Returns the keys (B, T) at the queries' own positions that one of them may see, or None for all."""
        if not self.masks:  # by position a query sees at least itself
            return None
        queries = ops.arange(num_queries)
        return ops.any(self.block(queries, queries + self.start), axis=(1, 2))

    def block(self, queries, keys):
        """Returns the mask of the pairs of neighbouring queries (Tc,) and neighbouring keys (Sc,), given by index."""
        return conjunction([*(cut(mask, queries, keys) for mask in self.masks), self._by_position(queries, keys)])

    def key_range(self, first_query, end_query, num_keys):
        """Returns first and end (one past the last) of the keys that position lets the queries of such a range see."""
        first, end = 0, num_keys
        if self.causal:
            end = ops.minimum(end, end_query + self.start)
        if self.window is not None:
            first = ops.maximum(first, first_query + self.start - self.window + 1)
            end = ops.minimum(end, end_query + self.start + self.window - 1)
        return first, end

    def _by_position(self, queries, keys):
        """The mask (1, 1, T, S) that positions alone decide, for queries (T,) and keys (S,), or None."""
        if not self.causal and self.window is None:
            return None
        distance = (queries + self.start)[:, None] - keys[None, :]  # (T, S)
        rules = [distance >= 0] if self.causal else []
        if self.window is not None:
            rules.append(ops.abs(distance) < self.window)
        return conjunction(rules)[None, None]  # (1, 1, T, S)


def cut(mask, queries, keys):
    """Returns the part of a mask (B, H, T, S), any of which may be 1, for neighbouring queries (Tc,) and keys (Sc,)."""
    start, shape = [0, 0, 0, 0], list(ops.shape(mask))
    for axis, indices in ((2, queries), (3, keys)):
        if mask.shape[axis] != 1:
            start[axis], shape[axis] = indices[0], indices.shape[0]
    return ops.slice(mask, start, shape)


def conjunction(masks):
    """Returns what all masks allow, None standing for a mask of only True."""
    allowed = None
    for mask in masks:
        if mask is not None:
            allowed = mask if allowed is None else ops.logical_and(allowed, mask)
    return allowed


def four_axes(query_mask=None, value_mask=None, key_mask=None, attention_mask=None):
    """Returns those masks (B, T), (B, S), (B, S), (B, T, S) that are not None, with the axes (B, H, T, S)."""
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
