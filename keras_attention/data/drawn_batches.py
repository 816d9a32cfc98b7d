"""Batches of inputs that are drawn anew in each epoch, with their texts, as a decoder is trained."""

from collections.abc import Callable, Sequence

import numpy as np

from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID


def decoder_arrays(token_ids: Sequence[np.ndarray], length: int) -> dict[str, np.ndarray]:
    """What a decoder reads and what it must predict.

    Args:
        token_ids: sequence of B int arrays, texts without START and END; longer ones lose their end.
        length: int > 1 (T).

    Returns:
        Dict of int32 arrays (B, T): `target_ids`, START y_1 y_2 ..., and `labels`, y_1 y_2 ... END; then padding.
    """
    labels = np.full((len(token_ids), length), PAD_ID, "int32")
    for row, ids in zip(labels, token_ids, strict=True):
        row[: min(len(ids) + 1, length)] = [*ids[: length - 1], END_ID]
    starts = np.full((len(labels), 1), START_ID, "int32")
    targets = np.concatenate([starts, np.where(labels == END_ID, PAD_ID, labels)[:, :-1]], axis=1)
    return {"target_ids": targets, "labels": labels}


class DrawnBatches:
    """Batches of pictures or sounds that are drawn anew in each epoch: a pure function of (seed, epoch).

    Args:
        draw: callable(count, seed: list of int) -> values (count, ...) and list of `count` str, their texts; the same
            for the same arguments.
        encode: callable(list of str) -> list of int arrays, the token ids of texts.
        count: int > 0, inputs of an epoch.
        rows_per_batch: int > 0 (B).
        length: int > 1 (T), tokens of the longest text with END.
        seed: int >= 0.

    Raises:
        ValueError: if a size is out of range.
    """

    def __init__(self, draw: Callable, encode: Callable, count: int, rows_per_batch: int, length: int, seed: int = 0):
        if min(count, rows_per_batch) < 1 or length < 2:
            raise ValueError(
                "`count` and `rows_per_batch` must be positive, and `length` at least 2. "
                f"Received: count={count}, rows_per_batch={rows_per_batch}, length={length}"
            )
        self.draw, self.encode, self.count, self.rows_per_batch = draw, encode, count, rows_per_batch
        self.length, self.seed = length, seed

    def epoch(self, epoch: int) -> "DrawnEpoch":
        """The batches of epoch number `epoch` (int >= 0): `len()` and `[i]`, a dict of arrays.

        `values` float32 (B, ...), `target_ids` and `labels` int32 (B, T), see `decoder_arrays`.
        """
        return DrawnEpoch(self, epoch)


class DrawnEpoch:
    """See `DrawnBatches.epoch`."""

    def __init__(self, batches, number):
        self.batches, self.number = batches, number

    def __len__(self):
        return -(-self.batches.count // self.batches.rows_per_batch)

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(index)
        batches = self.batches
        values, captions = batches.draw(batches.rows_per_batch, [batches.seed, self.number, index])
        return {"values": values, **decoder_arrays(batches.encode(captions), batches.length)}
