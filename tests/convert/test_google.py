"""Checkpoints as Google's code wrote them, against the equations over the same tensors."""

import json

import numpy as np
import pytest
import tensorflow as tf
from convert.bert_reference import Reference
from convert.tiny_checkpoints import SEGMENTS, TEXT, TINY_BERT, inputs, tiny_config, tiny_tensors
from layer_checks import assert_all_close

from keras_attention.convert import load_checkpoint
from keras_attention.models import BertEncoder, BertMaskedLM
from keras_attention.support.errors import UserError

FIELDS = (
    "attention_probs_dropout_prob",
    "hidden_act",
    "hidden_dropout_prob",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
)


def google_variables():
    """The tiny checkpoint under the names and with the axes of Google's code, and what training leaves there."""
    variables = {"global_step": np.array(7, "int64")}
    for name, values in tiny_tensors().items():
        name = name.replace(".", "/").replace("layer/", "layer_").replace("_embeddings/weight", "_embeddings")
        name = name.replace("LayerNorm/weight", "LayerNorm/gamma").replace("LayerNorm/bias", "LayerNorm/beta")
        name = name.replace("predictions/bias", "predictions/output_bias")
        if "seq_relationship" in name:
            name = name.replace("weight", "output_weights").replace("bias", "output_bias")
        elif name.endswith("/weight"):
            name, values = name.removesuffix("weight") + "kernel", values.T
        variables[name] = values
        if name.startswith("bert/"):
            variables[f"{name}/adam_m"] = variables[f"{name}/adam_v"] = np.zeros_like(values)
    return variables


def write_google(folder, variables=None, **config):
    """A folder as Google published them, by the Saver of TensorFlow 1."""
    folder.mkdir(exist_ok=True)
    (folder / "bert_config.json").write_text(json.dumps({name: tiny_config()[name] for name in FIELDS} | config))
    (folder / "vocab.txt").write_text((TINY_BERT / "vocab.txt").read_text())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, values in (google_variables() if variables is None else variables).items():
            tf.compat.v1.Variable(values, name=name)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, str(folder / "bert_model.ckpt"), write_meta_graph=False)
    return folder


def without(variables, *beginnings):
    return {name: values for name, values in variables.items() if not name.startswith(beginnings)}


def test_language_model(tmp_path):
    converted = load_checkpoint(write_google(tmp_path))
    assert isinstance(converted.model, BertMaskedLM)
    logits = np.asarray(converted.model(inputs()))[0, : len(TEXT)]
    expected = Reference(tiny_tensors(), {**tiny_config(), "hidden_act": "gelu_new"}).masked_lm(TEXT, SEGMENTS)
    assert_all_close([logits], [expected], 1e-5)
    assert (len(converted.vocabulary), converted.lowercase, converted.label_names) == (17, True, None)
    assert converted.source_format == "Google"
    assert "cls/seq_relationship/output_weights" in converted.left_out
    assert not any("adam" in name for name in converted.left_out)


def test_encoder(tmp_path):
    converted = load_checkpoint(write_google(tmp_path, without(google_variables(), "cls/"), hidden_act="relu"))
    assert isinstance(converted.model, BertEncoder)
    vectors = np.asarray(converted.model(inputs()))[0, : len(TEXT)]
    expected = Reference(tiny_tensors(), {**tiny_config(), "hidden_act": "relu"}).encoder(TEXT, SEGMENTS)
    assert_all_close([vectors], [expected], 1e-5)
    assert set(converted.left_out) >= {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}


def refused(folder, message):
    with pytest.raises(UserError, match=message):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    ("change", "config", "message"),
    [
        (lambda v: without(v, "cls/predictions/transform/dense/bias"), {}, "lacks the tensor cls/predictions/tr"),
        (lambda v: {**v, "output_weights": np.zeros((2, 6), "float32")}, {}, "has the tensor 'output_weights"),
        (lambda v: v, {"num_hidden_layers": 1}, "has the tensor 'bert/encoder/layer_1/"),
        (lambda v: v, {"max_position_embeddings": 10}, r"has the shape \(11, 6\). The configuration requires \(10"),
        (lambda v: v, {"hidden_act": "silu"}, "hidden_act is 'silu'. Supported: one of gelu, relu"),
        (
            lambda v: {**v, "cls/predictions/output_bias": np.zeros(17, "float64")},
            {},
            "cls/predictions/output_bias has dtype float64. Supported: float32",
        ),
    ],
)  # fmt: skip
def test_refusals(change, config, message, tmp_path):
    refused(write_google(tmp_path, change(google_variables()), **config), message)


def test_damaged_files(tmp_path):
    write_google(tmp_path)
    (data,) = tmp_path.glob("*.data*")
    content = bytearray(data.read_bytes())
    content[content.find(tiny_tensors()["bert.embeddings.word_embeddings.weight"].tobytes()[:16])] ^= 1
    data.write_bytes(content)
    refused(tmp_path, "is damaged: .* cannot be read")
    (tmp_path / "bert_model.ckpt.index").write_bytes(b"x" * 100)
    refused(tmp_path, "is not a valid TensorFlow checkpoint")
    (tmp_path / "bert_model.ckpt.index").unlink()
    refused(tmp_path, "must hold one checkpoint such as bert_model.ckpt.index. Found: none")
