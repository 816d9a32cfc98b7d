"""Finds the translator for a pair of languages."""

import functools
from contextlib import suppress
from typing import NamedTuple

from keras_attention.pipelines.languages import detected_language, is_in_another_language, language_code, language_name
from keras_attention.support.errors import EntryError, UserError, quoted
from keras_attention.zoo.entry import JSON_FILES, read_entry
from keras_attention.zoo.registry import model_folders
from keras_attention.zoo.terms_of_use import ANY, SAME, terms_of_use

PUBLISHED = "Helsinki-NLP/opus-mt"  # its names end in two languages; there is one for most pairs with English
KEPT = 4  # translators that `translator_for` keeps in memory


class Pair(NamedTuple):
    """A translator, and the two languages between which it translates.

    Attributes:
        model: str, its name.
        source, target: str, codes such as "en".
        rank: tuple; the smallest is the best translator of a pair, see `translators`.
    """

    model: str
    source: str
    target: str
    rank: tuple


def translators():
    """The models of the zoo that translate between natural languages, the best of each pair first.

    The more sources of data a card names, the better: such a translator knows more kinds of text. Among equals, one
    whose data may be used for any purpose comes first, then a Transformer, then the alphabet decides.

    Returns:
        List of Pair.
    """
    pairs = []
    for name, folder in sorted(model_folders().items()):
        with suppress(EntryError):  # damaged
            if pair := pair_of(name, read_entry(folder, hashed=JSON_FILES)):
                pairs.append(pair)
    return sorted(pairs, key=lambda pair: pair.rank)


def pair_of(name, entry):
    """The Pair of an Entry; None if it does not translate between natural languages."""
    source, target = (language_code(entry.config.get(f"{side}_language")) for side in ("source", "target"))
    if entry.architecture.task.name != "translate" or not source or not target:
        return None
    data = entry.metrics.get("data", [])
    sources = sum(one.get("terms") != SAME for one in data)
    is_recurrent = entry.config["architecture"] != "Transformer"
    return Pair(name, source, target, (-sources, terms_of_use(data).purpose != ANY, is_recurrent, name))


def find_translator(target, source=None, texts=(), pairs=None):
    """The best translator into a language.

    Args:
        target: str, the code or English name of a language, such as "de" or "German".
        source: the same of the texts' language, or None to detect it among the languages that can be translated.
        texts: list of str; tell the language if `source` is None.
        pairs: list of Pair from which one is chosen, the best of each pair first; None: those of `translators`.

    Returns:
        Pair.

    Raises:
        UserError: if there is no such language or no such translator, which names a published one that there may be
            unless `pairs` are given; or if the language cannot be detected.
    """
    hint = str if pairs is not None else functools.partial(_published_translator, source, target, texts)
    pairs = translators() if pairs is None else pairs
    target = _known_code(target, pairs, "to", hint)
    into = [pair for pair in pairs if pair.target == target]
    if source is not None:
        source = _known_code(source, pairs, "from", hint)
        into = [pair for pair in into if pair.source == source]
        if not into:
            raise UserError(f"No model translates from {source} to {target}. Choices: {_choices(pairs)}.{hint()}")
        return into[0]
    source = detected_language(texts, {pair.source for pair in into})
    if source is None:
        raise UserError(
            "The language of the texts could not be detected: they have no letters. "
            "Name it: --from, or `source_language`."
        )
    return next(pair for pair in into if pair.source == source)


@functools.lru_cache(maxsize=KEPT)
def translator_for(model):
    """The loaded translator of this name; the last few are kept."""
    from keras_attention.pipelines.base import load_pipeline

    return load_pipeline(model_folders()[model], "translate")


def choice_message(pair, texts=()):
    """One line that names the model, such as "translator_small_en_de (English, detected, to German)".

    Args:
        pair: Pair.
        texts: list of str from which `find_translator` detected the language of the pair, empty if it was named. Where
            they are in a language from which no model translates, the line says so.
    """
    detection = ", detected," if texts else ""
    if texts and is_in_another_language(" ".join(texts), pair.source):
        detection = f", assumed although the texts look {language_name(detected_language(texts))},"
    return f"{pair.model} ({language_name(pair.source)}{detection} to {language_name(pair.target)})"


def _known_code(language, pairs, side, hint):
    """The code of a language that a model has on this side, "from" or "to"; `hint`: callable that ends the error."""
    known = sorted({pair.source if side == "from" else pair.target for pair in pairs})
    code = language_code(language) if isinstance(language, str) else None
    if code not in known:
        raise UserError(
            f"No model translates {side} {quoted(language)}. Choices: {', '.join(known) or 'none'}.{hint()}"
        )
    return code


def _published_translator(source, target, texts):
    """The end of an error, with the name that a published translator would have; "" where a language is unknown."""
    codes = [language_code(name) if isinstance(name, str) else None for name in (source, target)]
    if source is None:
        codes[0] = detected_language(texts)
    if None in codes or codes[0] == codes[1]:
        return ""
    return (
        f" Perhaps there is a published one: --model hf://{PUBLISHED}-{'-'.join(codes)}, in Python `load` of this name."
    )


def _choices(pairs):
    return ", ".join(sorted({f"{pair.source} to {pair.target}" for pair in pairs}))
