"""`from_preset` gives the bare network of an entry, and says so where the class is another."""

import numpy as np
import pytest
from keras import ops
from zoo.tiny_bert import TEXTS, task, tiny_classifier, tiny_encoder, tiny_mask_filler, write_tiny
from zoo.tiny_entry import tiny_parts, write_tiny_entry
from zoo.tiny_gpt import tiny_generator

import keras_attention
from keras_attention.models import GPT, AttentionSeq2Seq, BertClassifier, BertEncoder, BertMaskedLM, Transformer
from keras_attention.support.errors import UserError

IDS = {"token_ids": np.array([[2, 7, 11, 3, 0]], "int32"), "segment_ids": np.array([[0, 0, 0, 0, 0]], "int32")}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoo")
    write_tiny_entry(folder / "words", tiny_parts())
    write_tiny(folder / "moods", tiny_classifier().model, task=task())
    write_tiny(folder / "gaps", tiny_mask_filler().model)
    write_tiny(folder / "vectors", tiny_encoder())
    tiny_generator("char").save(folder / "writer")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model_class", "name", "original"),
    [
        (AttentionSeq2Seq, "words", lambda: tiny_parts()[0]),
        (BertClassifier, "moods", lambda: tiny_classifier().model),
        (BertMaskedLM, "gaps", lambda: tiny_mask_filler().model),
        (BertEncoder, "vectors", tiny_encoder),
        (GPT, "writer", lambda: tiny_generator("char").model),
        (BertEncoder, "gaps", lambda: tiny_mask_filler().model.encoder),
        (BertEncoder, "moods", lambda: tiny_classifier().model.encoder),
    ],
)
def test_it_has_the_trained_weights(zoo, model_class, name, original):
    model, expected = model_class.from_preset(zoo / name), original()
    assert type(model) is model_class
    for weight, other in zip(model.weights, expected.weights, strict=True):
        assert weight.path.split("/")[1:] == other.path.split("/")[-len(weight.path.split("/")) + 1 :]
        np.testing.assert_array_equal(weight, other)


@pytest.mark.slow
def test_it_computes_what_the_pipeline_computes(zoo, monkeypatch):
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(zoo))
    classifier = keras_attention.load("moods")
    rows = classifier.sequences(TEXTS[:1])
    ids = {"token_ids": rows[0][0].token_ids[None], "segment_ids": rows[0][0].segment_ids[None]}
    logits = ops.convert_to_numpy(BertClassifier.from_preset("moods")(ids))
    np.testing.assert_allclose(logits, classifier.logits(rows), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model_class", "name", "message"),
    [
        (Transformer, "words", "words is a AttentionSeq2Seq. Expected: a Transformer. AttentionSeq2Seq.from_preset"),
        (BertClassifier, "gaps", "gaps is a BertMaskedLM. Expected: a BertClassifier"),
        (BertMaskedLM, "vectors", "vectors is a BertEncoder. Expected: a BertMaskedLM"),
        (BertEncoder, "words", "words is a AttentionSeq2Seq. Expected: a BertEncoder"),
        (GPT, "words", "words is a AttentionSeq2Seq. Expected: a GPT"),
        (Transformer, "nothing", "There is no model"),
    ],
)
def test_another_class_is_named(zoo, monkeypatch, model_class, name, message):
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(zoo))
    with pytest.raises(UserError, match=message):
        model_class.from_preset(name)
