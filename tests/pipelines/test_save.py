"""Every pipeline saves itself as an entry that loads and answers as before."""

import numpy as np
import pytest
from zoo.tiny_bert import TEXTS, tiny_classifier, tiny_encoder, tiny_mask_filler, tokenizer
from zoo.tiny_entry import DECODING, ENGLISH, tiny_parts, write_tiny_entry

import keras_attention as ka
from keras_attention.pipelines.base import MEASURED_BEFORE, failing_examples
from keras_attention.pipelines.text_encoder import TextEncoder
from keras_attention.pipelines.translator import Translator
from keras_attention.support.errors import EntryError

pytestmark = pytest.mark.slow


def translator():
    return Translator(*tiny_parts(), DECODING, low_score_threshold=-0.5, target_language="iso")


PIPELINES = {
    "translator": (translator, lambda one: one.translate(ENGLISH), {"source_language": "en"}),
    "classifier": (tiny_classifier, lambda one: one.classify(TEXTS), {}),
    "pairs": (lambda: tiny_classifier("multilabel", True), lambda one: one.classify(TEXTS, TEXTS[::-1]), {}),
    "mask filler": (tiny_mask_filler, lambda one: one.fill_mask("a [MASK] runs"), {"language": "de"}),
    "encoder": (
        lambda: TextEncoder(tiny_encoder(), tokenizer(), 23),
        lambda one: one.encode(TEXTS).pooled.round(3).tolist(),
        {},
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", PIPELINES)
def test_a_new_pipeline_is_saved(tmp_path, kind):
    make, answer, config = PIPELINES[kind]
    pipeline = make()
    entry = pipeline.save(tmp_path / "mine", **config)
    assert entry.name == "mine"
    loaded = ka.load(tmp_path / "mine")
    assert type(loaded) is type(pipeline)
    assert answer(loaded) == answer(pipeline)
    assert loaded.config_keys() | config | {"language": 0} == pipeline.config_keys() | config | {"language": 0}
    assert failing_examples(tmp_path / "mine")[1] == []


def test_a_translator_must_know_its_languages(tmp_path):
    with pytest.raises(EntryError, match="lacks the key 'source_language'"):
        translator().save(tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_a_loaded_model_keeps_its_card(tmp_path):
    picture = tmp_path / "plot.png"
    picture.write_bytes(b"picture")
    first = write_tiny_entry(tmp_path / "first", extra_files=[picture], weights_dtype="float16")
    loaded = ka.load(first.folder)
    loaded.model.output_bias.assign(loaded.model.output_bias + 1.0)  # trained on, say
    again = loaded.save(tmp_path / "again")
    assert again.config == first.config
    assert again.metrics["scores"] == first.metrics["scores"]
    assert again.metrics["limits"] == [*first.metrics["limits"], MEASURED_BEFORE]
    assert failing_examples(again)[1] == []  # the examples are those of the weights that were saved
    np.testing.assert_allclose(ka.load(again.folder).model.output_bias, loaded.model.output_bias, atol=1e-2)
    third = ka.load(again.folder).save(tmp_path / "third")
    assert third.metrics["limits"] == again.metrics["limits"]


def test_nothing_is_overwritten_without_the_option(tmp_path):
    tiny_classifier().save(tmp_path / "mine")
    with pytest.raises(EntryError, match="already contains a trained model"):
        tiny_classifier().save(tmp_path / "mine")
    tiny_classifier("multiclass").save(tmp_path / "mine", overwrite=True)
    assert ka.load(tmp_path / "mine").task["kind"] == "multiclass"
