import numpy as np
import pytest

from keras_attention.training.losses import count_correct, masked_cross_entropy, symmetric_divergence


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
