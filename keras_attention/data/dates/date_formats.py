"""Formats of dates in many languages: patterns and names from Babel's locale data, compiled for fast filling.

Patterns are those of Unicode CLDR (Technical Standard 35, part 4): d dd day, M MM month as a number, MMM MMMM LLLL its
name, E EEEE cccc the weekday, y the year, yy its last two digits, literals in quotes. One field is our own: "do" is the
day as an ordinal ("3rd", "1er").
"""

import re
from functools import cache
from typing import NamedTuple

from babel import Locale

LOCALES = ("en_US", "en_GB", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "pl", "cs", "fi")
LOCALES += ("ru", "uk", "el", "tr", "ja", "zh", "ko")
NUMERIC = (
    *("d.M.y", "dd.MM.y", "d/M/y", "dd/MM/y", "d-M-y", "dd-MM-y", "M/d/y", "M/d/yy"),
    *("d.M.yy", "dd.MM.yy", "d/M/yy", "dd/MM/yy", "dd-MM-yy"),
    *("y-MM-dd", "y-M-d", "y/MM/dd", "y/M/d", "y.MM.dd", "yMMdd"),
)
ENGLISH = (
    *(
        "do MMMM y",
        "do MMM y",
        "do 'of' MMMM y",
        "'the' do 'of' MMMM y",
        "EEEE, do MMMM y",
        "EEEE 'the' do 'of' MMMM y",
    ),
    *("MMMM do, y", "MMM do, y", "EEEE, MMMM do, y", "dd-MMM-y", "d-MMM-yy", "MMMM d yy", "y MMMM d", "d MMM ''yy"),
)
EXTRA = {
    "en_US": ENGLISH,
    "en_GB": ENGLISH,
    "fr": ("do MMMM y", "EEEE do MMMM y", "'le' do MMMM y"),
    "es": ("d MMMM y", "EEEE d MMMM y", "d 'de' MMMM 'del' y"),
    "it": ("do MMMM y", "EEEE do MMMM y"),
    "pt": ("do 'de' MMMM 'de' y", "d MMMM y"),
    "da": ("'den' d. MMMM y",),
    "de": ("d. MMM y", "'den' d. MMMM y", "E, d.M.y"),
    "ja": ("y年M月d日(E)",),
    "zh": ("y年M月d日E",),
    "ko": ("y년 M월 d일 (E)", "y년M월d일"),
}
NOMINATIVE = (
    "pl",
    "cs",
    "ru",
    "uk",
    "el",
)  # a month's name alone may differ from its form next to a day; people mix them
FIELD = re.compile(r"''|'[^']*'|EEEE|EEE|E|cccc|ccc|LLLL|MMMM|MMM|MM|M|dd|do|d|yy|y|.")
FIRST = {"fr": "er", "it": "º", "pt": "º"}
YEAR_MARKS = "年년"


class DateFormat(NamedTuple):
    """A compiled date pattern of a locale.

    Attributes:
        locale: str, a name of LOCALES.
        pattern: str, in CLDR's letters.
        pieces: tuple of str (a literal) and pairs (index of a value in (year, month, day, weekday), table of str).
        two_digit_year, month_first: bool; such a text has a single meaning for some dates only (see dates.py).
    """

    locale: str
    pattern: str
    pieces: tuple
    two_digit_year: bool
    month_first: bool

    def fill(self, values):
        """Returns the text of `values` = (year, month, day, weekday), the weekday counted from Monday = 0."""
        return "".join([piece if isinstance(piece, str) else piece[1][values[piece[0]]] for piece in self.pieces])


@cache
def date_formats(locale):
    """Returns the DateFormats of a locale as a tuple: Babel's four and other usual ones, without ambiguous ones.

    Args:
        locale: str, a name of LOCALES.
    """
    babel_patterns = [babel_pattern(locale, length) for length in ("full", "long", "medium", "short")]
    full, long = babel_patterns[:2]
    patterns = [*babel_patterns, *EXTRA.get(locale, ())]
    patterns += [full.replace("EEEE", "E").replace("cccc", "E"), long.replace("MMMM", "MMM")]
    patterns += [long.replace("y", "yy"), long.replace("MMMM", "MMM").replace("y", "yy")]
    patterns += [_two_digit_day(pattern) for pattern in (long, long.replace("MMMM", "MMM"))]
    if locale in NOMINATIVE:
        patterns.append(long.replace("MMMM", "LLLL"))
    return _compiled(locale, patterns)


@cache
def numeric_formats():
    """Returns the DateFormats that consist of digits only, the same in all languages, as a tuple."""
    return _compiled("en_GB", NUMERIC)


def babel_pattern(locale, length):
    """Returns Babel's pattern of a length ("full", "long", "medium", "short"), with plain blanks."""
    return plain_blanks(Locale.parse(locale).date_formats[length].pattern)


def plain_blanks(text):
    """Replaces no-break and narrow blanks, which people rarely type, by plain ones."""
    return re.sub(r"\s", " ", text)


def _two_digit_day(pattern):
    return "".join("dd" if field == "d" else field for field in FIELD.findall(pattern))


def _compiled(locale, patterns):
    tables = _tables(locale)
    formats = [_compile(locale, pattern, tables) for pattern in dict.fromkeys(patterns)]
    return tuple(date_format for date_format in formats if date_format is not None)


def _compile(locale, pattern, tables):
    """Makes a DateFormat, or None if its texts could mean two dates, such as "05. 3. 21" with the year first."""
    fields = FIELD.findall(pattern)
    pieces = tuple(tables.get(field) or ("'" if field == "''" else field.strip("'")) for field in fields)
    letters = "".join(field[0] for field in fields if field[0] in "dMLy")
    two_digit_year = "yy" in fields
    if two_digit_year and letters[0] == "y" and not any(mark in pattern for mark in YEAR_MARKS):
        return None
    month_first = letters == "Mdy" and ("M" in fields or "MM" in fields)
    return DateFormat(locale, pattern, pieces, two_digit_year, month_first)


def _tables(locale):
    """Returns field -> (number of the value, table from the value to its text)."""
    data = Locale.parse(locale)
    months, days = data.months, data.days
    numbers = range(100)
    year, month, day, weekday = range(4)
    return {
        "y": (year, {number: str(number) for number in range(10_000)}),
        "yy": (year, {number: f"{number % 100:02d}" for number in range(10_000)}),
        "M": (month, [str(number) for number in numbers]),
        "MM": (month, [f"{number:02d}" for number in numbers]),
        "MMM": (month, months["format"]["abbreviated"]),
        "MMMM": (month, months["format"]["wide"]),
        "LLLL": (month, months["stand-alone"]["wide"]),
        "d": (day, [str(number) for number in numbers]),
        "dd": (day, [f"{number:02d}" for number in numbers]),
        "do": (day, [_ordinal(number, locale[:2]) for number in numbers]),
        "E": (weekday, days["format"]["abbreviated"]),
        "EEEE": (weekday, days["format"]["wide"]),
        "cccc": (weekday, days["stand-alone"]["wide"]),
    }


def _ordinal(number, language):
    """The day as an ordinal number: each one in English, only the first in French, Italian and Portuguese."""
    if language == "en":
        return f"{number}{_english_ending(number)}"
    return (
        f"{number}{dict(fr='er', it='º', pt='º')[language]}" if number == 1 and language in "fr it pt" else str(number)
    )


def _english_ending(number):
    return "th" if number // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
