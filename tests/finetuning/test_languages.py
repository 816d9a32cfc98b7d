"""The start by the language of the texts, and an encoder with unigram pieces as a start."""

import unicodedata
from types import SimpleNamespace

import pytest
from zoo.tiny_bert import tiny_encoder, write_tiny

import keras_attention
from keras_attention.finetuning import starting_model
from keras_attention.finetuning.examples import Examples
from keras_attention.finetuning.preparation import pieces_per_word, report_unknown, unknown_characters
from keras_attention.finetuning.starting_model import open_start, suited_start
from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.entry_io import load_entry
from keras_attention.zoo.registry import find_entry

TEXTS = {
    "en": ["The room was clean and the breakfast was good.", "We waited for an hour, and nobody came.", "I love it!"],
    "de": [
        "Das Zimmer war sauber und das Frühstück gut.",
        "Wir warteten eine Stunde, und niemand kam.",
        "Ich liebe es!",
    ],
    "fr": ["La chambre était propre et le petit déjeuner bon.", "Personne n'est venu nous aider.", "Je l'adore !"],
    "es": ["La habitación estaba limpia y el desayuno era bueno.", "Nadie vino a ayudarnos.", "¡Me encanta!"],
    "nl": ["De kamer was schoon en het ontbijt was goed.", "We hebben een uur gewacht en niemand kwam.", "Geweldig!"],
}
STARTS = {"en": "minilm_small_en", "de": "minilm_small_multi", "fr": "minilm_small_multi", "es": "minilm_small_multi"}


@pytest.mark.parametrize("language", TEXTS)
def test_the_default_start_knows_the_language_of_the_texts(language):
    said = []
    start = suited_start(open_start(), TEXTS[language] * 20, notify=said.append)
    expected = STARTS.get(language, "minilm_small_en")
    assert start.entry.name == expected
    assert len(said) == (expected == "minilm_small_multi")
    assert (start.language == language) == (expected == "minilm_small_multi")
    assert suited_start(start, TEXTS["fr"] * 20, notify=said.append) is start


@pytest.mark.parametrize("language", ["de", "fr", "es"])
def test_a_quarter_of_the_texts_is_enough(language):
    said = []
    texts = [*TEXTS["en"] * 2, *TEXTS[language][:2]] * 10
    start = suited_start(open_start(), texts, notify=said.append)
    assert (start.entry.name, start.language) == ("minilm_small_multi", "mul")
    assert said == ["The texts are in several languages: the start is minilm_small_multi. Another one: --from MODEL"]
    few = [*TEXTS["en"] * 6, *TEXTS[language][:2]] * 10
    assert suited_start(open_start(), few, notify=pytest.fail).entry.name == "minilm_small_en"


@pytest.mark.parametrize("languages", ["de fr es", "en de fr es", "en de", "fr es"])
def test_no_language_is_named_for_texts_in_several(languages):
    texts = [text for language in languages.split() for text in TEXTS[language][:2]] * 10
    assert suited_start(open_start(), texts).language == "mul"


def test_languages_may_alternate():
    texts = [text for pair in zip(TEXTS["en"], TEXTS["de"], strict=True) for text in pair] * 67  # each second is German
    assert suited_start(open_start(), texts).entry.name == "minilm_small_multi"


@pytest.mark.parametrize(
    ("language", "name"),
    [("de", "multi"), ("Spanish", "multi"), ("mul", "multi"), ("en", "en"), ("it", "en"), ("no language", "en")],
)
def test_the_users_word_decides(language, name):
    for texts in (["12 x"], TEXTS["de"], TEXTS["en"]):
        assert suited_start(open_start(), texts, language=language).entry.name == f"minilm_small_{name}"


def test_the_second_texts_of_pairs_count():
    examples = Examples(["1", "2", "3"], ["a", "b", "a"], TEXTS["de"])
    assert suited_start(open_start(), examples.all_texts).language == "de"


def test_a_model_trained_in_python_names_its_language(tmp_path, capsys, monkeypatch):
    write_tiny(tmp_path / "tiny", tiny_encoder(num_layers=1))
    monkeypatch.setattr(starting_model, "MULTILINGUAL_START", tmp_path / "tiny")
    texts = [f"{text} {number}" for number in range(5) for text in TEXTS["de"]]
    keras_attention.finetune(texts, ["a", "b", "c"] * 5, out=tmp_path / "moods", quick=True)
    assert capsys.readouterr().out.startswith("The texts are German: the start is ")
    assert read_entry(tmp_path / "moods").config["language"] == "de"
    keras_attention.finetune(texts, ["a", "b", "c"] * 5, start=tmp_path / "tiny", out=tmp_path / "other", quick=True)
    assert read_entry(tmp_path / "other").config["language"] == "de"


@pytest.mark.parametrize("name", ["minilm_small_en", "minilm_small_sentiment"])
def test_a_start_that_was_chosen_stays(name):
    start = suited_start(open_start(name), TEXTS["de"] * 20, notify=pytest.fail)
    assert start.entry.name == name


def test_texts_without_letters_have_no_language():
    start = suited_start(open_start(), ["123", "", "🙂"], notify=pytest.fail)
    assert start.entry.name == "minilm_small_en"


def test_its_pieces_know_the_four_languages():
    tokenizer = load_entry(find_entry("minilm_small_multi")).tokenizers["text"]
    for language in STARTS:
        assert unknown_characters(tokenizer, TEXTS[language]) == 0
        assert pieces_per_word(tokenizer, TEXTS[language]) < 1.5, language
    assert unknown_characters(tokenizer, ["房间很干净", "早餐也不错"]) > 0.5


def test_an_accent_is_known_on_its_letter():
    tokenizer = load_entry(find_entry("minilm_small_multi")).tokenizers["text"]
    texts = [unicodedata.normalize("NFD", text) for text in TEXTS["fr"]]
    assert texts != TEXTS["fr"]
    assert unknown_characters(tokenizer, texts) == 0
    assert unknown_characters(tokenizer, ["e" + "\u0301\u0316" * 100_000]) > 0.4  # not in quadratic time


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["so good 🥳🥳", "🫠"], "33 % of the characters, such as emoji, are unknown to this encoder. Bags"),
        (
            ["房间很干净", "也不错"],
            "100 % of the characters are unknown to this encoder, which has not learned this script",
        ),
    ],
)
def test_unknown_emoji_are_no_unknown_script(texts, message):
    tokenizer, said = load_entry(find_entry("minilm_small_multi")).tokenizers["text"], []
    assert report_unknown(tokenizer, SimpleNamespace(train=Examples(texts, ["a", "b"])), said.append)
    assert message in said[0]
    assert ("--from" in said[0]) == ("script" in said[0])


@pytest.mark.parametrize("name", ["minilm_small_en", "minilm_small_multi"])
def test_long_words_are_a_reason_for_letters_and_no_reproach_to_a_multilingual_start(name):
    tokenizer, said = load_entry(find_entry(name)).tokenizers["text"], []
    train = Examples(["Donaudampfschifffahrtsgesellschaft", "Krankenversicherungsbeitrag"], ["a", "b"])
    assert report_unknown(tokenizer, SimpleNamespace(train=train), said.append)
    assert len(said) == (name == "minilm_small_en")
    assert name == "minilm_small_multi" or said[0].endswith(" German, French or Spanish: --from minilm_small_multi.")
