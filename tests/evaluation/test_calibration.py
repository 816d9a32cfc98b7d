"""The temperature that makes probabilities true, and how far they are from it."""

import numpy as np
import pytest

from keras_attention.evaluation.classification_scores import cross_entropy, expected_calibration_error, temperature

N, K = 3001, 5


def true_logits(kind):
    """Logits, and targets drawn from the probabilities that they mean."""
    random = np.random.default_rng(7)
    logits = 2 * random.normal(size=(N, K))
    if kind == "multilabel":
        return logits, (random.random((N, K)) < 1 / (1 + np.exp(-logits))).astype("float32")
    return logits, (logits + random.gumbel(size=(N, K))).argmax(axis=1)


@pytest.mark.parametrize("kind", ["multiclass", "multilabel"])
def test_finds_how_much_too_sure_a_model_is(kind):
    logits, targets = true_logits(kind)
    for factor in (0.5, 1.0, 3.0):
        assert temperature(factor * logits, targets, kind) == pytest.approx(factor, rel=0.05)


def test_few_rows_change_the_temperature_little():
    logits = np.array([[9.0, 0.0], [0.0, 9.0]])
    assert 0.5 < temperature(logits, np.array([0, 1]), "binary") < 1.0  # all right: without the prior it would be 0
    assert 1.0 < temperature(logits, np.array([1, 1]), "binary") < 20.0


@pytest.mark.parametrize("kind", ["multiclass", "multilabel"])
def test_the_error_of_true_and_of_boastful_probabilities(kind):
    logits, targets = true_logits(kind)

    def probabilities(logits):
        if kind == "multilabel":
            return 1 / (1 + np.exp(-logits))
        return np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))

    assert expected_calibration_error(probabilities(logits), targets, kind) < 3
    assert expected_calibration_error(probabilities(9 * logits), targets, kind) > 7


def test_an_error_counted_by_hand():
    probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.3, 0.7]])
    assert expected_calibration_error(probabilities, np.array([0, 1, 1]), "binary") == pytest.approx(
        100 * (2 * abs(0.5 - 0.9) + abs(1 - 0.7)) / 3
    )


def test_cross_entropies_by_hand():
    assert cross_entropy([[0.0, 0.0]], np.array([1]), "binary") == pytest.approx(np.log(2))
    assert cross_entropy([[0.0, 0.0]], np.array([[1.0, 0.0]]), "multilabel") == pytest.approx(np.log(2))
    assert cross_entropy([[3.0]], np.array([1.0]), "regression") == pytest.approx(4.0)
