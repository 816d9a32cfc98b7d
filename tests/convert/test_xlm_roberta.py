"""Multilingual checkpoints: ids as those of `tokenizers`, outputs as those of the equations."""

import json

import numpy as np
import pytest
import tokenizers
from convert.bert_reference import Reference
from convert.tiny_checkpoints import safetensors_bytes
from convert.tiny_xlm_roberta import (
    SIZES,
    STRANGE,
    TEXTS,
    UNUSED_ROWS,
    parsed,
    sentencepiece_model,
    tensors_like,
    tokenizer_json,
    vocabulary_size,
    write_xlm_roberta,
)
from layer_checks import assert_all_close

from keras_attention.cli.main import main
from keras_attention.convert import load_checkpoint
from keras_attention.pipelines.mask_filler import MaskFiller
from keras_attention.support.errors import UserError

MULTILINGUAL_BERT = {"model_type": "bert", "architectures": ["BertModel"], "type_vocab_size": 2}
MULTILINGUAL_BERT |= {"max_position_embeddings": 16, "pad_token_id": 0}
XLM_ROBERTA = {"model_type": "xlm-roberta", "type_vocab_size": 1, "max_position_embeddings": 18, "pad_token_id": 1}
FILES = [("sentencepiece.bpe.model",), ("tokenizer.json",), ("sentencepiece.bpe.model", "tokenizer.json")]


def as_bert(folder, **options):
    """A checkpoint such as multilingual-e5-small: a BERT with the tokenizer of XLM-RoBERTa."""
    return write_xlm_roberta(folder, tensors_like("", 2, 16), **options, **MULTILINGUAL_BERT)


def as_xlm_roberta(folder, head, architecture, **config):
    tensors = tensors_like("roberta." if head else "", 1, 18, head)
    return write_xlm_roberta(folder, tensors, architectures=[architecture], **XLM_ROBERTA, **config), tensors


def reference(tensors, offset):
    """The reference over tensors with the names of a BERT, whose positions begin with row `offset`."""
    prefix = "roberta." if "roberta.embeddings.LayerNorm.weight" in tensors else ""
    names = {
        "lm_head.layer_norm": "cls.predictions.transform.LayerNorm",
        "lm_head.dense": "cls.predictions.transform.dense",
    }
    names |= {"lm_head.bias": "cls.predictions.bias", "classifier.dense": "bert.pooler.dense"}
    names |= {"classifier.out_proj": "classifier"}
    renamed = {}
    for name, values in tensors.items():
        old = next((old for old in names if name.startswith(old)), None)
        inner = name.removeprefix(prefix)
        renamed[name.replace(old, names[old]) if old else f"bert.{inner}"] = values
    table = "bert.embeddings.position_embeddings.weight"
    renamed[table] = renamed[table][offset:]
    return Reference(renamed, {**SIZES, "hidden_act": "gelu", "layer_norm_eps": 1e-5})


def published_ids(text):
    """The ids of `tokenizers`, an independent implementation, with <s> and </s>."""
    return tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json())).encode(text).ids


def our_ids(converted, text):
    tokenizer = converted.tokenizer
    return np.array([tokenizer.start_id, *tokenizer.encode([text])[0], tokenizer.end_id], "int32")


@pytest.mark.parametrize("files", FILES)
def test_the_ids_are_those_of_another_library(files, tmp_path):
    converted = load_checkpoint(as_bert(tmp_path, files=files))
    rows = [1, 3, 0, 2]  # the published ids of ours: padding, unknown, start, end
    for text in [*TEXTS, *(text for text in STRANGE if "<" not in text)]:
        ids = [rows[i] if i < 4 else i for i in our_ids(converted, text).tolist()]
        assert ids == published_ids(text), text


def test_special_pieces_in_a_text_are_text(tmp_path):
    tokenizer = load_checkpoint(as_bert(tmp_path)).tokenizer
    (ids,) = tokenizer.encode(["<s> </s> <pad> <mask>"])
    assert not {0, 2, 3, tokenizer.mask_id} & set(ids.tolist())
    (ids,) = tokenizer.encode(["A [MASK] runs."], masks=True)
    assert ids.tolist().count(tokenizer.mask_id) == 1
    assert tokenizer.decode([ids]) == ["A [MASK] runs."]


@pytest.mark.parametrize("files", FILES)
def test_vectors_of_a_bert_with_these_pieces(files, tmp_path):
    converted = load_checkpoint(as_bert(tmp_path, files=files))
    expected = reference(tensors_like("", 2, 16), 0)
    for text in TEXTS[:2]:
        ids = published_ids(text)[:16]
        found = converted.model({"token_ids": our_ids(converted, text)[None, :16]})
        assert_all_close([np.asarray(found)[0]], [expected.encoder(ids, [0] * len(ids))], 1e-5)
    assert converted.model.get_config()["vocabulary_size"] == len(converted.vocabulary)
    assert converted.vectors.max_tokens == 16


def test_vectors_of_an_xlm_roberta(tmp_path):
    folder, tensors = as_xlm_roberta(tmp_path, "", "XLMRobertaModel")
    converted = load_checkpoint(folder)
    ids = published_ids(TEXTS[0])[:16]
    found = converted.model({"token_ids": our_ids(converted, TEXTS[0])[None, :16]})
    assert_all_close([np.asarray(found)[0]], [reference(tensors, 2).encoder(ids, [0] * len(ids))], 1e-5)


def test_predictions_of_an_xlm_roberta(tmp_path):
    folder, tensors = as_xlm_roberta(tmp_path, "masked_lm", "XLMRobertaForMaskedLM")
    converted = load_checkpoint(folder)
    ids = published_ids(TEXTS[1])[:16]
    inputs = {"token_ids": our_ids(converted, TEXTS[1])[None, :16]}
    inputs["masked_positions"] = np.arange(len(ids), dtype="int32")[None]
    expected = reference(tensors, 2).masked_lm(ids, [0] * len(ids))
    rows = [1, 3, 0, 2, *range(4, len(converted.vocabulary))]
    assert_all_close([np.asarray(converted.model(inputs))[0]], [expected[:, rows]], 1e-4)


def test_the_mark_of_a_words_start_fills_no_gap(tmp_path):
    """The most probable piece is "▁", which alone is no word; a word of several pieces may begin with it."""
    folder, tensors = as_xlm_roberta(tmp_path, "masked_lm", "XLMRobertaForMaskedLM")
    tokenizer = load_checkpoint(folder).tokenizer
    mark, letter = tokenizer.vocabulary.index("▁"), tokenizer.vocabulary.index("o")
    tensors["lm_head.bias"][[mark, letter]] = 50.0, 40.0  # behind the special ones, ids are those of the checkpoint
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    filler = MaskFiller(load_checkpoint(folder).model, tokenizer, 16)
    assert all(filling.words[0].strip() for filling in filler.fill_mask("A [MASK] runs."))
    assert filler.fill_mask("A [MASK] runs.", max_pieces=2)[0].text == "A o runs."


def test_labels_of_an_xlm_roberta(tmp_path):
    labels = {"0": "negativ", "1": "neutral", "2": "positiv"}
    folder, tensors = as_xlm_roberta(tmp_path, "classifier", "XLMRobertaForSequenceClassification", id2label=labels)
    converted = load_checkpoint(folder)
    ids = published_ids(TEXTS[2])[:16]
    found = converted.model({"token_ids": our_ids(converted, TEXTS[2])[None, :16]})
    assert_all_close([np.asarray(found)[0]], [reference(tensors, 2).classifier(ids, [0] * len(ids))], 1e-4)
    assert converted.label_names == ("negativ", "neutral", "positiv")
    assert "one </s>" in converted.notes[0]


def changed_model(change):
    model = parsed(sentencepiece_model())
    change(model)
    return model.SerializeToString()


def of_type(model):
    model.trainer_spec.model_type = 2


def with_bytes(model):
    model.pieces[9].type = 6


def without_blank(model):
    model.normalizer_spec.add_dummy_prefix = False


def with_blanks_behind(model):
    model.trainer_spec.treat_whitespace_as_suffix = True


def with_mask(model):
    model.pieces[9].piece = "<mask>"


def with_many_pieces(model):
    model.MergeFromString(b"\x0a\x00" * 100_000)  # empty ones


def with_damaged_rules(model):
    model.normalizer_spec.precompiled_charsmap = b"\xff" * 99


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "first pieces are <unk>"),
        (b"\xff\xff\xff", "is not a SentencePiece model"),
        (changed_model(of_type), "unigram models"),
        (changed_model(with_bytes), "without bytes"),
        (changed_model(without_blank), "begin a text with a blank"),
        (changed_model(with_blanks_behind), "begin a text with a blank"),
        (changed_model(with_mask), "the special piece <mask> among the ordinary ones"),
        (changed_model(with_many_pieces), "has 100058 pieces. The configuration has vocab_size"),
        (changed_model(with_damaged_rules), "published: This is not a valid SentencePiece model"),
    ],
    ids=["empty", "damaged", "word", "bytes", "no blank", "suffix", "mask", "many", "rules"],
)
def test_another_sentencepiece_model_is_refused(content, message, tmp_path):
    folder = as_bert(tmp_path / "published")
    (folder / "sentencepiece.bpe.model").write_bytes(content)
    with pytest.raises(UserError, match=message):
        load_checkpoint(folder)


def test_no_more_than_the_largest_file_is_read(tmp_path):
    folder = as_bert(tmp_path)
    with open(folder / "sentencepiece.bpe.model", "ab") as file:
        file.truncate(1 << 40)  # a terabyte of holes
    with pytest.raises(UserError, match=r"has more than 33,554,432 bytes"):
        load_checkpoint(folder)


def vocabulary(change):
    pairs = [list(pair) for pair in tokenizer_json()["model"]["vocab"]]
    change(pairs)
    return {"model": {"type": "Unigram", "unk_id": 3, "vocab": pairs}}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": {"type": "Unigram", "unk_id": 0, "vocab": []}}, "unk_id is 0"),
        ({"model": {"type": "Unigram", "unk_id": 3, "vocab": []}}, "the first ones <s>, <pad>, </s>, <unk>"),
        ({"model": {"type": "Unigram", "unk_id": 3, "vocab": {"a": 1}}}, "pairs of a piece"),
        (vocabulary(lambda pairs: pairs.append(["z", float("nan")])), "not valid JSON|finite"),
        (vocabulary(lambda pairs: pairs.insert(9, pairs[9])), "is already defined"),
        (vocabulary(lambda pairs: pairs.insert(9, pairs.pop())), "the special piece <mask> among the ordinary ones"),
        (vocabulary(lambda pairs: pairs.__setitem__(9, ["<pad>", -1.0])), "the special piece <pad>"),
        (vocabulary(lambda pairs: pairs.__setitem__(9, ["z", -1e39])), "finite log probabilities"),
        ({"model": {"type": "Unigram", "unk_id": 3, "vocab": [], "byte_fallback": True}}, "byte_fallback is True"),
        ({"normalizer": {"type": "Lowercase"}}, "normalizer"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}}, "in base64"),
        ({"normalizer": {"type": "Precompiled"}}, "in base64"),
        ({"pre_tokenizer": {"type": "ByteLevel"}}, "WhitespaceSplit"),
        ({"pre_tokenizer": {"type": "Metaspace", "replacement": "_"}}, "replacement"),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": 3}}, "a sequence of steps"),
        ({"pre_tokenizer": None}, "pre_tokenizer is None. Supported: Metaspace"),
        ({"pre_tokenizer": {"type": "WhitespaceSplit"}}, "Supported: Metaspace"),
        ({"post_processor": 3}, "post_processor is 3"),
        ({"post_processor": {"type": "ByteLevel"}}, "one of TemplateProcessing, RobertaProcessing"),
        ({"post_processor": {"type": "TemplateProcessing", "single": []}}, "a text between <s> and </s>"),
        ({"added_tokens": [{"content": "<user>"}]}, "adds the token"),
    ],
)
def test_another_tokenizer_json_is_refused(fields, message, tmp_path):
    with pytest.raises(UserError, match=message):
        load_checkpoint(as_bert(tmp_path, files=("tokenizer.json",), fields=fields))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tokenizer_class": "CamembertTokenizer"}, "tokenizer_class"),
        ({"mask_token": "[MASK]"}, "mask_token"),
        ({"added_tokens_decoder": {"9": {"content": "<user>"}}}, "adds the token"),
        ({"added_tokens_decoder": [1]}, "adds the token"),
        ({"additional_special_tokens": ["<user>"]}, "additional_special_tokens"),
        ({"padding_side": "left"}, "padding_side"),
    ],
)
def test_other_settings_of_the_tokenizer_are_refused(settings, message, tmp_path):
    folder = as_bert(tmp_path)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match=message):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (vocabulary(lambda pairs: pairs.__setitem__(9, ["zzz", -1.0])), "other pieces than"),
        ({"normalizer": None}, "normalises texts otherwise than"),
    ],
)
def test_files_that_contradict_each_other_are_refused(fields, message, tmp_path):
    with pytest.raises(UserError, match=message):
        load_checkpoint(as_bert(tmp_path, files=FILES[2], fields=fields))


@pytest.mark.parametrize("blank", [" ", "▁"])
def test_a_file_of_a_later_version(blank, tmp_path):
    """`transformers` 4.38 strips and joins blanks before it splits, and wrote " " at first, then "▁"."""
    fields = tokenizer_json()
    steps = [{"type": "Strip", "strip_left": False, "strip_right": True}]
    steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": blank})
    fields["normalizer"] = {"type": "Sequence", "normalizers": [fields["normalizer"], *steps]}
    fields["pre_tokenizer"] = fields["pre_tokenizer"]["pretokenizers"][1]
    tokenizer = load_checkpoint(as_bert(tmp_path, files=("tokenizer.json",), fields=fields)).tokenizer
    other = tokenizers.Tokenizer.from_str(json.dumps(fields))
    for text in ["A dog  runs.", *TEXTS]:
        assert tokenizer.tokens(tokenizer.encode([text])[0]) == other.encode(text, add_special_tokens=False).tokens


@pytest.mark.parametrize(
    ("head", "name"), [("", "BertEncoder"), ("masked_lm", "BertMaskedLM"), ("classifier", "BertClassifier")]
)
def test_without_its_architecture_the_tensors_tell_the_kind(head, name, tmp_path):
    config = {"id2label": {"0": "a", "1": "b", "2": "c"}, **XLM_ROBERTA}
    folder = write_xlm_roberta(tmp_path, tensors_like("roberta." if head else "", 1, 18, head), **config)
    assert type(load_checkpoint(folder).model).__name__ == name


@pytest.mark.parametrize("name", ["PreTrainedTokenizerFast", "TokenizersBackend"])
def test_a_generic_tokenizer_needs_tokenizer_json(name, tmp_path):
    for files in FILES:
        folder = as_bert(tmp_path / str(len(files)) / files[0], files=files)
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
        if "tokenizer.json" in files:
            assert load_checkpoint(folder).tokenizer.vocabulary_size == vocabulary_size() - UNUSED_ROWS
        else:
            with pytest.raises(UserError, match=f"tokenizer_class is '{name}'"):
                load_checkpoint(folder)


def test_more_pieces_than_rows_are_refused(tmp_path):
    fields = vocabulary(lambda pairs: pairs.extend([f"z{number}", -1.0] for number in range(9)))
    with pytest.raises(UserError, match="vocab_size"):
        load_checkpoint(as_bert(tmp_path, files=("tokenizer.json",), fields=fields))


def test_without_any_file_of_the_tokenizer(tmp_path):
    folder, _ = as_xlm_roberta(tmp_path, "", "XLMRobertaModel")
    (folder / "sentencepiece.bpe.model").unlink()
    with pytest.raises(UserError, match=r"neither sentencepiece\.bpe\.model nor tokenizer\.json"):
        load_checkpoint(folder)


def test_two_rows_of_positions_are_too_few(tmp_path):
    folder = write_xlm_roberta(tmp_path, tensors_like("", 1, 2), **XLM_ROBERTA | {"max_position_embeddings": 2})
    with pytest.raises(UserError, match="max_position_embeddings"):
        load_checkpoint(folder)


@pytest.mark.slow
def test_the_entry_encodes_exports_and_starts_a_training(tmp_path, capsys):
    import tensorflow as tf

    import keras_attention as ka

    entry = tmp_path / "entry"
    assert main(["convert", str(as_bert(tmp_path / "published")), "--out", str(entry), "--language", "multi"]) == 0
    encoder = ka.load(entry)
    vectors = encoder.encode(TEXTS).pooled
    assert main(["export", str(entry), str(tmp_path / "graph")]) == 0
    exported = tf.saved_model.load(str(tmp_path / "graph"))
    found = exported.signatures["serving_default"](texts=tf.constant(TEXTS))
    assert np.allclose(found["vectors"], vectors, atol=1e-5)
    table = tmp_path / "table.csv"
    rows = [f"{text} {number},{'ab'[number % 2]}" for number in range(40) for text in TEXTS[:1]]
    table.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    options = [
        "--text",
        "text",
        "--label",
        "label",
        "--from",
        str(entry),
        "--epochs",
        "1",
        "--out",
        str(tmp_path / "c"),
    ]
    assert main(["finetune", str(table), *options]) == 0
    assert ka.load(tmp_path / "c").classify(TEXTS[0]) in ("a", "b")
