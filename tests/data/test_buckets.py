"""The buckets hold every pair and no choice of cuts wastes less."""

from itertools import combinations

import numpy as np
import pytest

from keras_attention.data.batches import assign_buckets, choose_buckets


def lengths(count, seed, longest=23):
    generator = np.random.default_rng(seed)
    return generator.integers(1, longest, size=count), generator.integers(1, longest, size=count)


def padded_tokens(sources, targets, shapes):
    return sum(sum(shapes[bucket]) for bucket in assign_buckets(sources, targets, shapes))


@pytest.mark.parametrize("num_buckets", [1, 2, 3, 5])
def test_no_other_cuts_pad_less(num_buckets):
    sources, targets = lengths(43, seed=num_buckets, longest=11)
    longer = np.maximum(sources, targets)
    sizes = np.unique(longer)

    def shape(size):
        return sources[longer <= size].max(), targets[longer <= size].max()

    best = min(
        padded_tokens(sources, targets, [shape(size) for size in (*cuts, sizes[-1])])
        for cuts in combinations(sizes[:-1], num_buckets - 1)
    )
    assert padded_tokens(sources, targets, choose_buckets(sources, targets, num_buckets)) == best


def test_each_pair_fits_into_the_first_bucket_possible():
    sources, targets = lengths(211, seed=7)
    shapes = choose_buckets(sources, targets, 5)
    assert len(shapes) == 5
    assert shapes == sorted(shapes)
    for source, target, bucket in zip(sources, targets, assign_buckets(sources, targets, shapes), strict=True):
        fitting = [n for n, (s, t) in enumerate(shapes) if source <= s and target <= t]
        assert bucket == fitting[0]


def test_the_order_of_the_pairs_does_not_matter():
    sources, targets = lengths(211, seed=7)
    order = np.random.default_rng(0).permutation(211)
    assert choose_buckets(sources, targets, 5) == choose_buckets(sources[order], targets[order], 5)


def test_no_more_buckets_than_lengths():
    sources, targets = np.array([3, 3, 5, 5]), np.array([2, 1, 2, 2])
    assert choose_buckets(sources, targets, 7) == [(3, 2), (5, 2)]
    assert choose_buckets(sources, targets, 1) == [(5, 2)]


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="num_buckets=0"):
        choose_buckets(np.array([3]), np.array([2]), 0)
    with pytest.raises(ValueError, match="empty"):
        choose_buckets(np.array([], int), np.array([], int), 2)
