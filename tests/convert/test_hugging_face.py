"""Checkpoints of Hugging Face against the equations over the same tensors."""

import numpy as np
import pytest
from convert.bert_reference import Reference
from convert.tiny_checkpoints import (
    SEGMENTS,
    TEXT,
    TINY_BERT,
    inputs,
    tiny_config,
    tiny_tensors,
    write_checkpoint,
)
from layer_checks import assert_all_close

from keras_attention.convert import load_checkpoint
from keras_attention.models import BertClassifier, BertEncoder, BertMaskedLM

LABELS = {"0": "bad", "1": "good", "2": "none"}
POOLER = ("bert.pooler.dense.bias", "bert.pooler.dense.weight")


def output_of(converted, segments=True):
    """Vectors (T, D), logits (T, V) or logits (num_labels,) for `TEXT`."""
    output = np.asarray(converted.model(inputs(segments)))[0]
    return output[: len(TEXT)] if output.ndim == 2 else output


def encoder_tensors():
    return {name: values for name, values in tiny_tensors().items() if not name.startswith("cls.")}


def classifier_tensors():
    random = np.random.default_rng(0)
    head = {"classifier.weight": random.normal(size=(3, 6)), "classifier.bias": random.normal(size=3)}
    return encoder_tensors() | {name: values.astype("float32") for name, values in head.items()}


def expected_logits(tensors=None, **config):
    return Reference(tensors or tiny_tensors(), {**tiny_config(), **config}).masked_lm(TEXT, SEGMENTS)


def test_the_committed_checkpoint_is_read_whole():
    converted = load_checkpoint(TINY_BERT)
    assert isinstance(converted.model, BertMaskedLM)
    assert_all_close([output_of(converted)], [expected_logits()], 1e-5)
    assert converted.vocabulary[:6] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
    assert converted.lowercase is True
    assert converted.label_names is None
    assert converted.source_format == "Hugging Face"
    assert converted.left_out == (*POOLER, "cls.seq_relationship.bias", "cls.seq_relationship.weight")


def test_encoder(tmp_path):
    converted = load_checkpoint(write_checkpoint(tmp_path, encoder_tensors(), architectures=["BertModel"]))
    assert isinstance(converted.model, BertEncoder)
    expected = Reference(tiny_tensors(), tiny_config()).encoder(TEXT, SEGMENTS)
    assert_all_close([output_of(converted)], [expected], 1e-5)
    assert converted.left_out == POOLER


@pytest.mark.parametrize("named", [True, False])
def test_classifier(named, tmp_path):
    config = {"architectures": ["BertForSequenceClassification"]} if named else {"architectures": None}
    tensors = classifier_tensors()
    converted = load_checkpoint(write_checkpoint(tmp_path, tensors, id2label=LABELS, **config))
    assert isinstance(converted.model, BertClassifier)
    expected = Reference(tensors, tiny_config()).classifier(TEXT, SEGMENTS)
    assert_all_close([output_of(converted)], [expected], 1e-5)
    assert converted.label_names == ("bad", "good", "none")
    assert converted.left_out == ()


def old_names(tensors):
    """LayerNorm's first names, buffers, and the tied tensors once more."""
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): values
        for name, values in tensors.items()
    }
    old["bert.embeddings.position_ids"] = np.arange(11)[None]
    old["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"]
    old["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    return old


def without_prefix(tensors):
    return {name.removeprefix("bert."): values for name, values in tensors.items()}


def only_decoder_bias(tensors):
    return {name.replace("predictions.bias", "predictions.decoder.bias"): x for name, x in tensors.items()}


@pytest.mark.parametrize("change", [old_names, without_prefix, only_decoder_bias])
def test_other_names_of_the_same_tensors(change, tmp_path):
    converted = load_checkpoint(write_checkpoint(tmp_path, change(tiny_tensors())))
    assert_all_close([output_of(converted)], [expected_logits()], 1e-5)


def test_half_precision_is_read_exactly(tmp_path):
    tensors = tiny_tensors()
    half = {name: values.astype("float16") for name, values in tensors.items()}
    converted = load_checkpoint(write_checkpoint(tmp_path / "float16", half))
    assert_all_close([output_of(converted)], [expected_logits(half)], 1e-5)
    upper = {name: (values.view("uint32") >> 16).astype("uint16") for name, values in tensors.items()}
    cut_off = {name: (values.astype("uint32") << 16).view("float32") for name, values in upper.items()}
    converted = load_checkpoint(write_checkpoint(tmp_path / "bfloat16", upper))
    assert_all_close([output_of(converted)], [expected_logits(cut_off)], 1e-5)


@pytest.mark.parametrize("activation", ["gelu_new", "relu", "silu"])
def test_activations(activation, tmp_path):
    converted = load_checkpoint(write_checkpoint(tmp_path, hidden_act=activation, layer_norm_eps=0.01))
    assert_all_close([output_of(converted)], [expected_logits(hidden_act=activation, layer_norm_eps=0.01)], 1e-5)


DISTILBERT_NAMES = {
    "bert.encoder.layer": "distilbert.transformer.layer",
    "bert.embeddings": "distilbert.embeddings",
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
    "bert.pooler.dense": "pre_classifier",
    "cls.predictions.transform.dense": "vocab_transform",
    "cls.predictions.transform.LayerNorm": "vocab_layer_norm",
    "cls.predictions.bias": "vocab_projector.bias",
}
DISTILBERT = {
    "model_type": "distilbert",
    "dim": 6,
    "hidden_dim": 7,
    "n_layers": 2,
    "n_heads": 3,
    "activation": "gelu",
    "pad_token_id": 0,
    "sinusoidal_pos_embds": False,
}


def distilbert_tensors(tensors, parts):
    """The tensors under DistilBERT's names, without segments, and without what no name in `parts` is part of."""
    renamed = {}
    for name, values in tensors.items():
        for old, new in DISTILBERT_NAMES.items():
            name = name.replace(old, new)
        if name.startswith(parts) and "token_type" not in name:
            renamed[name] = values
    return renamed


@pytest.mark.parametrize("kind", ["Model", "ForMaskedLM", "ForSequenceClassification"])
def test_distilbert(kind, tmp_path):
    tensors = {**tiny_tensors(), **classifier_tensors()}
    tensors["bert.embeddings.token_type_embeddings.weight"] = np.zeros((2, 6), "float32")
    reference = Reference(tensors, tiny_config())
    expected, parts = {
        "Model": (reference.encoder(TEXT, SEGMENTS), ("distilbert.",)),
        "ForMaskedLM": (reference.masked_lm(TEXT, SEGMENTS), ("distilbert.", "vocab_")),
        "ForSequenceClassification": (
            reference.classifier(TEXT, SEGMENTS, activation=lambda x: np.maximum(x, 0)),
            ("distilbert.", "pre_classifier", "classifier"),
        ),
    }[kind]
    config = {**DISTILBERT, "architectures": [f"DistilBert{kind}"], "id2label": LABELS}
    converted = load_checkpoint(write_checkpoint(tmp_path, distilbert_tensors(tensors, parts), **config))
    assert_all_close([output_of(converted, segments=False)], [expected], 1e-5)


@pytest.mark.parametrize("tokenizer", [{"do_lower_case": False}, {}])
def test_lower_casing_follows_the_tokenizer_files(tokenizer, tmp_path):
    write_checkpoint(tmp_path, tokenizer=tokenizer)
    assert load_checkpoint(tmp_path).lowercase is (tokenizer == {})  # then the pieces do
    (tmp_path / "vocab.txt").write_text((TINY_BERT / "vocab.txt").read_text().replace("abc", "Abc"))
    assert load_checkpoint(tmp_path).lowercase is False
