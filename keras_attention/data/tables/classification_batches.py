"""Batches of labelled token sequences in a few fixed shapes; the order is a pure function of (seed, epoch)."""

import numpy as np

from keras_attention.data.batches import FILLER, assign_buckets, choose_buckets, random_order
from keras_attention.tokenizers.special_tokens import PAD_ID


class ClassificationBatches:
    """Batches of sequences of similar length, so that little is padding.

    Shapes: B sequences, T tokens.

    Args:
        sequences: list of objects with `token_ids` and `segment_ids`, int arrays (T,).
        labels: array (N,) or (N, K) for the N sequences; int for classes, else float.
        rows_per_batch: int > 0.
        num_buckets: int > 0, maximum number of shapes; each is compiled once.
        seed: int >= 0.
        with_segments: bool, whether batches have `segment_ids`.

    Raises:
        ValueError: if there are no sequences, or the numbers of sequences and labels differ.
    """

    def __init__(self, sequences, labels, rows_per_batch=32, num_buckets=5, seed=0, with_segments=True):
        if not sequences or len(sequences) != len(labels):
            raise ValueError(
                f"There must be a label for each sequence. Received: {len(sequences)} sequences, {len(labels)} labels"
            )
        self.sequences = sequences
        self.labels = labels
        self.rows_per_batch = rows_per_batch
        self.seed = seed
        self.inputs = ("token_ids", "segment_ids") if with_segments else ("token_ids",)
        lengths = np.array([len(sequence.token_ids) for sequence in sequences])
        shapes = choose_buckets(lengths, lengths, num_buckets)
        self.lengths = [length for length, _ in shapes]
        self._bucket_of = assign_buckets(lengths, lengths, shapes)

    def epoch(self, epoch):
        """Returns the batches of epoch number `epoch` (int >= 0): `len()` and `[i]`, a dict of arrays.

        `token_ids` and `segment_ids` are int32 (B, T), `labels` (B,) or (B, K); padding examples have the label -1 if
        labels are int, and NaN if they are float.
        """
        generator = np.random.PCG64([self.seed, epoch])
        order = random_order(generator, len(self.sequences))
        batches, waiting = [], order[:0]
        for bucket, length in enumerate(self.lengths):
            numbers = np.concatenate([waiting, order[self._bucket_of[order] == bucket]])
            whole = len(numbers) // self.rows_per_batch * self.rows_per_batch
            waiting = numbers[whole:]  # they move on to the next longer batches
            batches += [(length, batch) for batch in numbers[:whole].reshape(-1, self.rows_per_batch)]
        if len(waiting):
            filled = np.full(self.rows_per_batch, FILLER)
            filled[: len(waiting)] = waiting
            batches.append((length, filled))
        batches = [batches[i] for i in random_order(generator, len(batches))]
        return EpochBatches(self.sequences, self.labels, batches, self.inputs)


class EpochBatches:
    """See `ClassificationBatches.epoch`; `batches` is a list of (T, sequence numbers (B,)), `inputs` has names."""

    def __init__(self, sequences, labels, batches, inputs):
        self.sequences = sequences
        self.labels = labels
        self.batches = batches
        self.inputs = inputs

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        length, numbers = self.batches[index]
        batch = {name: np.full((len(numbers), length), PAD_ID, "int32") for name in self.inputs}
        for i, number in enumerate(numbers):
            if number != FILLER:
                sequence = self.sequences[number]
                for name, values in batch.items():
                    values[i, : len(sequence.token_ids)] = getattr(sequence, name)
        none = -1 if self.labels.dtype.kind in "iu" else np.nan
        labels = self.labels[np.where(numbers == FILLER, 0, numbers)].copy()
        labels[numbers == FILLER] = none
        return {**batch, "labels": labels}
