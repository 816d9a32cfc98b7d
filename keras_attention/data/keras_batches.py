"""Batches as a `keras.utils.PyDataset`, for `model.fit`, `evaluate` and `predict`."""

from typing import Any

import keras
import numpy as np

from keras_attention.tokenizers.special_tokens import PAD_ID


class KerasBatches(keras.utils.PyDataset):
    """Batches as `(inputs, labels, sample_weight)`; each epoch of `fit` reads the next epoch of the batches.

    Labels of padding (PAD, where each token has a label) and of sequences that only fill a batch (-1 or NaN, where each
    text has a label) weigh 0, all others 1.

    Args:
        batches: object whose `epoch(e)`, e = 0, 1, ..., has `len()` and `[i]` -> dict of arrays with "labels", such as
            `BucketedBatches`, `MaskedLMBatches` or `ClassificationBatches`.
        **kwargs: see `keras.utils.PyDataset` (`workers`, `use_multiprocessing`, `max_queue_size`).
    """

    def __init__(self, batches: Any, **kwargs: Any):
        super().__init__(**kwargs)
        self.batches = batches
        self._number = 0
        self._epoch = batches.epoch(0)

    def __len__(self):
        return len(self._epoch)

    def __getitem__(self, index):
        batch = dict(self._epoch[index])
        labels = batch.pop("labels")
        if labels.dtype.kind == "f":
            weight = ~np.isnan(labels.reshape(len(labels), -1)).any(axis=1)  # (B,)
            return batch, np.nan_to_num(labels), weight.astype("float32")
        weight = labels != PAD_ID if labels.ndim > 1 else labels >= 0
        return batch, np.where(weight, labels, 0), weight.astype("float32")

    def on_epoch_end(self):
        self._number += 1
        self._epoch = self.batches.epoch(self._number)
