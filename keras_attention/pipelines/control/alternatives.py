"""Other words at a place of a translation, and the translation to which each leads."""

import re
from typing import Any, NamedTuple

import numpy as np

from keras_attention.pipelines.control.constrained_answers import masked, next_log_probs, prefixes_of_sentences
from keras_attention.pipelines.control.terms import checked_names
from keras_attention.pipelines.languages import language_code
from keras_attention.pipelines.translations import Translation
from keras_attention.runtime.compiled_search import map_in_threads
from keras_attention.support.errors import UserError, quoted

WORD = re.compile(r"\S+")
MOST = 20  # alternatives
NEXT_WORD = "X"  # stands for the word that is looked for
TRIED = 2  # first pieces of words that are tried for each alternative: several may lead to one word


class Alternative(NamedTuple):
    """A word that may stand at a place of a translation.

    Attributes:
        word: str, with the signs that follow it without a blank.
        probability: float, that of the word's first piece, given all that precedes it.
        prefix: str, the translation up to this word, with a blank at its end.
        translation: Translation, the whole translation that begins so.
    """

    word: str
    probability: float
    prefix: str
    translation: Translation


def find_alternatives(translator: Any, text: str, position: int, count: int, translation: str | None, **options: Any):
    """See `Translator.alternatives`."""
    if translator.target_tokenizer.kind == "characters":
        raise UserError("This model writes characters, not words: it has no alternatives for a word.")
    if type(count) is not int or not 1 <= count <= MOST:
        raise UserError(f"`n` must lie between 1 and {MOST}. Received: {quoted(count)}")
    if translation is None:
        translation = translator.translate(text, **options).text
    words = list(WORD.finditer(translation))
    if type(position) is not int or not 0 <= position < len(words):
        raise UserError(
            f"`position` is a word of the translation, from 0 to {len(words) - 1}. Received: {quoted(position)}"
            if words
            else "The translation has no words, so there are no alternatives."
        )
    before = translation[: words[position].start()]
    pieces = _next_pieces(translator, text, before, TRIED * count, options)

    def lead(piece):
        return translator.translate(text, prefix=before + piece[0], **options)

    alternatives: dict[str, Alternative] = {}
    for (_, probability), answer in zip(pieces, map_in_threads(lead, pieces), strict=True):
        places = list(WORD.finditer(answer.text))
        if position < len(places) and answer.text.startswith(before.rstrip()):
            word = places[position][0]
            if word not in alternatives and len(alternatives) < count:
                prefix = answer.text[: places[position].end()] + " "
                alternatives[word] = Alternative(word, probability, prefix, answer)
    return list(alternatives.values())


def _next_pieces(translator, text, before, count, options):
    """The most probable pieces that begin a word after a prefix: list of (text, probability)."""
    sentence, prefix = _sentence_at(translator, text, before, options)
    tokenizer = translator.target_tokenizer
    pieces = tokenizer.tokens(range(tokenizer.vocabulary_size))
    begins = np.array([piece.startswith("▁") and len(piece) > 1 for piece in pieces])
    log_probs = np.where(begins, next_log_probs(translator, sentence, prefix), -np.inf)
    best = [int(i) for i in np.argsort(-log_probs, kind="stable")[:count] if log_probs[i] > -np.inf]
    return [(pieces[i].removeprefix("▁"), float(np.exp(log_probs[i]))) for i in best]


def _sentence_at(translator, text, before, options):
    """The sentence in whose answer a prefix of all answers ends, and its part of the prefix, with stand-ins."""
    parts = translator.sentences(text)
    sentences = [one.sentence for one in parts.pieces] if parts else [text]
    codes = [language_code(code) for code in (translator.source_language, translator.target_language)]
    answers = [str(one) for one in translator.translate(sentences, **{**options, "split": False})]
    shares = prefixes_of_sentences(before + NEXT_WORD, answers, codes[1])
    at = max(i for i, share in enumerate(shares) if share)
    names = checked_names(options.get("do_not_translate"), all(codes))
    _, mask, prefix = masked(sentences[at], shares[at].removesuffix(NEXT_WORD), names, all(codes) and codes)
    return mask.text, prefix
