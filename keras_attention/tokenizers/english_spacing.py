"""Puts the words that BERT parts back together as English is printed."""

import re

CONTRACTIONS = "s|t|d|m|re|ve|ll"
RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r'(?<!\S)" (.+?) "(?!\S)', r'"\1"'),  # one pair of quotes
        (r" ([.,;:!?%…)\]}’”»])", r"\1"),
        (r"([(\[{“‘«$£€#]) ", r"\1"),
        (rf"(?<=\w) ?(['’]) ?(?=(?:{CONTRACTIONS})\b)", r"\1"),  # don ' t
        (r"(?<=[^\W\d]) ([-/]) (?=[^\W\d])", r"\1"),  # well - known
        (r"\b(\d{1,3}), (?=\d{3}\b)", r"\1,"),  # 1, 000
        (r"(?<=\d)([.:]) (?=\d)", r"\1"),  # 3. 5
    )
)


def english_spacing(text):
    """Removes the blanks that stand around punctuation where English has none.

    It guesses: "3 . 5" becomes "3.5" even where a sentence ended with 3 and the next began with 5.

    Args:
        text: str, words and punctuation with one blank between any two.

    Returns:
        str.
    """
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    return text
