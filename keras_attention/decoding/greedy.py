"""Greedy search: the most probable token at each step."""

from keras_attention.decoding.one_sequence import grow_one_sequence
from keras_attention.decoding.top_tokens import top_tokens


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
        `Hypotheses` with one hypothesis per row; its score is its log probability. Of equally probable tokens the one
        with the lower id is taken.

    Raises:
        ValueError: if a length or a special id is out of range.

    Source: none; the usual rule. Log probabilities are the model's own: what is forbidden is not shared out.
    """
    special = {"start_id": start_id, "end_id": end_id, "pad_id": pad_id, "unknown_id": unknown_id}
    lengths = {"max_length": max_length, "max_steps": max_steps, "min_length": min_length}
    return grow_one_sequence(step, state, batch_size, most_probable, **special, **lengths)


def most_probable(logits, index):
    """The token of the highest logit (B, V) of each row, int32 (B,)."""
    return top_tokens(logits, 1)[1][:, 0]
