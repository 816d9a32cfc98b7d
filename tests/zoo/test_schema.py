"""The configuration: what is known passes, everything else is refused."""

import copy
import json
from pathlib import Path

import pytest
from zoo.tiny_entry import CONFIG

from keras_attention.models import AttentionSeq2Seq, Transformer
from keras_attention.models.patch_classifier import PatchClassifier
from keras_attention.support.errors import EntryError
from keras_attention.zoo.decoding_settings import DECODING, DECODING_DEFAULTS
from keras_attention.zoo.schema import ARCHITECTURES, check_config


def changed(*path, to):
    """A copy of CONFIG with the value at `path` replaced."""
    config = copy.deepcopy(CONFIG)
    place = config
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return config


def test_fills_in_the_defaults():
    checked = check_config(CONFIG)
    assert checked["decoding"] == {**DECODING_DEFAULTS, "beam_size": 5, "length_penalty": 0.6}
    assert checked["low_score_threshold"] is None
    assert checked["weights_dtype"] == "float32"
    assert set(DECODING) == set(DECODING_DEFAULTS)


def test_knows_every_setting_of_the_model():
    model = AttentionSeq2Seq(**CONFIG["model"])
    assert set(ARCHITECTURES["AttentionSeq2Seq"].settings) == set(model.settings)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (changed("format_version", to=2), "format_version=2"),
        (changed("format_version", to=True), "format_version=True"),
        (changed("architecture", to="Lambda"), "architecture='Lambda'. Expected: one of "),
        (changed("architecture", to=["AttentionSeq2Seq"]), "architecture="),
        (changed("registered_name", to="x"), "unknown key 'registered_name'"),
        (changed("model", "module", to="os"), "unknown key 'module'"),
        (changed("model", to=[]), "model must be an object. Received: list"),
        (
            changed("model", "hidden_dim", to=10**9),
            "hidden_dim must be an integer from 2 to 8192. Received: hidden_dim=1",
        ),
        (changed("model", "hidden_dim", to=14.0), "hidden_dim=14.0"),
        (changed("model", "num_layers", to=True), "num_layers=True"),
        (changed("model", "cell", to="Lambda"), "cell must be one of gru, lstm"),
        (changed("model", "cell", to={"gru": 1}), "cell must be one of gru, lstm"),
        (changed("model", "input_feeding", to=1), "input_feeding must be true or false"),
        (changed("model", "dropout", to="0"), "dropout='0'"),
        (changed("tokenizer", "source", to="../x"), "source='../x'"),
        (changed("tokenizer", "source", to="/x"), "source='/x'"),
        (changed("tokenizer", "class", to="x"), "unknown key 'class'"),
        (changed("decoding", "beam_size", to=10**6), "beam_size=1000000"),
        (changed("decoding", "temperature", to=1), "unknown key 'temperature'"),
        (changed("source_language", to="<script>"), "source_language"),
        (changed("low_score_threshold", to=0.5), "low_score_threshold=0.5"),
        (changed("low_score_threshold", to="x"), "low_score_threshold='x'"),
        (changed("weights_dtype", to="object"), "weights_dtype='object'"),
    ],
)
def test_refuses(config, message):
    with pytest.raises(EntryError, match=message):
        check_config(config)


@pytest.mark.parametrize("key", list(CONFIG))
def test_lacks_a_key(key):
    config = {name: value for name, value in CONFIG.items() if name != key}
    with pytest.raises(EntryError, match=f"lacks the key {key!r}"):
        check_config(config)


def test_lacks_a_setting_of_the_model():
    config = changed("model", to={name: value for name, value in CONFIG["model"].items() if name != "dropout"})
    with pytest.raises(EntryError, match="lacks the key 'dropout'"):
        check_config(config)


def test_a_model_of_gigabytes():
    with pytest.raises(EntryError, match="parameters. Allowed"):
        check_config(changed("model", to={**CONFIG["model"], "hidden_dim": 8192, "num_layers": 16}))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("attention", ["additive", "dot", "concat", "none"])
@pytest.mark.parametrize("tie_embeddings", ["none", "target", "all"])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_estimate_is_a_close_upper_bound(cell, attention, tie_embeddings, num_layers):
    mode = "local_p" if attention == "concat" else "global"
    settings = {**CONFIG["model"], "cell": cell, "attention": attention, "attention_mode": mode}
    settings |= {"tie_embeddings": tie_embeddings, "num_layers": num_layers, "source_vocabulary_size": 29}
    model = AttentionSeq2Seq(**settings)
    model.build()
    assert model.count_params() <= ARCHITECTURES["AttentionSeq2Seq"].parameters(settings) <= 1.6 * model.count_params()


TRANSFORMER = {
    "source_vocabulary_size": 29,
    "target_vocabulary_size": 29,
    "hidden_dim": 12,
    "intermediate_dim": 19,
    "num_heads": 3,
    "num_encoder_layers": 2,
    "num_decoder_layers": 1,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation": "relu",
    "normalize_first": True,
    "positions": "learned",
    "max_length": 31,
    "tie_embeddings": "all",
    "output_bias": False,
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("tie_embeddings", ["none", "target", "all"])
@pytest.mark.parametrize("normalize_first", [True, False])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_estimate_of_a_transformer(tie_embeddings, normalize_first, positions):
    settings = {**TRANSFORMER, "tie_embeddings": tie_embeddings, "normalize_first": normalize_first}
    settings |= {"positions": positions, "output_bias": positions == "learned"}
    model = Transformer(**settings)
    model.build()
    assert model.count_params() <= ARCHITECTURES["Transformer"].parameters(settings) <= 1.1 * model.count_params()


def test_a_transformer_config():
    check_config({**CONFIG, "architecture": "Transformer", "model": TRANSFORMER})
    with pytest.raises(EntryError, match="num_heads must be an integer from 1 to 128. Received: num_heads=0"):
        check_config({**CONFIG, "architecture": "Transformer", "model": {**TRANSFORMER, "num_heads": 0}})
    with pytest.raises(EntryError, match="parameters. Allowed"):
        check_config({**CONFIG, "architecture": "Transformer", "model": {**TRANSFORMER, "hidden_dim": 8184}})


def test_labels_of_an_entry_may_be_joined_emoji():
    config = json.loads((Path(__file__).parents[2] / "saved_models" / "bert_mini_sst2" / "config.json").read_text())
    names = ["\U0001f469\u200d\U0001f680", "\U0001f469"]
    config["task"]["label_names"] = names
    assert check_config(config)["task"]["label_names"] == names
    for wrong in ("a\u202eb", "\u200d", "a\x1b"):
        config["task"]["label_names"] = ["b", wrong]
        with pytest.raises(EntryError, match="label_names must be"):
            check_config(config)


def test_a_classifier_of_before_there_was_a_choice_of_pooling():
    config = json.loads((Path(__file__).parents[2] / "saved_models" / "bert_mini_sst2" / "config.json").read_text())
    assert check_config({**config, "model": {**config["model"], "pooling": "both"}})["model"]["pooling"] == "both"
    config["model"].pop("pooling", None)
    assert check_config(config)["model"]["pooling"] == "cls"
    with pytest.raises(EntryError, match="pooling must be one of cls, mean, both"):
        check_config({**config, "model": {**config["model"], "pooling": "max"}})


def test_how_an_encoder_makes_the_vector_of_a_text():
    path = Path(__file__).parents[2] / "saved_models" / "bert_mini_en" / "config.json"
    config = json.loads(path.read_text())
    checked = check_config(config)
    assert (checked["pooling"], checked["normalize"]) == ("mean", False)
    assert check_config({**config, "pooling": "cls", "normalize": True})["pooling"] == "cls"
    for name, value in (("pooling", "both"), ("pooling", 1), ("normalize", 1)):
        with pytest.raises(EntryError, match=f"{name} must be .* Received: {name}={value!r}"):
            check_config({**config, name: value})
    classifier = json.loads((path.parents[1] / "bert_mini_sst2" / "config.json").read_text())
    with pytest.raises(EntryError, match="unknown key 'pooling'"):
        check_config({**classifier, "pooling": "mean"})


@pytest.mark.parametrize("hidden_dim", [6, 48])
@pytest.mark.parametrize("stem", ["linear", "convolutional", "pooled"])
@pytest.mark.parametrize("patch_size", [2, 16])
def test_estimate_of_a_patch_classifier_is_a_close_upper_bound(hidden_dim, stem, patch_size):
    settings = {"num_labels": 7, "input_size": [32, 48, 3], "patch_size": [patch_size] * 2, "hidden_dim": hidden_dim}
    settings |= {"intermediate_dim": 19, "num_heads": 3, "num_layers": 2, "stem": stem, "pooling": "cls"}
    model = PatchClassifier(**settings)
    model.build()
    estimate = ARCHITECTURES["PatchClassifier"].parameters(settings | {"dropout": 0.0})
    assert model.count_params() <= estimate <= 1.6 * model.count_params()
