"""Dates as people write them in many languages, each with its ISO 8601 form: a generated translation task.

The rules that give each text exactly one right answer:
- Years are 1900 to 2099. Two digits mean 1950 to 2049.
- Four digits in front: year, month, day. Otherwise the year comes last.
- Day and month as numbers, both at most 12: the day comes first, whatever the separator.
- The American order (12/25/1998) is generated with slashes, and only for days above 12, which have no other reading.
- With the month as a word: "21 Mar 05" and "Mar 21, 05" are 21 March 2005.
- A weekday always agrees with the date.

Texts vary in case, and may lack accents, commas and the dots after abbreviations.
"""

import random
import re
import unicodedata
from calendar import monthrange
from datetime import date, timedelta
from functools import cache
from hashlib import md5

import numpy as np
from babel import Locale

from keras_attention.data.dates.date_formats import LOCALES, date_formats, numeric_formats

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
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).replace("\u0301", ""))
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
