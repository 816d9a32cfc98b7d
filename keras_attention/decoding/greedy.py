"""Greedy search: the most probable token at each step. Sampling shares its loop."""

from keras import ops

from keras_attention.decoding.hypotheses import Hypotheses, has_attention, split_attention
from keras_attention.decoding.next_tokens import forbid, forbidden_ids, length_limits, top_tokens


def grow_one_sequence(
    step, state, batch_size, choose, *, start_id, end_id, pad_id, unknown_id, max_length, max_steps, min_length
):
    """Adds the token that `choose(allowed logits (B, V), step index)` names to each answer, until END or its limit."""
    never = forbidden_ids(start_id, end_id, pad_id, unknown_id)
    max_steps, limits = length_limits(batch_size, max_length, min_length, max_steps)
    keep_attention = has_attention(state)

    def unfinished(index, done, *_):
        return ops.logical_and(index < max_steps, ops.logical_not(ops.all(done)))

    def body(index, done, last_ids, token_ids, lengths, log_probs, state):
        logits, state = step(last_ids, state)
        state, _ = split_attention(state, keep_attention)
        logits = ops.cast(logits, "float32")  # (B, V)
        allowed = forbid(forbid(logits, never), [end_id], index + 1 < min_length)
        chosen = ops.where(done, pad_id, choose(allowed, index))  # (B,)
        chosen_logits = ops.take_along_axis(logits, chosen[:, None], axis=-1)[:, 0]
        gained = chosen_logits - ops.logsumexp(logits, axis=-1)
        log_probs = ops.where(done, log_probs, log_probs + gained)
        lengths = ops.where(done, lengths, lengths + 1)
        token_ids = ops.where(ops.arange(max_steps) == index, chosen[:, None], token_ids)  # (B, L)
        done = ops.logical_or(done, ops.logical_or(chosen == end_id, lengths >= limits))
        return index + 1, done, chosen, token_ids, lengths, log_probs, state

    start = (
        ops.convert_to_tensor(0, "int32"),
        limits <= 0,
        ops.full((batch_size,), start_id, "int32"),
        ops.full((batch_size, max_steps), pad_id, "int32"),
        ops.zeros((batch_size,), "int32"),
        ops.zeros((batch_size,), "float32"),
        state,
    )
    _, _, _, token_ids, lengths, log_probs, _ = ops.while_loop(unfinished, body, start)
    return Hypotheses(token_ids[:, None, :], lengths[:, None], log_probs[:, None], log_probs[:, None])


def greedy_search(
    step,
    state,
    batch_size,
    *,
    start_id,
    end_id,
    pad_id=0,
    unknown_id=None,
    max_length,
    max_steps=None,
    min_length=0,
):
    """Takes the most probable allowed token at each step, until END or the maximum length.

    Args:
        step: function (token_ids int32 (B,), state) -> (logits (B, V), state).
        state: nested structure of tensors with leading axis B.
        batch_size: int > 0, B.
        start_id, end_id, pad_id: int. START and PAD are never generated.
        unknown_id: int or None. If given, it is never generated either.
        max_length: int >= 1 or int tensor (B,). The largest number of tokens, counting END.
        max_steps: int. The static bound on `max_length`; needed only where that is a tensor.
        min_length: int >= 0. END is forbidden before it would be token number `min_length`.

    Returns:
        `Hypotheses` with one hypothesis per sentence; its score is its log probability. Of equally probable tokens the
        one with the lower id is taken.

    Raises:
        ValueError: if a length or a special id is out of range.

    Source: none; the usual rule. Log probabilities are the model's own: what is forbidden is not shared out.
    """
    special = {"start_id": start_id, "end_id": end_id, "pad_id": pad_id, "unknown_id": unknown_id}
    lengths = {"max_length": max_length, "max_steps": max_steps, "min_length": min_length}
    return grow_one_sequence(step, state, batch_size, most_probable, **special, **lengths)


def most_probable(logits, index):
    """The token of the highest logit (B, V) of each sentence, int32 (B,)."""
    return top_tokens(logits, 1)[1][:, 0]
