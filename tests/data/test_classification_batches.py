"""Labelled rows in batches: each row once an epoch, with its own label, in a few shapes."""

from typing import NamedTuple

import numpy as np
import pytest

from keras_attention.data.batches import ClassificationBatches


class Row(NamedTuple):
    token_ids: np.ndarray
    segment_ids: np.ndarray


def rows_of(count):
    lengths = np.random.default_rng(2).integers(3, 31, count)
    return [Row(np.arange(100 * i + 1, 100 * i + 1 + n), np.arange(n) % 2) for i, n in enumerate(lengths)]


@pytest.mark.parametrize("count", [1, 5, 103])
def test_every_row_comes_once_with_its_label(count):
    rows, labels = rows_of(count), np.arange(count, dtype="int32")
    batches = ClassificationBatches(rows, labels, rows_per_batch=11, num_buckets=3, seed=7)
    seen = []
    for i in range(len(batches.epoch(0))):
        batch = batches.epoch(0)[i]
        assert batch["token_ids"].shape == batch["segment_ids"].shape
        assert batch["token_ids"].shape[0] == 11
        assert batch["token_ids"].shape[1] in batches.lengths
        for ids, segments, label in zip(batch["token_ids"], batch["segment_ids"], batch["labels"], strict=True):
            if label == -1:
                assert not ids.any()
                continue
            length = len(rows[label].token_ids)
            np.testing.assert_array_equal(ids[:length], rows[label].token_ids)
            np.testing.assert_array_equal(segments[:length], rows[label].segment_ids)
            assert not ids[length:].any()
            seen.append(int(label))
    assert sorted(seen) == list(range(count))
    assert len(batches.epoch(0)) == -(-count // 11)


def test_order_depends_on_seed_and_epoch_alone():
    rows, labels = rows_of(47), np.arange(47, dtype="int32")

    def first(seed, epoch):
        return ClassificationBatches(rows, labels, 5, 2, seed).epoch(epoch)[0]["labels"].tolist()

    assert first(1, 0) == first(1, 0)
    assert len({tuple(first(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4


def test_float_labels_are_filled_up_with_nan():
    labels = np.zeros((3, 2), "float32")
    batch = ClassificationBatches(rows_of(3), labels, rows_per_batch=5).epoch(0)[0]
    assert np.isnan(batch["labels"]).all(axis=1).sum() == 2


def test_refuses_rows_without_labels():
    with pytest.raises(ValueError, match="2 sequences, 3 labels"):
        ClassificationBatches(rows_of(2), np.zeros(3, "int32"))
