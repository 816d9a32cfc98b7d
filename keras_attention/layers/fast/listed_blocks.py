"""The blocks of a sparse pattern: only those with an allowed pair are listed and computed."""

import numpy as np
from keras import ops

from keras_attention.layers.fast import blocks
from keras_attention.layers.fast.blocks import Blocks, add_to_chunk, conjunction, cut, in_order

MOST_CHUNKS_AT_ONCE = 8
COST_OF_A_STEP = 2**14  # in values, beside those that the step computes


def blocks_for(query, key, numbers_per_pair, pairs, dropout):
    """Returns `ListedBlocks` if the pattern of the pairs is known when the graph is traced, else `Blocks`."""
    known = pairs.pattern is not None and isinstance(pairs.start, (int, np.integer))
    return (ListedBlocks if known else Blocks)(query, key, numbers_per_pair, pairs, dropout)


class ListedBlocks(Blocks):
    """Blocks of a pattern. A step reads several chunks of keys, which need not be neighbours.

    Queries and keys are sorted first if the pattern asks for it. The lengths of chunks and the number of chunks of a
    step are those with the fewest values to compute.
    """

    def _choose_chunks(self):
        pattern, causal = self.pairs.pattern, self.pairs.causal
        queries, keys = np.arange(self.num_queries) + int(self.pairs.start), np.arange(self.num_keys)
        self.query_order, self.key_order = order_by(pattern.query_order(queries)), order_by(pattern.key_order(keys))
        queries = queries if self.query_order is None else queries[self.query_order]
        keys = keys if self.key_order is None else keys[self.key_order]
        length, best = blocks.LONGEST_CHUNK, None
        while best is None or length >= blocks.SHORTEST_CHUNK // 2:
            sizes = min(length, self.num_queries), min(length, self.num_keys)
            query_chunks, key_chunks = chunks(queries, sizes[0]), chunks(keys, sizes[1])
            touched = pattern.touches(query_chunks, key_chunks, causal)
            if causal:
                touched = touched & (key_chunks.min(axis=1) <= query_chunks.max(axis=1)[:, None])
            counts = touched.sum(axis=1)
            for at_once in (1, 2, 4, MOST_CHUNKS_AT_ONCE):
                numbers = self.numbers * sizes[0] * sizes[1] * at_once
                cost = (-(-counts // at_once)).sum() * (numbers + COST_OF_A_STEP)
                fits = numbers <= blocks.MOST_IN_A_BLOCK or length <= blocks.SHORTEST_CHUNK and at_once == 1
                if best is None or (fits, -cost) > best[0]:
                    best = (fits, -cost), sizes, touched, at_once
            length //= 2
        _, (self.query_length, self.key_length), touched, at_once = best
        self._list(touched, at_once)
        self.masks = [self._sorted_mask(mask) for mask in self.pairs.masks]

    def _list(self, touched, at_once):
        """Lists the chunks of keys of each step (N, `at_once`), -1 for none, and first steps for chunks of queries."""
        steps, first_steps = [], [0]
        for row in touched:
            found = np.flatnonzero(row)
            steps.append(np.pad(found, (0, -len(found) % at_once), constant_values=-1).reshape(-1, at_once))
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
        """Indices (Sc,) of the keys of step j, in the order of the chunks; for no chunk, those of the first."""
        starts = ops.maximum(self.key_start(ops.take(self.steps, j, axis=0)), 0)
        return ops.reshape(starts[:, None] + ops.arange(self.key_length), (-1,))

    def _allowed_pairs(self, i, j):
        queries, keys = self.query_start(i) + ops.arange(self.query_length), self._key_indices(j)
        chunks = ops.repeat(ops.take(self.steps, j, axis=0), self.key_length)  # (Sc,)
        once = ops.logical_and(chunks >= 0, keys >= chunks * self.key_length)  # not in the overlap
        masks = [self.pairs.by_position(self._queries(i), self._keys(j)), once[None, None, None, :]]
        for mask in self.masks:
            mask = cut(mask, queries, ops.arange(self.num_keys))
            masks.append(mask if mask.shape[3] == 1 else ops.take(mask, keys, axis=3))
        return conjunction(masks)

    def _queries(self, i):
        queries = self.query_start(i) + ops.arange(self.query_length)  # (Tc,)
        return queries if self.query_order is None else ops.take(self.query_order, queries)

    def _keys(self, j):
        keys = self._key_indices(j)
        return keys if self.key_order is None else ops.take(self.key_order, keys)


def order_by(numbers):
    """Returns the indices that sort the numbers, where equal ones keep their order; None stays None."""
    return None if numbers is None else np.argsort(numbers, kind="stable").astype("int32")


def chunks(positions, length):
    """Returns positions (T,) as chunks (M, length), of which the last one overlaps its neighbour."""
    starts = np.minimum(np.arange(0, len(positions), length), len(positions) - length)
    return positions[starts[:, None] + np.arange(length)]
