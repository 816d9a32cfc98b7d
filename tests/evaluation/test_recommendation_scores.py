"""The area under the ROC curve, and the biases of items and users."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from keras_attention.evaluation.recommendation_scores import auc, fit_biases


@pytest.mark.parametrize("decimals", [1, 7])
def test_auc_equals_pairs_and_scikit_learn(decimals):
    random = np.random.default_rng(3)
    liked, scores = random.random(53) < 0.4, np.round(random.random(53), decimals)  # with one decimal, many are equal
    pairs = [(a > b) + (a == b) / 2 for a in scores[liked] for b in scores[~liked]]
    assert auc(liked, scores) == pytest.approx(np.mean(pairs))
    assert auc(liked, scores) == pytest.approx(roc_auc_score(liked, scores))


def test_auc_needs_both_kinds():
    with pytest.raises(ValueError, match="3 of them True"):
        auc([True] * 3, [0.1, 0.2, 0.3])


def test_biases_solve_their_equations():
    random = np.random.default_rng(5)
    items, users, liked = random.integers(43, size=701), random.integers(31, size=701), random.random(701) < 0.3
    excess = liked - liked.mean()
    biases = fit_biases(items, users, liked, 43, 31)
    for user in (0, 17):
        rows = users == user
        assert biases.of_users[user] == pytest.approx((excess - biases.of_items[items])[rows].sum() / (rows.sum() + 5))
    means = fit_biases(items, users, liked, 43, 0)
    rows = items == 7
    assert means.of_items[7] == pytest.approx(excess[rows].sum() / (rows.sum() + 5))
    assert means.of_users.shape == (0,)
