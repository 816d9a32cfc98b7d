"""One answer of a translator, with all that is known of it."""

from typing import NamedTuple

import numpy as np


class Translation(NamedTuple):
    """One answer.

    Attributes:
        text: str.
        score: float, what the search ranks by; 0.0 for an empty sentence.
        tokens: list of T str, the pieces of the answer; the last is "</s>" unless it was cut at its maximum length.
        source_tokens: list of S str, the pieces that the model read, with "</s>".
        attention: float32 array (T, S), or None if it was not asked for: the mean over layers and heads.
        heads: float32 array (L, H, T, S), what each of L layers and H heads looked at, or None.
        log_prob: float, summed natural log probability of the tokens.
        low_score: bool, whether the mean log probability of a token is below the model's threshold, or the answer of a
            model that writes dates is no day of the calendar.
        truncated: bool, whether the sentence was longer than the model reads, and was cut.
        token_ids: tuple of T int, the ids of `tokens`.
    """

    text: str
    score: float
    tokens: list
    source_tokens: list
    attention: np.ndarray | None
    heads: np.ndarray | None
    log_prob: float
    low_score: bool
    truncated: bool
    token_ids: tuple = ()
