"""Texts in which nothing can be seen."""

import re

# Beside blanks and control characters: Default_Ignorable_Code_Point of Unicode, such as zero-width spaces, marks of
# direction, variation selectors and fillers; and the empty Braille pattern.
INVISIBLE = (
    "\0-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)  # ranges of a regular expression
BLANK = re.compile(rf"[\s{INVISIBLE}]*")


def is_blank(text):
    """Whether a text (str) is empty or shows nothing."""
    return BLANK.fullmatch(text) is not None
