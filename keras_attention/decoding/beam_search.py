"""Beam search: the state of all beams, one step, and the loop over the steps."""

import math
from typing import Any, NamedTuple

from keras import ops, tree

from keras_attention.decoding.hypotheses import (
    RANKINGS,
    Hypotheses,
    Penalties,
    Step,
    Tensor,
    has_attention,
    pick,
    repeat_beams,
    split_attention,
    take_sequences,
)
from keras_attention.decoding.ngram_block import without_repeats
from keras_attention.decoding.sampling import forbidden_ids, length_limits, top_tokens

NOTHING = -float("inf")
MOST_PENALTY = 10.0  # with larger ones, scores leave the range of float32


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


MANY = 32  # hypotheses; with fewer, a second loop saves no time
REPORTED = ("token_ids", "log_probs", "scores", "finished")  # the fields of `Beams` that `best_hypotheses` reads


class SearchState(NamedTuple):
    """The search for R sentences. The leading axis of all tensors is R or a multiple, with each sentence contiguous.

    Attributes:
        beams: Beams.
        state: state of the step function.
        memory: tensors that a step reads but does not change, or None. Without memory, no sentence can be removed.
        limits: int32 (R,).
        penalties: Penalties.
    """

    beams: Beams
    state: Any
    memory: Any
    limits: Tensor
    penalties: Penalties

    def take(self, places):
        """Returns the sentences at `places`, int32 (M,)."""
        sentences = self.limits.shape[0]

        def taken(tensor):
            size = tensor.shape[0] // sentences
            indices = places[:, None] * size + ops.arange(size, dtype="int32")
            return ops.take(tensor, ops.reshape(indices, (-1,)), axis=0)

        beams = self.beams._replace(index=self.beams.done)  # a placeholder, because `index` is a scalar
        beams, state, memory, limits = tree.map_structure(taken, (beams, self.state, self.memory, self.limits))
        return SearchState(beams._replace(index=self.beams.index), state, memory, limits, self.penalties.take(places))


def search_sentences(step, sentences, max_steps, rules):
    """Searches until every sentence is done.

    Sentences end at different steps, and a few end late. With at least `MANY` hypotheses, the last quarter of the
    sentences continues in a second, smaller compiled loop: 8 sentences with 5 beams are translated 20 to 40 % faster.

    Args:
        step: function (token_ids, state) -> (logits, state); with `sentences.memory`, it is the third argument.
        sentences: SearchState.
        max_steps: int.
        rules: dict, the other arguments of `advance`.

    Returns:
        The last `Beams` of all sentences, in their order.
    """
    count = sentences.limits.shape[0]
    many = sentences.memory is not None and count * sentences.beams.last_ids.shape[1] >= MANY
    fewer = count // 4 if many else 0
    beams, state = _search_until(fewer, step, sentences, max_steps, rules)
    if not fewer:
        return beams
    left = ops.cast(ops.argsort(ops.cast(beams.done, "int32")), "int32")[:fewer]  # unfinished sentences come first
    sentences = sentences._replace(beams=beams, state=state).take(left)
    last, _ = _search_until(0, step, sentences, max_steps, rules)
    return _put(beams, left, last)


def _search_until(fewer, step, sentences, max_steps, rules):
    """Searches until at most `fewer` sentences are unfinished; returns the `Beams` and the state of all sentences."""
    keep_attention = has_attention(sentences.state)
    count, beam_size = sentences.beams.last_ids.shape
    first_places = ops.arange(count, dtype="int32")[:, None] * beam_size  # (R, 1)
    memory = () if sentences.memory is None else (sentences.memory,)

    def unfinished(beams, _):
        left = ops.sum(ops.cast(ops.logical_not(beams.done), "int32"))
        return ops.logical_and(beams.index < max_steps, left > fewer)

    def body(beams, state):
        logits, state = step(ops.reshape(beams.last_ids, (-1,)), state, *memory)
        state, attention = split_attention(state, keep_attention)
        beams, parents = advance(beams, logits, attention, sentences.limits, sentences.penalties, **rules)
        return beams, take_sequences(state, ops.reshape(first_places + parents, (-1,)))

    return ops.while_loop(unfinished, body, (sentences.beams, sentences.state))


def _put(beams, places, others):
    """Returns the beams with the results of `others` written to `places`, int32 (M,)."""

    def put(name):
        return tree.map_structure(
            lambda tensor, other: ops.scatter_update(tensor, places[:, None], other),
            getattr(beams, name),
            getattr(others, name),
        )

    return beams._replace(**{name: put(name) for name in REPORTED})


def beam_search(
    step: Step,
    state: Any,
    batch_size: int,
    *,
    memory: Any = None,
    beam_size: int,
    start_id: int,
    end_id: int,
    pad_id: int = 0,
    unknown_id: int | None = None,
    max_length: int | Tensor,
    max_steps: int | None = None,
    min_length: int = 0,
    length_penalty: float = 0.0,
    coverage_penalty: float = 0.0,
    source_mask: Tensor | None = None,
    n_best: int = 1,
    patience: float | None = None,
    ranking: str = "gnmt",
    force_end: bool = False,
    no_repeat_ngram_size: int = 0,
) -> Hypotheses:
    """Searches with K beams per sentence and returns the `n_best` hypotheses with the highest scores.

    Args:
        step: function (token_ids int32 (B * K,), state) -> (logits (B * K, V), state). With a coverage penalty, the
            returned state contains the attention weights of the step, `state["attention"]` (B * K, S).
        state: nested structure of tensors with leading axis B. All but `state["shared"]` are repeated here to B * K,
            with the beams of a sentence adjacent.
        batch_size: int > 0, B.
        memory: nested structure of tensors with leading axis B or a multiple of B, passed to each step as third
            argument; or None. With a memory, the search may remove finished sentences from memory and state, so `step`
            must read all data of a sentence from these two.
        beam_size: int >= 1, K.
        start_id, end_id, pad_id, unknown_id: int. START, PAD and, unless None, UNKNOWN are never generated.
        max_length: int >= 1 or int tensor (B,). The largest number of tokens, counting END.
        max_steps: int. The static bound on `max_length`; needed only if `max_length` is a tensor.
        min_length: int >= 0. The smallest number of tokens, counting END; END is not generated earlier.
        length_penalty: float in [0, 10], alpha. 0 ranks by log probability; larger values favour longer sequences.
        coverage_penalty: float in [0, 10], beta. Lowers the score of hypotheses that leave source positions unattended.
        source_mask: bool tensor (B, S), True at real source positions; needed with a coverage penalty only.
        n_best: int in [1, beam_size].
        patience: float > 0 or None. The search for a sentence also ends as soon as `patience` * K of its hypotheses
            have ended, and at least `n_best`. None: it ends when no live beam can improve the result, and with K = 1 as
            soon as a hypothesis has ended.
        ranking: "gnmt" or "length", the form of the length penalty, see `length_penalty`. With "length", the search
            for a sentence ends when K hypotheses have ended, and the score of no live beam exceeds theirs: the beam
            search of transformers with `early_stopping=False`; with `patience` 1, that with `early_stopping=True`.
        force_end: bool. Whether END is the only token at the maximum length, with probability 1, so that no hypothesis
            is truncated: `forced_eos_token_id` of transformers.
        no_repeat_ngram_size: int, 0 or at least 2. No sequence of this many tokens occurs twice in a hypothesis, see
            `ngram_block`; 0: any may. Log probabilities stay those of the model.

    Returns:
        `Hypotheses` with `n_best` per sentence. Ties go to the earlier beam, then to the lower token id. A beam whose
        logits are not finite ends without a hypothesis.

    Raises:
        ValueError: if an argument is out of range.
    """
    _check(beam_size, n_best, length_penalty, coverage_penalty, source_mask, patience, ranking)
    if no_repeat_ngram_size < 0 or no_repeat_ngram_size == 1:
        raise ValueError(
            f"`no_repeat_ngram_size` must be 0 or at least 2. Received: no_repeat_ngram_size={no_repeat_ngram_size}"
        )
    never = forbidden_ids(start_id, end_id, pad_id, unknown_id)
    max_steps, limits = length_limits(batch_size, max_length, min_length, max_steps)
    penalties = Penalties(length_penalty, coverage_penalty, source_mask, ranking)
    enough = None if patience is None else max(n_best, math.ceil(patience * beam_size))
    kept = n_best if ranking == "gnmt" else beam_size
    beams = first_beams(limits, beam_size, kept, max_steps, start_id, pad_id, penalties)
    sentences = SearchState(beams, repeat_beams(state, beam_size), memory, limits, penalties)
    rules = {"never": never, "end_id": end_id, "min_length": min_length, "enough": enough, "force_end": force_end}
    if no_repeat_ngram_size:
        rules["no_repeat_ngram_size"] = no_repeat_ngram_size
    beams = search_sentences(step, sentences, max_steps, rules)
    found = best_hypotheses(beams, limits, pad_id)
    return found if kept == n_best else Hypotheses(*(field[:, :n_best] for field in found))


def _check(beam_size, n_best, length_penalty, coverage_penalty, source_mask, patience, ranking):
    if beam_size < 1:
        raise ValueError(f"`beam_size` must be at least 1. Received: beam_size={beam_size}")
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"`n_best` must lie between 1 and beam_size={beam_size}. Received: n_best={n_best}")
    for name, value in (("length_penalty", length_penalty), ("coverage_penalty", coverage_penalty)):
        if not 0 <= value <= MOST_PENALTY:
            raise ValueError(f"`{name}` must lie between 0 and {MOST_PENALTY:g}. Received: {name}={value}")
    if patience is not None and not patience > 0:
        raise ValueError(f"`patience` must be positive or None. Received: patience={patience}")
    if ranking not in RANKINGS:
        raise ValueError(f"`ranking` must be one of {', '.join(RANKINGS)}. Received: ranking={ranking}")
    if coverage_penalty and source_mask is None:
        raise ValueError("`source_mask` is needed with a coverage penalty. Received: source_mask=None")
