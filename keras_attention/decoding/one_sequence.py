"""The loop that greedy search and sampling share: one growing sequence per row."""

from keras import ops

from keras_attention.decoding.constraints import forbid, forbidden_ids, row_limits
from keras_attention.decoding.hypotheses import Hypotheses, has_attention, split_attention


def grow_one_sequence(
    step, state, batch_size, choose, *, start_id, end_id, pad_id, unknown_id, max_length, max_steps, min_length
):
    """Adds the token that `choose(allowed logits (B, V), step index)` names to each row, until END or its limit."""
    never = forbidden_ids(start_id, end_id, pad_id, unknown_id)
    max_steps, limits = row_limits(batch_size, max_length, min_length, max_steps)
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
