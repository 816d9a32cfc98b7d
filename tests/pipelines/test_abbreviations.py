"""Short ways to write: what the model reads in their place, and how their numbers come back."""

import re

import pytest

from keras_attention.pipelines.items import guard
from keras_attention.pipelines.search.abbreviations import expansions, numbered, numbered_in_answers
from keras_attention.pipelines.sentences import split_text


def read(text, source="en", target="de"):
    """What the model reads in place of a text, without stand-ins."""
    found = guard(text, languages=(source, target))
    return found.plain if found else text


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("en", "Tools, e.g. a saw, or (e. g.) a file.", "Tools, for example a saw, or (for example) a file."),
        ("en", "He is out, i.e. he works.", "He is out, that is, he works."),
        ("en", "approx. 50, incl. tax", "about 50, with tax"),
        ("en", "Come ASAP: France vs. Spain", "Come as soon as possible: France against Spain"),
        ("en", "We meet on Fridays, on Monday.", "We meet every Friday, on Monday."),
        ("en", "It is 5 km or 5km, no km, 5 kmh.", "It is 5 kilometers or 5 kilometers, no km, 5 kmh."),
        ("en", "At 9:30 a.m. in B12, 8 PM, 12p.m.", "At 9:30 am in B12, 8 pm, 12 pm."),
        ("en", "I am 9 amazing, 13 p.m., 1.5 pm", "I am 9 amazing, 13 p.m., 1.5 pm"),
        ("de", "Es kostet ca. 50 Euro inkl. Porto.", "Es kostet etwa 50 Euro mit Porto."),
        ("de", "z. B. Brot bzw. Milch, evtl. Tee usw.", "zum Beispiel Brot oder Milch, vielleicht Tee und so weiter."),
        ("de", "Er ist krank, d.h. er kommt ggf. später.", "Er ist krank, das heißt er kommt wenn nötig später."),
        ("de", "Freitags 2 Std. 10 Min., montags 5 km", "Jeden Freitag 2 Stunden 10 Minuten, jeden Montag 5 Kilometer"),
        ("de", "Eines Montags: nur montags.", "Eines Montags: nur jeden Montag."),
        ("de", "Montagsauto, ca.50, Eca. 5", "Montagsauto, ca.50, Eca. 5"),
        ("fr", "Des outils, p. ex. env. 5 scies svp.", "Des outils, par exemple environ 5 scies s'il vous plaît."),
        ("fr", "Il est malade, c.-à-d. au lit (s.v.p.)", "Il est malade, c'est-à-dire au lit (s'il vous plaît.)"),
        ("ro", "e.g. ca. 5 km on Fridays", "e.g. ca. 5 km on Fridays"),
    ],
)  # fmt: skip
def test_models_read_words_that_they_know(source, text, expected):
    assert read(text, source, "de" if source != "de" else "en") == expected


def test_french_has_24_hours():
    """The model made "7 pétrole" of "7 pm"."""
    text = "From 7 p.m. to 12:15 a.m., 12 pm and 8:05 am."
    assert read(text, "en", "fr") == "From 19 o'clock to 0:15, 12 o'clock and 8:05."
    assert read("At 7:00 p.m.", "en", "fr") == "At 19 o'clock."


def test_other_languages_are_read_as_they_are():
    assert expansions("e.g. 5 km", "en", "ro") == expansions("z. B.", None, "de") == []


@pytest.mark.parametrize(
    ("language", "text", "found"),
    [
        ("en", "The invoice no. 4711/B, room No. 5 and nos. 7-9.", ["no. 4711/B", "No. 5", "nos. 7-9"]),
        ("en", "No. 5 people came, casino. 5", []),
        ("de", "Nr. 5, Zimmer Nr.12 und nr 7, Herr. 5", ["Nr. 5", "Nr.12", "nr 7"]),
        ("fr", "La facture n° 4711, N°5, nº 6", ["n° 4711", "N°5", "nº 6"]),
        ("ro", "nr. 5", []),
    ],
)
def test_numbers_with_a_sign(language, text, found):
    assert re.findall(numbered(language), text) == found


def test_the_sign_is_that_of_the_other_language():
    assert numbered_in_answers("no. 4711/B", "de") == "Nr. 4711/B"
    assert numbered_in_answers("Nr.5", "fr") == "n° 5"
    assert numbered_in_answers("N°5", "en") == "no. 5"


def test_a_number_with_a_sign_is_kept_from_the_first_search_on():
    """ "no. 4711" became "nein. 4711"."""
    found = guard("The invoice no. 4711 was paid.", languages=("en", "de"))
    mask = found.masked(0)
    assert mask.text == "The invoice X1 was paid."
    assert found.restored("Die Rechnung X1 wurde bezahlt.", mask.pairs) == "Die Rechnung Nr. 4711 wurde bezahlt."
    found = guard("Nr. 5 ist frei, Nr. 6 nicht: a@b.de", languages=("de", "en"))
    pairs = found.masked(0).pairs
    (first, _), (second, _), (third, _) = pairs
    assert found.restored(f"{first} is free, {second} is not: {third}", pairs) == "No. 5 is free, no. 6 is not: a@b.de"
    assert found.restored(f"{third}: {first}", pairs) == "a@b.de: no. 5"


@pytest.mark.parametrize(
    "text", ["The price incl. breakfast is high.", "Der Preis inkl. Frühstück ist hoch.", "Die Rechnung Nr. 5 ist da."]
)
def test_the_splitter_knows_them(text):
    assert len(split_text(text, "de" if "ist" in text else "en").pieces) == 1
