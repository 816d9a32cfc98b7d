"""A pipeline can be pickled and copied: another process loads it from its entry, with the changed settings."""

import copy
import multiprocessing
import pickle
import shutil

import joblib
import numpy as np
import pytest
from convert.tiny_checkpoints import tiny_tensors, write_checkpoint

import keras_attention
from keras_attention.cli.main import main
from keras_attention.support.errors import UserError

TEXTS = ["a bc", "", "ab abc , a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny encoder of sentences as an entry."""
    place = tmp_path_factory.mktemp("pickling")
    tensors = {name: values for name, values in tiny_tensors().items() if not name.startswith("cls.")}
    write_checkpoint(place / "checkpoint", tensors, architectures=["BertModel"])
    assert main(["convert", str(place / "checkpoint"), "--out", str(place / "tiny")]) == 0
    return place / "tiny"


@pytest.fixture(scope="module")
def encoder(folder):
    return keras_attention.load(folder)


@pytest.fixture
def own(folder, tmp_path):
    """A loaded pipeline of an entry that a test may change."""
    shutil.copytree(folder, tmp_path / "tiny")
    return keras_attention.load(tmp_path / "tiny")


def through_joblib(pipeline, folder):
    joblib.dump(pipeline, folder / "file")
    return joblib.load(folder / "file")


WAYS = {
    "pickle": lambda pipeline, folder: pickle.loads(pickle.dumps(pipeline)),
    "the oldest protocol": lambda pipeline, folder: pickle.loads(pickle.dumps(pipeline, protocol=0)),
    "deepcopy": lambda pipeline, folder: copy.deepcopy(pipeline),
    "joblib": through_joblib,
    "a list": lambda pipeline, folder: copy.deepcopy([pipeline, pipeline])[1],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_gives_the_same_answers(way, encoder, tmp_path):
    other = WAYS[way](encoder, tmp_path)
    assert other is not encoder
    assert other.model is not encoder.model
    np.testing.assert_array_equal(other.encode(TEXTS).pooled, encoder.encode(TEXTS).pooled)


def test_changed_settings_travel(encoder):
    other = keras_attention.load(encoder.entry.folder)
    other.pooling, other.normalize, other.max_tokens = "cls", True, 5
    third = pickle.loads(pickle.dumps(other))
    assert (third.pooling, third.normalize, third.max_tokens) == ("cls", True, 5)
    np.testing.assert_array_equal(third.encode(TEXTS).pooled, other.encode(TEXTS).pooled)


def test_a_shallow_copy_shares_the_network(encoder):
    assert copy.copy(encoder).model is encoder.model


def refused(action, message):
    with pytest.raises(UserError, match=message) as caught:
        action()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("way", ["pickle", "deepcopy", "joblib"])
def test_a_pipeline_without_an_entry_is_an_error_with_a_remedy(way, encoder, tmp_path):
    from keras_attention.pipelines.text_encoder import TextEncoder

    live = TextEncoder(encoder.model, encoder.tokenizer, 7)
    refused(lambda: WAYS[way](live, tmp_path), "TextEncoder has no folder .*: save it with `save.*keras_attention.load")
    live.save(tmp_path / "saved")
    WAYS[way](keras_attention.load(tmp_path / "saved"), tmp_path)


def test_trained_weights_are_not_dropped(own):
    weight = own.model.trainable_weights[0]
    weight.assign(weight + 1.0)
    refused(lambda: pickle.dumps(own), "The weights have changed since .* was loaded: save it with")


def test_an_entry_that_has_changed_is_refused(own):
    content = pickle.dumps(own)
    (own.entry.folder / "manifest.json").write_text("{}")
    refused(lambda: pickle.loads(content), "has changed since a pipeline of it was pickled")


def test_an_entry_that_is_elsewhere_is_found_by_its_name(own, tmp_path, monkeypatch):
    content = pickle.dumps(own)
    shutil.move(own.entry.folder, tmp_path / "zoo" / "tiny")
    refused(lambda: pickle.loads(content), "There is no model 'tiny'")
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(tmp_path / "zoo"))
    assert pickle.loads(content).entry.folder == tmp_path / "zoo" / "tiny"


@pytest.mark.slow
def test_a_started_process_answers_the_same(encoder):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        vectors = pool.apply(_pooled, (encoder, TEXTS))
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS).pooled, atol=1e-6)


def _pooled(encoder, texts):
    return encoder.encode(texts).pooled


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("bert_mini_sst2", lambda model: str(model.classify("A lovely film."))),
        ("rnn_attention_dates", lambda model: str(model.translate("March 3, 2019"))),
        ("gpt_mini_en", lambda model: model.generate("The", max_tokens=3, temperature=0.0)),
        ("bert_mini_en", lambda model: model.fill_mask("A [MASK] runs.")[0].text),
    ],
)
def test_every_kind_of_pipeline_can_be_pickled(name, answer):
    model = keras_attention.load(name)
    assert answer(pickle.loads(pickle.dumps(model))) == answer(model)
