"""Batches of sentence pairs or labelled sequences in a few fixed shapes; a pure function of (seed, epoch)."""

import numpy as np

from keras_attention.data.augmentation import NUMBERS
from keras_attention.data.translation.parallel_corpus import ParallelCorpus
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.special_tokens import PAD_ID, START_ID

MOST_TOKENS_AT_ONCE = 1 << 20


def check_tokens_at_once(rows_per_batch, max_tokens, accumulate=1, unit="tokens"):
    """Raises UserError for a batch that fits into no memory, where the system would kill the training.

    Args:
        rows_per_batch, max_tokens: int > 0.
        accumulate: int > 0, the number of parts in which the batch is computed.
        unit: str, what the positions of a row are.
    """
    if rows_per_batch * max_tokens > MOST_TOKENS_AT_ONCE * accumulate:
        raise UserError(
            f"A batch of {rows_per_batch:,} rows of {max_tokens:,} {unit} does not fit into memory. Lower "
            "--rows-per-batch, or raise --accumulate."
        )


def choose_buckets(source_lengths, target_lengths, num_buckets):
    """Finds the bucket shapes with the least padding.

    Pairs are ordered by their longer side and cut into runs, each padded to its longest source and target. The cuts are
    optimal (dynamic programming over the different lengths, not over the pairs), so the result depends only on the
    lengths, not on their order.

    Args:
        source_lengths, target_lengths: integer arrays (N,), N > 0, tokens including END.
        num_buckets: int > 0, maximum number of shapes.

    Returns:
        List of (source length S, target length T), none of them smaller in S or T than the one before.

    Raises:
        ValueError: if `num_buckets` is not positive or there is no pair.
    """
    if num_buckets < 1:
        raise ValueError(f"`num_buckets` must be positive. Received: num_buckets={num_buckets}")
    if len(source_lengths) == 0:
        raise ValueError("`source_lengths` must not be empty.")
    longer = np.maximum(source_lengths, target_lengths)
    sizes, group = np.unique(longer, return_inverse=True)
    longest_source = _running_maximum(group, source_lengths, len(sizes))
    longest_target = _running_maximum(group, target_lengths, len(sizes))
    pairs_before = np.concatenate([[0], np.cumsum(np.bincount(group))])
    padded_length = longest_source + longest_target

    # cost[j] = tokens of the first j groups in the best buckets so far; start[b][j] = where the last bucket began.
    cost = np.where(np.arange(len(sizes) + 1) == 0, 0.0, np.inf)
    starts = []
    for _ in range(min(num_buckets, len(sizes))):
        in_bucket = pairs_before[None, 1:] - pairs_before[:-1, None]  # (start, end)
        candidates = cost[:-1, None] + in_bucket * padded_length[None, :]  # (start, end)
        candidates[np.tril_indices(len(sizes), k=-1)] = np.inf
        starts.append(candidates.argmin(axis=0))
        cost = np.concatenate([[np.inf], candidates.min(axis=0)])

    shapes, end = [], len(sizes)
    for start in reversed(starts):
        shapes.append((int(longest_source[end - 1]), int(longest_target[end - 1])))
        end = int(start[end - 1])
    return shapes[::-1]


def assign_buckets(source_lengths, target_lengths, shapes):
    """Returns int64 (N,), the number of the first bucket of `shapes` that each pair fits into."""
    sources, targets = np.array(shapes).T
    return np.maximum(np.searchsorted(sources, source_lengths), np.searchsorted(targets, target_lengths))


def _running_maximum(group, lengths, num_groups):
    """Returns (num_groups,), the greatest length of each group and all groups before it."""
    greatest = np.zeros(num_groups, dtype=np.int64)
    np.maximum.at(greatest, group, lengths)
    return np.maximum.accumulate(greatest)


FILLER = -1  # the number of a padding pair


class BucketedBatches:
    """Groups sentence pairs of similar length into batches with about `tokens_per_batch` tokens on the longer side.

    Each bucket has one shape, so a compiled step is traced once per bucket. Pairs that do not fill a batch move into
    the next longer bucket if this costs less than filling the batch with padding.

    Shapes: B pairs, S source tokens, T target tokens.

    Args:
        corpus: ParallelCorpus, or a list of them that hold the same pairs cut into different tokens (BPE-dropout): the
            epochs use them in turn, with the same shapes.
        tokens_per_batch: int > 0. A bucket's B is `tokens_per_batch / max(S, T)` rounded down to a multiple of 8, at
            least 8.
        num_buckets: int > 0, maximum number of shapes.
        seed: int >= 0.
        shuffle: bool. Without it, the pairs of a bucket keep their order and buckets go from short to long.

    Attributes:
        shapes: list of (B, S, T), from short to long.

    Raises:
        ValueError: if an argument is out of range, or the list is empty or of different sizes.
    """

    def __init__(
        self,
        corpus: ParallelCorpus | list[ParallelCorpus] | tuple[ParallelCorpus, ...],
        tokens_per_batch: int,
        num_buckets: int = 6,
        seed: int = 0,
        shuffle: bool = True,
    ):
        if tokens_per_batch < 1:
            raise ValueError(f"`tokens_per_batch` must be positive. Received: tokens_per_batch={tokens_per_batch}")
        if seed < 0:
            raise ValueError(f"`seed` must not be negative. Received: seed={seed}")
        self.corpora = list(corpus) if isinstance(corpus, (list, tuple)) else [corpus]
        sizes = {len(one) for one in self.corpora}
        if len(sizes) != 1:
            raise ValueError(f"All corpora must have the same number of pairs, one at least. Received: {sorted(sizes)}")
        self.seed = seed
        self.shuffle = shuffle
        lengths = [(one.source.lengths, one.target.lengths) for one in self.corpora]
        sources, targets = np.concatenate(lengths, axis=1)
        buckets = choose_buckets(sources, targets, num_buckets)
        self.shapes = [(max(8, tokens_per_batch // max(shape) // 8 * 8), *shape) for shape in buckets]
        self._bucket_of_pair = [assign_buckets(*sides, buckets) for sides in lengths]

    def epoch(self, epoch: int) -> "EpochBatches":
        """Returns the EpochBatches of epoch number `epoch` (int >= 0)."""
        corpus = self.corpora[epoch % len(self.corpora)]
        bucket_of_pair = self._bucket_of_pair[epoch % len(self.corpora)]
        order = np.arange(len(corpus))
        generator = np.random.PCG64([self.seed, epoch])
        if self.shuffle:
            order = random_order(generator, len(order))
        counts = np.bincount(bucket_of_pair, minlength=len(self.shapes))
        batches = self._fill_batches(order[np.argsort(bucket_of_pair[order], kind="stable")], counts)
        if self.shuffle:
            batches = [batches[i] for i in random_order(generator, len(batches))]
        return EpochBatches(corpus, self.shapes, batches)

    def real_token_share(self) -> float:
        """Returns the share of an epoch's tokens that are not padding, a float in (0, 1]."""
        epoch = self.epoch(0)
        real = epoch.corpus.source.offsets[-1] + epoch.corpus.target.offsets[-1]
        return float(real / sum(size * (s + t) for size, s, t in (self.shapes[bucket] for bucket, _ in epoch.batches)))

    def _fill_batches(self, by_bucket, counts):
        """Cuts the pairs, which are ordered by bucket, into a list of (bucket, pair numbers (B,))."""
        batches, waiting = [], by_bucket[:0]
        for bucket, own in enumerate(np.split(by_bucket, np.cumsum(counts)[:-1])):
            size, s, t = self.shapes[bucket]
            pairs = np.concatenate([waiting, own])
            left = len(pairs) % size
            waiting = by_bucket[:0]
            if left and bucket + 1 < len(self.shapes):
                _, next_s, next_t = self.shapes[bucket + 1]
                if left * (next_s + next_t) < size * (s + t):
                    pairs, waiting = pairs[:-left], pairs[-left:]
            filled = np.full(-(-len(pairs) // size) * size, FILLER)
            filled[: len(pairs)] = pairs
            batches += [(bucket, batch) for batch in filled.reshape(-1, size)]
        return batches


class EpochBatches:
    """The batches of one epoch, in order: `len()` and `[i]`, a dict of int32 arrays.

    `source_ids` (B, S) ends with END, `target_ids` (B, T) begins with START and is the decoder's input, `labels` (B, T)
    is `target_ids` shifted left by one and ends with END. The rest is PAD; padding pairs complete a batch. If the
    corpus has links, `alignment` (B, T, S), float32, has the share of each source token in the links of the token in
    `target_ids`; the shares sum to 1, or to 0 for a token without links.

    Args:
        corpus: ParallelCorpus.
        shapes: list of (B, S, T).
        batches: list of (number of a shape, pair numbers (B,), FILLER for padding).
    """

    def __init__(self, corpus, shapes, batches):
        self.corpus = corpus
        self.shapes = shapes
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        bucket, pairs = self.batches[index]
        _, source_length, target_length = self.shapes[bucket]
        labels = padded_sequences(self.corpus.target, pairs, target_length)  # (B, T)
        target_ids = np.roll(labels, 1, axis=1)
        target_ids[:, 0] = np.where(pairs == FILLER, PAD_ID, START_ID)
        lengths = np.where(pairs == FILLER, 0, self.corpus.target.lengths[pairs])
        target_ids[np.arange(target_length) >= lengths[:, None]] = PAD_ID
        batch = {
            "source_ids": padded_sequences(self.corpus.source, pairs, source_length),  # (B, S)
            "target_ids": target_ids,
            "labels": labels,
        }
        if self.corpus.links is not None:
            batch["alignment"] = _shares(self.corpus.links, pairs, (len(pairs), target_length, source_length))
        return batch


def _shares(links, numbers, shape):
    """Returns float32 (B, T, S): the links of the pairs with these numbers as shares of the tokens after START."""
    shares = np.zeros(shape, "float32")
    for row, number in enumerate(numbers):
        if number != FILLER:
            targets, sources = links[number].T
            shares[row, targets + 1, sources] = 1
    return shares / np.maximum(shares.sum(axis=-1, keepdims=True), 1)


def padded_sequences(sequences, numbers, width):
    """Returns int32 (B, width): sequences by number, cut or filled up with PAD; FILLER gives PAD alone."""
    starts = sequences.offsets[numbers]
    lengths = np.where(numbers == FILLER, 0, sequences.offsets[numbers + 1] - starts)
    columns = np.arange(width)
    real = columns < lengths[:, None]  # (B, width)
    places = np.where(real, starts[:, None] + columns, 0)
    return np.where(real, sequences.values[places], np.int32(PAD_ID))


class ClassificationBatches:
    """Batches of sequences of similar length, with little padding.

    Shapes: B sequences, T tokens.

    Args:
        sequences: list of objects with `token_ids` and `segment_ids`, int arrays (T,); or of dicts of arrays of equal
            shapes, such as pictures.
        labels: array (N,) or (N, K) for the N sequences; int for classes, else float.
        rows_per_batch: int > 0.
        num_buckets: int > 0, maximum number of shapes; each is compiled once.
        seed: int >= 0.
        with_segments: bool, whether batches have `segment_ids`.
        change: callable(dict of arrays, uint64 array (NUMBERS,)) -> dict of arrays, which changes a row at random in
            each epoch, or None; see `data.augmentation`.

    Raises:
        ValueError: if there are no sequences, or the numbers of sequences and labels differ.
    """

    def __init__(self, sequences, labels, rows_per_batch=32, num_buckets=5, seed=0, with_segments=True, change=None):
        if not sequences or len(sequences) != len(labels):
            raise ValueError(
                f"There must be a label for each sequence. Received: {len(sequences)} sequences, {len(labels)} labels"
            )
        self.sequences = sequences
        self.labels = labels
        self.rows_per_batch = rows_per_batch
        self.seed = seed
        self.change = change
        self.inputs = ("token_ids", "segment_ids") if with_segments else ("token_ids",)
        if isinstance(sequences[0], dict):
            self.inputs = tuple(sequences[0])
        lengths = np.array([length_of(sequence) for sequence in sequences])
        shapes = choose_buckets(lengths, lengths, num_buckets)
        self.lengths = [length for length, _ in shapes]
        self._bucket_of = assign_buckets(lengths, lengths, shapes)

    def epoch(self, epoch):
        """Returns the batches of epoch number `epoch` (int >= 0): `len()` and `[i]`, a dict of arrays.

        `token_ids` and `segment_ids` are int32 (B, T), arrays of dicts get an axis (B, ...); `labels` (B,) or (B, K).
        Padding examples are 0 and have the label -1 if labels are int, and NaN if they are float.
        """
        generator = np.random.PCG64([self.seed, epoch])
        order = random_order(generator, len(self.sequences))
        return self._in_batches(order[:, None], generator)

    def _in_batches(self, groups, generator):
        """The batches of an epoch with these groups of sequence numbers, int (M, G); a group stays in one batch."""
        buckets = self._bucket_of[groups].max(axis=1)  # that of its longest sequence
        groups_per_batch = self.rows_per_batch // groups.shape[1]
        batches, waiting = [], groups[:0]
        for bucket, length in enumerate(self.lengths):
            ready = np.concatenate([waiting, groups[buckets == bucket]])
            whole = len(ready) // groups_per_batch * groups_per_batch
            waiting = ready[whole:]  # for the next longer batches
            batches += [(length, batch) for batch in ready[:whole].reshape(-1, self.rows_per_batch)]
        if len(waiting):
            filled = np.full(self.rows_per_batch, FILLER)
            filled[: waiting.size] = waiting.ravel()
            batches.append((self.lengths[-1], filled))
        batches = [batches[i] for i in random_order(generator, len(batches))]
        epoch = ClassificationEpoch(self.sequences, self.labels, batches, self.inputs)
        if self.change is not None:
            epoch.change, epoch.seeds = self.change, generator.random_raw(len(self.sequences)).astype("uint64")
        return epoch


def length_of(sequence):
    """The number of tokens of a sequence; 1 for a dict of arrays, which is never padded."""
    return 1 if isinstance(sequence, dict) else len(sequence.token_ids)


class ClassificationEpoch:
    """See `ClassificationBatches.epoch`; `batches` is a list of (T, sequence numbers (B,)), `inputs` their names."""

    change = None
    seeds = np.zeros(0, "uint64")  # one for each row, for `change`

    def __init__(self, sequences, labels, batches, inputs):
        self.sequences = sequences
        self.labels = labels
        self.batches = batches
        self.inputs = inputs

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        length, numbers = self.batches[index]
        first = self.sequences[0]
        if isinstance(first, dict):
            batch = {name: np.zeros((len(numbers), *first[name].shape), first[name].dtype) for name in self.inputs}
        else:
            batch = {name: np.full((len(numbers), length), PAD_ID, "int32") for name in self.inputs}
        for i, number in enumerate(numbers):
            if number != FILLER:
                sequence = self.sequences[number]
                if self.change is not None:
                    numbers_of_row = np.random.PCG64(int(self.seeds[number])).random_raw(NUMBERS)
                    sequence = self.change(sequence, numbers_of_row)
                for name, values in batch.items():
                    if isinstance(first, dict):
                        values[i] = sequence[name]
                    else:
                        values[i, : len(sequence.token_ids)] = getattr(sequence, name)
        none = -1 if self.labels.dtype.kind in "iu" else np.nan
        labels = self.labels[np.where(numbers == FILLER, 0, numbers)].copy()
        labels[numbers == FILLER] = none
        return {**batch, "labels": labels}


def random_order(generator, size):
    """Returns a random order of 0..size-1 from raw bits only, whose stream NumPy guarantees."""
    return np.argsort(generator.random_raw(size), kind="stable")
