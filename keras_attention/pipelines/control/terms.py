"""Lists of terms and their translations, and of names that are not translated."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_attention.data.files import lines_of
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import UserError, quoted
from keras_attention.tokenizers.special_tokens import UNKNOWN_ID, control_character

MOST_TERMS, MOST_NAMES, MOST_CHARACTERS = 100_000, 1000, 200
FIRST_WORD = re.compile(r"\w+|[^\w\s]")


class Terms:
    """Terms of the source language with their translations.

    A term is found as whole words, the longest first. A term without capital letters is found however it is written.

    Args:
        translations: mapping from term (str) to its translation (str).

    Raises:
        UserError: if a term or translation is no text of one line, or there are too many.
    """

    def __init__(self, translations: Mapping[str, str]):
        if not isinstance(translations, Mapping):
            raise UserError(f"`terms` must be a dict from term to translation. Received: {type(translations).__name__}")
        if len(translations) > MOST_TERMS:
            raise UserError(f"A list has at most {MOST_TERMS:,} terms. Received: {len(translations):,}")
        self._translations = {}
        for term, translation in translations.items():
            term, translation = (checked_term(one, "`terms`") for one in (term, translation))
            self._translations[term if _has_capitals(term) else term.lower()] = translation
        self._by_first_word: dict[str, list] = {}  # so that a long list takes no longer than a short one
        for term in sorted(self._translations, key=lambda term: (-len(term), term)):
            same_beginning = self._by_first_word.setdefault(FIRST_WORD.search(term)[0].lower(), [])
            same_beginning.append((names_pattern([term]), self._translations[term]))

    def __len__(self):
        return len(self._translations)

    def translations_in(self, sentence: str) -> list[str]:
        """The translations of the terms in a sentence, in its order; a term that is there twice has two."""
        translations, end = [], 0
        for word in FIRST_WORD.finditer(sentence):
            for pattern, translation in self._by_first_word.get(word[0].lower(), ()) if word.start() >= end else ():
                if match := pattern.match(sentence, word.start()):
                    translations.append(translation)
                    end = match.end()
                    break
        return translations

    def check(self, tokenizer: Any) -> None:
        """Raises UserError for a translation that a model with this target tokenizer cannot write."""
        texts = list(self._translations.values())
        for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
            if UNKNOWN_ID in ids:
                raise UserError(f"The model cannot write the term {quoted(text)}: it does not know all its letters.")


def checked_term(term: Any, where: str) -> str:
    """A term without blanks around it; raises UserError if it is no text of one line, or too long."""
    if not isinstance(term, str) or is_blank(term):
        raise UserError(f"{where}: a term must be a text. Received: {quoted(term)}")
    if control_character(term.strip()):
        raise UserError(f"{where}: a term must be one line without control characters. Received: {quoted(term)}")
    if len(term) > MOST_CHARACTERS:
        raise UserError(f"{where}: a term has at most {MOST_CHARACTERS} characters. Received: {len(term):,}")
    return " ".join(term.split())


def _has_capitals(text):
    return text != text.lower()


def names_pattern(names: Iterable[str]) -> "re.Pattern | None":
    """A pattern that finds whole words: names as they are, those without capital letters however they are written."""
    names = sorted(set(names), key=lambda name: (-len(name), name))
    if not names:
        return None
    parts = (r"\s+".join(map(re.escape, name.split())) for name in names)
    parts = (part if _has_capitals(name) else f"(?i:{part})" for part, name in zip(parts, names, strict=True))
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)")


def checked_names(names: "Iterable[str] | re.Pattern | None", can_keep: bool) -> "re.Pattern | None":
    """The pattern of the names of `do_not_translate`; raises UserError if they are no names, or cannot be kept."""
    if names is None or isinstance(names, re.Pattern):
        return names
    if not can_keep:
        raise UserError("`do_not_translate` needs a model between natural languages, and `keep_items`.")
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise UserError(f"`do_not_translate` must be a list of str. Received: {type(names).__name__}")
    return names_pattern([checked_term(name, "`do_not_translate`") for name in names])


def read_terms(path: str | Path, encoding: str | None = None) -> dict[str, str]:
    """Reads a file of terms: on each line a term, a tab, and its translation. Empty lines do not count.

    Raises:
        UserError: if the file cannot be read, a line has another form, or a term has two translations.
    """
    terms: dict[str, str] = {}
    for number, line in enumerate(lines_of(path, encoding), start=1):
        if is_blank(line):
            continue
        where, fields = f"{path}, line {number:,}", line.split("\t")
        if len(fields) != 2 or any(map(is_blank, fields)):
            raise UserError(f"{where}: found {quoted(line)}. Expected: a term, a tab, and its translation.")
        term, translation = (checked_term(field, where) for field in fields)
        if terms.get(term, translation) != translation:
            both = f"{quoted(terms[term])} and {quoted(translation)}"
            raise UserError(f"{where}: {quoted(term)} has two translations, {both}. Expected: one.")
        if len(terms) >= MOST_TERMS:
            raise UserError(f"{where}: a list has at most {MOST_TERMS:,} terms. Divide it.")
        terms[term] = translation
    if not terms:
        raise UserError(f"{path}: there is no term. Expected: on each line a term, a tab, and its translation.")
    return terms


def read_names(path: str | Path, encoding: str | None = None) -> list[str]:
    """Reads a list of names that are not translated, one on each line. Empty lines do not count.

    Raises:
        UserError: if the file cannot be read, or a line is no name.
    """
    lines = enumerate(lines_of(path, encoding), start=1)
    names = [checked_term(line, f"{path}, line {number:,}") for number, line in lines if not is_blank(line)]
    if not names:
        raise UserError(f"{path}: there is no name. Expected: one on each line.")
    if len(names) > MOST_NAMES:
        raise UserError(f"{path}: a list has at most {MOST_NAMES:,} names. Received: {len(names):,}")
    return names
