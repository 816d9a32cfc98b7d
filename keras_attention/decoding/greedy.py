"""Greedy search. Sampling uses the same loop, and every search the same limits and forbidden tokens."""

from keras import ops

from keras_attention.decoding.hypotheses import Hypotheses, has_attention, split_attention


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


def grow_one_sequence(
    step, state, batch_size, choose, *, start_id, end_id, pad_id, unknown_id, max_length, max_steps, min_length
):
    """Adds the tokens that `choose(allowed logits (B, V), step index)` returns, until END or the maximum length."""
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


def most_probable(logits, index):
    """The token with the highest logit (B, V) of each sentence, int32 (B,)."""
    return top_tokens(logits, 1)[1][:, 0]


def length_limits(batch_size, max_length, min_length, max_steps):
    """Checks the lengths and returns (the static number of steps, the int32 limit of each sentence (B,)).

    Lengths count END. `max_length` is an int >= 1, or an int tensor (B,) with one limit per sentence; then `max_steps`
    (int) is the static upper bound of the limits. A limit of 0 gives an empty hypothesis, for examples that only fill
    up the batch. If a limit is below `min_length`, the limit takes precedence.
    """
    if isinstance(max_length, int):
        if max_length < 1:
            raise ValueError(f"`max_length` must be at least 1 token. Received: max_length={max_length}")
        max_steps = max_length if max_steps is None else min(max_length, max_steps)
    elif max_steps is None:
        raise ValueError(
            f"`max_steps` (int) is needed with one `max_length` per sentence. Received: max_length={max_length}"
        )
    if max_steps < 1:
        raise ValueError(f"`max_steps` must be at least 1 token. Received: max_steps={max_steps}")
    if not 0 <= min_length <= max_steps:
        raise ValueError(
            f"`min_length` must lie between 0 and the maximum length. Received: min_length={min_length}, "
            f"max_length={max_steps}"
        )
    limits = ops.broadcast_to(ops.cast(max_length, "int32"), (batch_size,))
    return max_steps, ops.clip(limits, 0, max_steps)


def forbidden_ids(start_id, end_id, pad_id, unknown_id):
    """Checks the special ids and returns the ids that are never generated: START, PAD and, if given, UNKNOWN."""
    if end_id in (start_id, pad_id):
        raise ValueError(
            "`end_id` must differ from `start_id` and `pad_id`. "
            f"Received: start_id={start_id}, end_id={end_id}, pad_id={pad_id}"
        )
    if unknown_id is not None and unknown_id == end_id:
        raise ValueError(f"`unknown_id` must differ from `end_id`. Received: unknown_id={unknown_id}, end_id={end_id}")
    return [start_id, pad_id] if unknown_id is None else [start_id, pad_id, unknown_id]


def forbid(logits, ids, condition=True):
    """Returns the logits (..., V), -infinity at each of `ids` (list of int) if `condition` (scalar bool) holds."""
    tokens = ops.arange(logits.shape[-1], dtype="int32")  # (V,)
    hit = tokens < 0
    for token in ids:
        hit = ops.logical_or(hit, ops.equal(tokens, token))
    return ops.where(ops.logical_and(hit, condition), -float("inf"), logits)


BLOCKS = 256
MANY = 16
TAKEN = 2**31 - 1


def top_tokens(values, count):
    """Returns (the `count` largest entries, their int32 indices), both (R, count), largest first, ties by index.

    On a CPU, XLA's own top-k and argmax walk through the logits one by one, while a maximum uses vector instructions. A
    long list is therefore cut into blocks: the `count` largest entries lie in the `count` blocks of largest maximum,
    and only these are searched.

    Args:
        values: float32 tensor (R, C).
        count: int in [1, C].
    """
    lists, columns = values.shape
    if count > MANY:
        top, indices = ops.top_k(values, count)
        return top, ops.cast(indices, "int32")
    if columns < 4 * BLOCKS:
        return _take_largest(values, ops.arange(columns, dtype="int32"), count, columns - 1)
    size = -(-columns // BLOCKS)
    padded = ops.pad(values, ((0, 0), (0, BLOCKS * size - columns)), constant_values=-float("inf"))
    blocks = ops.reshape(padded, (lists, BLOCKS, size))
    numbers = ops.arange(BLOCKS, dtype="int32")
    _, chosen = _take_largest(ops.max(blocks, axis=-1), numbers, count, BLOCKS - 1)  # (R, count)
    block_places = ops.arange(lists, dtype="int32")[:, None] * BLOCKS + chosen
    candidates = ops.take(ops.reshape(blocks, (lists * BLOCKS, size)), ops.reshape(block_places, (-1,)), axis=0)
    indices = chosen[:, :, None] * size + ops.arange(size, dtype="int32")  # (R, count, size)
    shape = (lists, count * size)
    return _take_largest(ops.reshape(candidates, shape), ops.reshape(indices, shape), count, columns - 1)


def _take_largest(values, indices, count, last):
    """Returns the `count` largest entries of values (R, C) and their indices, given as (R, C) or (C,).

    Ties go to the lowest index. No returned index is larger than `last`, not even if all values are NaN.
    """
    top, top_indices = [], []
    for _ in range(count):
        largest = ops.max(values, axis=-1, keepdims=True)  # (R, 1)
        index = ops.min(ops.where(values == largest, indices, TAKEN), axis=-1, keepdims=True)  # (R, 1)
        top.append(largest)
        top_indices.append(index)
        this = indices == index
        values, indices = ops.where(this, -float("inf"), values), ops.where(this, TAKEN, indices)
    return ops.concatenate(top, axis=-1), ops.minimum(ops.concatenate(top_indices, axis=-1), last)
