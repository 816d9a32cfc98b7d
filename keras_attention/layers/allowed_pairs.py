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

    def _by_position(self, queries, keys):
        """The mask (1, 1, T, S) that positions alone decide, for queries (T,) and keys (S,), or None."""
        if not self.causal and self.window is None:
            return None
        distance = (queries + self.start)[:, None] - keys[None, :]  # (T, S)
        rules = [distance >= 0] if self.causal else []
        if self.window is not None:
            rules.append(ops.abs(distance) < self.window)
        return conjunction(rules)[None, None]  # (1, 1, T, S)


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
