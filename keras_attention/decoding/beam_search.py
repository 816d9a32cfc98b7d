"""Beam search with frozen finished hypotheses.

    score(Y) = log P(Y) / ((5 + |Y|) / 6) ** alpha + beta * sum_i log(min(sum_j p_ij, 1))

At each step the continuations of a row's K live beams are ranked by log probability. Those of the best K that end are
scored and frozen; the best K that do not end live on. A row stops at its maximum length, or as soon as no live beam
could still beat the worst hypothesis kept: log probabilities only fall and the coverage term is at most 0, so that
log P(beam) / lp(maximum length) bounds every score within a live beam's reach. With a length penalty that bound is far
away, and `patience` stops a row sooner. With K = 1 there is no second best to go on with: the first END stops the row,
and the answer is greedy search's.

Source: Wu et al. (2016), section 7 and eq. 14, https://arxiv.org/abs/1609.08144. Unlike the paper, nothing is pruned by
a margin below the best score. Kasai et al. (2022), https://arxiv.org/abs/2204.05424, for the patience.
"""

import math

from keras_attention.decoding.beams import best_hypotheses, first_beams
from keras_attention.decoding.constraints import forbidden_ids, row_limits
from keras_attention.decoding.hypotheses import repeat_beams
from keras_attention.decoding.penalties import Penalties
from keras_attention.decoding.rows import Rows, search_rows


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
