"""Keeps a search out of loops: no sequence of n tokens occurs twice in a hypothesis."""

from keras import ops

from keras_attention.decoding.hypotheses import Tensor


def repeating_tokens(token_ids: Tensor, length: Tensor | int, size: int, nothing: int) -> Tensor:
    """The tokens that would repeat a sequence of `size` tokens.

    Token t is one of them if some i has y_i ... y_{i+n-2} = y_{L-n+1} ... y_{L-1} and y_{i+n-1} = t, where n is the
    size, L the length, and i + n <= L.

    Args:
        token_ids: int32 tensor (..., M), the tokens of each hypothesis, of which the first `length` exist.
        length: int or int32 scalar tensor, L.
        size: int in [2, M], n.
        nothing: int, an id that is never generated.

    Returns:
        int32 tensor (..., M - n + 1), ids; `nothing` where no sequence is repeated.

    Source: Paulus, Xiong & Socher (2018), section 2.5, https://arxiv.org/abs/1705.04304, with n = 3. No differences.
    """
    prefix, longest = size - 1, token_ids.shape[-1]
    starts, length = ops.arange(longest - prefix, dtype="int32"), ops.convert_to_tensor(length, "int32")
    repeats = starts + prefix < length  # (M - n + 1,)
    for offset in range(prefix):
        place = ops.clip(length - prefix + offset, 0, longest - 1)
        last = ops.take(token_ids, ops.reshape(place, (1,)), axis=-1)  # (..., 1)
        repeats = ops.logical_and(repeats, token_ids[..., offset : offset + longest - prefix] == last)
    return ops.where(repeats, token_ids[..., prefix:], nothing)


def without_repeats(logits: Tensor, token_ids: Tensor, length: Tensor | int, size: int, nothing: int) -> Tensor:
    """Logits, -infinity for the tokens that would repeat a sequence.

    Args:
        logits: float tensor (R, V).
        token_ids: int32 tensor (R, M).
        length, size, nothing: see `repeating_tokens`; `nothing` gets -infinity, too.

    Returns:
        Float tensor (R, V).
    """
    if size > token_ids.shape[-1]:
        return logits
    blocked = ops.reshape(repeating_tokens(token_ids, length, size, nothing), (-1,))  # (R * (M - n + 1),)
    rows = ops.repeat(ops.arange(logits.shape[0], dtype="int32"), blocked.shape[0] // logits.shape[0])
    places = ops.stack([rows, blocked], axis=-1)
    return ops.scatter_update(logits, places, ops.full(blocked.shape, -float("inf"), logits.dtype))
