"""The token loop, and the searches that run in it: greedy search, sampling and beam search.

    logits, state = step(newest tokens, state)      the network reads the newest token of each sequence
    sequences = choose(sequences, logits)           a rule chooses the next tokens: the best, drawn ones, or K beams
    ... until no sequence is unfinished

Translations, captions and continuations are all written in this loop, whether compiled, exported, streamed or eager.
Only `constrained_search` has a loop of its own, because its rules are Python.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from keras import ops, tree

from keras_attention.decoding.beam_search import Beams, advance, best_hypotheses, first_beams
from keras_attention.decoding.hypotheses import (
    RANKINGS,
    Hypotheses,
    Penalties,
    Step,
    Tensor,
    has_attention,
    repeat_beams,
    split_attention,
    take_sequences,
)
from keras_attention.decoding.sampling import (
    allowed_logits,
    forbid,
    forbidden_ids,
    length_limits,
    most_probable,
    sampler,
)


def grow(
    step: Step, choose: Callable, sequences: Any, state: Any, unfinished: Callable[[Any], Tensor], *memory: Any
) -> tuple[Any, Any]:
    """Adds tokens to sequences as long as `unfinished(sequences)` is True: the token loop.

    Args:
        step, choose, sequences, state, memory: see `next_tokens`.
        unfinished: function of the sequences that returns a bool scalar.

    Returns:
        The last sequences, and the last state.
    """
    turn = partial(next_tokens, step, choose, memory)
    return ops.while_loop(lambda sequences, _: unfinished(sequences), turn, (sequences, state))


def next_tokens(step: Step, choose: Callable, memory: tuple, sequences: Any, state: Any) -> tuple[Any, Any]:
    """One turn of the token loop.

    Args:
        step: function (token_ids int32 (N,), state, *memory) -> (logits (N, V), state).
        choose: function (sequences, logits, attention (N, S) or None) -> (the sequences with their next tokens, int32
            indices (N,) of the sequences that they continue). None instead of indices: each continues itself.
        memory: tuple of what `step` reads but does not change; may be empty.
        sequences: NamedTuple of tensors; `last_ids`, of N elements, has the newest token of each sequence.
        state: nested structure of tensors, the state of `step`.

    Returns:
        The new sequences and the new state.
    """
    keep_attention = has_attention(state)
    logits, state = step(ops.reshape(sequences.last_ids, (-1,)), state, *memory)
    state, attention = split_attention(state, keep_attention)
    sequences, parents = choose(sequences, logits, attention)
    return sequences, state if parents is None else take_sequences(state, parents)


# Greedy search and sampling


class Sequences(NamedTuple):
    """One sequence for each of B sentences, at most L tokens long.

    Attributes:
        index: int32 scalar, the number of steps so far.
        done: bool (B,), whether END or the limit is reached.
        last_ids: int32 (B,), the newest token.
        token_ids: int32 (B, L).
        lengths: int32 (B,).
        log_probs: float32 (B,), summed over the tokens.
    """

    index: Any
    done: Any
    last_ids: Any
    token_ids: Any
    lengths: Any
    log_probs: Any


def first_sequences(limits: Tensor, max_steps: int, start_id: int, pad_id: int) -> Sequences:
    """Returns the sequences before the first step; a sentence with the limit (B,) 0 is done."""
    batch_size = limits.shape[0]
    return Sequences(
        index=ops.convert_to_tensor(0, "int32"),
        done=limits <= 0,
        last_ids=ops.full((batch_size,), start_id, "int32"),
        token_ids=ops.full((batch_size, max_steps), pad_id, "int32"),
        lengths=ops.zeros((batch_size,), "int32"),
        log_probs=ops.zeros((batch_size,), "float32"),
    )


def extend(
    sequences: Sequences,
    logits: Tensor,
    attention: Tensor = None,
    *,
    pick_token: Callable[[Tensor, Tensor], Tensor],
    limits: Tensor,
    never: list[int],
    end_id: int,
    pad_id: int,
    min_length: int = 0,
) -> tuple[Sequences, None]:
    """Adds the token that `pick_token(allowed logits (B, V), step index)` returns to each sequence that is not done.

    The rule `choose` of greedy search and sampling, see `next_tokens`; `advance` is that of beam search.

    Args:
        sequences: Sequences.
        logits: float tensor (B, V).
        attention: unused.
        pick_token: `most_probable` or a `sampler`.
        limits: int32 tensor (B,), the maximum length of each sequence.
        never: list of int, the ids that are never generated.
        end_id, pad_id, min_length: as in `greedy_search`.
    """
    index, done, _, token_ids, lengths, log_probs = sequences
    logits = ops.cast(logits, "float32")
    allowed = forbid(allowed_logits(logits, never), [end_id], index + 1 < min_length)
    chosen = ops.where(done, pad_id, pick_token(allowed, index))  # (B,)
    chosen_logits = ops.take_along_axis(logits, chosen[:, None], axis=-1)[:, 0]
    gained = chosen_logits - ops.logsumexp(logits, axis=-1)
    lengths = ops.where(done, lengths, lengths + 1)
    here = ops.arange(token_ids.shape[-1], dtype="int32") == index  # (L,)
    ended = ops.logical_or(chosen == end_id, lengths >= limits)
    extended = Sequences(
        index=index + 1,
        done=ops.logical_or(done, ended),
        last_ids=chosen,
        token_ids=ops.where(here, chosen[:, None], token_ids),
        lengths=lengths,
        log_probs=ops.where(done, log_probs, log_probs + gained),
    )
    return extended, None


def grow_one_sequence(
    step, state, batch_size, choose, *, start_id, end_id, pad_id, unknown_id, max_length, max_steps, min_length
):
    """Adds the tokens that `choose(allowed logits (B, V), step index)` returns, until END or the maximum length."""
    never = forbidden_ids(start_id, end_id, pad_id, unknown_id)
    max_steps, limits = length_limits(batch_size, max_length, min_length, max_steps)
    rules = {"limits": limits, "never": never, "end_id": end_id, "pad_id": pad_id, "min_length": min_length}

    def unfinished(sequences):
        return ops.logical_and(sequences.index < max_steps, ops.logical_not(ops.all(sequences.done)))

    first = first_sequences(limits, max_steps, start_id, pad_id)
    last, _ = grow(step, partial(extend, pick_token=choose, **rules), first, state, unfinished)
    log_probs = last.log_probs[:, None]
    return Hypotheses(last.token_ids[:, None, :], last.lengths[:, None], log_probs, log_probs)


def greedy_search(
    step: Step,
    state: Any,
    batch_size: int,
    *,
    start_id: int,
    end_id: int,
    pad_id: int = 0,
    unknown_id: int | None = None,
    max_length: int | Tensor,
    max_steps: int | None = None,
    min_length: int = 0,
) -> Hypotheses:
    """Takes the most probable allowed token at each step, until END or the maximum length.

    Args:
        step: function (token_ids int32 (B,), state) -> (logits (B, V), state).
        state: nested structure of tensors with leading axis B.
        batch_size: int > 0, B.
        start_id, end_id, pad_id: int. START and PAD are never generated.
        unknown_id: int or None. If given, it is never generated either.
        max_length: int >= 1 or int tensor (B,). The largest number of tokens, counting END.
        max_steps: int. The static bound on `max_length`; needed only if `max_length` is a tensor.
        min_length: int >= 0. The smallest number of tokens, counting END; END is not generated earlier.

    Returns:
        `Hypotheses` with one hypothesis per sentence; its score is its log probability. Ties go to the lower token id.

    Raises:
        ValueError: if a length or a special id is out of range.

    Source: none; the usual rule. Log probabilities are those of the model, not renormalized over the allowed tokens.
    """
    special = {"start_id": start_id, "end_id": end_id, "pad_id": pad_id, "unknown_id": unknown_id}
    lengths = {"max_length": max_length, "max_steps": max_steps, "min_length": min_length}
    return grow_one_sequence(step, state, batch_size, most_probable, **special, **lengths)


def sample(
    step: Step,
    state: Any,
    batch_size: int,
    *,
    seed: int | Tensor,
    sentence_keys: Tensor | None = None,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    start_id: int,
    end_id: int,
    pad_id: int = 0,
    unknown_id: int | None = None,
    max_length: int | Tensor,
    max_steps: int | None = None,
    min_length: int = 0,
) -> Hypotheses:
    """Samples each token from softmax(logits / temperature) of the allowed tokens, after top-k and then top-p.

    The draws of a sentence depend only on (seed, sentence key, step), not on the batch or the backend.

    Args:
        step, state, batch_size, start_id, end_id, pad_id, unknown_id, max_length, max_steps, min_length: as in
            `greedy_search`.
        seed: int or int scalar tensor. The same seed gives the same answer.
        sentence_keys: int tensor (B,); None means 0, 1, 2, ... Equal keys give equal random numbers.
        temperature: float in (0, 3e38]. Values below 1 sharpen the distribution.
        top_k: int >= 0. Keeps the k most probable tokens; ties go to the lower id. 0 keeps all tokens.
        top_p: float in (0, 1]. Keeps the smallest set of most probable tokens that has at least this probability, and
            all tokens that are as probable as the last token of the set.

    Returns:
        `Hypotheses` with one hypothesis per sentence; its score is its log probability under the model itself, before
        temperature, top-k and top-p.

    Raises:
        ValueError: if an argument is out of range.

    Source: top-k: Fan et al. (2018), section 5.4; top-p: Holtzman et al. (2020), section 3.1.
    """
    choose = sampler(seed, batch_size, sentence_keys, temperature, top_k, top_p)
    special = {"start_id": start_id, "end_id": end_id, "pad_id": pad_id, "unknown_id": unknown_id}
    lengths = {"max_length": max_length, "max_steps": max_steps, "min_length": min_length}
    return grow_one_sequence(step, state, batch_size, choose, **special, **lengths)


# Beam search


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
    memory = () if memory is None else (memory,)
    sentences = SearchState(beams, repeat_beams(state, beam_size), memory, limits, penalties)
    rules = {"never": never, "end_id": end_id, "min_length": min_length, "enough": enough, "force_end": force_end}
    if no_repeat_ngram_size:
        rules["no_repeat_ngram_size"] = no_repeat_ngram_size
    beams = search_sentences(step, sentences, max_steps, rules)
    best = best_hypotheses(beams, limits, pad_id)
    return best if kept == n_best else Hypotheses(*(field[:, :n_best] for field in best))


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


MANY = 32  # hypotheses; with fewer, a second loop saves no time
MOST_PENALTY = 10.0  # with larger ones, scores leave the range of float32
REPORTED = ("token_ids", "log_probs", "scores", "finished")  # the fields of `Beams` that `best_hypotheses` reads


class SearchState(NamedTuple):
    """A beam search for R sentences. The leading axis of all tensors is R or a multiple, with each sentence contiguous.

    Attributes:
        beams: Beams.
        state: state of the step function.
        memory: tuple of the tensors that a step reads but does not change. If it is empty, no sentence can be removed.
        limits: int32 (R,).
        penalties: Penalties.
    """

    beams: Beams
    state: Any
    memory: tuple
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
    count, beam_size = sentences.beams.last_ids.shape
    many = sentences.memory and count * beam_size >= MANY
    fewer = count // 4 if many else 0
    unfinished = partial(_unfinished, max_steps, fewer)
    choose, memory = partial(_continue_beams, sentences, rules), sentences.memory
    beams, state = grow(step, choose, sentences.beams, sentences.state, unfinished, *memory)
    if not fewer:
        return beams
    left = ops.cast(ops.argsort(ops.cast(beams.done, "int32")), "int32")[:fewer]  # unfinished sentences come first
    rest = sentences._replace(beams=beams, state=state).take(left)
    unfinished, choose = partial(_unfinished, max_steps, 0), partial(_continue_beams, rest, rules)
    last, _ = grow(step, choose, rest.beams, rest.state, unfinished, *rest.memory)
    return _put(beams, left, last)


def _unfinished(max_steps, fewer, beams):
    """Whether more than `fewer` sentences are unfinished."""
    left = ops.sum(ops.cast(ops.logical_not(beams.done), "int32"))
    return ops.logical_and(beams.index < max_steps, left > fewer)


def _continue_beams(sentences, rules, beams, logits, attention):
    """The rule `choose` of beam search, see `next_tokens`."""
    count, beam_size = sentences.beams.last_ids.shape
    beams, parents = advance(beams, logits, attention, sentences.limits, sentences.penalties, **rules)
    first_places = ops.arange(count, dtype="int32")[:, None] * beam_size  # (R, 1)
    return beams, ops.reshape(first_places + parents, (-1,))


def _put(beams, places, others):
    """Returns the beams with the results of `others` written to `places`, int32 (M,)."""

    def put(name):
        return tree.map_structure(
            lambda tensor, other: ops.scatter_update(tensor, places[:, None], other),
            getattr(beams, name),
            getattr(others, name),
        )

    return beams._replace(**{name: put(name) for name in REPORTED})
