"""Dates as people write them in many languages, each with its ISO 8601 form: a generated translation task.

The rules that give each text exactly one right answer:
- Years are 1900 to 2099. Two digits mean 1950 to 2049.
- Four digits in front: year, month, day. Otherwise the year comes last.
- Day and month as numbers, both at most 12: the day comes first, whatever the separator.
- The American order (12/25/1998) is generated with slashes, and only for days above 12, which have no other reading.
- With the month as a word: "21 Mar 05" and "Mar 21, 05" are 21 March 2005.
- A weekday always agrees with the date.

Texts vary in case, and may lack accents, commas and the dots after abbreviations. Their patterns and names are from
Babel's locale data, written as in Unicode CLDR (Technical Standard 35, part 4): d dd day, M MM month as a number,
MMM MMMM LLLL its name, E EEEE cccc the weekday, y the year, yy its last two digits, literals in quotes. One field is
our own: "do" is the day as an ordinal ("3rd", "1er").
"""

import random
import re
import unicodedata
from calendar import monthrange
from datetime import date, timedelta
from functools import cache
from hashlib import md5
from typing import NamedTuple

import numpy as np
from babel import Locale

from keras_attention.support.normalization import normalized

FIRST_DAY, LAST_DAY = date(1900, 1, 1), date(2099, 12, 31)
TWO_DIGIT_YEARS = range(1950, 2050)
SPLITS = ("train", "validation", "test")
HELD_OUT_PART = 20  # one day in 20 is in the validation split, another in the test split
NUMERIC_SHARE = 0.25
NON_DATE_SHARE = 0.05
DOT_OF_ABBREVIATION = re.compile(r"(?<=[^\W\d])\.")


def date_splits(train_size, seed, validation_size=1_000, test_size=10_000):
    """Generates the pairs for training, validation and test.

    One in 20 training texts is not a date and is paired with a random date. A model can learn only uncertainty from
    such pairs, so that it gives a low score to a text that is not a date.

    Args:
        train_size, validation_size, test_size: int > 0, pairs.
        seed: int >= 0.

    Returns:
        Three pairs (texts, ISO dates) of equally long lists: train, validation, test. No day is in two of them.
    """
    non_dates = int(train_size * NON_DATE_SHARE)
    texts, isos = generate_dates(train_size - non_dates, seed)
    texts += generate_non_dates(non_dates, seed)
    isos += generate_dates(non_dates, seed + 1)[1]
    order = np.argsort(np.random.PCG64([seed, len(SPLITS)]).random_raw(train_size), kind="stable").tolist()
    train = [texts[i] for i in order], [isos[i] for i in order]
    return train, generate_dates(validation_size, seed, "validation"), generate_dates(test_size, seed, "test")


def generate_dates(count, seed, split="train"):
    """Writes random dates in random languages and forms; a pure function of its arguments.

    Args:
        count: int >= 0.
        seed: int >= 0.
        split: "train", "validation" or "test". Each calendar day belongs to one split, decided by a hash of its ISO
            form, so that a model never saw a day that it is tested on.

    Returns:
        (texts, isos), two lists of str of length `count`: ["3rd of March 2021"], ["2021-03-03"].

    Raises:
        ValueError: if `count` is negative or `split` is unknown.
    """
    if count < 0:
        raise ValueError(f"`count` must not be negative. Received: count={count}")
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {SPLITS}. Received: split={split!r}")
    generator = np.random.Generator(np.random.PCG64([seed, SPLITS.index(split)]))
    families = [numeric_formats(), *map(date_formats, LOCALES)]
    family_numbers = generator.integers(1, len(families), size=count)
    family_numbers[generator.random(count) < NUMERIC_SHARE] = 0
    choices, styles = generator.random((count, 2)).tolist(), generator.random((count, 4)).tolist()
    texts, isos = [], []
    for family, (which_format, which_day), style in zip(family_numbers.tolist(), choices, styles, strict=True):
        formats = families[family]
        date_format = formats[int(which_format * len(formats))]
        days = _days(split, date_format.two_digit_year, date_format.month_first)
        values, iso = days[int(which_day * len(days))]
        texts.append(_restyle(date_format.fill(values), *style))
        isos.append(iso)
    return texts, isos


def split_of_day(iso):
    """Returns "train", "validation" or "test", the split that the day with this ISO form belongs to."""
    remainder = int.from_bytes(md5(iso.encode(), usedforsecurity=False).digest()[:4]) % HELD_OUT_PART
    return {0: "test", 1: "validation"}.get(remainder, "train")


def without_accents(text):
    """Replaces Latin and Greek letters with accents by those without; other scripts keep theirs."""
    if text.isascii():
        return text
    letters = (unicodedata.normalize("NFD", character) for character in text)
    return "".join(letter[0] if letter[0] < "Ѐ" else unicodedata.normalize("NFC", letter) for letter in letters)


def upper_case(text):
    """Returns the text in capitals, which carry no stress mark in Greek: "Μαρτίου" becomes "ΜΑΡΤΙΟΥ"."""
    if any("Ͱ" <= character < "Ѐ" for character in text):
        text = normalized("NFC", normalized("NFD", text).replace("\u0301", ""))
    return text.upper()


@cache
def _all_days():
    """Returns ((year, month, day, weekday), ISO form, split) of each day."""
    days = [FIRST_DAY + timedelta(days=number) for number in range((LAST_DAY - FIRST_DAY).days + 1)]
    isos = [day.isoformat() for day in days]
    return [
        ((day.year, day.month, day.day, day.weekday()), iso, split_of_day(iso))
        for day, iso in zip(days, isos, strict=True)
    ]


@cache
def _days(split, two_digit_year, month_first):
    """Returns ((year, month, day, weekday), ISO form) of the days of a split that the flags allow."""
    years = TWO_DIGIT_YEARS if two_digit_year else range(FIRST_DAY.year, LAST_DAY.year + 1)
    first = 13 if month_first else 1
    return [(day, iso) for day, iso, part in _all_days() if part == split and day[0] in years and day[2] >= first]


def _restyle(text, case, accents, commas, dots):
    """Changes case, accents, commas and dots, depending on random numbers in [0, 1)."""
    if accents < 0.1:
        text = without_accents(text)
    if accents < 0.5:
        text = text.replace("ʼ", "'")  # the apostrophe on keyboards
    if commas < 0.25:
        text = text.replace(",", "")
    if dots < 0.25:
        text = DOT_OF_ABBREVIATION.sub("", text)
    if case < 0.25:
        return text.lower()
    return upper_case(text) if case < 0.4 else text


CURRENCIES = ("€", "$", "£", "¥", "kr", "zł", "₽", "₺")
LETTERS = "abcdefghijklmnopqrstuvwxyzäöüéèçñøåßłабвгдежзиклмнопрстуαβγδεζηθικλμνξ年月日年월일中文字"
SYMBOLS = " .,;:-_/!?'()+*#&%=@0123456789"


def generate_non_dates(count, seed):
    """Generates texts that are not dates; a pure function of its arguments.

    Args:
        count: int >= 0.
        seed: int >= 0.

    Returns:
        List of `count` str, none empty.
    """
    draw = random.Random(seed)
    makers = (_words, _number, _time, _price, _phone, _characters, _part_of_date, _impossible_date)
    return [draw.choice(makers)(draw) for _ in range(count)]


@cache
def _vocabulary():
    """The words in the names of languages and currencies: real words of each script, none with a digit."""
    words = set()
    for name in LOCALES:
        locale = Locale.parse(name)
        for table in (locale.languages, locale.currencies):
            words.update(word for text in table.values() for word in text.split())
    return sorted(word for word in words if word.isalpha())


def _words(draw):
    return " ".join(draw.choice(_vocabulary()) for _ in range(draw.randrange(1, 7)))


def _number(draw):
    digits = draw.choice([1, 2, 3, 4, 5, 6, 7, 9, 10, 11])  # eight digits may be a date
    number = draw.randrange(10 ** (digits - 1), 10**digits)
    return draw.choice([f"{number}", f"{number:,}", f"-{number}", f"{number}%", f"no. {number}"])


def _time(draw):
    hour, minute, second = draw.randrange(24), draw.randrange(60), draw.randrange(60)
    return draw.choice([f"{hour}:{minute:02d}", f"{hour:02d}:{minute:02d}:{second:02d}", f"{hour} h"])


def _price(draw):
    amount, currency = draw.randrange(1, 100_000) / 100, draw.choice(CURRENCIES)
    return draw.choice([f"{currency}{amount:.2f}", f"{amount:.2f} {currency}", f"{int(amount)} {currency}"])


def _phone(draw):
    groups = [str(draw.randrange(10 ** (size - 1), 10**size)) for size in (3, 3, 4)]
    return draw.choice(["+1 ", "+49 ", "0", "(0) "]) + draw.choice(" -").join(groups)


def _characters(draw):
    alphabet = draw.choice([LETTERS, LETTERS + SYMBOLS])
    return "".join(draw.choices(alphabet, k=draw.randrange(1, 25))).strip() or "?"


def _part_of_date(draw):
    """An incomplete date: a month or a weekday alone, or a month with a day or a year."""
    locale = Locale.parse(draw.choice(LOCALES))
    month = locale.months["format"]["wide"][draw.randrange(1, 13)]
    weekday = locale.days["format"]["wide"][draw.randrange(7)]
    day, year = draw.randrange(1, 32), draw.randrange(1900, 2100)
    pairs = [f"{weekday} {month}", f"{day} {month}", f"{month} {year}", f"{weekday} {day}", f"{year}-"]
    return draw.choice([month, weekday, *pairs])


def _impossible_date(draw):
    values = _impossible_day(draw)
    in_words = values[1] <= 12 and draw.random() < 0.5
    formats = date_formats(draw.choice(LOCALES)) if in_words else numeric_formats()
    return draw.choice(formats).fill(values)


def _impossible_day(draw):
    """Draws (year, month, day, weekday) that no calendar has, whatever the order of day and month."""
    year, weekday = draw.randrange(1950, 2050), draw.randrange(7)  # years that two digits identify
    kind = draw.randrange(3)
    if kind == 0:  # 31 February, 31 April, 29 February of a common year
        month = draw.choice([2, 2, 2, 4, 6, 9, 11])
        days = monthrange(year, month)[1]
        return year, month, draw.randrange(days + 1, 32), weekday
    if kind == 1:  # 45 March
        return year, draw.randrange(1, 13), draw.randrange(32, 100), weekday
    return year, draw.randrange(13, 100), draw.randrange(13, 100), weekday  # 25/13


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
        two_digit_year, month_first: bool; such a text has a single meaning for some dates only.
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
