"""The special ids of new vocabularies, and the control characters, which no vocabulary may contain."""

import re
from collections.abc import Iterable

import numpy as np

from keras_attention.support.errors import UserError, quoted

PAD_ID = 0
UNKNOWN_ID = 1
START_ID = 2
END_ID = 3

SPECIAL_PIECES = (
    "<pad>",
    "<unk>",
    "<s>",
    "</s>",
)  # how they are shown, by id; in the input, such text is ordinary text

# Control characters affect terminals, line breaks split an answer, and direction marks reorder a line.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def control_character(text):
    """The first control character or half of a surrogate pair in `text`, or None."""
    match = _CONTROL.search(text)
    return match and match[0]


def without_control_characters(text):
    """The text with each control character replaced by a blank."""
    return _CONTROL.sub(" ", text)


def checked_text(text: str) -> str:
    """The text; raises UserError for lone surrogates, with which Python marks input that was not UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(f"The text {quoted(text, 60)} is not valid UTF-8. Save or type it as UTF-8.") from error
    return text


def checked_ids(ids: Iterable, vocabulary_size: int) -> list[int]:
    """A list of int, from any sequence, array or tensor of ids; raises ValueError for one that is no id."""
    checked = np.asarray(ids, dtype=np.int64).tolist()
    for token_id in checked:
        if not 0 <= token_id < vocabulary_size:
            raise ValueError(f"A token id must be in [0, {vocabulary_size}). Received: {token_id}")
    return checked
