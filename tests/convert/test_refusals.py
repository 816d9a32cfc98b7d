"""What is not supported or damaged is refused with the file, the field or the tensor named."""

import json
import struct

import numpy as np
import pytest
from convert.tiny_checkpoints import TINY_BERT, changed_header, safetensors_bytes, tiny_tensors, write_checkpoint

from keras_attention.convert import load_checkpoint
from keras_attention.support.errors import UserError


def refused(folder, message):
    with pytest.raises(UserError, match=message):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "roberta"}, "model_type is 'roberta'. Supported: one of bert, distilbert, xlm-roberta, gpt2"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'. Supported: 'abs"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'. Supported: one of gelu, gelu_new, "),
        ({"is_decoder": True}, "is_decoder is True. Supported: False"),
        ({"add_cross_attention": True}, "add_cross_attention is True"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads is {'0': "),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False"),
        ({"pad_token_id": 1}, "pad_token_id is 1. Supported: 0"),
        ({"pad_token_id": False}, "pad_token_id is False. Supported: 0"),
        ({"quantization_config": {"bits": 4}}, "quantization_config is {'bits': 4}"),
        ({"hidden_size": None}, "hidden_size is nothing. Supported: an integer from 1 to 8192"),
        ({"hidden_size": 10**9}, "hidden_size is 1000000000. Supported: an integer from 1 to 8192"),
        ({"hidden_size": 8192, "num_attention_heads": 3}, "num_attention_heads is 3. Supported: a divisor of "),
        ({"num_hidden_layers": 2.0}, "num_hidden_layers is 2.0. Supported: an integer"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True. Supported: an integer"),
        ({"vocab_size": -1}, "vocab_size is -1"),
        ({"layer_norm_eps": 0}, "layer_norm_eps is 0. Supported: a number"),
        ({"hidden_dropout_prob": float("nan")}, "NaN is not a JSON number"),
        ({"architectures": ["BertForTokenClassification"]}, r"architectures is \['BertForToken.* Supported: a list"),
        ({"architectures": []}, r"architectures is \[\]"),
        ({"architectures": ["BertForSequenceClassification"], "id2label": {"1": "x"}}, "id2label is {'1': 'x'}"),
        ({"architectures": ["BertForSequenceClassification"], "id2label": {"0": 3}}, "id2label is {'0': 3}"),
        (
            {"architectures": ["BertForSequenceClassification"], "problem_type": "multi_label_classification"},
            "problem_type is 'multi_label_classification'",
        ),
        ({"architectures": ["BertForSequenceClassification"]}, "lacks the tensor classifier.bias"),
        ({"architectures": ["BertModel"]}, r"has the tensor 'cls.predictions.bias' \(17,\), which"),
        ({"num_hidden_layers": 3}, "lacks the tensor bert.encoder.layer.2.attention"),
        ({"num_hidden_layers": 1}, "has the tensor 'bert.encoder.layer.1.attention"),
        ({"intermediate_size": 8}, r"intermediate.dense.* has the shape \(7.*configuration requires \(8"),
        ({"vocab_size": 16}, "vocab.txt has 17 pieces. The configuration has vocab_size 16"),
    ],
)  # fmt: skip
def test_configurations(config, message, tmp_path):
    refused(write_checkpoint(tmp_path, **config), message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("bert.embeddings.LayerNorm.weight"), "lacks the tensor bert.embeddings.LayerNorm.weight"),
        (lambda t: t.update({"bert.extra": np.zeros(3, "float32")}), "has the tensor 'bert.extra"),
        (lambda t: t.update({"cls.predictions.bias": np.zeros(17, "int64")}), "cls.predictions.bias has dtype I64"),
        (
            lambda t: t.update({"cls.predictions.decoder.weight": np.zeros((17, 6), "float32")}),
            "decoder.weight differs from bert.embeddings.word_embeddings.weight. Supported: .* tie",
        ),
        (
            lambda t: t.update({"embeddings.LayerNorm.gamma": np.zeros(6, "float32")}),
            "has bert.embeddings.LayerNorm.weight and embeddings.LayerNorm.gamma, which are the same",
        ),
        (
            lambda t: t.update({"cls.predictions.bias": np.full(17, np.nan, "float32")}),
            "output_bias holds NaN or infinity",
        ),
        (
            lambda t: t.update({"bert.encoder.layer.0.crossattention.self.key.bias": np.zeros(6, "float32")}),
            "has the tensor 'bert.encoder.layer.0.crossattention",
        ),
    ],
)
def test_tensors(change, message, tmp_path):
    tensors = tiny_tensors()
    change(tensors)
    refused(write_checkpoint(tmp_path, tensors), message)


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        ({"do_lower_case": "no"}, "tokenizer_config.json: do_lower_case is 'no'"),
        ({"do_lower_case": True, "strip_accents": False}, "strip_accents is False. Supported: None or True"),
        ({"tokenize_chinese_chars": False}, "tokenize_chinese_chars is False"),
        ({"tokenizer_class": "XLMRobertaTokenizer"}, "tokenizer_class is 'XLMRobertaTokenizer'"),
    ],
)
def test_tokenizers(tokenizer, message, tmp_path):
    refused(write_checkpoint(tmp_path, tokenizer=tokenizer), message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("[MASK]", "[mask]"), r"vocab.txt lacks the special token \[MASK\]"),
        (lambda text: text.replace("\nbc\n", "\nab\n"), "has the piece 'ab' twice"),
        (lambda text: "a" + text[5:].replace("\na\n", "\n[PAD]\n"), r"begins with 'a'. Expected \[PAD\]"),
        (lambda text: text + "\n", "has 18 pieces"),
    ],
)
def test_vocabularies(change, message, tmp_path):
    write_checkpoint(tmp_path)
    (tmp_path / "vocab.txt").write_text(change((TINY_BERT / "vocab.txt").read_text()))
    refused(tmp_path, message)


def test_a_piece_may_be_a_strange_line_separator(tmp_path):
    write_checkpoint(tmp_path)
    text = (TINY_BERT / "vocab.txt").read_text().replace("\nbc\n", "\n\u2028\n")
    (tmp_path / "vocab.txt").write_text(text, encoding="utf-8")
    assert load_checkpoint(tmp_path).vocabulary[12] == "\u2028"


def write_tokenizer_json(folder, model=None, normalizer=None):
    """The tiny checkpoint with its pieces in tokenizer.json, as transformers 5 has it."""
    write_checkpoint(folder, tokenizer={})
    (folder / "vocab.txt").rename(folder / "pieces.txt")
    pieces = (folder / "pieces.txt").read_text().split()
    model = {"type": "WordPiece", "vocab": {piece: i for i, piece in enumerate(pieces)}} | (model or {})
    normalizer = {"type": "BertNormalizer", "lowercase": False, "strip_accents": None} | (normalizer or {})
    content = {"model": model, "normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"}}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


def test_pieces_in_tokenizer_json(tmp_path):
    converted = load_checkpoint(write_tokenizer_json(tmp_path))
    assert converted.vocabulary == (TINY_BERT / "vocab.txt").read_text().split()
    assert converted.lowercase is False  # not what the pieces look like
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    refused(tmp_path, "tokenizer_config.json: do_lower_case is True. Supported: False")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"type": "BPE"}}, "tokenizer.json: type is 'BPE'. Supported: one of WordPiece"),
        ({"model": {"continuing_subword_prefix": "@@"}}, "continuing_subword_prefix is '@@'"),
        ({"model": {"vocab": {"[PAD]": 0, "[UNK]": 2}}}, "vocab is .*. Supported: pieces with the ids from 0 to 16"),
        ({"model": {"vocab": ["[PAD]"]}}, "vocab is .*. Supported: pieces with the ids"),
        ({"normalizer": {"type": "Lowercase"}}, "type is 'Lowercase'. Supported: one of BertNormalizer"),
        ({"normalizer": {"lowercase": "yes"}}, "lowercase is 'yes'. Supported: true or false"),
        ({"normalizer": {"strip_accents": True}}, "strip_accents is True. Supported: None or False"),
        ({"normalizer": {"handle_chinese_chars": False}}, "handle_chinese_chars is False"),
    ],
)
def test_other_tokenizers_in_tokenizer_json(changes, message, tmp_path):
    refused(write_tokenizer_json(tmp_path, **changes), message)


def test_missing_files_and_other_formats(tmp_path):
    refused(tmp_path / "none", "none is not a folder")
    refused(tmp_path, "has neither config.json .* nor bert_config.json")
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    refused(tmp_path, "lacks model.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    refused(tmp_path, "only pytorch_model.bin, a format that can run code. Save the model as model.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    refused(tmp_path, "in several files")
    (tmp_path / "vocab.txt").unlink()
    refused(tmp_path, "neither vocab.txt nor tokenizer.json")
    (tmp_path / "config.json").write_text("[1]")
    refused(tmp_path, "config.json must hold a JSON object")
    (tmp_path / "config.json").write_text("[" * 100_000)
    refused(tmp_path, "config.json is not valid JSON")


BIAS = "cls.predictions.bias"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged: 0 bytes cannot begin with a header"),
        (b"\x10\0\0", "is damaged: 3 bytes"),
        (struct.pack("<Q", 2**62) + b"{}", "cannot begin with a header of 4611686018427387904"),
        (struct.pack("<Q", 2) + b"[]", "its header is not a JSON object"),
        (struct.pack("<Q", 2) + b"{x", "its header is not JSON"),
        (safetensors_bytes(tiny_tensors())[:-1], "its tensors have .* bytes, the file"),
        (safetensors_bytes(tiny_tensors()) + b"0", "its tensors have .* bytes, the file"),
        (changed_header(lambda h: h[BIAS].update(shape=[2**60, 2**60])), f"{BIAS} has 68 bytes for the shape"),
        (
            changed_header(lambda h: h[BIAS].update(shape=[-17])),
            f"has no valid dtype, shape and byte range for '{BIAS}'",
        ),
        (changed_header(lambda h: h[BIAS].update(dtype="F8_E5M2")), f"{BIAS} has dtype F8_E5M2"),
        (changed_header(lambda h: h[BIAS].update(data_offsets=[0, 68])), "a tensor begins at byte"),
        (changed_header(lambda h: h.update({BIAS: 3})), "no valid dtype, shape and byte range"),
    ],
)
def test_damaged_files(content, message, tmp_path):
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(content)
    refused(tmp_path, message)
