"""Beam search whose hypotheses begin with given tokens and contain given phrases.

It runs in Python, one sentence at a time, over a step that computes all beams, because its rules look at the tokens
that each beam has written. Without constraints it finds what `beam_search` finds.
"""

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from keras_attention.decoding.hypotheses import Hypotheses


class Progress(NamedTuple):
    """How far a hypothesis has met its constraints.

    Attributes:
        length: int, its number of tokens.
        met: frozenset of int, the phrases that it contains.
        begun: frozenset of (phrase, way, number of tokens), the phrases that its last tokens begin.
        closed: bool. Whether its last token ends a whole word, so that the next one must not continue it.
    """

    length: int
    met: frozenset
    begun: frozenset
    closed: bool


class Constraints:
    """The tokens with which a hypothesis must begin, and the phrases that it must contain.

    Args:
        prefix: sequence of int, ids of the first tokens.
        phrases: sequence of phrases; each is a sequence of ways to write it, sequences of ids. An equal phrase that is
            there twice must be written twice.
        first_ways: the same for ways that count at the beginning of a hypothesis only, such as with a capital letter.
        boundaries: bool array (V,) or None. True for tokens that may follow a whole word, END among them. None: all.
        whole_prefix: bool. Whether the last token of the prefix ends a word.
    """

    def __init__(
        self,
        prefix: Sequence[int] = (),
        phrases: Sequence[Sequence[Sequence[int]]] = (),
        first_ways: Sequence[Sequence[Sequence[int]]] = (),
        boundaries: np.ndarray | None = None,
        whole_prefix: bool = False,
    ):
        self.prefix, self.boundaries, self.whole_prefix = tuple(prefix), boundaries, whole_prefix
        self._ways = [
            [*((tuple(way), False) for way in ways), *((tuple(way), True) for way in at_the_beginning)]
            for ways, at_the_beginning in zip_longest(phrases, first_ways, fillvalue=())
        ]
        self.total = sum(self._size(phrase) for phrase in range(len(self._ways)))

    def first(self) -> Progress:
        """The progress of an empty hypothesis."""
        return Progress(0, frozenset(), frozenset(), False)

    def after(self, progress: Progress, token: int) -> Progress | None:
        """The progress after a further token that is not END; None if this token is not allowed."""
        length = progress.length
        if length < len(self.prefix):
            if token != self.prefix[length]:
                return None
        elif progress.closed and self.boundaries is not None and not self.boundaries[token]:
            return None
        begun, done = set(), None
        for phrase, way, size in (*progress.begun, *self._starts(progress)):
            ids = self._ways[phrase][way][0]
            if ids[size] == token:
                if size + 1 < len(ids):
                    begun.add((phrase, way, size + 1))
                elif done is None or self._size(phrase) > self._size(done):
                    done = phrase
        closed = self.whole_prefix and length + 1 == len(self.prefix)
        if done is not None:  # its tokens count for no other phrase
            return Progress(length + 1, progress.met | {done}, frozenset(), True)
        return Progress(length + 1, progress.met, frozenset(begun), closed)

    def wanted(self, progress: Progress) -> set[int]:
        """The tokens that meet more of the constraints; of the prefix, the only token that is allowed."""
        if progress.length < len(self.prefix):
            return {self.prefix[progress.length]}
        return {self._ways[phrase][way][0][size] for phrase, way, size in (*progress.begun, *self._starts(progress))}

    def count(self, progress: Progress) -> int:
        """How many tokens of phrases the hypothesis has: those of whole phrases, and of the one that it has begun."""
        return sum(map(self._size, progress.met)) + max((size for *_, size in progress.begun), default=0)

    def may_end(self, progress: Progress) -> bool:
        """Whether the constraints are met."""
        return progress.length >= len(self.prefix) and len(progress.met) == len(self._ways)

    def _size(self, phrase):
        return len(self._ways[phrase][0][0])

    def _starts(self, progress):
        return [
            (phrase, way, 0)
            for phrase, ways in enumerate(self._ways)
            if phrase not in progress.met
            for way, (_, only_first) in enumerate(ways)
            if not only_first or progress.length == 0
        ]


class Beam(NamedTuple):
    """A hypothesis without END."""

    token_ids: tuple
    log_prob: float
    progress: Progress


class Candidate(NamedTuple):
    """A beam (by its number) with a further token; `progress` is None for END."""

    log_prob: float
    beam: int
    token: int
    progress: Progress | None


def constrained_search(
    step: Callable[[np.ndarray, np.ndarray], np.ndarray],
    constraints: Constraints,
    *,
    beam_size: int,
    start_id: int,
    end_id: int,
    never: Sequence[int],
    limit: int,
    n_best: int = 1,
    length_penalty: float = 0.0,
    ranking: str = "gnmt",
    patience: float | None = None,
    force_end: bool = False,
) -> Hypotheses:
    """Searches with K beams for the best hypotheses that meet the constraints.

    The beams are shared among the hypotheses that have met 0, 1, 2, ... tokens of the phrases, so that those which
    write a phrase are not crowded out by more probable ones that do not. Only a hypothesis that meets all ends.

    Args:
        step: function (token_ids int32 (K,), parents int32 (K,)) -> log probabilities (K, V) of the next tokens.
            `parents` are the old beams that the new ones continue; the state of the beams is the function's own.
        constraints: Constraints.
        beam_size: int >= 1, K; better more than the number of tokens of all phrases.
        start_id, end_id: int.
        never: sequence of int, tokens that are not written unless the constraints demand it.
        limit: int >= 1, the largest number of tokens, counting END.
        n_best, length_penalty, ranking, patience, force_end: see `beam_search`.

    Returns:
        `Hypotheses` of NumPy arrays for one sentence, B = 1. If none has ended at the limit, truncated ones, those that
        meet more of the constraints first.

    Source: Post & Vilar (2018), Fast Lexically Constrained Decoding with Dynamic Beam Allocation, section 3,
    https://arxiv.org/abs/1804.06609. Differences: each beam offers its K best tokens, not its best one alone; a phrase
    may be written in several ways, and is a whole word at its end.
    """
    beams, finished = [Beam((), 0.0, constraints.first())], []
    tokens, parents = np.full(beam_size, start_id, "int32"), np.arange(beam_size, dtype="int32")
    enough = math.inf if patience is None else max(n_best, math.ceil(patience * beam_size))
    kept, length = (n_best if ranking == "gnmt" else beam_size), 0

    def score(log_prob, size):
        return log_prob / (((5.0 + size) / 6.0) ** length_penalty if ranking == "gnmt" else size**length_penalty)

    while length < limit and beams:
        length += 1
        log_probs = np.array(step(tokens, parents)[: len(beams)], "float64")  # (live beams, V)
        candidates = _candidates(beams, log_probs, constraints, beam_size, end_id, never, force_end and length == limit)
        ended = [one for one in _shared_out(candidates, constraints, beam_size) if one.token == end_id]
        finished += [(score(one.log_prob, length), one.log_prob, (*beams[one.beam].token_ids, end_id)) for one in ended]
        finished.sort(key=lambda one: -one[0])  # stable: of equal ones, the one that ended earlier
        chosen = _shared_out([one for one in candidates if one.token != end_id], constraints, beam_size)
        parents = np.resize(np.array([one.beam for one in chosen] or [0], "int32"), beam_size)
        tokens = np.resize(np.array([one.token for one in chosen] or [0], "int32"), beam_size)
        beams = [Beam((*beams[one.beam].token_ids, one.token), one.log_prob, one.progress) for one in chosen]
        if len(finished) >= enough or (finished and beam_size == 1):
            break
        attainable = max((score(beam.log_prob, limit if ranking == "gnmt" else length) for beam in beams), default=0.0)
        if len(finished) >= kept and attainable <= finished[kept - 1][0]:
            break
    cut = [
        (constraints.may_end(beam.progress), constraints.count(beam.progress), score(beam.log_prob, length), beam)
        for beam in beams
        if length == limit
    ]
    cut.sort(key=lambda one: one[:3], reverse=True)
    finished += [(value, beam.log_prob, beam.token_ids) for _, _, value, beam in cut]
    return _as_hypotheses(finished[:n_best], n_best, limit)


def _candidates(beams, log_probs, constraints, beam_size, end_id, never, only_end):
    """The Candidates of a step, best first: the best tokens of each beam, and those that meet constraints."""
    ends = log_probs[:, end_id].copy()
    forced = [constraints.wanted(beam.progress) for beam in beams]
    wanted = [{token: log_probs[i, token] for token in tokens} for i, tokens in enumerate(forced)]
    log_probs[:, [*never, end_id]] = -np.inf
    candidates = []
    for i, beam in enumerate(beams):
        if constraints.may_end(beam.progress):
            candidates.append(Candidate(beam.log_prob + (0.0 if only_end else float(ends[i])), i, end_id, None))
        if only_end:
            continue
        row, values = log_probs[i], wanted[i]
        if beam.progress.length >= len(constraints.prefix):
            if beam.progress.closed and constraints.boundaries is not None:
                row[~constraints.boundaries] = -np.inf
            best = np.argpartition(-row, min(beam_size, len(row)) - 1)[:beam_size]
            values = values | {int(token): row[token] for token in best}
        for token, value in values.items():
            progress = constraints.after(beam.progress, token)
            if progress is not None and -np.inf < value < np.inf:
                candidates.append(Candidate(beam.log_prob + float(value), i, token, progress))
    return sorted(candidates, key=lambda one: (-one.log_prob, one.beam, one.token))


def _shared_out(candidates, constraints, beam_size):
    """At most K Candidates, best first: equally many of each number of tokens of phrases, as far as there are any."""
    banks: dict[Any, list] = {}
    for one in candidates:
        count = constraints.total if one.progress is None else constraints.count(one.progress)
        banks.setdefault(count, []).append(one)
    by_rank = zip_longest(*(banks[count] for count in sorted(banks, reverse=True)))
    chosen = [one for ranked in by_rank for one in ranked if one is not None][:beam_size]
    return sorted(chosen, key=lambda one: (-one.log_prob, one.beam, one.token))


def _as_hypotheses(hypotheses, n_best, limit):
    """Hypotheses of one sentence from (score, log probability, ids)."""
    token_ids = np.zeros((1, n_best, limit), "int32")
    lengths, (scores, log_probs) = np.zeros((1, n_best), "int32"), np.full((2, 1, n_best), -np.inf, "float32")
    for j, (value, log_prob, ids) in enumerate(hypotheses):
        token_ids[0, j, : len(ids)] = ids
        lengths[0, j], scores[0, j], log_probs[0, j] = len(ids), value, log_prob
    return Hypotheses(token_ids, lengths, scores, log_probs)
