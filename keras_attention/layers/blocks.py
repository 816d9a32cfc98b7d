"""The pairs of queries and keys cut into blocks: a chunk of queries by a chunk of keys."""

from keras import ops

from keras_attention.layers.allowed_pairs import conjunction
from keras_attention.layers.dropout import bits_at

# Numbers in the largest tensor of a block, if the shortest chunks allow it.
MOST_IN_A_BLOCK = 2**22
SHORTEST_CHUNK, LONGEST_CHUNK = 128, 1024


class Blocks:
    """Says where each chunk begins, and what holds for the pairs of a block.

    All chunks have the same length: the last one begins early enough, and leaves out what its neighbour has done.

    Args:
        query, key: tensors (B, H, T, K), (B, Hkv, S, K).
        numbers_per_pair: int > 0. How many numbers the score computes for a pair of one head.
        pairs: `AllowedPairs`.
        dropout: None, or the pair of the share of weights dropped and a seed for it.
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
        """Returns the first and one past the last chunk of keys that queries of chunk i may attend to by position."""
        start = self.query_start(i)
        first, last = self.pairs.key_range(start, start + self.query_length, self.num_keys)
        return first // self.key_length, -(-last // self.key_length)

    def allowed(self, i, j, each_query_once=False):
        """Returns the mask of the block: bool, broadcasts to (B, H, Tc, Sc), or None where every pair is allowed.

        With `each_query_once`, queries that chunk i - 1 has too are masked; keys that chunk j - 1 has too always are.
        """
        queries, keys = self._queries(i), self._keys(j)
        masks = [self.pairs.block(queries, keys)]
        if self.num_keys % self.key_length:
            masks.append((keys >= j * self.key_length)[None, None, None, :])  # (1, 1, 1, Sc)
        if each_query_once and self.num_queries % self.query_length:
            masks.append((queries >= i * self.query_length)[None, None, :, None])  # (1, 1, Tc, 1)
        return conjunction(masks)

    def kept(self, i, j, dtype):
        """Returns the factor of dropout (B, H, Tc, Sc): the same for a pair as `Dropout` has with this seed."""
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


def rows(inputs, start, length):
    """Returns `length` rows of axis 2 of (B, H, T, ...)."""
    shape = ops.shape(inputs)
    return ops.slice(inputs, (0, 0, start, *[0] * (len(shape) - 3)), (*shape[:2], length, *shape[3:]))


def set_rows(inputs, start, update):
    """Returns (B, H, T, ...) with other rows from `start` on."""
    return ops.slice_update(inputs, (0, 0, start, *[0] * (len(inputs.shape) - 3)), update)


def add_rows(inputs, start, update):
    """Returns (B, H, T, ...) with `update` added to its rows from `start` on."""
    return set_rows(inputs, start, rows(inputs, start, ops.shape(update)[2]) + update)
