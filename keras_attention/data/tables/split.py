"""Splits off rows for validation."""

import numpy as np

from keras_attention.errors import UserError


def split_validation(labels_or_targets, share, seed, texts=None):
    """Chooses the rows for training and for validation; the same arguments give the same rows.

    Rows with the same text stay together, so that no validation text was seen in training. The split is stratified:
    about the same share of each label goes to validation, and at least one row to each side if the label has two
    different texts. A text with several labels counts for the rarest of them; a label with mostly such texts may be
    missing on one side.

    Args:
        labels_or_targets: (N,) labels as int or str, or float targets, (N,) or (N, labels), which are not balanced.
        share: float in (0, 1), share of the rows for validation.
        seed: int >= 0.
        texts: list of N hashables (str, or pairs of str), or None if no two rows are the same.

    Returns:
        (training rows, validation rows): sorted, non-empty int64 arrays.

    Raises:
        UserError: if `share` is out of range or there are not two different texts.
    """
    if not 0 < share < 1:
        raise UserError(f"The share of the rows for validation must be between 0 and 1. Received: {share}")
    targets = np.asarray(labels_or_targets)
    if texts is not None and len(texts) != len(targets):
        raise ValueError(f"Expected one text for each label. Received: {len(texts)} texts and {len(targets)} labels")
    groups = _group_numbers(range(len(targets)) if texts is None else texts)
    sizes = np.bincount(groups)
    if len(sizes) < 2:
        raise UserError(f"Validation needs rows with 2 different texts. Found: {len(sizes)}.")
    strata = _strata(targets, groups, len(sizes))
    random = np.random.default_rng(seed)
    in_validation = np.zeros(len(sizes), dtype=bool)
    for stratum in range(strata.max() + 1):
        members = random.permutation(np.flatnonzero(strata == stratum))
        in_validation[_choose(members, sizes, share)] = True
    if not in_validation.any():  # Every label has a single text.
        in_validation[_choose(random.permutation(len(sizes)), sizes, share)] = True
    rows = in_validation[groups]
    return np.flatnonzero(~rows), np.flatnonzero(rows)


def _group_numbers(texts):
    """Returns int64 (N,): rows with the same text have the same number."""
    numbers = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)


def _strata(targets, groups, num_groups):
    """Returns int64 (groups,), the index of each group's label; the rarest one if there are several."""
    if targets.ndim != 1 or targets.dtype.kind == "f":
        return np.zeros(num_groups, dtype=np.int64)
    _, label, counts = np.unique(targets, return_inverse=True, return_counts=True)
    strata = np.empty(num_groups, dtype=np.int64)
    by_count = np.argsort(-counts[label], kind="stable")  # The rarest comes last, and stays.
    strata[groups[by_count]] = label[by_count]
    return strata


def _choose(members, sizes, share):
    """Returns the first groups, in the given order, that fill the share of the rows; never all groups."""
    if len(members) < 2:
        return members[:0]
    num_rows = sizes[members].sum()
    wanted = min(max(1, round(share * num_rows)), num_rows - 1)
    chosen, taken = [], 0
    for member in members:
        if taken + sizes[member] <= wanted:
            chosen.append(member)
            taken += sizes[member]
    return chosen or [members[np.argmin(sizes[members])]]
