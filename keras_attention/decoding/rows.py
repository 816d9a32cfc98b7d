"""The rows of a beam search, of which those that are done leave."""

from typing import NamedTuple

from keras import ops, tree

from keras_attention.decoding.beams import Beams, advance
from keras_attention.decoding.hypotheses import has_attention, split_attention, take_rows
from keras_attention.decoding.penalties import Penalties

MANY = 32
REPORTED = ("token_ids", "log_probs", "scores", "finished")  # of `Beams`: what `best_hypotheses` reads


class Rows(NamedTuple):
    """R rows in tensors whose leading axis is R or a multiple of it, what belongs to one row side by side.

    Attributes:
        beams: Beams.
        state: state of the step function.
        memory: what a step reads and does not change, or None: then no row can leave.
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
    """Searches until every row is done.

    The rows end at different steps, and the last ones come late. Of `MANY` rows and more, the last quarter goes on in
    a loop of its own, which is compiled besides. (With fewer rows that takes longer than it saves.)

    Args:
        step: function (token_ids, state) -> (logits, state), with `rows.memory` (token_ids, state, memory).
        rows: Rows.
        max_steps: int.
        rules: dict, what `advance` knows by other names than those of `Rows`.

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
    """Goes on until no more than `fewer` rows are left; returns their `Beams` and their state."""
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
    """Returns the beams with what is reported of others at `places`, int32 (M,)."""

    def put(name):
        return tree.map_structure(
            lambda tensor, rows: ops.scatter_update(tensor, places[:, None], rows),
            getattr(beams, name),
            getattr(others, name),
        )

    return beams._replace(**{name: put(name) for name in REPORTED})
