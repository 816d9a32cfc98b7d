"""Losses against their definitions in loops, with padding and with rows that only fill up a batch."""

import numpy as np
import pytest
from keras import ops

from keras_attention.training.losses import (
    NO_CLASS,
    Loss,
    alignment_cross_entropy,
    class_cross_entropy,
    count_correct,
    masked_cross_entropy,
    multilabel_cross_entropy,
    squared_error,
    symmetric_divergence,
)


def loop_cross_entropy(labels, logits, smoothing, pad_id):
    """The definition, one label and one word at a time, in float64."""
    total, count = 0.0, 0
    for row, label_row in enumerate(labels):
        for column, label in enumerate(label_row):
            if label == pad_id:
                continue
            z = logits[row, column].astype("float64")
            log_p = z - z.max() - np.log(np.exp(z - z.max()).sum())
            target = np.full(len(z), smoothing / len(z))
            target[label] += 1.0 - smoothing
            total -= float((target * log_p).sum())
            count += 1
    return total, count


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("pad_id", [0, 3])
def test_equals_the_definition(smoothing, pad_id):
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(5, 7, 11)).astype("float32") * 3
    labels = rng.integers(0, 11, (5, 7)).astype("int32")
    loss, count = masked_cross_entropy(labels, logits, smoothing, pad_id)
    expected_loss, expected_count = loop_cross_entropy(labels, logits, smoothing, pad_id)
    assert float(loss) == pytest.approx(expected_loss, rel=1e-6)
    assert float(count) == expected_count


def test_padding_may_hold_anything():
    logits = np.random.default_rng(2).normal(size=(2, 3, 5)).astype("float32")
    labels = np.array([[1, 2, 0], [4, 0, 0]], "int32")
    spoiled = np.where((labels == 0)[..., None], np.float32(np.nan), logits)
    assert float(masked_cross_entropy(labels, spoiled, 0.1)[0]) == float(masked_cross_entropy(labels, logits, 0.1)[0])


def test_half_precision_logits_are_reduced_in_float32():
    logits = np.zeros((13, 17, 31), "float16")
    loss, count = masked_cross_entropy(np.ones((13, 17), "int32"), logits)
    assert float(loss) == pytest.approx(13 * 17 * np.log(31), rel=1e-6)
    assert float(count) == 13 * 17


def test_counts_correct_labels_only():
    logits = np.zeros((1, 3, 5), "float32")
    logits[0, 0, 2] = logits[0, 1, 3] = logits[0, 2, 0] = 1.0
    assert float(count_correct(np.array([[2, 4, 0]]), logits)) == 1.0


def test_smoothing_out_of_range_is_named():
    with pytest.raises(ValueError, match=r"Received: label_smoothing=1\.5"):
        masked_cross_entropy(np.ones((1, 1), "int32"), np.zeros((1, 1, 2), "float32"), 1.5)


def test_divergence_equals_the_definition():
    rng = np.random.default_rng(4)
    first, second = (rng.normal(size=(5, 7, 11)).astype("float32") * 2 for _ in range(2))
    labels = rng.integers(0, 3, (5, 7)).astype("int32")
    expected = 0.0
    for row, column in zip(*np.nonzero(labels), strict=True):
        p, q = (np.exp(x[row, column].astype("float64")) for x in (first, second))
        p, q = p / p.sum(), q / q.sum()
        expected += ((p * np.log(p / q)).sum() + (q * np.log(q / p)).sum()) / 2
    assert float(symmetric_divergence(labels, first, second)) == pytest.approx(expected, rel=1e-5)
    assert float(symmetric_divergence(labels, first, first)) == 0.0


def test_the_mean_is_by_label_and_counts_the_penalty():
    assert float(Loss(6.0, 4.0, 1.0).mean()) == 1.5
    assert float(Loss(6.0, 4.0, 1.0, penalty=2.0).mean()) == 2.0
    assert float(Loss(0.0, 0.0, 0.0).mean()) == 0.0


ROWS, LABELS = 7, 5
LOGITS = np.random.default_rng(3).normal(size=(ROWS, LABELS)).astype("float32") * 2
WEIGHTS = [0.5, 1.0, 2.0, 3.0, 0.25]


def as_floats(results):
    return [float(ops.convert_to_numpy(result)) for result in results[:3]]


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_one_class_out_of_many(weights, smoothing):
    labels = np.array([0, 4, NO_CLASS, 2, 2, 1, NO_CLASS], "int32")
    total = count = right = 0.0
    for label, logits in zip(labels, LOGITS.astype("float64"), strict=True):
        if label == NO_CLASS:
            continue
        log_p = logits - np.log(np.exp(logits).sum())
        weight = weights[label] if weights else 1.0
        total -= weight * ((1 - smoothing) * log_p[label] + smoothing * log_p.mean())
        count += weight
        right += logits.argmax() == label
    actual = as_floats(class_cross_entropy(labels, LOGITS, weights, smoothing))
    np.testing.assert_allclose(actual, [total, count, right], rtol=1e-5)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_a_smoothing_of_classes_out_of_range_is_named(weights):
    with pytest.raises(ValueError, match=r"Received: label_smoothing=1\.5"):
        class_cross_entropy(np.zeros(ROWS, "int32"), LOGITS, weights, label_smoothing=1.5)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_many_questions(weights):
    labels = (np.random.default_rng(5).random((ROWS, LABELS)) < 0.4).astype("float32")
    labels[0] = LOGITS[0] > 0
    labels[3] = np.nan
    total = count = right = 0.0
    for row, logits in zip(labels, LOGITS.astype("float64"), strict=True):
        if np.isnan(row).any():
            continue
        p = 1 / (1 + np.exp(-logits))
        yes = np.array(weights or [1.0] * LABELS)
        total -= (yes * row * np.log(p) + (1 - row) * np.log(1 - p)).sum()
        count += 1
        right += ((p > 0.5) == row).all()
    np.testing.assert_allclose(
        as_floats(multilabel_cross_entropy(labels, LOGITS, weights)), [total, count, right], rtol=1e-5
    )
    assert right >= 1


def test_one_number():
    labels = np.array([1.5, np.nan, -2.0, 0.0, 3.0, np.nan, 1.0], "float32")
    real = ~np.isnan(labels)
    expected = [((LOGITS[real, 0] - labels[real]) ** 2).sum(), real.sum(), 0]
    np.testing.assert_allclose(as_floats(squared_error(labels, LOGITS[:, :1])), expected, rtol=1e-6)


def test_alignment_cross_entropy_equals_its_definition():
    """In loops; a target token without links has no loss, a source token without weight no infinite one."""
    rng = np.random.default_rng(7)
    alignment = rng.integers(0, 2, (3, 5, 7)) * rng.integers(0, 2, (3, 5, 1))
    alignment = (alignment / np.maximum(alignment.sum(axis=-1, keepdims=True), 1)).astype("float32")
    weights = rng.uniform(0.1, 1, (3, 5, 7)).astype("float32")
    weights[:, :, 6] = 0  # padding
    alignment[:, :, 6] = 0
    expected = 0.0
    for b in range(3):
        for t in range(5):
            for s in range(7):
                if alignment[b, t, s]:
                    expected -= float(alignment[b, t, s]) * np.log(float(weights[b, t, s]))
    assert expected > 1
    assert float(alignment_cross_entropy(alignment, weights)) == pytest.approx(expected, rel=1e-5)
    assert np.isfinite(float(alignment_cross_entropy(np.ones_like(weights), weights)))
