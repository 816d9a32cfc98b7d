"""The losses of classification and regression against loops, with rows that only fill up a batch."""

import numpy as np
import pytest
from keras import ops

from keras_attention.training.class_losses import NO_CLASS, class_loss, multilabel_loss, squared_error

ROWS, LABELS = 7, 5
LOGITS = np.random.default_rng(3).normal(size=(ROWS, LABELS)).astype("float32") * 2
WEIGHTS = [0.5, 1.0, 2.0, 3.0, 0.25]


def as_floats(results):
    return [float(ops.convert_to_numpy(result)) for result in results]


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
    found = as_floats(class_loss(weights, smoothing)(labels, LOGITS))
    np.testing.assert_allclose(found, [total, count, right], rtol=1e-5)


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
    np.testing.assert_allclose(as_floats(multilabel_loss(weights)(labels, LOGITS)), [total, count, right], rtol=1e-5)
    assert right >= 1


def test_one_number():
    labels = np.array([1.5, np.nan, -2.0, 0.0, 3.0, np.nan, 1.0], "float32")
    real = ~np.isnan(labels)
    expected = [((LOGITS[real, 0] - labels[real]) ** 2).sum(), real.sum(), 0]
    np.testing.assert_allclose(as_floats(squared_error(labels, LOGITS[:, :1])), expected, rtol=1e-6)
