"""Cities and countries: found, missed in answers, and put back with what German and French want around them."""

import re

import pytest

from keras_attention.pipelines.items import Guard, difference, guard
from keras_attention.pipelines.search.place_names import CITIES, COUNTRIES, other_places, place_name


def test_every_place_has_names_in_three_languages_and_stand_ins():
    for place in CITIES + COUNTRIES:
        for source in ("en", "de", "fr"):
            for target in {"en", "de", "fr"} - {source}:
                for name in place.names[source]:
                    assert re.fullmatch(place_name(source), name)
                    translation, others = other_places(name, source, target)
                    assert translation == place.names[target][0]
                    assert others
                    assert name not in dict(others)


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_no_name_stands_for_two_places(language):
    names = [name for place in CITIES + COUNTRIES for name in place.names[language]]
    assert len(names) == len(set(names))


def test_stand_ins_have_the_articles_of_the_place():
    assert other_places("Switzerland", "en", "de")[1] == [("Ukraine", "Ukraine"), ("Turkey", "Türkei")]
    assert ("Italy", "Italie") in other_places("Austria", "en", "fr")[1]
    assert ("France", "France") not in other_places("Austria", "en", "fr")[1]
    assert other_places("Netherlands", "en", "fr")[1] == [("USA", "États-Unis")]
    assert ("London", "Londres") in other_places("Munich", "en", "fr")[1]


@pytest.mark.parametrize(
    ("languages", "source", "answer", "missing"),
    [
        (("de", "en"), "Ich wohne in München.", "I live in Munich.", False),
        (("de", "en"), "Ich wohne in München.", "I live in coins.", True),
        (("de", "en"), "Ich wohne in München.", "I live in München.", False),
        (("de", "en"), "Ich komme aus Österreich.", "I'm from oil.", True),
        (("en", "de"), "We flew to New York.", "Wir flogen nach York.", True),
        (("en", "de"), "the deserts of North Africa", "die Wüsten Nordafrikas", False),
        (("en", "de"), "the Frankfurt fair", "die Frankfurter Messe", False),
        (("en", "de"), "South Africa", "Afrika", True),
        (("en", "fr"), "the United States", "les Etats-Unis", False),
        (("en", "de"), "Tokyo is large.", "Tōkyō ist groß.", True),
        (("fr", "en"), "Édimbourg", "Edimbourg", True),
        (("fr", "en"), "l'Angleterre", "the UK", False),
        (("en", "de"), "Turkey tastes good.", "Truthahn schmeckt gut.", False),
        (("de", "en"), "Ich mag Polenta.", "I like polenta.", False),
        (("en", "de"), "the china cup", "die Tasse", False),
        (("de", "en"), "Viele Polen trinken Tee.", "Many poles drink tea.", False),
        (("de", "en"), "Die Bayern sind da, die Sachsen auch.", "The others are here, too.", False),
        (("de", "en"), "Wir fahren nach Polen.", "We drive to poles.", True),
        (("de", "en"), "Die Insel Island ist kalt.", "The island is cold.", True),
        (("en", "de"), "I live in the Netherlands.", "Ich wohne in den Niederlanden.", False),
        (("en", "de"), "Munich beer", "Münchner Bier", False),
        (("fr", "en"), "La Nouvelle-Angleterre est froide.", "It is cold.", False),
        (("en", "ru"), "I live in Munich.", "Я живу.", False),
    ],
)
def test_places_that_are_missing(languages, source, answer, missing):
    assert (difference(source, answer, *languages) == "items") == missing


def test_another_place_is_read_instead():
    mask = guard("Ich wohne in München, nicht in Wien, München oder der Türkei.", languages=("de", "en")).masked(1)
    assert mask.text == "Ich wohne in Paris, nicht in London, Paris oder der Schweiz."
    assert mask.pairs == [("Paris", "Munich"), ("London", "Vienna"), ("Switzerland", "Turkey")]


@pytest.mark.parametrize(
    ("answer", "stand_in", "item", "restored"),
    [
        ("Le train de Paris", "Paris", "Athènes", "Le train d'Athènes"),
        ("Je crois que Paris est belle.", "Paris", "Édimbourg", "Je crois qu'Édimbourg est belle."),
        ("Le train de Paris", "Paris", "Rome", "Le train de Rome"),
        ("Une salade Paris", "Paris", "Athènes", "Une salade Athènes"),
    ],
)
def test_french_words_before_a_vowel_are_shortened(answer, stand_in, item, restored):
    assert Guard("", "", [], languages=("en", "fr")).restored(answer, [(stand_in, item)]) == restored
