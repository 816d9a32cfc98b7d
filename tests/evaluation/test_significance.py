"""A difference between two classifiers: more than chance, or not."""

import numpy as np
import pytest
from scipy.stats import binom

from keras_attention.data.tables.label_task import Task
from keras_attention.evaluation.classification_scores import compare, predictions

CLASSES = Task("multiclass", ("a", "b", "c"), None, "")
NUMBERS = Task("regression", (), None, "")


def answers(chosen):
    return predictions(9 * np.eye(3)[chosen], CLASSES)


def test_the_exact_test_of_mcnemar():
    targets = np.arange(60) % 3
    first, second = targets.copy(), targets.copy()
    first[:9] += 1  # wrong in 9 rows, of which the second has 7 right, and is itself wrong in 2 others
    second[[0, 1, 20, 21]] += 1
    comparison = compare(targets, answers(first % 3), answers(second % 3), CLASSES)
    assert comparison.p_value == pytest.approx(2 * binom.cdf(2, 9, 0.5))
    assert comparison.difference == pytest.approx(100 * 5 / 60)
    assert "second beside first: accuracy +8.33, p = 0.180 (exact McNemar test): chance" in comparison.text(
        "first", "second"
    )


def test_equal_answers():
    assert compare(np.zeros(5, int), answers([0, 1, 0, 1, 2]), answers([0, 1, 0, 1, 2]), CLASSES).p_value == 1.0


@pytest.mark.slow
def test_numbers_by_the_bootstrap():
    random = np.random.default_rng(3)
    targets = random.normal(size=101)
    good, bad = (targets[:, None] + noise * random.normal(size=(101, 1)) for noise in (0.1, 2.0))
    predicted = compare(targets, predictions(bad, NUMBERS), predictions(good, NUMBERS), NUMBERS)
    assert predicted.p_value < 0.01 < 0.05 < predicted.difference
    same = compare(targets, predictions(bad, NUMBERS), predictions(bad + 1e-9, NUMBERS), NUMBERS)
    assert same.p_value > 0.2
