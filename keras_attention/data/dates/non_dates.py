"""Texts that are no date: words, numbers, times, prices, random characters, parts of dates and impossible dates."""

import random
from calendar import monthrange
from functools import cache

from babel import Locale

from keras_attention.data.dates.date_formats import LOCALES, date_formats, numeric_formats

CURRENCIES = ("€", "$", "£", "¥", "kr", "zł", "₽", "₺")
LETTERS = "abcdefghijklmnopqrstuvwxyzäöüéèçñøåßłабвгдежзиклмнопрстуαβγδεζηθικλμνξ年月日年월일中文字"
SYMBOLS = " .,;:-_/!?'()+*#&%=@0123456789"


def generate_non_dates(count, seed):
    """Writes texts that no reader takes for a date; a pure function of its arguments.

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
    """A month or a weekday alone, or a month with a day or a year: something is missing."""
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
    year, weekday = draw.randrange(1950, 2050), draw.randrange(7)  # years that two digits give back
    kind = draw.randrange(3)
    if kind == 0:  # 31 February, 31 April, 29 February of a common year
        month = draw.choice([2, 2, 2, 4, 6, 9, 11])
        days = monthrange(year, month)[1]
        return year, month, draw.randrange(days + 1, 32), weekday
    if kind == 1:  # 45 March
        return year, draw.randrange(1, 13), draw.randrange(32, 100), weekday
    return year, draw.randrange(13, 100), draw.randrange(13, 100), weekday  # 25/13
