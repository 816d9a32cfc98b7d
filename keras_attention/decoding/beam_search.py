"""Beam-search loop that freezes finished hypotheses and drops finished sentences."""

import math
from typing import NamedTuple

from keras import ops, tree

from keras_attention.decoding.beams import Beams, advance, best_hypotheses, first_beams
from keras_attention.decoding.constraints import forbidden_ids, row_limits
from keras_attention.decoding.hypotheses import has_attention, repeat_beams, split_attention, take_rows
from keras_attention.decoding.penalties import Penalties

MANY = 32
REPORTED = ("token_ids", "log_probs", "scores", "finished")  # of `Beams`: what `best_hypotheses` reads


class Rows(NamedTuple):
    """R sentences in tensors whose leading axis is R or a multiple of R; the parts of a sentence are adjacent.

    Attributes:
        beams: Beams.
        state: state of the step function.
        memory: tensors that a step reads but does not change, or None; without memory, no sentence can be dropped.
        limits: int32 (R,).
        penalties: Penalties.
    """

    beams: Beams
    state: object
    memory: object
    limits: object
    penalties: Penalties

    def take(self, places):
        """Returns the rows at `places`, int32 (M,)."""
        rows = self.limits.shape[0]

        def taken(tensor):
            size = tensor.shape[0] // rows
            indices = places[:, None] * size + ops.arange(size, dtype="int32")
            return ops.take(tensor, ops.reshape(indices, (-1,)), axis=0)

        beams = self.beams._replace(index=self.beams.done)  # a scalar, which has no rows
        beams, state, memory, limits = tree.map_structure(taken, (beams, self.state, self.memory, self.limits))
        return Rows(beams._replace(index=self.beams.index), state, memory, limits, self.penalties.take(places))


def search_rows(step, rows, max_steps, rules):
    """Searches until every sentence is done.

    Sentences end at different steps, and the last ones end late. With at least `MANY` sentences, the last quarter
    continues in a second, smaller compiled loop. (With fewer sentences, this costs more than it saves.)

    Args:
        step: function (token_ids, state) -> (logits, state), with `rows.memory` (token_ids, state, memory).
        rows: Rows.
        max_steps: int.
        rules: dict, the other arguments of `advance`.

    Returns:
        The last `Beams` of all rows, in their order.
    """
    count = rows.limits.shape[0]
    fewer = count // 4 if rows.memory is not None and count >= MANY else 0
    beams, state = _search_until(step, rows, fewer, max_steps, rules)
    if not fewer:
        return beams
    left = ops.cast(ops.argsort(ops.cast(beams.done, "int32")), "int32")[:fewer]  # those that are not done come first
    rows = rows._replace(beams=beams, state=state).take(left)
    return _put(beams, left, _search_until(step, rows, 0, max_steps, rules)[0])


def _search_until(step, rows, fewer, max_steps, rules):
    """Searches until at most `fewer` sentences are left; returns their `Beams` and their state."""
    keep_attention = has_attention(rows.state)
    count, beam_size = rows.beams.last_ids.shape
    first_rows = ops.arange(count, dtype="int32")[:, None] * beam_size  # (R, 1)
    memory = () if rows.memory is None else (rows.memory,)

    def unfinished(beams, _):
        left = ops.sum(ops.cast(ops.logical_not(beams.done), "int32"))
        return ops.logical_and(beams.index < max_steps, left > fewer)

    def body(beams, state):
        logits, state = step(ops.reshape(beams.last_ids, (-1,)), state, *memory)
        state, attention = split_attention(state, keep_attention)
        beams, parents = advance(beams, logits, attention, rows.limits, rows.penalties, **rules)
        return beams, take_rows(state, ops.reshape(first_rows + parents, (-1,)))

    return ops.while_loop(unfinished, body, (rows.beams, rows.state))


def _put(beams, places, others):
    """Returns the beams with the results of others written to `places`, int32 (M,)."""

    def put(name):
        return tree.map_structure(
            lambda tensor, rows: ops.scatter_update(tensor, places[:, None], rows),
            getattr(beams, name),
            getattr(others, name),
        )

    return beams._replace(**{name: put(name) for name in REPORTED})


def beam_search(
    step,
    state,
    batch_size,
    *,
    memory=None,
    beam_size,
    start_id,
    end_id,
    pad_id=0,
    unknown_id=None,
    max_length,
    max_steps=None,
    min_length=0,
    length_penalty=0.0,
    coverage_penalty=0.0,
    source_mask=None,
    n_best=1,
    patience=None,
):
    """Searches with K beams per row and returns the `n_best` finished sequences of best score.

    Args:
        step: function (token_ids int32 (B * K,), state) -> (logits (B * K, V), state). With a coverage penalty, the
            state it returns holds the step's weights, `state["attention"]` (B * K, S).
        state: nested structure of tensors with leading axis B; repeated here to B * K, the beams of a row adjacent, but
            for `state["shared"]`.
        batch_size: int > 0, B.
        memory: nested structure of tensors with leading axis B, or a multiple of B, that each step reads as its third
            argument. With it the rows that are done leave, and `step` and the state have fewer: all that a step knows
            of a row must be here or in its state. None: it reads nothing else, or something of its own.
        beam_size: int >= 1, K.
        start_id, end_id, pad_id, unknown_id: int. START, PAD and, unless None, UNKNOWN are never generated.
        max_length: int >= 1 or int tensor (B,). The largest number of tokens, counting END.
        max_steps: int. The static bound on `max_length`; needed only where that is a tensor.
        min_length: int >= 0. END is forbidden before it would be token number `min_length`.
        length_penalty: float >= 0, alpha. 0 ranks by plain log probability; larger favours longer sequences.
        coverage_penalty: float >= 0, beta. Lowers the score of what leaves source positions unattended; needs
            `source_mask`, bool (B, S), True at real source positions.
        n_best: int in [1, beam_size].
        patience: float > 0 or None. A row also stops as soon as `patience` * K hypotheses have ended, `n_best` at
            least. None searches on until the answer is certain.

    Returns:
        `Hypotheses` with `n_best` per row. Ties go to the earlier beam, then to the lower token id.

    Raises:
        ValueError: if an argument is out of range.
    """
    _check(beam_size, n_best, length_penalty, coverage_penalty, source_mask, patience)
    never = forbidden_ids(start_id, end_id, pad_id, unknown_id)
    max_steps, limits = row_limits(batch_size, max_length, min_length, max_steps)
    penalties = Penalties(length_penalty, coverage_penalty, source_mask)
    enough = None if patience is None else max(n_best, math.ceil(patience * beam_size))
    beams = first_beams(limits, beam_size, n_best, max_steps, start_id, pad_id, penalties)
    rows = Rows(beams, repeat_beams(state, beam_size), memory, limits, penalties)
    rules = {"never": never, "end_id": end_id, "min_length": min_length, "enough": enough}
    beams = search_rows(step, rows, max_steps, rules)
    return best_hypotheses(beams, limits, pad_id)


def _check(beam_size, n_best, length_penalty, coverage_penalty, source_mask, patience):
    if beam_size < 1:
        raise ValueError(f"`beam_size` must be at least 1. Received: beam_size={beam_size}")
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"`n_best` must lie between 1 and beam_size={beam_size}. Received: n_best={n_best}")
    if not length_penalty >= 0:
        raise ValueError(f"`length_penalty` must be at least 0. Received: length_penalty={length_penalty}")
    if not coverage_penalty >= 0:
        raise ValueError(f"`coverage_penalty` must be at least 0. Received: coverage_penalty={coverage_penalty}")
    if patience is not None and not patience > 0:
        raise ValueError(f"`patience` must be positive or None. Received: patience={patience}")
    if coverage_penalty and source_mask is None:
        raise ValueError("`source_mask` is needed with a coverage penalty. Received: source_mask=None")
