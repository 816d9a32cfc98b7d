"""Beam search with frozen finished hypotheses."""

from typing import NamedTuple

from keras import ops

from keras_attention.decoding.constraints import forbid, forbidden_ids, row_limits
from keras_attention.decoding.hypotheses import Hypotheses, repeat_beams, split_attention, take_rows
from keras_attention.decoding.penalties import coverage_bonus, length_divisor
from keras_attention.decoding.top_tokens import top_tokens

NEVER = -float("inf")


class Search(NamedTuple):
    """What a beam search carries from step to step. B rows, K live beams, N kept finished hypotheses, L steps."""

    index: object  # scalar, the number of tokens in each live beam
    done: object  # (B,) bool
    last_ids: object  # (B, K)
    token_ids: object  # (B, K, L)
    log_probs: object  # (B, K), -infinity where no beam lives
    scores: object  # (B, K), what the beam would score if it were cut here
    finished: Hypotheses  # of N, best first, score -infinity where none


def beam_search(
    step,
    state,
    batch_size,
    *,
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
):
    """Keeps the `beam_size` most probable unfinished sequences of each row and its `n_best` best finished ones.

        score(Y) = log P(Y) / ((5 + |Y|) / 6) ** alpha + beta * sum_i log(min(sum_j p_ij, 1))

    At each step the continuations of the live beams are ranked by log probability. Those of the first K that end are
    scored and frozen; the first K that do not end live on. A row stops at its maximum length, or as soon as no live
    beam could still beat the worst kept hypothesis: log probabilities only fall, so log P / lp(maximum length) bounds
    every score that a live beam can reach. With one beam the first END stops the row, so the answer is greedy search's.

    Args:
        step: function (token_ids int32 (B * K,), state) -> (logits (B * K, V), state). With a coverage penalty,
            the returned `state["attention"]` holds the attention weights (B * K, S) of this step.
        state: nested structure of tensors with leading axis B; repeated here to B * K, beams of a row adjacent.
        batch_size: int > 0, B.
        beam_size: int >= 1, K.
        start_id, end_id, pad_id: int. START and PAD are never generated.
        unknown_id: int or None. If given, it is never generated either.
        max_length: int >= 1 or int tensor (B,). The largest number of tokens, counting END.
        max_steps: int. The static bound on `max_length`; needed only where that is a tensor.
        min_length: int >= 0. END is forbidden before it would be token number `min_length`.
        length_penalty: float >= 0 (alpha in the paper). 0 ranks by plain log probability; larger favours long ones.
        coverage_penalty: float >= 0 (beta in the paper).
        source_mask: bool tensor (B, S), True at real source positions; None means all. Used by the coverage penalty.
        n_best: int in [1, beam_size].

    Returns:
        `Hypotheses` with `n_best` per row. Ties go to the earlier beam, then to the lower token id.

    Source: Wu et al. (2016), section 7 and eq. 14, https://arxiv.org/abs/1609.08144. Unlike the paper, beams are not
    pruned by score: the stopping rule is exact.
    """
    _check(beam_size, n_best, length_penalty, coverage_penalty)
    never = [*forbidden_ids(start_id, end_id, pad_id, unknown_id), end_id]
    max_steps, limits = row_limits(batch_size, max_length, min_length, max_steps)
    keep_attention = isinstance(state, dict) and "attention" in state
    first_rows = ops.arange(batch_size, dtype="int32")[:, None] * beam_size  # (B, 1)

    def pick(tensor, beams, width=beam_size):
        """Picks from (B, width, ...) the `beams` (B, M): (B, M, ...)."""
        rows = ops.arange(batch_size, dtype="int32")[:, None] * width + beams
        flat = ops.reshape(tensor, (batch_size * width, *tensor.shape[2:]))
        picked = ops.take(flat, ops.reshape(rows, (-1,)), axis=0)
        return ops.reshape(picked, (batch_size, beams.shape[1], *tensor.shape[2:]))

    def unfinished(search, *_):
        return ops.logical_and(search.index < max_steps, ops.logical_not(ops.all(search.done)))

    def body(search, coverage, state):
        length = search.index + 1
        logits, state = step(ops.reshape(search.last_ids, (-1,)), state)
        state, attention = split_attention(state, keep_attention)
        logits = ops.cast(logits, "float32")
        offsets = search.log_probs - ops.reshape(ops.logsumexp(logits, axis=-1), search.log_probs.shape)  # (B, K)
        bonus = 0.0
        if coverage_penalty:
            coverage = coverage + ops.reshape(ops.cast(attention, "float32"), coverage.shape)  # (B, K, S)
            bonus = coverage_bonus(coverage, source_mask[:, None, :], coverage_penalty)  # (B, K)
        divisor = length_divisor(length, length_penalty)

        # The K best continuations that do not end.
        width = min(beam_size, logits.shape[-1])
        values, ids = top_tokens(forbid(logits, never), width)  # (B * K, width)
        continued = offsets[:, :, None] + ops.reshape(values, (batch_size, beam_size, width))
        log_probs, order = top_tokens(ops.reshape(continued, (batch_size, beam_size * width)), beam_size)  # (B, K)
        parents = order // width
        ids = pick(ops.reshape(ids, (batch_size, beam_size * width)), order, beam_size * width)  # (B, K)

        # Those that end, if they are among the K best of all.
        ended = offsets + ops.reshape(logits[:, end_id], offsets.shape)  # (B, K)
        ended = ops.where(length < min_length, NEVER, ended)
        rank = _rank_of_ended(ended, log_probs, parents, ids, end_id)
        ended = ops.where(rank < beam_size, ended, NEVER)
        here = ops.arange(max_steps, dtype="int32") == search.index  # (L,)
        candidates = Hypotheses(
            ops.where(here, end_id, search.token_ids),
            ops.broadcast_to(length, ended.shape),
            ended / divisor + bonus,
            ended,
        )
        merged = Hypotheses(*(ops.concatenate(pair, axis=1) for pair in zip(search.finished, candidates, strict=True)))
        scores, best = top_tokens(merged.scores, n_best)
        finished = Hypotheses(*(pick(field, best, n_best + beam_size) for field in merged))

        bound = log_probs[:, 0] / length_divisor(limits, length_penalty)  # (B,)
        done = ops.logical_or(length >= limits, bound <= scores[:, -1])
        if beam_size == 1:
            done = ops.logical_or(done, scores[:, 0] > NEVER)
        token_ids = ops.where(here, ids[:, :, None], pick(search.token_ids, parents))
        if coverage_penalty:
            bonus = pick(bonus, parents)
            coverage = pick(coverage, parents)
        new = Search(length, done, ids, token_ids, log_probs, log_probs / divisor + bonus, finished)
        state = take_rows(state, ops.reshape(first_rows + parents, (-1,)))
        return _freeze(search, new), coverage, state

    shape = (batch_size, beam_size)
    coverage = ops.zeros((*shape, 0))
    if coverage_penalty:
        if source_mask is None:
            raise ValueError(f"`source_mask` is needed with a coverage penalty. Received: source_mask={source_mask}")
        source_mask = ops.convert_to_tensor(source_mask, "bool")
        coverage = ops.zeros((*shape, source_mask.shape[-1]))
    log_probs = ops.broadcast_to(ops.where(ops.arange(beam_size) == 0, 0.0, NEVER), shape)
    search = Search(
        index=ops.convert_to_tensor(0, "int32"),
        done=limits <= 0,
        last_ids=ops.full(shape, start_id, "int32"),
        token_ids=ops.full((*shape, max_steps), pad_id, "int32"),
        log_probs=log_probs,
        scores=log_probs,
        finished=Hypotheses(
            ops.full((batch_size, n_best, max_steps), pad_id, "int32"),
            ops.zeros((batch_size, n_best), "int32"),
            ops.full((batch_size, n_best), NEVER, "float32"),
            ops.full((batch_size, n_best), NEVER, "float32"),
        ),
    )
    search, _, _ = ops.while_loop(unfinished, body, (search, coverage, repeat_beams(state, beam_size)))
    return _best(search, limits, n_best, pick, pad_id)


def _check(beam_size, n_best, length_penalty, coverage_penalty):
    if beam_size < 1:
        raise ValueError(f"`beam_size` must be at least 1. Received: beam_size={beam_size}")
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"`n_best` must lie between 1 and beam_size={beam_size}. Received: n_best={n_best}")
    if not length_penalty >= 0:
        raise ValueError(f"`length_penalty` must be at least 0. Received: length_penalty={length_penalty}")
    if not coverage_penalty >= 0:
        raise ValueError(f"`coverage_penalty` must be at least 0. Received: coverage_penalty={coverage_penalty}")


def _rank_of_ended(ended, log_probs, parents, ids, end_id):
    """Counts for each ending continuation (B, K) the better ones among the kept and the other ending ones."""
    beams = ops.arange(ended.shape[1], dtype="int32")
    mine = ended[:, :, None]  # (B, K, 1)
    others, kept = ended[:, None, :], log_probs[:, None, :]  # (B, 1, K)
    kept_parents, kept_ids = parents[:, None, :], ids[:, None, :]
    earlier_beam = kept_parents < beams[:, None]
    earlier_id = ops.logical_and(kept_parents == beams[:, None], kept_ids < end_id)
    kept_first = ops.logical_and(kept == mine, ops.logical_or(earlier_beam, earlier_id))
    other_first = ops.logical_and(others == mine, beams[None, :] < beams[:, None])
    better_kept = ops.logical_or(kept > mine, kept_first)
    better_other = ops.logical_or(others > mine, other_first)
    return ops.sum(ops.cast(better_kept, "int32") + ops.cast(better_other, "int32"), axis=-1)  # (B, K)


def _freeze(old, new):
    """Returns the new search, in which the rows that were done before this step are as they were."""

    def keep(before, after):
        return ops.where(ops.reshape(old.done, (-1,) + (1,) * (len(after.shape) - 1)), before, after)

    return Search(
        new.index,
        ops.logical_or(old.done, new.done),
        new.last_ids,
        *(keep(getattr(old, name), getattr(new, name)) for name in ("token_ids", "log_probs", "scores")),
        Hypotheses(*map(keep, old.finished, new.finished)),
    )


def _best(search, limits, n_best, pick, pad_id):
    """Returns the finished hypotheses and, where these are too few, the best of those that were cut."""
    scores, order = top_tokens(search.scores, n_best)  # (B, N)
    exists = scores > NEVER
    cut = Hypotheses(
        ops.where(exists[:, :, None], pick(search.token_ids, order), pad_id),
        ops.where(exists, limits[:, None], 0),
        scores,
        pick(search.log_probs, order),
    )
    both = Hypotheses(*(ops.concatenate(pair, axis=1) for pair in zip(search.finished, cut, strict=True)))
    slots = ops.arange(n_best, dtype="int32")[None, :]
    finished = ops.sum(ops.cast(search.finished.scores > NEVER, "int32"), axis=1, keepdims=True)  # (B, 1)
    chosen = ops.where(slots < finished, slots, n_best + slots - finished)  # (B, N)
    return Hypotheses(*(pick(field, chosen, 2 * n_best) for field in both))
