"""Items that a translation must keep: numbers, amounts, names, days, addresses, #4711, {placeholders}, tags, emoji."""

import functools
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from typing import NamedTuple

from keras_attention.pipelines.search import abbreviations
from keras_attention.pipelines.search.amounts import (
    AMOUNT,
    AMOUNT_IN_WORDS,
    CURRENCY_IN_ANSWERS,
    DEBT,
    MONEY_BESIDE,
    PER_WORDS,
    SIGN,
    SLASH,
    SYMBOL,
    amount_in_answers,
    currency_differs,
    powers_differ,
    units_differ,
)
from keras_attention.pipelines.search.calendar_words import (
    calendar_word,
    calendar_words_differ,
    other_calendar_words,
)
from keras_attention.pipelines.search.given_names import LANGUAGES, given_name, given_name_missing
from keras_attention.pipelines.search.place_names import other_places, place_missing, place_name
from keras_attention.pipelines.search.titled_names import (
    in_answers,
    is_title,
    placed,
    stand_ins,
    titled_name,
    titled_name_missing,
)

EMOJI = (
    "[\U0001f1e6-\U0001f1ff]{2}"  # a flag
    "|[\u203c\u2049\u2122\u2139\u2194-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]\ufe0f?"
    "[\U0001f3fb-\U0001f3ff]?(?:\u200d[\u2600-\u27bf\U0001f000-\U0001faff]\ufe0f?[\U0001f3fb-\U0001f3ff]?)*"
)
ADDRESS = r"(?:(?:https?|ftp)://|www\.)[^\s<>\"'“”„«»]*[^\s<>\"'“”„«».,:;!?()\[\]{}…]/?"
# Bounded, and begun only where a word begins: so long words without an @ are searched in linear time.
EMAIL = r"(?<![\w.+-])[\w.+-]{1,64}@(?:\w[\w-]{0,62}\.){1,9}\w[\w-]{0,62}"
PLACEHOLDER = r"\{\{[^{}\n]{0,80}\}\}|\$?\{[^{}\s]{0,80}\}|%\(\w+\)[sdif]|(?<![\w%])%(?:\d+\$)?[sdif@](?!\w)"
# An order number, a hashtag, or what an anonymized text has in place of a name: #NAME#. "&#39;" is an entity.
HASHED = r"(?<![\w#&])#\w(?:[\w./-]{0,62}\w)?#?"
TAG = r"</?[A-Za-z][^<>\n]{0,999}>"
ITEM = re.compile(f"(?P<tag>{TAG})|(?P<name>{ADDRESS}|{EMAIL}|{PLACEHOLDER}|{HASHED})|(?P<emoji>{EMOJI})")
# A telephone number; or a number with its sign and separators, such as 17:45, and the letters of a code, such as B12.
NUMBER = re.compile(
    rf"\+\d{{1,3}}(?:[ /-]?\(?\d+\)?)+|(?:(?<![^\W_])[A-Z]{{1,4}}-?|{SIGN})?\d+(?:[.,:/'’\u00a0\u202f-]?\d+)*"
)
DIGITS = re.compile(rf"((?:{SIGN})?\d+(?:[.,:'’\u00a0\u202f]\d+)*)(?:\s?([AaPp])\.?\s?[Mm]\b)?")
FRENCH_TIME = re.compile(r"\b(\d{1,2})\s?h\s?(\d{2})(?!\d)")  # 10 h 30
MINUS = re.compile(r"\b(?:minus|moins) (?=\d)", re.IGNORECASE)
# Words for the numbers from 0, which may stand for digits or the other way round.
NUMBER_WORDS = {
    "en": "zero an?|one|first|once two|second|twice three|third four|fourth five|fifth six|sixth seven|seventh "
    "eight|eighth nine|ninth ten|tenth eleven|eleventh twelve|twelfth",
    "de": "null eine?[nmrs]?|erste[nmrs]?|einmal zwei|zweite[nmrs]?|zweimal drei|dritte[nmrs]? vier|vierte[nmrs]? "
    "fünf|fünfte[nmrs]? sechs|sechste[nmrs]? sieben|siebte[nmrs]? acht|achte[nmrs]? neun|neunte[nmrs]? "
    "zehn|zehnte[nmrs]? elf|elfte[nmrs]? zwölf|zwölfte[nmrs]?",
    "fr": "zéro une?|premi(?:er|ère)s? deux|deuxième|seconde? trois|troisième quatre|quatrième cinq|cinquième "
    "six|sixième sept|septième huit|huitième neuf|neuvième dix|dixième onze|onzième douze|douzième",
}
NUMBER_WORDS = {
    code: [re.compile(f"(?<!\\w)(?:{word})(?!\\w)", re.IGNORECASE) for word in words.split()]
    for code, words in NUMBER_WORDS.items()
}
STAND_INS = {  # what small models copy best, as measured by benchmarks/kept_items.py
    "number": ["20", "100", "25", "2013", "40", "30", "80", "50", "200", "60", "70", "300"],
    "name": ["Paris", "Tom", "Boston", "Anna", "X1", "Berlin", "Peter", "X2", "Z1", "X3"],
}
BLANKS = " \t\n\u00a0\u2007\u2009\u202f"
JOINED = str.maketrans(BLANKS, "".join(map(chr, range(0x10FF00, 0x10FF00 + len(BLANKS)))))  # to private signs
ATTEMPTS = 4  # searches for a sentence: as it is (but for names), then with other stand-ins each time
WITH_CURRENCY_WORDS = 2  # the attempt from which on stand-ins are for amounts with the words of their currencies, too


class Mark(NamedTuple):
    """A tag or an emoji, and its place in the text without all of these."""

    text: str
    place: int


class Mask(NamedTuple):
    """What a model reads in place of a sentence.

    Attributes:
        text: str, the sentence with stand-ins.
        pairs: list of (stand-in, item of the answer).
        plain: str, the sentence without blanks within items, see `joined`: its words are those of `text`.
    """

    text: str
    pairs: list[tuple[str, str]]
    plain: str


class Guard(NamedTuple):
    """A sentence whose items are kept.

    Attributes:
        sentence: str.
        plain: str, the sentence without tags and emoji, which is what the model reads. "€20/month" is "€20 per month",
            and "e.g." is "for example".
        marks: list of Mark, the tags and emoji.
        names: re.Pattern of names that stay as they are, or None.
        languages: pair of str or None, the codes of source and target, such as "de".
    """

    sentence: str
    plain: str
    marks: list[Mark]
    names: re.Pattern | None = None
    languages: tuple[str | None, str | None] = (None, None)

    def masked(self, attempt):
        """The text for a search, and the stand-ins in it.

        Args:
            attempt: int >= 0. In the first, only addresses, placeholders, words behind #, "no. 5" and names with a
                title have stand-ins; later, given names, days, months, places, numbers and amounts such as €20 have,
                too, and from the third attempt on amounts with a word, such as 20 euros.

        Returns:
            Mask, or None if there are more items than stand-ins.
        """
        pairs, read_as, lower, places = [], {}, self.plain.lower(), [mark.place for mark in self.marks]

        def replaced(item, choices):
            """What the model reads in place of an item: the next of the `choices` that is free, pairs or names."""
            turn, used = attempt % len(choices), {stand_in for stand_in, _ in pairs}
            for choice in choices[turn:] + choices[:turn]:
                read, stand_in = choice if isinstance(choice, tuple) else (choice, choice)
                if stand_in not in used and read.lower() not in lower:
                    pairs.append((stand_in, item))
                    return read
            return None

        def replace(match):
            person, day, place = match["titled"] or match["given"], match["day"], match["place"]
            if (person or place) and bisect_right(places, match.start()) < bisect_left(places, match.end()):
                return match[0]  # a tag within
            if match["titled"] and not is_title(self.plain, match.start(), self.languages[0]):
                return match[0]
            if attempt == 0 and not (match["name"] or match["numbered"] or match["titled"]):
                return match[0]
            if match["titled"]:
                item, choices = in_answers(match[0], *self.languages), stand_ins(match[0], self.languages[0])
            elif day:
                item, choices = other_calendar_words(day, *self.languages)
            elif place:
                item, choices = other_places(place, *self.languages)
            elif match["numbered"]:
                item = abbreviations.numbered_in_answers(match[0], self.languages[1])
                choices = abbreviations.STAND_INS
            else:
                item = amount_in_answers(match[0], *self.languages) if match.groupdict().get("amount") else match[0]
                is_number = not match["given"] and (not match["name"] or re.match(r"#\d", match["name"]))
                choices = STAND_INS["number" if is_number else "name"]
            if person or day or place:
                read_as[item] = read_as.get(item) or replaced(item, choices) or match[0]
                return read_as[item]
            if (read := replaced(item, choices)) is None:
                raise StopIteration
            return read

        people = language_of_people(*self.languages)
        pattern = _name_or_number(self.names, people, self._has_currency_words(attempt))
        try:
            text = pattern.sub(replace, self.plain)
        except StopIteration:
            return None
        return Mask(text, pairs, pattern.sub(lambda match: joined(match[0]), self.plain) if pairs else self.plain)

    def restored(self, answer, pairs):
        """An answer with the items in place of their stand-ins: str."""
        places = [
            (match.span(), item.capitalize() if stand_in.islower() and match[0].istitle() else item)
            for stand_in, item in pairs
            for match in re.finditer(
                rf"(?:{SYMBOL}\s?)?(?<!\w){stand_in}(?!\d)(?:\s?{MONEY_BESIDE})?"
                if stand_in.isdigit() and re.search(MONEY_BESIDE, item)
                else rf"(?<!\w){stand_in}(?=s?(?!\w))",  # "Toms" has an ending, "Tomaten" is another word
                answer,
                re.IGNORECASE if stand_in.islower() else 0,  # a day in French
            )
        ]
        for (start, end), item in sorted(places, reverse=True):
            item = item if answer[:start].strip() else abbreviations.at_the_beginning(item)
            answer = placed(answer, start, end, item, self.languages[1])
        return answer

    def _has_currency_words(self, attempt):
        return attempt >= WITH_CURRENCY_WORDS and self.languages[1] in CURRENCY_IN_ANSWERS

    @property
    def has_inner_marks(self):
        start, end = len(self.plain) - len(self.plain.lstrip()), len(self.plain.rstrip())
        return any(start < mark.place < end for mark in self.marks)


PRICED_PLACEHOLDER = (
    rf"(?:{PLACEHOLDER})(?:{AMOUNT}|{NUMBER.pattern})|{SYMBOL}\s?(?:{PLACEHOLDER})"
    rf"|(?:{PLACEHOLDER})\s?{SYMBOL}(?!\s?\d)"
)
NAME = f"{ADDRESS}|{EMAIL}|{PRICED_PLACEHOLDER}|{PLACEHOLDER}|{HASHED}"
NAME_OR_NUMBER = re.compile(f"(?P<name>{NAME})|{NUMBER.pattern}")
NAME_OR_SLASH = re.compile(f"(?:{NAME})|{SLASH}")


def joined(item):
    """An item with private signs in place of its blanks, so that it is one word: str; undone by `separated`."""
    return item.translate(JOINED)


def separated(text):
    """A text with the blanks of items that `joined` has made one word: str."""
    return text.translate({sign: blank for blank, sign in JOINED.items()})


def guard(sentence, names=None, languages=(None, None)):
    """The Guard of a sentence (str), of which further names (re.Pattern) stay; None if it has no items."""
    plain, marks = without_marks(sentence)
    words = abbreviations.expansions(plain, *languages)
    if not marks and not words and not _name_or_number(names, language_of_people(*languages)).search(plain):
        return None
    return Guard(sentence, *_with_words(plain, marks, words + _per_words(plain, languages[0])), names, languages)


def _per_words(plain, language):
    """Words for the slashes behind amounts, whose next word models did not translate: list of (start, end, word)."""
    matches = NAME_OR_SLASH.finditer(plain) if language in PER_WORDS else ()
    return [(*match.span("slash"), f" {PER_WORDS[language]} ") for match in matches if match["slash"]]


def _with_words(plain, marks, words):
    """A text and its marks with words in place of its signs; `words`: list of (start, end, word)."""
    for start, end, word in sorted(words, reverse=True):
        plain = plain[:start] + word + plain[end:]
        longer = len(word) - (end - start)
        marks = [mark._replace(place=mark.place + longer if mark.place >= end else mark.place) for mark in marks]
    return plain, marks


@functools.lru_cache(maxsize=16)
def _name_or_number(names, language, has_currency_words=False):
    """The pattern of what has a stand-in. `names`: see `guard`; `language`: see `language_of_people`."""
    name = NAME if names is None else f"{NAME}|{names.pattern}"
    given = given_name(language) if language else "(?!)"
    number = f"{AMOUNT_IN_WORDS}|{AMOUNT}" if has_currency_words else AMOUNT
    people = f"(?P<titled>{titled_name(language)})|(?P<given>{given})"
    others = f"(?P<day>{calendar_word(language)})|(?P<place>{place_name(language)})"
    numbered = f"(?P<numbered>{abbreviations.numbered(language)})"
    return re.compile(f"(?P<name>{name})|{numbered}|{people}|{others}|{number}|{NUMBER.pattern}")


def language_of_people(source_language, target_language):
    """The language in which the names of people are looked for, a code; None if they may change, as in Russian."""
    return source_language if {source_language, target_language} <= set(LANGUAGES) else None


def names_differ(source, answer, names):
    """Whether names (re.Pattern) are not in an answer as often as in its source."""
    return Counter(names.findall(source)) != Counter(names.findall(answer))


def without_marks(text):
    """A text without its tags and emoji, and these as list of Mark."""
    parts, marks, done, length = [], [], 0, 0
    for match in ITEM.finditer(text):
        if match["name"] is not None:
            continue
        before = text[done : match.start()]
        parts.append(before)
        length += len(before)
        marks.append(Mark(match[0], length))
        done = match.end()
    return "".join([*parts, text[done:]]), marks


def without_items(text):
    """What else there is in a text: str."""
    return NAME_OR_NUMBER.sub(" ", ITEM.sub(" ", text))


def difference(source, answer, source_language=None, target_language=None):
    """Which items of a source are not in its translation, or the other way round.

    Numbers are compared by their digits, so that 1,000.5 equals 1.000,5. One of up to twelve may become a word, and a
    time such as 7:45 pm may become 19:45. "Million" and its like must stay. The sign of a currency may become a word
    and the other way round, but the currency of an amount must stay, and so must the month of "€20 per month". Between
    English, German and French, frequent given names and large places must stay.

    Args:
        source, answer: str.
        source_language, target_language: str or None, codes such as "en", for the words of numbers.

    Returns:
        "numbers", "items" (an address, a placeholder, a word behind #, a tag, an emoji, a currency, a unit, a name, a
        day, a month or a place), or None.
    """
    (numbers, names), (other_numbers, other_names) = _items(source), _items(answer)
    missing, added = _unmatched(numbers, other_numbers), _unmatched(other_numbers, numbers)
    if _unspelled(missing, answer, target_language) or _unspelled(added, source, source_language):
        return "numbers"
    source, answer, priced = _without_names(source), _without_names(answer), _without_names(source, "0")
    if powers_differ(source, answer, source_language, target_language):
        return "numbers"
    if names != other_names or currency_differs(priced, answer, target_language):
        return "items"
    people = language_of_people(source_language, target_language)
    if people and (
        given_name_missing(source, answer, people)
        or titled_name_missing(source, answer, people)
        or calendar_words_differ(source, answer, people, target_language)
        or place_missing(source, answer, people, target_language)
    ):
        return "items"
    return "items" if units_differ(source, answer, source_language, target_language) else None


def _without_names(text, placeholder=" "):
    """A text without its names, tags and emoji, in NFKC. `placeholder` (str) is for those that may be prices."""
    text = re.sub(PLACEHOLDER, placeholder, text)
    return unicodedata.normalize("NFKC", ITEM.sub(" ", text))


def _items(text):
    """The numbers of a text, each as a set of ways to write it, and a Counter of the other items."""
    names = Counter(match[0] for match in ITEM.finditer(text))
    text = FRENCH_TIME.sub(r"\1:\2", text)
    text = DEBT.sub(r"\1 -", MINUS.sub("-", ITEM.sub(" ", text)))
    return [_ways(*match.groups()) for match in DIGITS.finditer(text)], names


def _ways(number, half):
    """The groups of digits of a number, the first with its sign: set of tuples; with "a" or "p", also as 24 hours."""
    first, *rest = re.findall(r"\d+", number)
    rest = () if rest == ["00"] else tuple(rest)
    first = first.lstrip("0") or "0"
    hour = int(first[:3])
    if not number[0].isdigit():
        return {(f"-{first}", *rest)}
    if half is None or not 1 <= hour <= 12:
        return {(first, *rest)}
    return {(first, *rest), (str(hour % 12 + 12 * (half in "pP")), *rest)}


def _unmatched(numbers, others):
    """Counter of the numbers that are not among the others."""
    left, unmatched = list(others), Counter()
    for ways in numbers:
        other = next((other for other in left if ways & other), None)
        if other:
            left.remove(other)
        else:
            unmatched[min(ways)] += 1
    return unmatched


def _unspelled(numbers, text, language):
    """Whether one of the numbers is not in the text as a word."""
    words = NUMBER_WORDS.get(language, ())
    for (first, *rest), count in numbers.items():
        value = int(first[:3])
        if rest or not 0 <= value < len(words) or len(words[value].findall(text)) < count:
            return True
    return False
