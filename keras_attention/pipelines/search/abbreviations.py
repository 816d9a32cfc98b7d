"""Short ways to write that models of everyday sentences do not know: "no. 5", "e.g.", "ca. 50 Euro", "5 km", "7 p.m.".

Many of them were read as the end of a sentence. "No. 5" is kept like an order number, and becomes "Nr. 5" and "n° 5".
The model reads others as words that it knows: "evtl." as "vielleicht", "on Fridays" as "every Friday".
"""

import re
from functools import cache

_NUMBER_SIGNS = {"en": "no.", "de": "Nr.", "fr": "n°"}  # how the languages write "number"
_NUMBERED = {
    "en": r"(?:no\.|nos\.|(?<=\w\s)No\.)",  # at the beginning, "No." may be an answer
    "de": r"(?:[Nn]r\.?|N[°º])",
    "fr": r"(?:[Nn][°º]|[Nn]um\.)",
}
STAND_INS = ["X1", "Z1", "X2", "X3"]  # copied where "invoice no. 5" was, better than numbers
_ENGLISH_DAYS = r"on (?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days"
# "Freitags" within a sentence is a genitive: "eines Freitags".
_GERMAN_DAYS = r"(?:mon|diens|donners|frei|sams|sonn)tags|^(?:Mon|Diens|Donners|Frei|Sams|Sonn)tags"
_WORDS = {  # source language -> pattern of whole words -> what the model reads
    "en": {
        r"e\.\s?g\.,?": "for example",
        r"i\.\s?e\.,?": "that is,",
        r"approx\.": "about",
        r"incl\.": "with",
        r"vs\.": "against",
        r"ASAP|asap": "as soon as possible",
        _ENGLISH_DAYS: lambda text: f"every {text[3:-1]}",
    },
    "de": {
        r"[zZ]\.\s?B\.": "zum Beispiel",
        r"d\.\s?h\.": "das heißt",
        r"ca\.": "etwa",
        r"bzw\.": "oder",
        r"evtl\.": "vielleicht",
        r"ggf\.": "wenn nötig",
        r"inkl\.": "mit",
        r"usw\.": "und so weiter",
        _GERMAN_DAYS: lambda text: f"{'jeden' if text[0].islower() else 'Jeden'} {text[:-1].capitalize()}",
    },
    "fr": {
        r"p\.\s?ex\.": "par exemple",
        r"env\.(?=\s?\d)": "environ",
        r"c\.-à-d\.": "c'est-à-dire",
        r"s\.?v\.?p\.?": "s'il vous plaît",
    },
}
_BEHIND_NUMBERS = {
    "en": {r"km": "kilometers"},
    "de": {r"km": "Kilometer", r"Std\.": "Stunden", r"Min\.": "Minuten"},
    "fr": {},
}
_TIME = re.compile(r"(?<![\w.,:])(1[0-2]|0?[1-9])(?:[:.]([0-5]\d))?\s?([ap])(?:m|\.\s?m\.)(?!\w)", re.IGNORECASE)
_END = re.compile(r"[\s\"'”“»)\]]*$")


@cache
def numbered(language):
    """The pattern (str) of a sign for "number" and the number behind it, without groups: "no. 5", "Nr. 4711/B".

    Args:
        language: str, a code such as "en", or None. Of languages other than English, German and French: what never
            matches.
    """
    if language not in _NUMBERED:
        return "(?!)"
    return rf"(?<![^\W_]){_NUMBERED[language]}\s?\d+(?:[./-]?\w+)*"


def numbered_in_answers(text, target_language):
    """A match of `numbered` as the other language writes it: "no. 5" is "Nr. 5"."""
    return f"{_NUMBER_SIGNS[target_language]} {text[re.search('[0-9]', text).start() :]}"


def at_the_beginning(item):
    """A result of `numbered_in_answers` with a capital letter; any other item as it is."""
    return item[0].upper() + item[1:] if item.startswith(tuple(f"{sign} " for sign in _NUMBER_SIGNS.values())) else item


def expansions(text, source_language, target_language):
    """What the model reads in place of parts of a text: list of (start, end, str), in the order of the text.

    Args:
        text: str, a sentence.
        source_language, target_language: str or None, codes. Languages other than English, German and French have none.
    """
    if source_language not in _WORDS or target_language not in _WORDS:
        return []
    pattern, readings = _pattern(source_language)
    found = []
    for match in pattern.finditer(text):
        reading = readings[match.lastindex - 1]
        reading = reading if isinstance(reading, str) else reading(match[0])
        found.append((*match.span(), _ended(reading, text, match.end())))
    for match in _TIME.finditer(text) if source_language == "en" else ():
        reading = _time(*match.groups(), target_language)
        found.append((*match.span(), _ended(reading, text, match.end())))
    return sorted(found)


def _ended(reading, text, end):
    """A reading, with the full stop of its abbreviation if that ends the text."""
    return f"{reading.rstrip(',')}." if text[end - 1] == "." and _END.match(text, end) else reading


def _time(hour, minutes, half, target_language):
    """A time without full stops; for French, whose model does not know "pm", with 24 hours."""
    if target_language != "fr":
        return f"{hour}{f':{minutes}' if minutes else ''} {half.lower()}m"
    hour = int(hour) % 12 + 12 * (half in "pP")
    return f"{hour}:{minutes}" if minutes and minutes != "00" else f"{hour} o'clock"


@cache
def _pattern(language):
    """A pattern with one group for each of the readings, and the readings: list of str or callable(str) -> str."""
    words = [rf"(?<![^\W_])({pattern})(?!\w)" for pattern in _WORDS[language]]
    units = [rf"(?<=\d)(\s?{pattern})(?!\w)" for pattern in _BEHIND_NUMBERS[language]]
    readings = [f" {reading}" for reading in _BEHIND_NUMBERS[language].values()]
    return re.compile("|".join([*words, *units])), [*_WORDS[language].values(), *readings]
