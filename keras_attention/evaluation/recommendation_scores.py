"""Scores of recommendations: the area under the ROC curve, and that of simple models."""

from typing import NamedTuple

import numpy as np


def auc(liked: np.ndarray, scores: np.ndarray) -> float:
    """The probability that a liked item has a higher score than another one; ties count half.

    Args:
        liked: bool array (N,), neither all True nor all False.
        scores: float array (N,).

    Returns:
        float in [0, 1].

    Raises:
        ValueError: if all or none are liked.

    Source: Hanley & McNeil (1982), https://doi.org/10.1148/radiology.143.1.7063747.
    """
    liked = np.asarray(liked, bool)
    if liked.all() or not liked.any():
        raise ValueError(
            f"`liked` must have both values. Received: {len(liked)} values, {int(liked.sum())} of them True"
        )
    values, group, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[group]  # from 1; equal scores share their mean rank
    good = int(liked.sum())
    return float((ranks[liked].sum() - good * (good + 1) / 2) / (good * (len(liked) - good)))


class Biases(NamedTuple):
    """Mean tendencies: the score of an answer is `of_items[item] + of_users[user]`.

    Attributes:
        of_items: float array (num_items,).
        of_users: float array (num_users,).
    """

    of_items: np.ndarray
    of_users: np.ndarray


def fit_biases(
    items: np.ndarray, users: np.ndarray, liked: np.ndarray, num_items: int, num_users: int, strength: float = 5.0
) -> Biases:
    """How much more often than the mean an item is liked, and a user likes items.

    Args:
        items: int array (N,), the items that were answered, in [0, num_items).
        users: int array (N,), who answered them, in [0, num_users).
        liked: bool array (N,).
        num_items: int > 0.
        num_users: int >= 0. 0: users have no biases, and `users` is not read.
        strength: float >= 0, imaginary mean answers for each item and user.

    Source: Koren (2008), section 2.1, https://doi.org/10.1145/1401890.1401944, fitted by turns.
    """
    excess = liked - liked.mean()
    users = users if num_users else np.zeros(len(items), int)
    of_items, of_users = np.zeros(num_items), np.zeros(max(1, num_users))
    for _ in range(10 if num_users else 1):
        sums = np.bincount(items, excess - of_users[users], num_items)
        of_items = sums / (np.bincount(items, minlength=num_items) + strength)
        if num_users:
            sums = np.bincount(users, excess - of_items[items], num_users)
            of_users = sums / (np.bincount(users, minlength=num_users) + strength)
    return Biases(of_items, of_users[:num_users])
