"""What is written beside the weights of a trained model."""

from types import SimpleNamespace

import numpy as np
import pytest
from zoo.tiny_entry import DECODING, ENGLISH, ISO_DATES, tiny_parts

from keras_attention.data.translation.pairs import TranslationData
from keras_attention.models import new_language_model
from keras_attention.pipelines.text_generator import TextGenerator
from keras_attention.pipelines.translator import Translator
from keras_attention.publishing import trained_entries
from keras_attention.tokenizers.character_tokenizer import CharacterTokenizer
from keras_attention.tokenizers.special_tokens import END_ID
from keras_attention.zoo.entry import read_entry


def test_drawn_images_are_complete(tmp_path, monkeypatch):
    """Also by a model that expects an end with a probability of 0.2 after each pixel."""
    tokenizer = CharacterTokenizer("01")
    sizes = {"vocabulary_size": tokenizer.vocabulary_size, "max_length": 64, "hidden_dim": 4, "num_layers": 1}
    model = new_language_model("lstm", {**sizes, "dropout": 0.0})
    model.set_weights([np.zeros(weight.shape) for weight in model.weights])
    probabilities = np.full(tokenizer.vocabulary_size, 1e-9)
    probabilities[END_ID], probabilities[tokenizer.encode(["01"])[0]] = 0.2, 0.4
    model.output_bias.assign(np.log(probabilities))

    drawn = []
    monkeypatch.setattr(trained_entries, "completion_plot", lambda images, completed, path: drawn.extend(completed))
    monkeypatch.setattr(trained_entries, "learning_curve_plot", lambda history, path: None)
    monkeypatch.setattr(
        trained_entries, "write_entry", lambda *_, extra_files, **__: [add(tmp_path) for add in extra_files]
    )
    settings = {"data": "pixels", "text": [], "validation": [], "validation_split": 0.1, "max_tokens": 64}
    settings |= {"num_layers": 1, "language": "en", "seed": 1}
    images = ["01" * 32, "10" * 32]
    trained_entries.write_language_model(
        tmp_path,
        TextGenerator(model, tokenizer),
        scores={},
        settings=settings,
        result=SimpleNamespace(history=[], seconds=0.0),
        facts={"command": "", "commit": "", "hardware": ""},
        images=images,
    )
    assert [len(image) for image in drawn] == [64, 64]
    assert [image[:32] for image in drawn] == [image[:32] for image in images]
    assert set("".join(drawn)) == {"0", "1"}


@pytest.mark.slow
@pytest.mark.parametrize(("target_language", "share"), [("de", 0.05), ("iso", 0.001)])
def test_the_threshold_of_low_scores_comes_from_the_validation_sentences(tmp_path, target_language, share):
    words = " ".join(ENGLISH).split()
    sentences = [" ".join(words[i % 11 :: 1 + i % 5]) for i in range(59)]
    sides = {"train": ([], []), "validation": ([*sentences, "", *sentences], []), "test": (ENGLISH, ISO_DATES[:1] * 4)}
    data = TranslationData("tiny", "en", target_language, **sides, origin={"name": "x", "terms": "x", "link": ""})
    translator = Translator(*tiny_parts(), DECODING, target_language=target_language)
    facts = {"description": "x", "settings": {}, "seed": 1, "facts": {"command": "", "commit": "", "hardware": ""}}
    result = SimpleNamespace(history=[], seconds=0.0)
    trained_entries.write_trained(tmp_path / "tiny", translator, data, result=result, **facts)
    entry = read_entry(tmp_path / "tiny")
    different = list(dict.fromkeys(sentences))
    means = [best.log_prob / len(best.tokens) for best, *_ in translator.hypotheses(different)]
    threshold = entry.config["low_score_threshold"]
    assert threshold == pytest.approx(np.quantile(means, share), abs=1e-3)
    assert entry.metrics["low_score"] == {"set": "tiny validation", "sentences": len(different), "share": share}
    assert f"is below {threshold:.3f} (`low_score_threshold`)" in entry.card


def test_the_threshold_of_low_scores_needs_no_more_than_some_sentences(monkeypatch):
    seen = []
    monkeypatch.setattr(
        trained_entries, "low_score_threshold", lambda translator, sources, share: seen.append(sources) or -1.0
    )
    data = SimpleNamespace(name="x", target_language="de", validation=([f"sentence {i}" for i in range(5003)], []))
    assert trained_entries.low_score_rule(None, data) == (
        -1.0,
        {"set": "x validation", "sentences": 1000, "share": 0.05},
    )
    assert len(set(seen[0])) == 1000
    assert (seen[0][0], seen[0][-1]) == ("sentence 0", "sentence 5002")
