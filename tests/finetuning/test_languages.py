"""The start by the language of the texts, and an encoder with unigram pieces as a start."""

from types import SimpleNamespace

import pytest

from keras_attention.finetuning.preparation import pieces_per_word, report_unknown, unknown_characters
from keras_attention.finetuning.starting_model import open_start, suited_start
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


@pytest.mark.parametrize("name", ["minilm_small_en", "minilm_small_multi"])
def test_long_words_are_a_reason_for_letters_and_no_reproach_to_a_multilingual_start(name):
    tokenizer, said = load_entry(find_entry(name)).tokenizers["text"], []
    train = SimpleNamespace(texts=["Donaudampfschifffahrtsgesellschaft", "Krankenversicherungsbeitrag"], texts_b=None)
    assert report_unknown(tokenizer, SimpleNamespace(train=train), said.append)
    assert len(said) == (name == "minilm_small_en")
