"""Chooses the few shapes that batches may have, so that little of them is padding."""

import numpy as np


def choose_buckets(source_lengths, target_lengths, num_buckets):
    """Finds the bucket shapes with the least padding.

    Pairs are ordered by their longer side and cut into runs, each padded to its longest source and target. The cuts
    are the best ones (dynamic programming over the different lengths, not over the pairs), so the answer depends on
    the lengths alone and not on their order.

    Args:
        source_lengths, target_lengths: integer arrays (N,), N > 0, tokens including END.
        num_buckets: int > 0, the most shapes.

    Returns:
        List of (source length S, target length T), none of them smaller in S or T than the one before.

    Raises:
        ValueError: if `num_buckets` is not positive or there is no pair.
    """
    if num_buckets < 1:
        raise ValueError(f"`num_buckets` must be positive. Received: num_buckets={num_buckets}")
    if len(source_lengths) == 0:
        raise ValueError("`source_lengths` must not be empty.")
    longer = np.maximum(source_lengths, target_lengths)
    sizes, group = np.unique(longer, return_inverse=True)
    longest_source = _running_maximum(group, source_lengths, len(sizes))
    longest_target = _running_maximum(group, target_lengths, len(sizes))
    pairs_before = np.concatenate([[0], np.cumsum(np.bincount(group))])
    padded_length = longest_source + longest_target

    # cost[j] = tokens of the first j groups in the best buckets so far; start[b][j] = where the last bucket began.
    cost = np.where(np.arange(len(sizes) + 1) == 0, 0.0, np.inf)
    starts = []
    for _ in range(min(num_buckets, len(sizes))):
        in_bucket = pairs_before[None, 1:] - pairs_before[:-1, None]  # (start, end)
        candidates = cost[:-1, None] + in_bucket * padded_length[None, :]  # (start, end)
        candidates[np.tril_indices(len(sizes), k=-1)] = np.inf
        starts.append(candidates.argmin(axis=0))
        cost = np.concatenate([[np.inf], candidates.min(axis=0)])

    shapes, end = [], len(sizes)
    for start in reversed(starts):
        shapes.append((int(longest_source[end - 1]), int(longest_target[end - 1])))
        end = int(start[end - 1])
    return shapes[::-1]


def assign_buckets(source_lengths, target_lengths, shapes):
    """Returns int64 (N,), the number of the first bucket of `shapes` that each pair fits into."""
    sources, targets = np.array(shapes).T
    return np.maximum(np.searchsorted(sources, source_lengths), np.searchsorted(targets, target_lengths))


def _running_maximum(group, lengths, num_groups):
    """Returns (num_groups,), the greatest length of each group and all groups before it."""
    greatest = np.zeros(num_groups, dtype=np.int64)
    np.maximum.at(greatest, group, lengths)
    return np.maximum.accumulate(greatest)
