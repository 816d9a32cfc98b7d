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
_NO_NAMES = {  # what else stands behind a title: beginnings of words
    "en": r"President|Chair|Speaker|Secretary|Commissioner|Minister|Vice|Ambassador|Officer|Teacher|Editor|Universe|"
    r"(?:Prime|Mayor|Judge|Right|World|Word|Germany|America|It|You|He|She|We|They)\b",
    "de": r"Präsident|Vorsitzend|Kommissar|Minister|Lehrer|Kolleg|Bürgermeister|Kanzler|Bundes|Direktor|General|"
    r"Kapitän|Hauptmann|Pfarrer|Nachbar|Abgeordnet|Bericht|Staats|Wachtmeister|Inspektor|Botschafter|Bischof|Polizist|"
    r"(?:Wirt|Wirtin|Gott|Jesus|Ober|Rat|Namens|Anfang|Mitte|Ende)\b",
    "fr": r"Président|Commissaire|Ministre|(?:Je|Tu|Il|Elle|On|Nous|Vous|Ils|Elles|Merci|Tout|Avez|Oui|Non|Ou)\b",
}
# Behind these words, a title is none, or needs its article: "meine alte Frau Anna", "le docteur Martin".
_STEMS = "(?:[mdsk]?ein|ihr|unser|euer|eur|jed|dies|welch|manch)(?:e[rsnm]?)?|der|die|das|den|dem|des|zum|zur|im|am"
_BEFORE = {
    "en": r"\bthe\s$",
    "de": rf"\b(?:{_STEMS})\s(?:[a-zäöüß]+e[rnms]?\s){{0,2}}$|\bMann und\s$",
    "fr": r"\b(?:le|la|au|du|une?|cet|cette|ce|[mts](?:on|a)|[nv]otre|taille|ligne|quai|plan)\s$",
}
_BEFORE = {language: re.compile(before, re.IGNORECASE) for language, before in _BEFORE.items()}
_BEFORE_CHARACTERS = 60
# What may stand between title and surname: in German, other nouns begin with capitals, too.
_FIRST = {"en": CAPITALIZED, "fr": CAPITALIZED, "de": rf"{NAMES}|[A-ZÄÖÜ]\."}
_PARTICLES = r"(?:(?:v[ao]n|zu|de|d[aiu]|te[nr])\s(?:(?:de[rn]?|l[ae])\s)?)?(?:d['’])?"  # "von der Leyen"
# Copied by all four general translators; none begins with a vowel, before which French shortens words.
_STAND_INS = {"man": ["Tom", "Peter", "Paul", "Robert"], "woman": ["Julia", "Lisa", "Nina", "Sarah"]}
# Behind a preposition, and as an object, German has "Herrn": "bei Herrn Weber", "ich kenne Herrn Weber".
_OBJECT = re.compile(
    r"(?:\b(?:an|auf|aus|bei|durch|für|gegen|gegenüber|hinter|mit|nach|neben|ohne|seit|statt|über|um|von|vor|wegen|zu)"
    r"|\b(?:ich|du|er|wir|man|sie|es) (?!bin|bist|ist|sind|war|heiß)[a-zäöüß]+"
    r"|\b(?!bi?st|ist|sind|war|heiß)[a-zäöüß]{3,} (?:ich|du|er|wir|man|Sie))\s$",
    re.IGNORECASE,
)
# Where French people speak to somebody: "Bonjour, Madame Weber".
_ADDRESSED = re.compile(r"(?:\b(?:[Bb]onjour|[Bb]onsoir|[Cc]h[eè]re?|[Mm]erci|[Ss]alut|[Oo]ui|[Nn]on)\s)$")
_ENDS = re.compile(r"\s*(?:[.,;:!?…]|$)")
_NO_ARTICLE = re.compile(
    r"\b(?:[nv]otre|[mts]on|leur|ce|un|le|au|du|jeune|vieux|cher|bon|petit|grand)\s$", re.IGNORECASE
)
_VOWEL = re.compile(r"[AEIOUÀÂÉÈÊËÎÏÔ]")
_SPOKEN = {"M.": "Monsieur", "Mme": "Madame", "Mlle": "Mademoiselle", "Dr": "Docteur", "Pr": "Professeur"}


@cache
def titled_name(language):
    """The pattern (str) of titles and the name behind them, without groups. In "Mr and Mrs Brown", "Mr" alone matches.

    `is_title` says whether a match is one.

    Args:
        language: str, a code such as "en". Of languages other than English, German and French: what never matches.
    """
    if language not in _WRITTEN:
        return "(?!)"
    title, first = _TITLE[language], _FIRST[language]
    titles = rf"(?<!\w)(?:{title})(?:\.?\s(?:{title})){{0,2}}\.?"
    name = rf"{_PARTICLES}(?!(?:{title})\b|{_NO_NAMES[language]})(?:(?:{first})\s){{0,3}}{CAPITALIZED}"
    return rf"{titles}(?:\s{name}|(?=\s{_AND[language]}\s(?:{title})\.?\s{CAPITALIZED}))"


def is_title(text, start, language):
    """Whether a match of `titled_name` that starts there in a text is a title: not "meine Frau Anna"."""
    return not _BEFORE[language].search(text[max(0, start - _BEFORE_CHARACTERS) : start])


def titled_name_missing(source, answer, language):
    """Whether the last word of a name behind a title of a source, in `language`, is not in its translation.

    In French, a title may have an article: "le docteur Martin".
    """
    found = [
        match[0]
        for match in re.finditer(titled_name(language), source)
        if language == "fr" or is_title(source, match.start(), language)
    ]
    lasts = {name.split()[-1] for _, name in (_parts(one, language) for one in found) if name}
    if language == "de":
        lasts = {last.removesuffix("s") for last in lasts}  # perhaps a genitive: "Frau Castros Haus"
    return any(not re.search(rf"(?<!\w){re.escape(last)}['’]?s?(?!\w)", answer, re.IGNORECASE) for last in lasts)


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

    In French, "de" and "que" are shortened before a vowel: "le train d'Athènes".

    Args:
        answer: str.
        start, end: int, the place of the stand-in.
        item: str, perhaps a result of `in_answers`.
        language: str or None, the language of the answer.
    """
    before, after = answer[:start], answer[end:]
    near, title = before[-_BEFORE_CHARACTERS:], re.match(r"(?:Herr|M\.|Mme|Mlle|Dr|Pr)(?![^\W_])", item)
    if title and language == "de" and title[0] == "Herr" and (_OBJECT.search(near) or after.startswith("s ")):
        item = f"Herrn{item[4:]}"
    elif (
        title
        and language == "fr"
        and (_ADDRESSED.search(near) or (near.endswith(", ") and _ENDS.match(after[:_BEFORE_CHARACTERS])))
    ):
        item = _SPOKEN[title[0]] + item[title.end() :]
    elif title and language == "fr" and title[0] in ("Dr", "Pr"):
        before = re.sub(r"\b([Dd])e $", r"\1u ", re.sub(r"\b([Aa]|À|à) $", _to_the, before))
        if not _NO_ARTICLE.search(before[-_BEFORE_CHARACTERS:]):
            item = f"{'le' if near.strip() else 'Le'} {item}"
    elif language == "fr" and _VOWEL.match(item):
        before = re.sub(r"\b([Dd]|[Qq]u)e $", r"\1'", before)
    return before + item + after


def _to_the(match):
    return "Au " if match[1] in "AÀ" else "au "
