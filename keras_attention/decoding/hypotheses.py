"""The result of a search, and helpers for the states of beams."""

from typing import NamedTuple

from keras import ops, tree


class Hypotheses(NamedTuple):
    """The best sequences of each row, best first. B rows, N hypotheses per row, L = the largest allowed length.

    Lengths count END. A hypothesis truncated at its maximum length has no END and comes after all that ended. If a row
    has fewer than N hypotheses, the missing ones are padding, with length 0 and score -infinity.

    Attributes:
        token_ids: int32 (B, N, L), without START, with END, padded with PAD.
        lengths: int32 (B, N), tokens including END.
        scores: float32 (B, N), log probabilities after penalties, which the search maximizes.
        log_probs: float32 (B, N), the summed natural log probability under the model.
    """

    token_ids: object
    lengths: object
    scores: object
    log_probs: object


def repeat_beams(state, beam_size):
    """Repeats each row of each tensor but the shared ones: (B, ...) becomes (B * beam_size, ...), beams adjacent."""
    return _map_own(lambda tensor: ops.repeat(tensor, beam_size, axis=0), state)


def pick(tensor, indices):
    """Picks the entries `indices` (B, M) of each row of a tensor (B, W, ...): (B, M, ...)."""
    batch_size, width, *rest = tensor.shape
    rows = ops.arange(batch_size, dtype="int32")[:, None] * width + indices
    picked = ops.take(ops.reshape(tensor, (batch_size * width, *rest)), ops.reshape(rows, (-1,)), axis=0)
    return ops.reshape(picked, (batch_size, indices.shape[1], *rest))


def take_rows(state, rows):
    """Picks rows (R,) of each tensor but the shared ones: (N, ...) becomes (R, ...)."""
    return _map_own(lambda tensor: ops.take(tensor, rows, axis=0), state)


def _map_own(function, state):
    """Maps the tensors of a state, except `state["shared"]`, which the beams share."""
    if not isinstance(state, dict) or "shared" not in state:
        return tree.map_structure(function, state)
    own = {name: value for name, value in state.items() if name != "shared"}
    return {**tree.map_structure(function, own), "shared": state["shared"]}


def has_attention(state):
    """Whether the state is a dict with the attention of the last step."""
    return isinstance(state, dict) and "attention" in state


def split_attention(state, keep):
    """Returns (the state without `state["attention"]` unless `keep`, the attention or None).

    A step may return attention weights that its initial state lacks; a loop needs the same structure at each step.
    """
    if not has_attention(state):
        return state, None
    attention = state["attention"]
    if not keep:
        state = {name: value for name, value in state.items() if name != "attention"}
    return state, attention
