"""The languages of translators and of texts."""

import functools
import re
import threading

READ = 1000  # characters of a text that tell its language
MARGIN, MARGIN_OF_A_CHARACTER = 8.0, 0.4  # nats, see `is_in_another_language`
NOT_COMPARED = {"zxx", "pcm"}  # no language; Nigerian Pidgin, whose words are mostly English
_LOCK = threading.Lock()
SEVERAL = "mul"  # languages, in ISO 639
NO_LANGUAGE = {"und", SEVERAL, "zxx"}  # undetermined, several, none


@functools.cache
def language_code(name):
    """The code of a natural language, such as "de", from a code such as "de" or "pt-BR" or the English name of one.

    Returns:
        str; or None if it is no natural language, such as "iso", or `name` is None.
    """
    from babel import Locale

    names = Locale("en").languages
    code = re.split("[-_ ]", name or "")[0].lower()
    if code in names.keys() - NO_LANGUAGE:
        return code
    return next((code for code, its_name in names.items() if name and its_name == name.title()), None)


def language_name(code):
    """The English name of a language, such as "German" for "de"."""
    from babel import Locale

    return Locale("en").languages.get(code, code)


def detected_language(texts, among=None):
    """The language in which texts are most probably written.

    Args:
        texts: list of str, in one language; the first 1,000 characters of each count.
        among: collection of codes from which one is chosen, or None for all that are known.

    Returns:
        str, a code such as "de"; None if the texts have no letters, or none of these languages is known.
    """
    totals = {}
    for text in texts:
        for code, score in _scores(text[:READ]):
            if among is None or code in among:
                totals[code] = totals.get(code, 0.0) + score
    return max(totals, key=totals.__getitem__, default=None)


def is_in_another_language(text, code):
    """Whether a text is written in another language than the one with this code, beyond reasonable doubt.

    The log probability of the text in its most probable language is then larger than in that language: by 8 nats, and
    by 0.4 nats for each character. Of the sentences of four dev sets (Tatoeba, chat, subtitles, news), this holds for
    95 % of those in another language and 0.4 % of those in the right one. False for texts without letters, and for
    languages that the detector does not know.
    """
    text = text[:READ]
    scores = dict(_scores(text))
    margin = max(MARGIN, MARGIN_OF_A_CHARACTER * len(text))
    return code in scores and max(scores.values()) > scores[code] + margin


@functools.lru_cache(maxsize=1024)
def _scores(text):
    """Pairs of a language's code and the log probability of a text in it; none if the text has no letters."""
    if not any(map(str.isalpha, text)):
        return ()
    return tuple((code, score) for code, score in _identifier().rank(text) if code not in NOT_COMPARED)


@functools.cache
def _load():
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)


def _identifier():
    with _LOCK:  # loading takes half a second
        return _load()
