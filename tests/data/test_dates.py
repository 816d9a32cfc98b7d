"""Dates: rendered as Babel does, of one meaning each, the same for the same seed, and held out by the day."""

import re
import unicodedata
from datetime import date
from functools import cache

import pytest
from babel.dates import format_date

from keras_attention.data import dates
from keras_attention.data.dates import (
    date_splits,
    generate_dates,
    generate_non_dates,
    split_of_day,
    upper_case,
    without_accents,
)

ALL_FORMATS = [*dates.numeric_formats(), *(f for name in dates.LOCALES for f in dates.date_formats(name))]
DAYS = [
    date(1900, 1, 1),
    date(1968, 2, 29),
    date(2003, 5, 7),
    date(2021, 12, 31),
    date(2049, 8, 11),
    date(2099, 10, 13),
]


EXPRESSIONS = {"y": r"\d{4}", "yy": r"\d\d", "MM": r"\d\d", "dd": r"\d\d", "M": r"[1-9]\d?", "d": r"[1-9]\d?"}
EXPRESSIONS["do"] = r"\d+(?:st|nd|rd|th|er|º)?"


def values(day):
    return day.year, day.month, day.day, day.weekday()


def plain(text):
    """What is left of a text when case, accents, commas, dots of abbreviations and kinds of apostrophes are ignored."""
    letters = unicodedata.normalize("NFD", text.lower().replace("ʼ", "'").replace(",", ""))
    letters = "".join(letter for letter in letters if not ("\u0300" <= letter <= "\u036f"))
    return re.sub(r"(?<=[^\W\d])\.", "", unicodedata.normalize("NFC", letters)).replace("ς", "σ").replace("ı", "i")


@cache
def readers():
    """One regular expression for each pattern, made from the pattern's letters and Babel's names alone."""
    return [(date_format, *_reader(date_format)) for date_format in ALL_FORMATS]


def _reader(date_format):
    expression, literal, before, names = "", "", "", {}
    fields = dates.FIELD.findall(date_format.pattern)
    for field, piece in zip([*fields, "end"], [*date_format.pieces, (None, None)], strict=True):
        if isinstance(piece, str):
            literal += piece
            continue
        expression += re.escape(plain(before + literal)[len(before) :])
        kind, table = piece
        if field == "end":
            break
        literal, before = "", "1"
        if field in EXPRESSIONS:
            options = [EXPRESSIONS[field]]
        else:
            names[kind] = {plain(table[n]): n for n in (range(1, 13) if kind == 1 else range(7))}
            options, before = sorted(map(re.escape, names[kind]), key=len, reverse=True), "a"
        expression += f"(?P<{'ymdw'[kind]}>{'|'.join(options)})"
    return re.compile(expression), names


def meanings(text):
    """The ISO forms of all days that a text means under the rules, over all patterns of all languages."""
    days = set()
    for date_format, expression, names in readers():
        match = expression.fullmatch(plain(text))
        if not match:
            continue
        parts = match.groupdict()
        month = names[1][parts["m"]] if 1 in names else int(parts["m"])
        day = int(re.match(r"\d+", parts["d"])[0])
        year = int(parts["y"])
        if date_format.two_digit_year:
            year += 1900 if year >= 50 else 2000
        if date_format.month_first and day <= 12:
            continue
        try:
            meant = date(year, month, day)
        except ValueError:
            continue
        if "w" not in parts or names[3][parts["w"]] == meant.weekday():
            days.add(meant.isoformat())
    return days


@pytest.mark.parametrize("locale", dates.LOCALES)
def test_standard_formats_are_babels(locale):
    patterns = {f.pattern: f for f in dates.date_formats(locale)}
    compared = 0
    for length in ("full", "long", "medium", "short"):
        date_format = patterns.get(dates.babel_pattern(locale, length))
        for day in DAYS if date_format else ():
            assert date_format.fill(values(day)) == dates.plain_blanks(format_date(day, length, locale))
            compared += 1
    assert compared >= 3 * len(DAYS)  # Korean "21. 3. 5." is left out: two digits in front


@pytest.mark.parametrize("locale", dates.LOCALES)
def test_other_formats_in_cldr_letters_are_babels(locale):
    for date_format in dates.date_formats(locale):
        if "do" not in dates.FIELD.findall(date_format.pattern):
            for day in DAYS:
                assert date_format.fill(values(day)) == format_date(day, date_format.pattern, locale)


def test_english_ordinals():
    (ordinal,) = [f for f in dates.date_formats("en_GB") if f.pattern == "'the' do 'of' MMMM y"]
    texts = [ordinal.fill((2021, 3, day, 0)) for day in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 30, 31)]
    ordinals = ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "30th", "31st"]
    assert texts == [f"the {day} of March 2021" for day in ordinals]


def test_many_languages_and_scripts():
    languages = {name[:2] for name in dates.LOCALES}
    assert len(languages) >= 12
    assert {"ru", "el", "ja", "zh", "ko"} <= languages


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_every_text_has_exactly_one_meaning(split):
    for text, iso in zip(*generate_dates(1_009, seed=3, split=split), strict=True):
        assert meanings(text) == {iso}, text


def test_month_names_mean_one_month_in_all_languages():
    months = {}
    for date_format in ALL_FORMATS:
        for piece in date_format.pieces:
            if not isinstance(piece, str) and piece[0] == 1:
                for month in range(1, 13):
                    months.setdefault(plain(piece[1][month]), set()).add(month)
    assert {name: numbers for name, numbers in months.items() if len(numbers) > 1} == {}


def test_examples_of_the_rules():
    assert meanings("05/03/2021") == {"2021-03-05"}
    assert meanings("3.5.21") == {"2021-05-03"}
    assert meanings("12/25/1998") == {"1998-12-25"}
    assert meanings("2021/03/05") == {"2021-03-05"}
    assert meanings("21 mar 05") == {"2005-03-21"}
    assert meanings("1/1/49") == {"2049-01-01"}
    assert meanings("1/1/50") == {"1950-01-01"}


def test_ambiguous_patterns_are_left_out():
    patterns = {f.pattern for f in dates.date_formats("ko")}
    assert dates.babel_pattern("ko", "short") == "yy. M. d."
    assert "yy. M. d." not in patterns
    assert "y. M. d." in patterns


def test_a_pure_function_of_seed_and_split():
    first = generate_dates(211, seed=3)
    assert generate_dates(211, seed=3) == first
    assert generate_dates(211, seed=5) != first
    assert generate_dates(211, seed=3, split="test") != first


def test_splits_share_no_day():
    days = {split: set(generate_dates(20_011, seed=3, split=split)[1]) for split in dates.SPLITS}
    assert not days["train"] & days["test"]
    assert not days["train"] & days["validation"]
    assert not days["validation"] & days["test"]
    for split, isos in days.items():
        assert {split_of_day(iso) for iso in isos} == {split}


def test_sizes_of_splits():
    train, validation, test = date_splits(1_009, seed=3, validation_size=101, test_size=211)
    assert [len(side) for part in (train, validation, test) for side in part] == [1_009] * 2 + [101] * 2 + [211] * 2
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", iso) for part in (train, validation, test) for iso in part[1])
    assert date_splits(1_009, seed=3, validation_size=101, test_size=211) == (train, validation, test)
    not_dates = sum(meanings(text) != {iso} for text, iso in zip(*train, strict=True))
    assert not_dates == int(1_009 * dates.NON_DATE_SHARE)
    for part, name in ((train, "train"), (validation, "validation"), (test, "test")):
        assert {split_of_day(iso) for iso in part[1]} == {name}


def test_all_forms_and_case_occur():
    texts, isos = generate_dates(20_011, seed=3)
    assert {iso[:4] for iso in isos} == {str(year) for year in range(1900, 2100)}
    assert any(text.isupper() for text in texts)
    assert any(re.fullmatch(r"\d{8}", text) for text in texts)
    assert any(re.search(r"\d(st|nd|rd|th)\b", text) for text in texts)
    assert all(text == " ".join(text.split()) for text in texts)
    assert not any("\u0300" <= character <= "\u036f" for text in texts for character in text)


def test_accents_and_capitals():
    assert without_accents("5 août, Ağustos, Μαΐου, йод, 목요일") == "5 aout, Agustos, Μαιου, йод, 목요일"
    assert upper_case("Μαρτίου Μαΐου") == "ΜΑΡΤΙΟΥ ΜΑΪΟΥ"
    assert upper_case("março") == "MARÇO"


def test_non_dates_mean_no_date():
    texts = generate_non_dates(1_009, seed=3)
    assert [text for text in texts if meanings(text)] == []
    assert all(text.strip() for text in texts)
    assert generate_non_dates(1_009, seed=3) == texts
    assert generate_non_dates(1_009, seed=5) != texts


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="count=-1"):
        generate_dates(-1, seed=0)
    with pytest.raises(ValueError, match="split='dev'"):
        generate_dates(1, seed=0, split="dev")
