"""The languages of texts, and the translator for a pair of languages."""

import threading

import pytest

from keras_attention.pipelines import language_pairs
from keras_attention.pipelines.language_pairs import choice_message, find_translator, translators
from keras_attention.pipelines.languages import detected_language, is_in_another_language, language_name
from keras_attention.support.errors import UserError

SENTENCES = {
    "en": "I would like to book a table for two people.",
    "de": "Ich bin müde und möchte schlafen.",
    "fr": "Je voudrais réserver une table pour deux personnes.",
    "es": "Quisiera reservar una mesa para dos personas.",
}


@pytest.mark.parametrize("code", SENTENCES)
def test_the_language_of_a_sentence_is_detected(code):
    assert detected_language([SENTENCES[code]]) == code
    others = {other for other in SENTENCES if other != code}
    assert detected_language([SENTENCES[code]], others) in others
    assert [is_in_another_language(SENTENCES[code], other) for other in SENTENCES] == [o != code for o in SENTENCES]


def test_several_texts_are_taken_together():
    assert detected_language(["Tom tries.", "Hello", SENTENCES["en"]], {"en", "de"}) == "en"
    assert detected_language([SENTENCES["de"], SENTENCES["de"], "Hello", "12:45"], {"en", "de"}) == "de"


def test_without_letters_there_is_no_language():
    for texts in ([], [""], ["12:45", "7 + 5", "☃"]):
        assert detected_language(texts) is None
    assert not is_in_another_language("12:45", "en")
    assert not is_in_another_language("Hello", None)
    assert not is_in_another_language(SENTENCES["de"], "tlh")  # a language that the detector does not know


@pytest.mark.parametrize(
    "text",
    [
        "Hello",
        "ok",
        "Monday",
        "anna.schmidt@example.com",
        "My flight LH 4711 leaves at 17:45 from gate B12.",
        "Angela Merkel met Emmanuel Macron in Paris.",
        "See https://www.example.org/help for details.",
        "WHERE IS THE STATION?",
        "a dog runs through the snow .",
    ],
)
def test_names_numbers_and_single_words_raise_no_alarm(text):
    assert not is_in_another_language(text, "en")


def test_the_beginning_of_a_long_text_tells_its_language_at_once():
    assert not is_in_another_language(SENTENCES["en"] * 100_000, "en")
    assert detected_language([SENTENCES["de"] * 100_000]) == "de"


def test_threads_share_one_detector():
    results = []
    threads = [threading.Thread(target=lambda: results.append(detected_language([SENTENCES["fr"]]))) for _ in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["fr"] * 7


def test_the_most_general_translator_of_a_pair_is_found():
    assert find_translator("de", "en").model == "translator_small_en_de"
    assert find_translator("German", "English").model == "translator_small_en_de"
    assert find_translator("en", texts=[SENTENCES["de"]]).model == "translator_small_de_en"
    assert find_translator("en", texts=[SENTENCES["fr"]]).source == "fr"
    by_pair = {}
    for pair in translators():
        by_pair.setdefault((pair.source, pair.target), []).append(pair.model)
    assert "iso" not in {language for pair in by_pair for language in pair}
    captions = "transformer_tiny_multi30k_en_de"
    assert by_pair["en", "de"].index("transformer_tiny_tatoeba_en_de") < by_pair["en", "de"].index(captions)


def test_the_number_of_sources_then_the_terms_the_network_and_the_name_decide(monkeypatch):
    monkeypatch.setattr(language_pairs, "model_folders", lambda: dict.fromkeys("fedcba", None))
    open_terms, closed = {"name": "x", "terms": "CC0"}, {"name": "y", "terms": "non-commercial"}
    again = {"name": "rounds", "terms": "as above"}
    data = {"a": [closed, again, again], "b": [open_terms], "c": [open_terms], "d": [open_terms, closed], "e": []}
    data["f"] = data["b"]
    names = iter("abcdef")

    class FakeEntry:
        class architecture:
            class task:
                name = "translate"

        def __init__(self, name):
            network = "AttentionSeq2Seq" if name == "b" else "Transformer"
            self.config = {"source_language": "en", "target_language": "de", "architecture": network}
            self.metrics = {"data": data[name]}

    monkeypatch.setattr(language_pairs, "read_entry", lambda folder, hashed: FakeEntry(next(names)))
    assert [pair.model for pair in translators()] == ["d", "c", "f", "b", "a", "e"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("xx", None), "No model translates to 'xx'. Choices: de, en, fr."),
        (("", None), "No model translates to ''"),
        ((None, None), "No model translates to None"),
        (("de", "fi"), "No model translates from 'fi'. Choices: de, en, fr."),
        (("de", "fr"), "No model translates from fr to de. Choices: de to en, en to de, en to fr, fr to en."),
        (("en", None, ["12:45"]), "could not be detected"),
    ],
)
def test_languages_without_a_translator_are_named(arguments, message):
    with pytest.raises(UserError, match=message):
        find_translator(*arguments)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("es", "en"), "en-es"),
        (("Spanish", None, [SENTENCES["de"]]), "de-es"),
        (("de", "fi"), "fi-de"),
        (("de", "fr"), "fr-de"),
        (("es", None, ["12:45"]), None),  # the language of the text is unknown
        (("es", "es"), None),
        (("tlhx", "en"), None),
    ],
)
def test_a_published_translator_is_suggested_where_the_zoo_has_none(arguments, name):
    with pytest.raises(UserError, match=r"No model translates .* Choices: .*\.") as caught:
        find_translator(*arguments)
    suggested = "--model hf://Helsinki-NLP/opus-mt-"
    assert (f"{suggested}{name}, in Python" in str(caught.value)) if name else (suggested not in str(caught.value))
    with pytest.raises(UserError, match="No model translates ") as caught:  # of a server, which loads no other models
        find_translator(*arguments, **dict.fromkeys(["texts"] * (len(arguments) < 3), ()), pairs=translators())
    assert suggested not in str(caught.value)


def test_a_language_that_was_assumed_is_not_called_detected():
    pair = find_translator("de", texts=[SENTENCES["en"]])
    assert choice_message(pair) == "translator_small_en_de (English to German)"
    assert choice_message(pair, [SENTENCES["en"]]) == "translator_small_en_de (English, detected, to German)"
    german = [SENTENCES["de"]]
    message = "translator_small_en_de (English, assumed although the texts look German, to German)"
    assert choice_message(find_translator("de", texts=german), german) == message


def test_names_of_languages():
    assert language_name("de") == "German"
    assert language_name("xyz") == "xyz"
