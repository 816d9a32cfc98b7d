"""The special ids of new vocabularies, and the control characters, which no vocabulary may contain."""

import re
from collections.abc import Iterable

import numpy as np

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


def checked_ids(ids: Iterable, vocabulary_size: int) -> list[int]:
    """A list of int, from any sequence, array or tensor of ids; raises ValueError for one that is no id."""
    checked = np.asarray(ids, dtype=np.int64).tolist()
    for token_id in checked:
        if not 0 <= token_id < vocabulary_size:
            raise ValueError(f"A token id must be in [0, {vocabulary_size}). Received: {token_id}")
    return checked
