"""The tool that writes sentences of everyday words: grammar in three languages."""

import runpy
from pathlib import Path

import pytest

TOOL = runpy.run_path(str(Path(__file__).parents[3] / "recipes" / "tools" / "word_phrases.py"))


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    table = tmp_path_factory.mktemp("phrases") / "phrases.tsv"
    TOOL["main"](["--out", str(table)])
    return table.read_text(encoding="utf-8").splitlines()


def test_every_line_has_three_different_sides_filled(lines):
    assert lines[0] == "en\tde\tfr"
    rows = [line.split("\t") for line in lines[1:]]
    assert len(rows) == len(set(map(tuple, rows))) > 6000
    assert all(len(row) == 3 and all(row) and "{" not in "".join(row) for row in rows)


def test_every_noun_has_its_articles():
    for line in TOOL["WORDS"].read_text(encoding="utf-8").splitlines()[1:]:
        kind, english, german, french, plural = line.split("\t")
        assert english == english.strip()
        if kind in ("thing", "person", "food", "pair"):
            assert german.split(" ", 1)[0] in ("der", "die", "das")
            assert french.split(" ", 1)[0] in ("un", "une")
        assert kind in ("thing", "person") or not plural


@pytest.mark.parametrize(
    "line",
    [
        "I need an umbrella.|Ich brauche einen Regenschirm.|J'ai besoin d'un parapluie.",
        "This is my island.|Das ist meine Insel.|C'est mon île.",
        "This is my beach.|Das ist mein Strand.|C'est ma plage.",
        "I am looking for the customer.|Ich suche den Kunden.|Je cherche le client.",
        "We have seen a student.|Wir haben einen Studenten gesehen.|Nous avons vu un étudiant.",
        "Where is the bean?|Wo ist die Bohne?|Où est le haricot ?",
        "We have no water.|Wir haben kein Wasser.|Nous n'avons pas d'eau.",
        "Do you want flour?|Möchtest du Mehl?|Tu veux de la farine ?",
        "I would like rice, please.|Ich hätte gern Reis, bitte.|Je voudrais du riz, s'il vous plaît.",
        "We are learning Icelandic.|Wir lernen Isländisch.|Nous apprenons l'islandais.",
        "She comes from Japan.|Sie kommt aus Japan.|Elle vient du Japon.",
        "We are travelling to Turkey.|Wir reisen in die Türkei.|Nous voyageons en Turquie.",
        "I live in the USA.|Ich wohne in den USA.|J'habite aux États-Unis.",
        "two knives|zwei Messer|deux couteaux",
        "I have three children.|Ich habe drei Kinder.|J'ai trois enfants.",
        "There are many policemen here.|Hier sind viele Polizisten.|Il y a beaucoup de policiers ici.",
        "There are many trees here.|Hier sind viele Bäume.|Il y a beaucoup d'arbres ici.",
        "Where are the washing machines?|Wo sind die Waschmaschinen?|Où sont les machines à laver ?",
        "two traffic lights|zwei Ampeln|deux feux rouges",
        "two eyes|zwei Augen|deux yeux",
        "two newspapers|zwei Zeitungen|deux journaux",
        "two batteries|zwei Batterien|deux piles",
        "two toothbrushes|zwei Zahnbürsten|deux brosses à dents",
        "two mice|zwei Mäuse|deux souris",
        "She comes from Athens.|Sie kommt aus Athen.|Elle vient d'Athènes.",
    ],
)
def test_articles_endings_and_elision(lines, line):
    assert line.replace("|", "\t") in lines
