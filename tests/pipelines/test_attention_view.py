"""The pages of real models: every map is what the model says, row by row."""

import base64
import json
import re

import numpy as np
import pytest
from zoo.tiny_bert import TEXTS, tiny_classifier, tiny_mask_filler
from zoo.tiny_entry import ENGLISH, tiny_translator

from keras_attention.support.errors import UserError

pytestmark = pytest.mark.slow


def data_of(view):
    return json.loads(re.search(r'id="data">(.*?)</script>', view.html, re.DOTALL)[1])


def weights_of(stored):
    shape = stored["layers"], stored["heads"], len(stored["rows"]), len(stored["columns"])
    return np.frombuffer(base64.b64decode(stored["weights"]), "uint8").reshape(shape) / 255


def test_translation():
    translator = tiny_translator()
    expected = translator.translate(ENGLISH[0], n_best=2, return_attention=True)
    answers = data_of(translator.attention_view(ENGLISH[0], n_best=2))["answers"]
    assert [answer["name"].split("  (")[0] for answer in answers] == [one.text for one in expected]
    for answer, one in zip(answers, expected, strict=True):
        (cross,) = answer["maps"]
        assert (cross["rows"], cross["columns"]) == (one.tokens, one.source_tokens)
        np.testing.assert_allclose(weights_of(cross), one.heads, atol=0.01)


@pytest.mark.filterwarnings("ignore::keras_attention.inputs.token_sequences.TruncatedText")
def test_truncation_is_reported():
    for model, text in ((tiny_translator(), ENGLISH[0]), (tiny_classifier(), TEXTS[0])):
        assert "left out" not in data_of(model.attention_view(text))["note"]
        assert data_of(model.attention_view(30 * text))["note"].endswith("its end was left out")


def test_a_translation_given_by_the_user():
    translator = tiny_translator()
    (answer,) = data_of(translator.attention_view(ENGLISH[0], target="2023"))["answers"]
    assert answer["maps"][0]["rows"] == ["2", "0", "2", "3", "</s>"]


def projections_of(stored, name):
    packed, side = stored[name], {"queries": "rows", "keys": "columns"}[name]
    shape = stored["layers"], stored["heads"], len(stored[side]), packed["width"]
    return np.frombuffer(base64.b64decode(packed["integers"]), "<i2").reshape(shape) * packed["unit"]


def check_projections(stored):
    """The products of the stored queries and keys give the stored weights."""
    weights, keys = weights_of(stored), projections_of(stored, "keys")
    scores = projections_of(stored, "queries") @ keys.swapaxes(-1, -2) / keys.shape[-1] ** 0.5
    exponentials = np.exp(scores) * (np.tri(*weights.shape[-2:]) if "decoder" in stored["name"] else 1)
    np.testing.assert_allclose(exponentials / exponentials.sum(axis=-1, keepdims=True), weights, atol=0.01)


def test_queries_and_keys_explain_the_weights_of_bert():
    (answer,) = data_of(tiny_classifier().attention_view(TEXTS[0]))["answers"]
    check_projections(answer["maps"][0])
    (cross,) = data_of(tiny_translator().attention_view(ENGLISH[0]))["answers"][0]["maps"]
    assert cross["queries"] is cross["keys"] is None  # additive attention


def test_a_model_without_attention():
    with pytest.raises(UserError, match="no attention"):
        tiny_translator(attention="none").attention_view(ENGLISH[0])


def test_bert():
    classifier = tiny_classifier("multiclass", pair=True)
    data = data_of(classifier.attention_view(TEXTS[3], TEXTS[1]))
    (answer,) = data["answers"]
    (stored,) = answer["maps"]
    assert stored["rows"] == stored["columns"]
    assert stored["rows"].count("[SEP]") == 2
    assert set(stored["row_segments"]) == {0, 1}
    np.testing.assert_allclose(weights_of(stored).sum(axis=-1), 1, atol=0.05)
    assert dict(data["decision"]) == classifier.classify(TEXTS[3], TEXTS[1], return_scores=True).probabilities
    filler = tiny_mask_filler()
    data = data_of(filler.attention_view("a [MASK] runs"))
    assert "[MASK]" in data["answers"][0]["maps"][0]["rows"]
    assert [name for name, _ in data["decision"]] == [one.words[0] for one in filler.fill_mask("a [MASK] runs")]
    assert data_of(filler.attention_view("a dog"))["decision"] == []


def test_two_texts_that_are_read_separately():
    classifier = tiny_classifier(pair=True, pooling="pair", pooler=False)
    (answer,) = data_of(classifier.attention_view(TEXTS[3], TEXTS[1]))["answers"]
    (stored,) = answer["maps"]
    second = np.array(stored["row_segments"]) == 1
    assert [token for token in stored["rows"] if token in ("[CLS]", "[SEP]")] == 2 * ["[CLS]", "[SEP]"]
    assert stored["rows"][int(np.argmax(second))] == "[CLS]"
    weights = weights_of(stored)
    assert weights.shape[-2:] == 2 * (len(stored["rows"]),)
    assert not weights[..., second, :][..., ~second].any()
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=0.05)
