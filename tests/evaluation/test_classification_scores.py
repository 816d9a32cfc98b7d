"""Scores and reports against counting by hand."""

import numpy as np
import pytest

from keras_attention.data.tables.label_task import Task
from keras_attention.evaluation import classification_scores as measures

CLASSES = Task("multiclass", ("a", "b", "c"), None, "")
SEVERAL = Task("multilabel", ("x", "y"), ",", "")
NUMBERS = Task("regression", (), None, "")
TARGETS = np.array([0, 0, 1, 1, 2, 0])
LOGITS = np.array([[3, 0, 0], [0, 1, 0], [0, 2, 0], [0, 0, 5], [0, 0, 1], [2, 1, 0]], "float32")


def test_classes():
    predicted = measures.predictions(LOGITS, CLASSES)
    assert predicted.chosen.tolist() == [0, 1, 1, 2, 2, 0]
    np.testing.assert_allclose(predicted.values.sum(axis=1), 1)
    scores = measures.scores(TARGETS, predicted, CLASSES)
    f1 = {"a": 2 * 2 / (2 + 3), "b": 2 * 1 / (2 + 2), "c": 2 * 1 / (2 + 1)}  # 2 hits / (given + true)
    assert scores["accuracy"] == pytest.approx(100 * 4 / 6)
    assert scores["macro-F1"] == pytest.approx(100 * sum(f1.values()) / 3)
    assert next(iter(scores)) == "accuracy"
    rows = measures.per_class(TARGETS, predicted, CLASSES)
    assert [row[0] for row in rows] == ["a", "b", "c"]
    assert rows[0][1:3] == pytest.approx([100.0, 200 / 3])
    assert [row[3] for row in rows] == pytest.approx([100 * value for value in f1.values()])
    assert [row[4] for row in rows] == [3, 2, 1]


def test_worst_mistakes_come_first_and_nothing_right_is_among_them():
    predicted = measures.predictions(LOGITS, CLASSES)
    worst = measures.worst_mistakes(TARGETS, predicted, CLASSES)
    assert [row for row, _ in worst] == [3, 1]
    assert worst[0][1] == pytest.approx(1 - 1 / (2 + np.exp(5)))
    assert measures.worst_mistakes(TARGETS, predicted, CLASSES, count=1) == worst[:1]


def test_several_labels_and_their_threshold():
    targets = np.array([[1, 0], [1, 1], [0, 0], [0, 1]], "float32")
    logits = np.array([[-0.5, -3.0], [2.0, -0.6], [-3.0, -2.0], [-2.0, 1.0]])
    scores = measures.scores(targets, measures.predictions(logits, SEVERAL), SEVERAL)
    assert scores["macro-F1"] == pytest.approx(100 * 2 * 1 / 3)  # either label: 1 of 2 found, none wrong
    assert scores["exact match"] == pytest.approx(100 * 2 / 4)
    predicted = measures.predictions(logits, SEVERAL)
    assert [row for row, _ in measures.worst_mistakes(targets, predicted, SEVERAL)] == [1, 0]


def test_each_label_has_a_threshold_of_its_own():
    names = Task("multilabel", ("often", "seldom", "never"), ",", "")
    generator = np.random.default_rng(7)
    targets = (generator.random((400, 3)) < [0.5, 0.02, 0.0]).astype("float32")
    middle = np.array([0.0, -3.0, 0.0])  # the logit between yes and no
    logits = middle + np.where(targets, 1.0, -1.0) * generator.uniform(0.5, 3, (400, 3))
    probabilities = measures.predictions(logits, names).values
    thresholds = measures.best_thresholds(targets, probabilities)
    often, seldom, never = thresholds
    assert 0.38 < often < 0.63
    assert 0.03 < seldom < often
    alike = [measures.scores(targets, measures.predictions(logits, names, each), names) for each in measures.CANDIDATES]
    best = max(score["macro-F1"] for score in alike)
    for_all = [each for each, score in zip(measures.CANDIDATES, alike, strict=True) if score["macro-F1"] == best]
    assert min(for_all) - 1e-4 <= never <= max(for_all) + 1e-4  # the threshold that is best for all labels together
    chosen = measures.predictions(logits, names, thresholds).chosen
    np.testing.assert_array_equal(chosen, probabilities >= np.array(thresholds))
    assert measures.per_class(targets, measures.predictions(logits, names, thresholds), names)[0][3] == 100
    assert len(measures.best_thresholds(targets[:1], probabilities[:1])) == 3


def test_numbers():
    targets, actual = np.array([1.0, 2.0, 4.0]), np.array([[1.5], [2.5], [4.5]])
    scores = measures.scores(targets, measures.predictions(actual, NUMBERS), NUMBERS)
    assert scores == pytest.approx({"Pearson": 100, "Spearman": 100, "squared error": 0.25})
    constant = measures.scores(targets, measures.predictions(np.ones((3, 1)), NUMBERS), NUMBERS)
    assert constant["Pearson"] == 0
    assert measures.per_class(targets, measures.predictions(actual, NUMBERS), NUMBERS) == []
    assert measures.worst_mistakes(targets, measures.predictions(actual, NUMBERS), NUMBERS, 1) == [(0, 0.5)]
