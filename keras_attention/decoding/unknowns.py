"""Unknown output tokens are replaced by the source token that was attended to most."""

import numpy as np


def replace_unknowns(token_ids, tokens, attention, source_tokens, unknown_id):
    """Returns `tokens` with each unknown one replaced by the source token of highest attention.

    Args:
        token_ids: ints (T,), the generated ids.
        tokens: list of T str, their texts.
        attention: floats (T, S), row t the weights used to generate token t; ties go to the earlier source token.
        source_tokens: list of S str.
        unknown_id: int, the id of the unknown token.

    Returns:
        List of T str.

    Raises:
        ValueError: if the sizes do not agree.

    Source: Luong et al. (2015), Addressing the Rare Word Problem, section 3.3, https://arxiv.org/abs/1410.8206; the
    alignment is the attention, as in Jean et al. (2015), section 3.3, https://arxiv.org/abs/1412.2007. No dictionary.
    """
    token_ids, attention = np.asarray(token_ids), np.asarray(attention)
    expected = (len(token_ids), len(source_tokens))
    if attention.shape != expected or len(tokens) != len(token_ids):
        raise ValueError(
            f"`attention` must have shape {expected} and `tokens` one entry per id. "
            f"Received: attention.shape={attention.shape}, len(tokens)={len(tokens)}"
        )
    if not source_tokens:
        return list(tokens)
    attended = attention.argmax(axis=1)  # (T,)
    return [
        source_tokens[position] if token_id == unknown_id else token
        for token_id, token, position in zip(token_ids, tokens, attended, strict=True)
    ]
