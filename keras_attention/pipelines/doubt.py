"""Reasons to doubt a translation, and texts that are copied because there is nothing to translate."""

import re
import unicodedata
from collections import Counter
from datetime import date

from keras_attention.pipelines.items import language_of_people, without_items
from keras_attention.pipelines.languages import is_in_another_language, language_code
from keras_attention.pipelines.search.given_names import given_name
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.normalization import normalized
from keras_attention.tokenizers.special_tokens import END_ID, UNKNOWN_ID

REASONS = LOW_SCORE, WRONG_LANGUAGE, UNKNOWN_PIECES, REPETITION, NO_DATE, NUMBERS, ITEMS, PREFIX, TERMS = (
    "low score",
    "wrong language",
    "many unknown pieces",
    "repetition",
    "not a date",
    "numbers differ",
    "items differ",
    "prefix differs",
    "terms differ",
)
MANY = 0.2  # share of the words with unknown letters
DIGITS_OF_A_DATE = 8
TIME_OF_DAY = re.compile(r"(?<!\d)\d{1,2}(:\d\d){1,2}(?!\d)")
MORE_OFTEN = 2  # occurrences of a sequence of pieces, above those in the source


def reason_to_doubt(translator, source, source_ids, text, ids, log_prob):
    """Why an answer may be wrong.

    Args:
        translator: Translator.
        source, text: str, the source and the answer.
        source_ids, ids: int arrays, their token ids; those of the source end with END.
        log_prob: float, summed log probability of `ids`.

    Returns:
        The first that applies, or None: "not a date", the answer of a date model is not a calendar day; "numbers
        differ", a number of the source is not in the answer of a date model, see `has_other_numbers`; "wrong
        language", see `is_in_another_language`; "many unknown pieces", at least a fifth of the source's words have
        letters that the model does not know; "repetition", see `repeats_itself`; "low score", the mean log probability
        of a token is below the model's threshold.
    """
    if translator.target_language == "iso":
        if not is_calendar_day(text):
            return NO_DATE
        if has_other_numbers(source, text):
            return NUMBERS
    if is_in_another_language(source, language_code(translator.source_language)):
        return WRONG_LANGUAGE
    if _has_many_unknown_letters(translator.source_tokenizer, source, source_ids):
        return UNKNOWN_PIECES
    pieces = _pieces(translator.target_tokenizer, text, ids)
    if repeats_itself(pieces, _pieces(translator.source_tokenizer, source, source_ids)):
        return REPETITION
    threshold = translator.low_score_threshold
    return LOW_SCORE if threshold is not None and log_prob / len(ids) < threshold else None


def _has_many_unknown_letters(tokenizer, text, ids):
    if UNKNOWN_ID not in ids:
        return False
    text = normalized("NFKC", text)
    letters = sorted(filter(str.isalpha, set(text)))
    unknown = {letter for letter, one in zip(letters, tokenizer.encode(letters), strict=True) if UNKNOWN_ID in one}
    words = [word for word in text.split() if any(map(str.isalpha, word))]
    return sum(not unknown.isdisjoint(word) for word in words) >= max(1, MANY * len(words))


def _pieces(tokenizer, text, ids):
    """The pieces among which repetitions are searched: token ids, or words if each character is a token."""
    return text.split() if tokenizer.kind == "characters" else [i for i in ids.tolist() if i != END_ID]


def repeats_itself(pieces, source_pieces):
    """Whether an answer is in a loop: three pieces occur in it at least twice more often than any two in the source.

    Sequences of the source are shorter because "no no no no" may become "nein, nein, nein, nein".

    Args:
        pieces, source_pieces: lists of token ids or of words.

    Source: the top n-gram count of Raunak et al. (2021), https://arxiv.org/abs/2104.06683, and Guerreiro et al. (2023),
    https://arxiv.org/abs/2208.05309. There, sequences have four pieces on both sides.
    """
    most = _most_frequent(pieces, 3)
    return most > MORE_OFTEN and most >= _most_frequent(source_pieces, 2) + MORE_OFTEN


def _most_frequent(pieces, length):
    """How often the most frequent sequence of pieces occurs, at least 1."""
    counts = Counter(zip(*(pieces[start:] for start in range(length)), strict=False))
    return max(counts.values(), default=1)


def copied_text(translator, text):
    """A text that has no letter beside its items, such as "12:45", an address or an emoji, with blanks joined; or "".

    Between languages that write names alike, the name of a person is such an item. Only a translator between natural
    languages copies: a model may convert numbers, such as those of dates.
    """
    languages = [language_code(code) for code in (translator.source_language, translator.target_language)]
    rest, people = without_items(text), language_of_people(*languages)
    if people and not text.rstrip().endswith(("!", "?")):  # "Anna Hilfe!" calls for help
        rest = re.sub(given_name(people), "", rest)
    if is_blank(text) or any(map(str.isalpha, rest)):
        return ""
    copy = "".join(sign for sign in " ".join(text.split()) if unicodedata.category(sign) != "Cc")
    return copy if copy and all(languages) else ""


def is_calendar_day(text):
    """Whether the text is an existing calendar day in ISO 8601, such as "2020-02-29"."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def has_other_numbers(text, day):
    """Whether a text has a number that is not the year, the year in its century, the month or the day of `day`.

    Then `day` is wrong, or the text has more than one date. Six or eight digits in a row are a whole date in one of the
    usual orders; times of the day, such as "17:45", do not count.

    Args:
        text: str; digits of all scripts count.
        day: str, a calendar day in ISO 8601.
    """
    year, month, day_of_month = day.split("-")
    known = {int(year), int(year) % 100, int(month), int(day_of_month)}
    for years in (year, year[2:]):
        orders = (years, month, day_of_month), (day_of_month, month, years), (month, day_of_month, years)
        known |= {int("".join(order)) for order in orders}
    numbers = re.findall(r"\d+", TIME_OF_DAY.sub(" ", text))
    return any(len(number) > DIGITS_OF_A_DATE or int(number) not in known for number in numbers)
