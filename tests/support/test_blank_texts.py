"""Which texts show nothing."""

import sys
import unicodedata

import pytest

from keras_attention.support.blank_texts import is_blank

INVISIBLE = {
    "nothing": "",
    "blanks": " \t\r\n\N{NO-BREAK SPACE}\N{IDEOGRAPHIC SPACE}\N{LINE SEPARATOR}",
    "control characters": "\0\x07\x1b\x7f\x85",
    "zero-width spaces": "\N{ZERO WIDTH SPACE}\N{WORD JOINER}\N{ZERO WIDTH NO-BREAK SPACE}",
    "joiners": "\N{ZERO WIDTH JOINER} \N{ZERO WIDTH NON-JOINER}",
    "soft hyphen": "\N{SOFT HYPHEN}",
    "directions": "\N{RIGHT-TO-LEFT MARK}\N{RIGHT-TO-LEFT OVERRIDE}\N{ARABIC LETTER MARK}\N{FIRST STRONG ISOLATE}",
    "variation selectors": "\N{VARIATION SELECTOR-16}\N{VARIATION SELECTOR-17}",
    "fillers": "\N{HANGUL FILLER}\N{HANGUL CHOSEONG FILLER}\N{HANGUL JUNGSEONG FILLER}\N{HALFWIDTH HANGUL FILLER}",
    "empty Braille pattern": "\N{BRAILLE PATTERN BLANK}",
}


@pytest.mark.parametrize("text", INVISIBLE.values(), ids=INVISIBLE)
def test_texts_that_show_nothing_are_blank(text):
    assert is_blank(text)
    assert not is_blank(f"{text}.{text}")


def test_letters_marks_numbers_signs_and_emoji_are_visible():
    fillers = set("".join(INVISIBLE.values()))
    for sign in map(chr, range(sys.maxunicode + 1)):
        if unicodedata.category(sign)[0] in "LNPS" and sign not in fillers:
            assert not is_blank(sign), hex(ord(sign))
    assert not is_blank("\N{COMBINING ACUTE ACCENT}")
