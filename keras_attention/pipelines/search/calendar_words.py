"""Days of the week and months, which translations must not lose or change: "Freitag" is "Friday" and "vendredi"."""

import re
from functools import cache

_WORDS = {
    "en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February April June July August September "
    "October November December",
    "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag Januar Februar April Juni Juli August September "
    "Oktober November Dezember",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche janvier février avril juin juillet août septembre "
    "octobre novembre décembre",
}  # March, May and "mars" have other meanings
CALENDAR_WORDS = {language: words.split() for language, words in _WORDS.items()}
_DAYS = 7
_ALSO = {"Samstag": "Samstag|Sonnabend", "Januar": "Januar|Jänner", "August": "(?-i:August)"}
_BEFORE = {"de": r"\w*"}  # Ostermontag
_BEHIND = {"de": r"(?:s|s?(?:abend|früh|(?:vor|nach)?mittag|morgen|nacht)\w*)?", "en": "s?", "fr": "s?"}  # of a day


@cache
def calendar_word(language):
    """The pattern (str) of a day or a month; of languages other than English, German and French what never matches."""
    if language not in CALENDAR_WORDS:
        return "(?!)"
    return rf"(?i:(?<!\w)(?:{'|'.join(_ALSO.get(word, word) for word in CALENDAR_WORDS[language])})(?!\w))"


def calendar_words_differ(source, answer, source_language, target_language):
    """Whether a day or a month of a source is not in its translation, or the other way round.

    Args:
        source, answer: str.
        source_language, target_language: str, the codes of two languages of `CALENDAR_WORDS`.
    """
    here, there = _places(source, source_language), _places(answer, target_language)
    lost = [CALENDAR_WORDS[source_language][place] for place in here - there]
    added = [CALENDAR_WORDS[target_language][place] for place in there - here]
    # A name such as "Black Friday" or "Herr Freitag" may stay as it is.
    return any(word.lower() not in answer.lower() for word in lost) or any(
        word.lower() not in source.lower() for word in added
    )


def other_calendar_words(word, source_language, target_language):
    """What may be read in place of a day or a month.

    Args:
        word: str, a match of `calendar_word` of the source language.
        source_language, target_language: str, codes such as "en".

    Returns:
        The word in the target language, and a list of pairs: another word of the same kind, and its translation.
    """
    place = next(iter(_places(word, source_language)))
    kind = slice(0, _DAYS) if place < _DAYS else slice(_DAYS, None)
    words, translations = (CALENDAR_WORDS[language] for language in (source_language, target_language))
    others = [pair for pair in zip(words[kind], translations[kind], strict=True) if pair[0] != words[place]]
    return translations[place], others


def _places(text, language):
    """The places in `CALENDAR_WORDS` of the words in a text: set of int. "Freitagabend" and "Fridays" have Friday."""
    return {place for place, pattern in enumerate(_patterns(language)) if pattern.search(text)}


@cache
def _patterns(language):
    before, behind = _BEFORE.get(language, ""), _BEHIND[language]
    words = [f"(?:{_ALSO.get(word, word)})" for word in CALENDAR_WORDS[language]]
    words = [f"{before}{word}{behind}" if place < _DAYS else word for place, word in enumerate(words)]
    return [re.compile(rf"(?<!\w){word}(?!\w)", re.IGNORECASE) for word in words]
