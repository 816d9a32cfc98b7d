"""Batches of sentences of like length."""

import random

from keras_attention.zoo.lengths import BATCH_SIZES, batches


def test_a_batch_holds_neighbours_in_length():
    draw = random.Random(3)
    lengths = [draw.randrange(1, 54) for _ in range(211)]
    found = list(batches(lengths, longest=53))
    assert sorted(position for positions, _, _ in found for position in positions) == list(range(211))
    for (before, _, padded), (after, _, next_padded) in zip(found, found[1:], strict=False):
        if padded == next_padded:
            assert max(lengths[i] for i in before) <= min(lengths[i] for i in after)
            assert len(before) == BATCH_SIZES[-1]
