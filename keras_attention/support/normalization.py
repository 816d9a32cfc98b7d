"""Normal forms of Unicode in linear time: Python's own take minutes for a text of many combining marks."""

import unicodedata

import regex

MOST_MARKS = 30  # in a row; no language needs more than a few
MARK = r"[\p{M}\uff9e\uff9f]"  # both last ones are marks of Japanese in half width
MANY_MARKS = regex.compile(rf"{MARK}{{{MOST_MARKS + 1}}}")
AFTER_MANY_MARKS = regex.compile(rf"(?<={MARK}{{{MOST_MARKS}}})")


def normalized(form, text):
    """`unicodedata.normalize(form, text)`, but more than 30 marks in a row are sorted in parts.

    Python sorts the marks of a letter in a time that grows with the square of their number, and runs no other thread
    meanwhile: half a minute for 150,000 marks.

    Args:
        form: "NFC", "NFD", "NFKC" or "NFKD".
        text: str.

    Returns:
        str.

    Source: Unicode Annex 15, section 13 (Stream-Safe Text Format), but nothing is inserted between the parts.
    """
    if text.isascii() or not MANY_MARKS.search(text):
        return unicodedata.normalize(form, text)
    return "".join(unicodedata.normalize(form, part) for part in AFTER_MANY_MARKS.split(text))
