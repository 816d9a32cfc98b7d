"""Batches of sentences of like length."""

import random

import pytest

from keras_attention.runtime.buckets import batches, source_bucket


def test_a_batch_holds_neighbours_in_length():
    draw = random.Random(3)
    lengths = [draw.randrange(1, 54) for _ in range(211)]
    batches_made = list(batches(lengths, longest=53))
    assert sorted(position for positions, _, _ in batches_made for position in positions) == list(range(211))
    for (before, _, _), (after, _, _) in zip(batches_made, batches_made[1:], strict=False):
        assert max(lengths[i] for i in after) <= min(lengths[i] for i in before)


def test_shorter_sources_fill_a_batch_before_a_new_one_begins():
    lengths = 19 * [20] + 45 * [9] + [40]
    batches_made = [(len(positions), size, padded) for positions, size, padded in batches(lengths, longest=53)]
    assert batches_made == [(1, 1, 53), (32, 32, 32), (32, 32, 16)]


@pytest.mark.parametrize(("length", "padded"), [(1, 16), (17, 32), (4096, 4096), (4097, 8192), (9001, 9973)])
def test_a_length_is_padded_to_a_power_of_two_or_the_limit(length, padded):
    assert source_bucket(length, 9973) == padded
