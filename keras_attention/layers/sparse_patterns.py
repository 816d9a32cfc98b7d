"""Sparse attention: patterns of positions that a query may attend to (Child et al. 2019, Zaheer et al. 2020).

A pattern is written as a string: its kind, and the sizes that differ from the defaults, such as "window:width=256",
"strided:stride=28,part=2", "fixed", or "bigbird:block=64,random=2". Lengths and positions are in tokens. Causal
attention also masks later positions.
"""

import dataclasses
import functools

import numpy as np
from keras import ops


def size(default, lowest, highest):
    """A size of a pattern: int from `lowest` to `highest`; `at_layer` replaces a default of None."""
    return dataclasses.field(default=default, metadata={"bounds": (lowest, highest)})


class Pattern:
    """Base class: decides which pairs of positions are allowed, and which blocks may contain an allowed pair.

    Raises:
        ValueError: if a size is out of range.
    """

    every_query_sees_itself = True

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value, (lowest, highest) = getattr(self, field.name), field.metadata["bounds"]
            if value is None and field.default is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
                raise ValueError(
                    f"`{field.name}` of the attention pattern {self.kind} must be an integer from {lowest} to "
                    f"{highest}. Received: {field.name}={value}"
                )

    def __str__(self):
        sizes = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return f"{self.kind}:" + ",".join(f"{name}={value}" for name, value in sizes.items() if value is not None)

    @property
    def kind(self):
        return type(self).__name__.lower()

    def at_layer(self, index, max_length):
        """Returns the pattern of layer `index` (int >= 0) in a model for up to `max_length` tokens."""
        return self

    def allows(self, query, key, causal):
        """Whether pairs of positions, int tensors that broadcast, are allowed; does not mask later keys."""
        raise NotImplementedError

    def query_order(self, positions):
        """Returns numbers by which to sort the queries, so that few blocks have allowed pairs; None: no sorting."""
        return None

    def key_order(self, positions):
        """Like `query_order`, for keys."""
        return None

    def touches(self, queries, keys, causal):
        """Which blocks may hold an allowed pair: bool (M, N), for positions (M, Tc) and (N, Sc) of chunks (NumPy)."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Window(Pattern):
    """|i - j| < width (Beltagy et al. 2020, section 3.1, https://arxiv.org/abs/2004.05150)."""

    width: int = size(256, 1, 2**20)

    def allows(self, query, key, causal):
        return ops.abs(query - key) < self.width

    def touches(self, queries, keys, causal):
        return near(queries, keys, self.width - 1)


@dataclasses.dataclass(frozen=True)
class Strided(Pattern):
    """Part 1: |i - j| <= stride; part 2: i - j is a multiple of stride. Layers alternate between the parts.

    Source: Child et al. (2019), section 4.3, https://arxiv.org/abs/1904.10509. Difference: also without a causal mask.
    """

    stride: int = size(128, 1, 2**20)
    part: int | None = size(None, 1, 2)

    def at_layer(self, index, max_length):
        return dataclasses.replace(self, part=self.part or 1 + index % 2)

    def allows(self, query, key, causal):
        distance = query - key
        return ops.abs(distance) <= self.stride if self.part == 1 else ops.equal(distance % self.stride, 0)

    def query_order(self, positions):
        return positions % self.stride if self.part == 2 else None

    key_order = query_order

    def touches(self, queries, keys, causal):
        if self.part == 1:
            return near(queries, keys, self.stride)
        return near(queries % self.stride, keys % self.stride, 0)


@dataclasses.dataclass(frozen=True)
class Fixed(Pattern):
    """Part 1: i and j in one segment of `stride` tokens; part 2: j among the last `summary` tokens (c) of a segment.

    Layers alternate between the parts. In causal attention, part 2 leaves the first tokens of a text without any key.

    Source: Child et al. (2019), section 4.3, https://arxiv.org/abs/1904.10509. Difference: also without a causal mask.
    """

    stride: int = size(128, 1, 2**20)
    summary: int = size(8, 1, 2**20)
    part: int | None = size(None, 1, 2)

    @property
    def every_query_sees_itself(self):
        return self.part == 1

    def at_layer(self, index, max_length):
        return dataclasses.replace(self, part=self.part or 1 + index % 2)

    def allows(self, query, key, causal):
        if self.part == 1:
            return ops.equal(query // self.stride, key // self.stride)
        return (query >= 0) & self._is_summary(key)

    def key_order(self, positions):
        return ~self._is_summary(positions) if self.part == 2 else None

    def touches(self, queries, keys, causal):
        if self.part == 1:
            return near(queries // self.stride, keys // self.stride, 0)
        return np.broadcast_to(self._is_summary(keys).any(axis=1), (len(queries), len(keys)))

    def _is_summary(self, positions):
        return positions % self.stride >= self.stride - self.summary


@dataclasses.dataclass(frozen=True)
class BigBird(Pattern):
    """Attention between blocks of `block` tokens: neighbours, the first blocks of a text, and random blocks.

    A block attends to the `window` blocks around it, itself in the middle. The first `globals` blocks attend to all
    blocks, and all blocks attend to them. Each other block also attends to `random` blocks, drawn from a text of
    `length` tokens or, in causal attention, from the blocks before it. The draw depends on the seed, but not on the
    length or padding of a text. Each layer of a model draws other random blocks.

    Source: Zaheer et al. (2020), section 2 and appendix D, https://arxiv.org/abs/2007.14062, without additional tokens
    (BigBird-ITC). Differences: the authors' code makes the first and the last block global, and draws random blocks for
    each head. The causal form is not in the paper.
    """

    block: int = size(64, 1, 2**20)
    window: int = size(3, 1, 2**10 - 1)
    globals: int = size(2, 0, 2**10)
    random: int = size(3, 0, 2**6)
    seed: int = size(0, 0, 2**31 - 1)
    length: int | None = size(None, 1, 2**20)

    def __post_init__(self):
        super().__post_init__()
        if self.window % 2 == 0:
            raise ValueError(f"`window` of the attention pattern bigbird must be odd. Received: window={self.window}")

    def at_layer(self, index, max_length):
        return dataclasses.replace(self, seed=(self.seed + index) % 2**31, length=self.length or max_length)

    def random_blocks(self, causal):
        """The random blocks of each block: int32 (N, `random`), filled up with -1."""
        num_blocks = -(-(self.length or 1) // self.block)
        return _random_blocks(num_blocks, self.window // 2, self.globals, self.random, self.seed, causal)

    def allows(self, query, key, causal):
        query, key = query // self.block, key // self.block
        allowed = (ops.abs(query - key) <= self.window // 2) | (query < self.globals) | (key < self.globals)
        blocks = self.random_blocks(causal)
        blocks = np.concatenate([blocks, np.full((1, self.random), -1, "int32")])
        query = ops.clip(query, 0, len(blocks) - 1)
        for column in blocks.T:
            allowed = allowed | ops.equal(ops.take(column, query), key)
        return allowed

    def touches(self, queries, keys, causal):
        queries, keys = queries // self.block, keys // self.block
        touched = near(queries, keys, self.window // 2)
        touched |= (queries.min(axis=1) < self.globals)[:, None] | (keys.min(axis=1) < self.globals)
        blocks = self.random_blocks(causal)
        chosen = np.zeros((len(queries), keys.max() + 2), bool)  # the last column: no block
        for row, first, last in zip(chosen, queries.min(axis=1), queries.max(axis=1), strict=True):
            places = blocks[first : last + 1].ravel()
            row[np.where(places <= keys.max(), places, -1)] = True
        before = np.pad(np.cumsum(chosen[:, :-1], axis=1), ((0, 0), (1, 0)))
        return touched | (before[:, keys.max(axis=1) + 1] > before[:, keys.min(axis=1)])


PATTERNS = {"window": Window, "strided": Strided, "fixed": Fixed, "bigbird": BigBird}


def near(queries, keys, distance):
    """Whether the ranges of chunks (M, Tc) and (N, Sc) overlap or are at most `distance` apart: bool (M, N)."""
    low, high = queries.min(axis=1)[:, None] - distance, queries.max(axis=1)[:, None] + distance
    return (keys.max(axis=1) >= low) & (keys.min(axis=1) <= high)  # (M, N)


@functools.lru_cache(maxsize=128)
def _random_blocks(num_blocks, radius, num_global, num_random, seed, causal):
    blocks = np.full((num_blocks, num_random), -1, "int32")
    for i in range(num_global, num_blocks):
        others = np.arange(num_global, max(i - radius, num_global) if causal else num_blocks)
        others = others[np.abs(others - i) > radius]
        # Raw bits, because NumPy guarantees that their stream never changes.
        drawn = others[np.argsort(np.random.PCG64([seed, i]).random_raw(num_blocks)[: len(others)])][:num_random]
        blocks[i, : len(drawn)] = drawn
    return blocks


def parse_pattern(text):
    """Parses a string such as "bigbird:block=64,random=2" into a Pattern; None and "" give None.

    Raises:
        ValueError: if there is no such kind, or a size is unknown or out of range.
    """
    if not text:
        return None
    kind, _, sizes = str(text).partition(":")
    if kind not in PATTERNS:
        raise ValueError(f"`attention_pattern` must be one of {', '.join(PATTERNS)}. Received: {text}")
    known, given = [field.name for field in dataclasses.fields(PATTERNS[kind])], {}
    for part in filter(None, sizes.split(",")):
        name, _, number = part.partition("=")
        if name not in known or not number.isdecimal() or name in given:
            raise ValueError(
                f"`attention_pattern={kind}` has the integer sizes {', '.join(known)}, as in {kind}:{known[0]}=64. "
                f"Received: {text}"
            )
        given[name] = int(number)
    return PATTERNS[kind](**given)


def pattern_of_layer(text, index, max_length):
    """Returns the pattern of layer `index` as a string, in a model for up to `max_length` tokens; None stays None."""
    return str(parse_pattern(text).at_layer(index, max_length)) if text else None


def pattern_of_attention(text, sliding_window=None):
    """Returns the Pattern of one attention layer, or None.

    Raises:
        ValueError: if both arguments are given, or the pattern lacks a size that models set for each layer.
    """
    pattern = parse_pattern(text)
    if sliding_window is not None:
        if pattern is not None:
            raise ValueError(
                "`sliding_window` and `attention_pattern` exclude each other. "
                f"Received: sliding_window={sliding_window}, attention_pattern={text}"
            )
        return Window(sliding_window)
    for name, why in (("part", "1 or 2, which layers alternate"), ("length", "tokens, for the random blocks")):
        if getattr(pattern, name, 1) is None and getattr(pattern, "random", 1):
            raise ValueError(
                f"`attention_pattern={pattern.kind}` of one layer needs `{name}` ({why}). Received: {text}"
            )
    return pattern
