"""Batches of a target item with the history before it; a pure function of (seed, epoch)."""

import numpy as np

from keras_attention.data.batches import FILLER, random_order
from keras_attention.data.clicks.interactions import Interactions

HOUR, NUM_AGES = 3_600.0, 12  # ages: up to an hour, two hours, four ... about a month and longer


def split_by_time(data: Interactions, held: int = 10, validation: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The last `held` interactions of each user are held out; for validation, the ones before them, without them.

    A user with few interactions has fewer held out, at most a third, so that some stay for training.

    Returns:
        Two int arrays, positions in `Interactions`: to learn from, and held out.
    """
    starts, ends = _spans(data)
    counts = np.minimum(held, (ends - starts) // 3)
    position = np.arange(len(data))
    left, ends = (ends - (1 + validation) * counts)[data.users], (ends - validation * counts)[data.users]
    return np.flatnonzero(position < left), np.flatnonzero((position >= left) & (position < ends))


def _spans(data):
    users = np.arange(len(data.profiles))
    return np.searchsorted(data.users, users), np.searchsorted(data.users, users, side="right")


class HistoryBatches:
    """Batches of target items, each with the last interactions of its user before it.

    Args:
        data: Interactions.
        targets: int array (M,), positions of the targets.
        length: int > 0, positions of a history (L - 1).
        rows_per_batch: int > 0 (B).
        seed: int >= 0.
        known: int array of the positions that a history may hold; None: all before the target.
        gap: int >= 0. In each epoch, up to this many interactions before a target are left out of its history, as in
            a test whose last answers are unknown.
        drawn: float in [0, 1], share of the targets of `epoch` whose history is drawn at random from all known
            interactions of the user with other items, also later ones.
        shuffle: bool. Whether the targets are in a random order.

    Raises:
        ValueError: if there are no targets, or an argument is out of range.
    """

    def __init__(
        self,
        data: Interactions,
        targets: np.ndarray,
        length: int,
        rows_per_batch: int,
        seed: int = 0,
        known: np.ndarray | None = None,
        gap: int = 0,
        drawn: float = 0.0,
        shuffle: bool = True,
    ):
        if min(length, rows_per_batch) < 1 or gap < 0 or not 0 <= drawn <= 1 or not len(targets):
            raise ValueError(
                "There must be targets, `length` and `rows_per_batch` must be positive, `gap` 0 or more, and `drawn` "
                f"from 0 to 1. Received: {len(targets)} targets, length={length}, rows_per_batch={rows_per_batch}, "
                f"gap={gap}, drawn={drawn}"
            )
        self.data, self.targets, self.length, self.rows_per_batch = data, targets, length, rows_per_batch
        self.seed, self.gap, self.drawn, self.shuffle = seed, gap, drawn, shuffle
        starts, ends = _spans(data)
        if known is not None:  # of each user, the known ones come first
            ends = starts + np.bincount(data.users[known], minlength=len(starts))
        self._starts, self._ends = starts, ends

    def inputs(self, targets: np.ndarray, gaps: np.ndarray | int = 0) -> dict[str, np.ndarray]:
        """The inputs of the network for targets at these positions, see `epoch`."""
        return self._arrays(targets, self._before(targets, gaps))

    def _before(self, targets, gaps):
        """The positions (B, L - 1) of the last interactions before each target; -1 where there are none."""
        users = self.data.users[targets]
        starts = self._starts[users]
        last = np.maximum(np.minimum(targets, self._ends[users]) - gaps, starts)  # (B,), exclusive
        history = last[:, None] + np.arange(-self.length, 0)
        return np.where(history >= starts[:, None], history, -1)

    def _anywhere(self, targets, generator):
        """The positions (B, L - 1) of random known interactions with other items, in their order, -1 first."""
        history = np.full((len(targets), self.length), -1)
        for row, target in zip(history, targets, strict=True):
            user = self.data.users[target]
            known = np.arange(self._starts[user], self._ends[user])
            known = known[self.data.items[known] != self.data.items[target]]
            chosen = np.sort(known[random_order(generator, len(known))[: self.length]])
            row[len(row) - len(chosen) :] = chosen
        return history

    def _arrays(self, targets, history):
        data, is_known = self.data, history >= 0
        history = np.where(is_known, history, 0)
        items, answers = (np.where(is_known, column[history], 0) for column in (data.items, data.answers))
        hours = np.abs(data.times[targets][:, None] - data.times[history]) / HOUR
        ages = np.minimum(2 + np.floor(np.log2(np.maximum(hours, 0.5))), NUM_AGES - 1)  # 1 is up to an hour
        item_ids = np.concatenate([items, data.items[targets][:, None]], axis=1)  # (B, L)
        padded = ((0, 0), (0, 1))
        return {
            "item_ids": item_ids.astype("int32"),
            "answers": np.pad(answers, padded).astype("int32"),
            "ages": np.pad(np.where(is_known, ages, 0), padded).astype("int32"),
            "categories": data.categories[item_ids],
            "profile": data.profiles[data.users[targets]],
        }

    def epoch(self, epoch: int) -> "HistoryEpoch":
        """The batches of epoch number `epoch` (int >= 0): `len()` and `[i]`, a dict of arrays.

        `item_ids`, `answers` and `ages` (B, L), `categories` (B, L, C) and `profile` (B, P) are int32; the last of the
        L positions is the target's, and a short history is padded before its beginning. `labels` is int32 (B,), the
        target's answer from 0, or -1 where a row only fills the batch.
        """
        generator = np.random.PCG64([self.seed, epoch])
        order = random_order(generator, len(self.targets)) if self.shuffle else np.arange(len(self.targets))
        filled = np.full(-(-len(order) // self.rows_per_batch) * self.rows_per_batch, FILLER)
        filled[: len(order)] = order
        gaps = (generator.random_raw(len(filled)) % np.uint64(self.gap + 1)).astype("int64")
        shape = (-1, self.rows_per_batch)
        return HistoryEpoch(self, epoch, filled.reshape(shape), gaps.reshape(shape))


class HistoryEpoch:
    """See `HistoryBatches.epoch`."""

    def __init__(self, batches, number, rows, gaps):
        self.batches, self.number, self.rows, self.gaps = batches, number, rows, gaps

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        rows, source = self.rows[index], self.batches
        is_filler = rows == FILLER
        targets = source.targets[np.where(is_filler, 0, rows)]  # (B,)
        generator = np.random.PCG64([source.seed, self.number, index])
        is_drawn = generator.random_raw(len(targets)) < source.drawn * 2.0**64
        history = source._before(targets, self.gaps[index])
        history[is_drawn] = source._anywhere(targets[is_drawn], generator)
        batch = source._arrays(targets, history)
        labels = np.where(is_filler, -1, source.data.answers[targets] - 1)
        return batch | {"labels": labels.astype("int32")}
