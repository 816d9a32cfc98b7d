"""Every entry of saved_models is sound, small, and as good as its card says."""

import functools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_sample_image

import keras_attention as ka
from keras_attention.data.dates import generate_dates, generate_non_dates
from keras_attention.pipelines.base import failing_examples
from keras_attention.zoo.card import card_text, first_sentence
from keras_attention.zoo.entry import read_entry, verify_files

SAVED_MODELS = Path(__file__).parents[2] / "saved_models"
DATES, MULTI30K = "rnn_attention_dates", "rnn_attention_multi30k_en_de"
NAMES = sorted({DATES, MULTI30K, *(path.parent.name for path in SAVED_MODELS.glob("*/manifest.json"))})
MAX_BYTES = 100e6
MAX_PARAMETERS = {DATES: 100_000, MULTI30K: 6_000_000}

every_entry = pytest.mark.parametrize("name", NAMES)


@functools.cache
def load(name):
    """One translator for all tests, which keeps its compiled programs."""
    return ka.load(name)


@functools.cache
def entry(name):
    return read_entry(SAVED_MODELS / name)


def test_saved_models_holds_entries_and_nothing_else():
    assert {path.name for path in SAVED_MODELS.iterdir()} == set(NAMES)
    assert set(NAMES) <= set(ka.list_models())


def test_the_whole_zoo_is_small():
    assert sum(path.stat().st_size for path in SAVED_MODELS.rglob("*") if path.is_file()) < MAX_BYTES


@every_entry
def test_files_are_those_of_the_manifest(name):
    assert "CARD.md" in verify_files(SAVED_MODELS / name)


@every_entry
def test_the_card_equals_the_metrics(name):
    actual = entry(name)
    assert actual.card == card_text(name, actual.config, actual.metrics)
    assert actual.metrics["scores"]
    for score in actual.metrics["scores"]:
        line = next(line for line in actual.card.splitlines() if score["set"] in line and score["metric"] in line)
        assert f" {score['value']:.2f} " in line
        assert score["signature"].replace("|", "\\|") in line


@every_entry
def test_the_card_has_the_command_that_made_it(name):
    metrics = entry(name).metrics
    assert metrics["command"].startswith(("python recipes/", "python benchmarks/", "keras-attention "))
    assert "+changes" not in metrics["commit"]
    assert not re.search(r'(^|["`\s])/\w', json.dumps(metrics)), "a path of the machine that trained it"
    assert all(data["terms"] and data["link"].startswith("https://") for data in metrics["data"])
    assert metrics["limits"]
    assert metrics["examples"]


@every_entry
def test_the_description_begins_with_one_short_sentence_of_its_own(name):
    firsts = {other: first_sentence(entry(other).metrics["description"]) for other in NAMES}
    assert 20 <= len(firsts[name]) <= 100
    assert list(firsts.values()).count(firsts[name]) == 1


def test_every_translator_has_a_threshold_for_doubt():
    translators = [name for name in NAMES if "low_score_threshold" in entry(name).config]
    assert {DATES, MULTI30K} < set(translators)
    for name in translators:
        threshold = entry(name).config["low_score_threshold"]
        assert -1.5 < threshold < 0
        if name != DATES:
            assert entry(name).metrics["low_score"]["share"] == 0.05
            assert f"is below {threshold:.3f} (`low_score_threshold`)" in entry(name).card


@pytest.mark.slow
def test_other_pictures_and_sounds_are_doubted():
    generator = np.random.default_rng(7)
    stripes = np.tile(np.arange(0, 256, 4, "uint8")[:, None, None], (1, 64, 3))
    photo = load_sample_image("flower.jpg")
    for name in ("captioner_digits_soft", "captioner_digits_hard"):
        others = load(name).caption([photo[:300, :300], photo[100:250, 200:350], stripes])
        assert [one.low_score for one in others] == [True] * 3
        files = sorted((SAVED_MODELS / name).glob("example_*.png"))
        assert sum(one.low_score for one in load(name).caption(list(map(str, files)))) <= 1
    hiss = (generator.normal(size=16_000).astype("float32") / 10, 8_000)
    tone = (np.sin(np.arange(16_000) * 0.35).astype("float32") / 3, 8_000)
    assert all(one.low_score for one in load("speech_digits").transcribe([hiss, tone]) if one)


@pytest.mark.slow
@every_entry
def test_stored_examples_come_out_again(name):
    count, problems = failing_examples(SAVED_MODELS / name)
    assert count
    assert problems == []


@pytest.mark.slow
@every_entry
def test_the_number_of_parameters(name):
    parameters = load(name).model.count_params()
    assert parameters == entry(name).metrics["parameters"]
    assert f"{parameters:,} parameters" in entry(name).card
    assert parameters <= MAX_PARAMETERS.get(name, parameters)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("rnn_", "transformer_"))])
def test_attention_is_a_distribution_over_the_source(name):
    text = entry(name).metrics["examples"][0]["source"]
    answers = load(name).translate(text, return_attention=True, n_best=2)
    assert answers[0].score >= answers[1].score
    for answer in answers:
        assert answer.attention.dtype == np.float32
        assert answer.attention.shape == (len(answer.tokens), len(answer.source_tokens))
        np.testing.assert_allclose(answer.attention.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.slow
def test_a_sentence_in_a_list_becomes_a_str_in_a_list():
    (text,) = load(MULTI30K).translate(["A dog runs."], beam_size=5)
    assert "hund" in text.lower()


@pytest.mark.thorough
def test_company_in_a_batch_does_not_change_an_answer():
    texts = [example["source"] for example in entry(MULTI30K).metrics["examples"][:7]]
    together = load(MULTI30K).translate(texts)
    assert together == [load(MULTI30K).translate(text) for text in texts]


@pytest.mark.thorough
def test_fresh_dates_are_converted():
    texts, isos = generate_dates(500, seed=7919, split="test")
    right = sum(map(str.__eq__, load(DATES).translate(texts), isos))
    assert right >= 0.995 * len(texts)


@pytest.mark.slow
def test_dates_are_rarely_called_doubtful_and_other_texts_nearly_always():
    dates, _ = generate_dates(500, seed=7907, split="test")
    doubtful = [best.low_score for best, *_ in load(DATES).hypotheses(dates)]
    assert np.mean(doubtful) <= 0.01
    others = generate_non_dates(500, seed=7901)
    doubtful = [best.low_score for best, *_ in load(DATES).hypotheses(others)]
    assert np.mean(doubtful) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("text", ["no date at all", "A dog runs through the snow.", "hello", "42"])
def test_a_text_that_is_no_date_has_a_low_score(text):
    assert load(DATES).translate(text, return_attention=True).low_score


@pytest.mark.slow
def test_answers_about_other_subjects_are_doubtful():
    translator = load("transformer_tiny_multi30k_en_de")
    others = ["Angela Merkel met Emmanuel Macron in Paris.", "How are you? I am fine.", "Ich bin müde."]
    assert all(best.low_score and best.reason for best, *_ in translator.hypotheses(others))
    best = translator.translate("Two dogs are playing in the snow.", return_attention=True)
    assert (best.low_score, best.reason) == (False, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "translation"),
    [
        ("translator_small_en_de", "My <b>brother</b> lives in <i>Berlin</i>.", ("<b>Bruder</b>", "<i>Berlin</i>")),
        ("translator_small_fr_en", "La voiture <b>rouge</b> est <i>rapide</i>.", ("<b>red</b>", "<i>fast</i>")),
    ],
)
def test_tags_enclose_the_translations_of_their_words(name, text, translation):
    """With the mean of all heads, "in Berlin" was enclosed, and "The red"."""
    assert entry(name).config["alignment_heads"]
    for part in translation:
        assert part in load(name).translate(text)
