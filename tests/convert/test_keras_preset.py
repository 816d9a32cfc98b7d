"""Presets of keras-hub, written here by keras-hub itself."""

import json

import h5py
import keras_hub
import numpy as np
import pytest
from convert.tiny_checkpoints import TINY_BERT, inputs
from keras import ops

from keras_attention.convert import load_checkpoint
from keras_attention.models import BertEncoder
from keras_attention.support.errors import UserError

PIECES = (TINY_BERT / "vocab.txt").read_text().splitlines()
SIZES = {"num_layers": 3, "num_heads": 2, "hidden_dim": 22, "intermediate_dim": 29, "max_sequence_length": 13}


@pytest.fixture(scope="module")
def backbone():
    model = keras_hub.models.BertBackbone(len(PIECES), **SIZES)
    random = np.random.default_rng(0)
    model.set_weights([random.normal(0, 0.3, weight.shape) for weight in model.get_weights()])
    return model


@pytest.fixture
def preset(backbone, tmp_path):
    backbone.save_to_preset(tmp_path / "preset")
    keras_hub.models.BertTokenizer(PIECES, lowercase=True).save_to_preset(tmp_path / "preset")
    return tmp_path / "preset"


def change(path, **fields):
    content = json.loads(path.read_text())
    inner = {name: value for name, value in fields.items() if name != "registered_name"}
    content["config"].update(inner)
    content.update({name: value for name, value in fields.items() if name not in inner})
    path.write_text(json.dumps(content))


def refused(folder, message):
    with pytest.raises(UserError, match=message) as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)


def test_outputs_are_those_of_keras_hub(backbone, preset):
    converted = load_checkpoint(preset)
    assert isinstance(converted.model, BertEncoder)
    texts = inputs()
    is_token = texts["token_ids"] != 0
    expected = backbone({**texts, "padding_mask": is_token})["sequence_output"]
    actual, expected = map(ops.convert_to_numpy, (converted.model(texts), expected))
    np.testing.assert_allclose(actual[is_token], expected[is_token], atol=1e-4)
    assert np.abs(expected).max() > 0.5
    assert (converted.vocabulary, converted.lowercase, converted.source_format) == (PIECES, True, "keras-hub")
    assert converted.left_out == ("pooled_dense/bias", "pooled_dense/kernel")


@pytest.mark.parametrize(
    ("file", "fields", "message"),
    [
        ("config.json", {"registered_name": "keras_hub>GemmaBackbone"}, "registered_name is 'keras_hub>Gemma"),
        ("config.json", {"registered_name": "builtins>exec"}, "registered_name is 'builtins>exec'"),
        ("config.json", {"num_layers": 10**6}, "num_layers is 1000000. Supported: an integer from 1 to 64"),
        ("config.json", {"num_heads": 3}, "num_heads is 3. Supported: a divisor of the width 22"),
        ("config.json", {"num_layers": 2}, "numbers. config.json needs"),
        ("config.json", {"num_layers": 4}, "numbers. config.json needs"),
        ("config.json", {"intermediate_dim": 31}, "numbers. config.json needs"),
        (
            "config.json",
            {"hidden_dim": 8192, "intermediate_dim": 32768, "num_layers": 64},
            "numbers. config.json needs",
        ),
        ("config.json", {"max_sequence_length": 14, "num_segments": 1}, "does not match config.json"),
        ("config.json", {"vocabulary_size": 16}, "vocabulary.txt has 17 pieces"),
        ("tokenizer.json", {"registered_name": "keras_hub>GPT2Tokenizer"}, "registered_name is 'keras_hub>GPT2"),
        ("tokenizer.json", {"vocabulary": "/etc/passwd"}, "vocabulary is '/etc/passwd'. Supported: None"),
        ("tokenizer.json", {"lowercase": "yes"}, "lowercase is 'yes'. Supported: true or false"),
        ("tokenizer.json", {"split": False}, "split is False. Supported: True"),
    ],
)
def test_unsupported_settings_are_refused(file, fields, message, preset):
    change(preset / file, **fields)
    refused(preset, message)


def test_weights_that_are_elsewhere_or_damaged(preset, tmp_path):
    path = preset / "model.weights.h5"
    content = path.read_bytes()
    with h5py.File(path, "a") as file:
        del file["layers/dense/vars/1"]
        file["layers/dense/vars/1"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "x")
    refused(preset, "'1' is not a plain array or group")
    path.write_bytes(content)
    with h5py.File(path, "a") as file:
        file["layers/more"] = np.zeros(300_000)
    refused(preset, "holds .* numbers. config.json needs")
    path.write_bytes(content)
    with h5py.File(path, "a") as file:
        file["layers/again"] = file["/"]
    refused(preset, "is not a plain array or group")
    path.write_bytes(content[:-1000])
    refused(preset, "is not a valid weights file")
    path.unlink()
    refused(preset, "model.weights.h5 cannot be read|is not a valid weights file")
