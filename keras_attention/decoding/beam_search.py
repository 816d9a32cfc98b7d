"""One step of a beam search: the beams, and how they grow by a token. `token_loop` has the search itself."""

from typing import NamedTuple

from keras import ops

from keras_attention.decoding.hypotheses import Hypotheses, pick
from keras_attention.decoding.ngram_block import without_repeats
from keras_attention.decoding.sampling import top_tokens
from keras_attention.support.moved import moved_name

NOTHING = -float("inf")


class Beams(NamedTuple):
    """The state of a search: K live beams and the N best finished hypotheses of each of B sentences.

    L is the number of steps, S the number of source positions (0 without a coverage penalty).

    Attributes:
        index: int32 scalar, the number of tokens in each live beam.
        done: bool (B,).
        last_ids: int32 (B, K), the newest token of each live beam.
        token_ids: int32 (B, K, L).
        log_probs: float32 (B, K), largest first, -infinity for dead beams.
        scores: float32 (B, K), score of each live beam if it were truncated here.
        coverage: float32 (B, K, S), the attention weights summed over the steps.
        ended: int32 (B,), the number of hypotheses that have ended.
        finished: `Hypotheses`, N per sentence, best first; missing ones have the score -infinity.
    """

    index: object
    done: object
    last_ids: object
    token_ids: object
    log_probs: object
    scores: object
    coverage: object
    ended: object
    finished: Hypotheses


def first_beams(limits, beam_size, n_best, max_steps, start_id, pad_id, penalties):
    """Returns the beams before the first step: one live beam per sentence, which contains START."""
    batch_size = limits.shape[0]
    shape, kept = (batch_size, beam_size), (batch_size, n_best)
    log_probs = ops.where(ops.arange(beam_size, dtype="int32") == 0, 0.0, NOTHING)
    log_probs = ops.broadcast_to(ops.cast(log_probs, "float32"), shape)  # whatever `keras.config.floatx` is
    return Beams(
        index=ops.convert_to_tensor(0, "int32"),
        done=limits <= 0,
        last_ids=ops.full(shape, start_id, "int32"),
        token_ids=ops.full((*shape, max_steps), pad_id, "int32"),
        log_probs=log_probs,
        scores=log_probs,
        coverage=ops.zeros((*shape, penalties.source_length), "float32"),
        ended=ops.zeros((batch_size,), "int32"),
        finished=Hypotheses(
            token_ids=ops.full((*kept, max_steps), pad_id, "int32"),
            lengths=ops.zeros(kept, "int32"),
            scores=ops.full(kept, NOTHING, "float32"),
            log_probs=ops.full(kept, NOTHING, "float32"),
        ),
    )


def advance(
    beams,
    logits,
    attention,
    limits,
    penalties,
    never,
    end_id,
    min_length,
    enough=None,
    force_end=False,
    no_repeat_ngram_size=0,
):
    """Adds one token to each live beam and freezes the hypotheses that end.

    Args:
        beams: `Beams`.
        logits: float tensor (B * K, V).
        attention: float tensor (B * K, S); used with a coverage penalty only.
        limits: int32 tensor (B,), the maximum length of each sentence.
        penalties: `Penalties`.
        never: list of int, the ids that are never generated.
        end_id, min_length: as in `beam_search`.
        enough: int or None, the number of ended hypotheses after which a sentence is done.
        force_end, no_repeat_ngram_size: as in `beam_search`.

    Returns:
        The new `Beams`, and int32 (B, K), the index of the old beam that each new beam continues.
    """
    length = beams.index + 1
    logits = ops.cast(logits, "float32")
    totals = ops.reshape(ops.logsumexp(logits, axis=-1), beams.log_probs.shape)
    offsets = beams.log_probs - totals  # (B, K)
    if no_repeat_ngram_size:
        token_ids = ops.reshape(beams.token_ids, (logits.shape[0], -1))  # (B * K, L)
        logits = without_repeats(logits, token_ids, beams.index, no_repeat_ngram_size, never[0])
    log_probs, parents, ids = _continue(offsets, logits, [*never, end_id])
    ended = _possible(offsets + ops.reshape(logits[:, end_id], offsets.shape))  # (B, K)
    ended = ops.where(length < min_length, NOTHING, ended)
    if force_end:
        last = (length >= limits)[:, None]
        ended, log_probs = ops.where(last, beams.log_probs, ended), ops.where(last, NOTHING, log_probs)
    ended = ops.where(_rank_ended(ended, log_probs, parents, ids, end_id) < ended.shape[1], ended, NOTHING)

    coverage = beams.coverage  # (B, K, S)
    if penalties.source_length:
        coverage = coverage + ops.reshape(ops.cast(attention, "float32"), coverage.shape)
    here = ops.arange(beams.token_ids.shape[-1], dtype="int32") == beams.index  # (L,)
    finished = _keep_best(
        beams.finished,
        Hypotheses(
            token_ids=ops.where(here, end_id, beams.token_ids),
            lengths=ops.broadcast_to(length, ended.shape),
            scores=penalties.score(ended, length, coverage),
            log_probs=ended,
        ),
    )
    coverage = pick(coverage, parents)
    count = beams.ended + ops.sum(ops.cast(ended > NOTHING, "int32"), axis=1)  # (B,)
    done = _is_done(log_probs, finished.scores, length, limits, penalties)
    grown = Beams(
        index=length,
        done=done if enough is None else ops.logical_or(done, count >= enough),
        last_ids=ids,
        token_ids=ops.where(here, ids[:, :, None], pick(beams.token_ids, parents)),
        log_probs=log_probs,
        scores=penalties.score(log_probs, length, coverage),
        coverage=coverage,
        ended=count,
        finished=finished,
    )
    return _freeze_done(beams, grown), parents


def best_hypotheses(beams, limits, pad_id):
    """Returns the N best `Hypotheses` of each sentence: the finished ones, then the best truncated ones."""
    n_best = beams.finished.scores.shape[1]
    scores, order = top_tokens(beams.scores, n_best)  # (B, N)
    exists = scores > NOTHING
    cut = Hypotheses(
        token_ids=ops.where(exists[:, :, None], pick(beams.token_ids, order), pad_id),
        lengths=ops.where(exists, limits[:, None], 0),
        scores=scores,
        log_probs=pick(beams.log_probs, order),
    )
    slots = ops.arange(n_best, dtype="int32")
    ended = ops.sum(ops.cast(beams.finished.scores > NOTHING, "int32"), axis=1, keepdims=True)  # (B, 1)
    chosen = ops.where(slots < ended, slots, n_best + slots - ended)  # (B, N)
    return _pick_hypotheses(_join(beams.finished, cut), chosen)


def _continue(offsets, logits, never):
    """Returns (log probability, old beam, token id), each (B, K), of the K best continuations, best first.

    The K best of all are among the K best of each beam. These are selected first, so that no sum has size (B, K, V).
    """
    batch_size, beam_size = offsets.shape
    width = min(beam_size, logits.shape[-1])
    values, ids = top_tokens(logits, width, never)  # (B * K, width)
    log_probs = _possible(offsets[:, :, None] + ops.reshape(values, (batch_size, beam_size, width)))
    log_probs, order = top_tokens(ops.reshape(log_probs, (batch_size, beam_size * width)), beam_size)  # (B, K)
    return log_probs, order // width, pick(ops.reshape(ids, (batch_size, beam_size * width)), order)


def _possible(log_probs):
    """The log probabilities, but -infinity for NaN and +infinity: such a continuation does not exist."""
    return ops.where(log_probs < -NOTHING, log_probs, NOTHING)


def _rank_ended(ended, log_probs, parents, ids, end_id):
    """The rank (B, K) of each beam's continuation with END: the number of better continuations of any beam."""
    beams = ops.arange(ended.shape[1], dtype="int32")
    this, this_beam = ended[:, :, None], beams[:, None]
    other, other_beam, other_id = log_probs[:, None, :], parents[:, None, :], ids[:, None, :]
    same_beam_first = ops.logical_and(other_beam == this_beam, other_id < end_id)
    tie_lost = ops.logical_and(other == this, ops.logical_or(other_beam < this_beam, same_beam_first))
    behind_other = ops.logical_or(other > this, tie_lost)  # (B, K, K)
    other_end = ended[:, None, :]
    behind_end = ops.logical_or(other_end > this, ops.logical_and(other_end == this, beams < this_beam))
    return ops.sum(ops.cast(behind_other, "int32") + ops.cast(behind_end, "int32"), axis=-1)


def _keep_best(kept, new):
    """Returns the best hypotheses of both, as many as `kept` has; ties go to the hypothesis that ended earlier."""
    both = _join(kept, new)
    _, order = top_tokens(both.scores, kept.scores.shape[1])
    return _pick_hypotheses(both, order)


def _is_done(log_probs, kept_scores, length, limits, penalties):
    """Returns bool (B,): whether a sentence is at its limit, or no live beam can beat the worst finished hypothesis.

    With a single beam, a sentence is also done as soon as a hypothesis has ended.
    """
    attainable = penalties.bound(log_probs[:, 0], length, limits)
    done = ops.logical_or(length >= limits, attainable <= kept_scores[:, -1])
    return ops.logical_or(done, kept_scores[:, 0] > NOTHING) if log_probs.shape[1] == 1 else done


def _freeze_done(old, new):
    """Returns the new beams, but with the old results of the sentences that were already done."""

    def keep(before, after):
        return ops.where(ops.reshape(old.done, (-1,) + (1,) * (len(after.shape) - 1)), before, after)

    return new._replace(
        done=ops.logical_or(old.done, new.done),
        token_ids=keep(old.token_ids, new.token_ids),
        log_probs=keep(old.log_probs, new.log_probs),
        scores=keep(old.scores, new.scores),
        finished=Hypotheses(*map(keep, old.finished, new.finished)),
    )


def _join(first, second):
    return Hypotheses(*(ops.concatenate(pair, axis=1) for pair in zip(first, second, strict=True)))


def _pick_hypotheses(hypotheses, indices):
    return Hypotheses(*(pick(field, indices) for field in hypotheses))


def __getattr__(name):
    return moved_name(__name__, name)
