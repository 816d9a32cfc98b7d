"""Names behind a title, such as "Mrs Weber": the name stays in a translation, and the title is that of its language.

Models of everyday sentences know few titles and surnames. So they read a given name in place of both, which they copy,
and the answer gets "Frau Weber" in its place.
"""

import re
from functools import cache

from keras_attention.pipelines.search.given_names import CAPITALIZED, NAMES

TITLES = {  # kind -> the title in each language
    "man": {"en": "Mr.", "de": "Herr", "fr": "M."},
    "woman": {"en": "Ms.", "de": "Frau", "fr": "Mme"},
    "miss": {"en": "Miss", "de": "Frau", "fr": "Mlle"},
    "doctor": {"en": "Dr.", "de": "Dr.", "fr": "Dr"},
    "professor": {"en": "Professor", "de": "Professor", "fr": "Pr"},
}
_WRITTEN = {  # how people write them
    "en": {"man": "Mr|Mister", "woman": "Mrs|Ms", "miss": "Miss", "doctor": "Dr|Doctor", "professor": "Prof|Professor"},
    "de": {
        "man": "Herrn?",
        "woman": "Frau",
        "miss": "Fräulein",
        "doctor": "Dr|Doktor",
        "professor": "Prof|Professor",
    },
    "fr": {
        "man": "M|Monsieur",
        "woman": "Mme|Madame",
        "miss": "Mlle|Mademoiselle",
        "doctor": "Dr|[Dd]octeur",
        "professor": "Pr|[Pp]rofesseur",
    },
}
_TITLE = {language: "|".join(kinds.values()) for language, kinds in _WRITTEN.items()}
_AND = {"en": "and", "de": "und", "fr": "et"}
_OFFICES = {  # what else stands behind a title: beginnings of words
    "en": "President|Chair|Speaker|Secretary|Commissioner|Minister|Prime|Vice|Ambassador|Mayor|Judge|Officer|Right|"
    "Universe",
    "de": "Präsident|Vorsitzend|Kommissar|Minister|Lehrer|Ober|Kolleg|Bürgermeister|Kanzler|Bundes|Direktor|General|"
    "Hauptmann|Pfarrer|Nachbar|Wirt|Abgeordnet|Bericht|Rat\b|Staats|Gott|Wachtmeister",
    "fr": "Président|Commissaire|Ministre",
}
# Behind these words, a title is none, or needs its article: "meine Frau Anna", "le docteur Martin".
_STEMS = {"mein dein sein kein ein ihr unser euer eur": " e er en em es", "jed dies welch manch": "e er en em es"}
_ARTICLES = {
    "en": ["the"],
    "de": ["der", "die", "das", "den", "dem"]
    + [stem + end for stems, ends in _STEMS.items() for stem in stems.split() for end in ends.split(" ")],
    "fr": ["le", "la", "au", "du", "un", "une", "ce", "cette", "mon", "ma", "ton", "ta", "son", "sa", "votre", "notre"],
}
# What may stand between title and surname: in German, other nouns begin with capitals, too.
_FIRST = {"en": CAPITALIZED, "fr": CAPITALIZED, "de": rf"{NAMES}|[A-ZÄÖÜ]\."}
_PARTICLES = r"(?:(?:v[ao]n|zu|de[rn]?|d[aiu]|l[ae]|te[nr])\s){0,2}(?:d['’])?"  # "von der Leyen"
# Copied by all four general translators; none begins with a vowel, before which French shortens words.
_STAND_INS = {"man": ["Tom", "Peter", "Paul", "Robert"], "woman": ["Julia", "Lisa", "Nina", "Sarah"]}
# Behind a preposition, and as an object, German has "Herrn": "bei Herrn Weber", "ich kenne Herrn Weber".
_OBJECT = re.compile(
    r"(?:\b(?:an|auf|aus|bei|durch|für|gegen|gegenüber|hinter|mit|nach|neben|ohne|seit|statt|über|um|von|vor|wegen|zu)"
    r"|\b(?:ich|du|er|wir|man|sie|es) (?!bin|bist|ist|sind|war|heiß)[a-zäöüß]+"
    r"|[a-zäöüß]{3,} (?:ich|du|er|wir|man|Sie))\s$",
    re.IGNORECASE,
)
# Where French people speak to somebody: "Bonjour, Madame Weber".
_ADDRESSED = re.compile(r"(?:,\s|\b(?:[Bb]onjour|[Bb]onsoir|[Cc]h[eè]re?|[Mm]erci|[Ss]alut|[Oo]ui|[Nn]on)\s)$")
_SPOKEN = {"M.": "Monsieur", "Mme": "Madame", "Mlle": "Mademoiselle", "Dr": "Docteur", "Pr": "Professeur"}


@cache
def titled_name(language, with_articles=False):
    """The pattern (str) of titles and the name behind them, without groups. In "Mr and Mrs Brown", "Mr" alone matches.

    Args:
        language: str, a code such as "en". Of languages other than English, German and French: what never matches.
        with_articles: bool. Whether an article may stand before it in French: "le docteur Martin".
    """
    if language not in _WRITTEN:
        return "(?!)"
    title, first = _TITLE[language], _FIRST[language]
    words = [] if with_articles and language == "fr" else _ARTICLES[language]
    behind = "".join(rf"(?<!\b[{word[0]}{word[0].upper()}]{word[1:]}\s)" for word in words)
    titles = rf"(?<!\w)(?=(?:{title})\b){behind}(?:{title})(?:\.?\s(?:{title}))*\.?"
    name = rf"{_PARTICLES}(?!(?:{title})\b|{_OFFICES[language]})(?:(?:{first})\s){{0,3}}{CAPITALIZED}"
    return rf"{titles}(?:\s{name}|(?=\s{_AND[language]}\s(?:{title})\.?\s{CAPITALIZED}))"


def titled_name_missing(source, answer, language):
    """Whether the last word of a name behind a title of a source, in `language`, is not in its translation."""
    names = {_parts(one, language)[1] for one in re.findall(titled_name(language, with_articles=True), source)}
    lasts = {name.split()[-1] for name in names if name}
    if language == "de":
        lasts = {last.removesuffix("s") for last in lasts}  # perhaps a genitive: "Frau Castros Haus"
    return any(not re.search(rf"(?<!\w){re.escape(last)}", answer, re.IGNORECASE) for last in lasts)


def stand_ins(titled, language):
    """What models read in place of a match of `titled_name`: list of given names, the best first."""
    (first, *_), _ = _parts(titled, language)
    return _STAND_INS["woman" if first in ("woman", "miss") else "man"]


def in_answers(titled, source_language, target_language):
    """A match of `titled_name` with the title of the other language, of several the last: "Frau Dr. X" is "Dr. X"."""
    (*_, last), name = _parts(titled, source_language)
    return f"{TITLES[last][target_language]} {name}".strip()


def _parts(titled, language):
    """The kinds of the titles of a match, a list of keys of `TITLES`, and the name behind them, or ""."""
    kinds, words = [], titled.split()
    while words and (kind := _kind(words[0].rstrip("."), language)):
        kinds, words = [*kinds, kind], words[1:]
    return kinds, " ".join(words)


def _kind(word, language):
    return next((kind for kind, written in _WRITTEN[language].items() if re.fullmatch(written, word)), None)


def placed(answer, start, end, item, language):
    """An answer with an item in place of a stand-in; the title of a name gets the form that German or French wants.

    Args:
        answer: str.
        start, end: int, the place of the stand-in.
        item: str, perhaps a result of `in_answers`.
        language: str or None, the language of the answer.
    """
    before, title = answer[:start], re.match(r"(?:Herr|M\.|Mme|Mlle|Dr|Pr)(?![^\W_])", item)
    if title and language == "de" and title[0] == "Herr" and _OBJECT.search(before):
        item = f"Herrn{item[4:]}"
    elif title and language == "fr" and _ADDRESSED.search(before):
        item = _SPOKEN[title[0]] + item[title.end() :]
    elif title and language == "fr" and title[0] in ("Dr", "Pr"):
        before = re.sub(r"\bde $", "du ", re.sub(r"\bà $", "au ", before))
        item = item if before.endswith(("du ", "au ")) else f"{'le' if before.strip() else 'Le'} {item}"
    return before + item + answer[end:]
