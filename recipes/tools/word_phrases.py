"""Short sentences in English, German and French that each use one everyday word, for the training of a translator.

    python recipes/tools/word_phrases.py --out word_phrases.tsv

The words are those of `everyday_words.tsv`, and the cities and countries that translators look after. Collections of
sentences have many of them only a few times, so that a small model takes them for other words.
"""

import argparse
import re
from pathlib import Path

from keras_attention.cli.main import guarded
from keras_attention.data.files import read_lines
from keras_attention.pipelines.search.place_names import CITIES, COUNTRIES
from keras_attention.support.atomic_files import whole_file

WORDS = Path(__file__).with_name("everyday_words.tsv")
LANGUAGES = ("en", "de", "fr")
# {xs}: the plural; {a}: "a" or "an"; {der}, {ein} and {mein} in the nominative, {den}, {einen}, {keinen} and {Nomen} in
# the accusative; {le}, {un}, {du} and {mon} with the blank behind them, or elided.
NOUN = """
{x} | {x} | {x}
{X} | {X} | {X}
the {x} | {der} {x} | {le}{x}
Where is the {x}? | Wo ist {der} {x}? | Où est {le}{x} ?
The {x} is here. | {Der} {x} ist hier. | {Le}{x} est ici.
I am looking for the {x}. | Ich suche {den} {Nomen}. | Je cherche {le}{x}.
"""
COUNTED = """
{a} {x} | {ein} {x} | {un} {x}
I need {a} {x}. | Ich brauche {einen} {Nomen}. | J'ai besoin d'{un} {x}.
Do you have {a} {x}? | Haben Sie {einen} {Nomen}? | Avez-vous {un} {x} ?
This is my {x}. | Das ist {mein} {x}. | C'est {mon} {x}.
There is {a} {x} here. | Hier ist {ein} {x}. | Il y a {un} {x} ici.
We have seen {a} {x}. | Wir haben {einen} {Nomen} gesehen. | Nous avons vu {un} {x}.
"""
SEVERAL = """
{xs} | {xs} | {xs}
two {xs} | zwei {xs} | deux {xs}
I have three {xs}. | Ich habe drei {xs}. | J'ai trois {xs}.
Where are the {xs}? | Wo sind die {xs}? | Où sont les {xs} ?
There are many {xs} here. | Hier sind viele {xs}. | Il y a beaucoup {de}{xs} ici.
We have seen five {xs}. | Wir haben fünf {xs} gesehen. | Nous avons vu cinq {xs}.
"""
OF_KIND = {
    "thing": NOUN + COUNTED,
    "person": NOUN
    + COUNTED
    + """
My {x} is sick. | {Mein} {x} ist krank. | {Mon} {x} est malade.
I have called the {x}. | Ich habe {den} {Nomen} angerufen. | J'ai appelé {le}{x}.
""",
    "pair": """
{x} | {x} | {x}
{X} | {X} | {X}
Where are the {x}? | Wo ist {der} {x}? | Où est {le}{x} ?
I need {x}. | Ich brauche {einen} {x}. | J'ai besoin d'{un} {x}.
""",
    "food": NOUN
    + """
I like {x}. | Ich mag {x}. | J'aime {le}{x}.
We have no {x}. | Wir haben {keinen} {x}. | Nous n'avons pas {de}{x}.
Do you want {x}? | Möchtest du {x}? | Tu veux {du}{x} ?
I would like {x}, please. | Ich hätte gern {x}, bitte. | Je voudrais {du}{x}, s'il vous plaît.
""",
    "language": """
{x} | {x} | {x}
{X} | {X} | {X}
I speak {x}. | Ich spreche {x}. | Je parle {x}.
Do you speak {x}? | Sprechen Sie {x}? | Parlez-vous {x} ?
We are learning {x}. | Wir lernen {x}. | Nous apprenons {le}{x}.
How do you say that in {x}? | Wie sagt man das auf {x}? | Comment dit-on cela en {x} ?
The letter is in {x}. | Der Brief ist auf {x}. | La lettre est en {x}.
""",
    "adjective": """
{x} | {x} | {x}
{X} | {X} | {X}
It is very {x}. | Es ist sehr {x}. | C'est très {x}.
He is not {x}. | Er ist nicht {x}. | Il n'est pas {x}.
Why is it {x}? | Warum ist es {x}? | Pourquoi est-ce {x} ?
""",
    "place": """
{x} | {x} | {x}
{X} | {X} | {X}
I live in {the}{x}. | Ich wohne in {der}{x}. | J'habite {in}{x}.
She comes from {the}{x}. | Sie kommt aus {der}{x}. | Elle vient {of}{x}.
We are travelling to {the}{x}. | Wir reisen {to}{x}. | Nous voyageons {in}{x}.
My friend was born in {the}{x}. | Mein Freund ist in {der}{x} geboren. | Mon ami est né {in}{x}.
He has never been to {the}{x}. | Er war noch nie in {der}{x}. | Il n'est jamais allé {in}{x}.
""",
}
WEAK = {"Kollege", "Kunde", "Löwe", "Affe", "Nachbar", "Bauer", "Soldat", "Student", "Journalist", "Polizist", "Pilot",
        "Matrose", "Elefant", "Bär", "Architekt", "Fotograf"}  # German nouns with another accusative # fmt: skip
OTHER_PREPOSITIONS = {"Cuba", "Cyprus", "Havana", "Malta", "Netherlands", "Sicily"}
ENGLISH_PLURALS = {"child": "children", "tooth": "teeth", "foot": "feet", "mouse": "mice", "goose": "geese",
                   "sheep": "sheep", "knife": "knives", "leaf": "leaves", "shelf": "shelves", "wolf": "wolves",
                   "thief": "thieves", "scarf": "scarves", "potato": "potatoes", "tomato": "tomatoes"}  # fmt: skip
FRENCH_PLURALS = {"œil": "yeux", "genou": "genoux", "pneu": "pneus", "appareil photo": "appareils photo",
                  "grand-père": "grands-pères", "grand-mère": "grands-mères",
                  "cerf-volant": "cerfs-volants"}  # fmt: skip
HARD_H = ("haricot", "hérisson", "hollandais", "hongrois")  # French words that are not elided before an h
IN_GERMAN = {"der": ("der", "den", "ein", "einen"), "die": ("die", "die", "eine", "eine"),
             "das": ("das", "das", "ein", "ein")}  # fmt: skip


def begins_with_vowel(word):
    return word[0].lower() in "aeiouâàéèêîôœ" or (word[0] == "h" and not word.startswith(HARD_H))


def with_capitals(forms):
    """The forms, and each with a capital letter under its own name with a capital."""
    return forms | {name.capitalize(): form[:1].upper() + form[1:] for name, form in forms.items()}


def in_english(word):
    """The forms of a word in the patterns of English."""
    return {"x": word, "xs": english_plural(word), "a": "an" if word[0] in "aeio" or word.startswith("umb") else "a"}


def english_plural(noun):
    if noun.endswith("man"):
        return noun[:-3] + "men"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return ENGLISH_PLURALS.get(noun) or noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def french_plural(noun):
    if noun in FRENCH_PLURALS:
        return FRENCH_PLURALS[noun]
    head, *complement = re.split(r"(?= (?:de|à) )", noun, maxsplit=1)  # machine, " à laver"
    return " ".join(map(_french_plural_of_word, head.split(" "))) + "".join(complement)


def _french_plural_of_word(word):
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith("al"):
        return word[:-2] + "aux"
    return FRENCH_PLURALS.get(word) or word + ("x" if word.endswith(("au", "eu")) else "s")


def in_german(word, plural=""):
    """The forms of a noun behind its article, or of another word."""
    article, _, noun = word.partition(" ")
    if article not in IN_GERMAN:
        return {"x": word}
    der, den, ein, einen = IN_GERMAN[article]
    ending = "" if noun not in WEAK else "n" if noun[-1] in "er" else "en"
    of_cases = {"der": der, "den": den, "ein": ein, "einen": einen, "mein": f"m{ein}", "keinen": f"k{einen}"}
    return {"x": noun, "xs": plural, "Nomen": noun + ending} | of_cases


def in_french(word):
    """The forms of a noun behind "un" or "une", or of the name of a language."""
    un, _, noun = word.partition(" ") if word.startswith(("un ", "une ")) else ("un", "", word)
    elided, feminine = begins_with_vowel(noun), un == "une"
    le = "l'" if elided else "la " if feminine else "le "
    return {
        "x": noun,
        "xs": french_plural(noun),
        "le": le,
        "un": un,
        "du": f"de {le}" if elided or feminine else "du ",
        "de": "d'" if elided else "de ",
        "mon": "ma" if feminine and not elided else "mon",
    }


def of_place(place):
    """The forms of a place in each language: list of dicts, with blanks behind all but the name."""
    article, plural = place.articles["de"], place.names["de"][0] == "USA"
    german = {"der": "den " if plural else "der ", "to": f"in {article}"} if article else {"der": "", "to": "nach "}
    le, name = place.articles["fr"], place.names["fr"][0]
    near = {"": "à ", "le ": "au ", "les ": "aux "}.get(le, "en ")
    of = {"le ": "du ", "les ": "des "}.get(le, "d'" if begins_with_vowel(name) else "de ")
    english = {"the": place.articles["en"]}
    forms = (english, german, {"in": near, "of": of})
    return [{"x": place.names[code][0]} | form for code, form in zip(LANGUAGES, forms, strict=True)]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="table with the columns en, de and fr")
    options = parser.parse_args(arguments)
    words = [line.split("\t") for line in read_lines(WORDS)][1:]
    items = [
        (OF_KIND[kind] + SEVERAL * bool(plural), [in_english(english), in_german(german, plural), in_french(french)])
        for kind, english, german, french, plural in words
    ]
    places = [place for place in CITIES + COUNTRIES if place.names["en"][0] not in OTHER_PREPOSITIONS]
    items += [(OF_KIND["place"], of_place(place)) for place in places]
    lines = ["\t".join(LANGUAGES)]
    for all_patterns, forms in items:
        for patterns in filter(None, all_patterns.split("\n")):
            sides = zip(patterns.split(" | "), forms, strict=True)
            lines.append("\t".join(side.format(**with_capitals(form)) for side, form in sides))
    lines = list(dict.fromkeys(lines))
    with whole_file(options.out) as file:
        file.write("\n".join(lines) + "\n")
    print(f"{len(lines) - 1:,} lines in {options.out}")


if __name__ == "__main__":
    raise SystemExit(guarded(main, "word_phrases.py"))
