"""modules.json and 1_Pooling say how the vectors of tokens become the vector of a text."""

import json

import numpy as np
import pytest
from convert.bert_reference import Reference
from convert.tiny_checkpoints import tiny_config, tiny_tensors, write_checkpoint

from keras_attention.cli.convert import about_converted
from keras_attention.convert import load_checkpoint
from keras_attention.pipelines.base import make_pipeline
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import WordPieceTokenizer

KINDS = ("Transformer", "Pooling", "Normalize")
PATHS = ("", "1_Pooling", "2_Normalize")
MEAN = {"word_embedding_dimension": 6, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}


def modules(count=3, **changed):
    actual = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(zip(KINDS, PATHS, strict=True))
    ]
    for name, path in changed.items():
        actual[KINDS.index(name)]["path"] = path
    return actual[:count]


def write(folder, modules=None, pooling=None, sentences=None):
    """The encoder of the tiny checkpoint, as sentence-transformers saves it."""
    tensors = {name: values for name, values in tiny_tensors().items() if not name.startswith("cls.")}
    write_checkpoint(folder, tensors, architectures=["BertModel"])
    (folder / "1_Pooling").mkdir()
    contents = {"modules.json": modules, "1_Pooling/config.json": pooling, "sentence_bert_config.json": sentences}
    for name, content in contents.items():
        if content is not None:
            (folder / name).write_text(json.dumps(content))
    return folder


def refused(folder, message):
    with pytest.raises(UserError, match=message):
        load_checkpoint(folder)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("flags", "pooling"),
    [
        (MEAN, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"embedding_dimension": 6, "pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": "mean", "include_prompt": True}, "mean"),
    ],
)
@pytest.mark.parametrize("count", [2, 3])
def test_vectors_follow_the_list_of_modules(flags, pooling, count, tmp_path):
    converted = load_checkpoint(write(tmp_path, modules(count), flags, {"max_seq_length": 7, "do_lower_case": False}))
    assert converted.vectors == (pooling, count == 3, 7)
    tokenizer = WordPieceTokenizer(converted.vocabulary, converted.lowercase)
    encoder = make_pipeline(converted.model, {"text": tokenizer}, about_converted(converted, "en"))
    embeddings = encoder.encode("a bc", pooling=None)
    ids = [tokenizer.vocabulary.index(token) for token in embeddings.tokens[0]]
    vectors = Reference(tiny_tensors(), tiny_config()).encoder(ids, [0] * len(ids))
    expected = vectors[0] if pooling == "cls" else vectors.mean(axis=0)  # [CLS] and [SEP] count
    expected = expected / np.linalg.norm(expected) if count == 3 else expected
    np.testing.assert_allclose(embeddings.pooled[0], expected, atol=1e-5)
    assert encoder.max_tokens == 7


@pytest.mark.parametrize(
    ("modules", "sentences", "tokenizer", "count"),
    [
        (modules(2), None, {"model_max_length": 5}, 5),
        (modules(2), {"max_seq_length": None}, {"model_max_length": 5}, 5),
        (modules(2), {"max_seq_length": 4}, {"model_max_length": 5}, 4),
        (modules(2), {"max_seq_length": 5}, {"model_max_length": 4}, 5),
        (modules(2), None, {"max_len": 5}, 5),
        (None, None, {"model_max_length": 5}, 5),
        (None, None, {"model_max_length": int(1e30)}, 11),  # the positions of the model
        (None, None, {"model_max_length": 1e30}, 11),
        (None, None, {"model_max_length": 13}, 11),
    ],
)
def test_longer_texts_are_cut_where_the_files_say(modules, sentences, tokenizer, count, tmp_path):
    folder = write(tmp_path, modules, MEAN, sentences)
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, **tokenizer}))
    converted = load_checkpoint(folder)
    pieces = WordPieceTokenizer(converted.vocabulary, converted.lowercase)
    encoder = make_pipeline(converted.model, {"text": pieces}, about_converted(converted, "en"))
    embeddings = encoder.encode("a b c a b c a b c a b c a")
    vocabulary = converted.vocabulary
    ids = [vocabulary.index(piece) for piece in ["[CLS]", *("abc" * 5)[: count - 2], "[SEP]"]]
    vectors = Reference(tiny_tensors(), tiny_config()).encoder(ids, [0] * len(ids))
    np.testing.assert_allclose(embeddings.pooled[0], vectors.mean(axis=0), atol=1e-5)


@pytest.mark.parametrize("value", [2, -1, "long", [7], True, 2.5])
def test_a_limit_that_is_none_is_refused(value, tmp_path):
    folder = write(tmp_path)
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": value}))
    refused(folder, "model_max_length is .*. Supported: an integer from 3")


def test_without_modules_it_is_the_mean(tmp_path):
    assert load_checkpoint(write(tmp_path)).vectors == ("mean", False, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pooling": {"pooling_mode_max_tokens": True}}, "the pooling is 'pooling_mode_max_tokens'. Supported: one of"),
        ({"pooling": {**MEAN, "pooling_mode_cls_token": True}}, "'pooling_mode_cls_token, pooling_mode_mean_tokens'"),
        ({"pooling": {"pooling_mode_mean_tokens": 1}}, "the pooling is 'pooling_mode_mean_tokens'"),
        ({"pooling": {}}, "the pooling is 'none'"),
        ({"pooling": {"pooling_mode": "lasttoken"}}, "pooling_mode is 'lasttoken'. Supported: one of mean, cls"),
        ({"pooling": {**MEAN, "word_embedding_dimension": 7}}, "word_embedding_dimension is 7. Supported: 6"),
        ({"pooling": [1]}, "must hold a JSON object"),
        ({"pooling": None}, "1_Pooling/config.json cannot be read: No such file"),
        ({"modules": modules(1)}, "texts go through 'Transformer'. Supported: Transformer, Pooling and Normalize"),
        ({"modules": modules()[::-1]}, "texts go through 'Normalize, Pooling, Transformer'"),
        ({"modules": [*modules(2), {"type": "sentence_transformers.models.Dense"}]}, "'Transformer, Pooling, Dense'"),
        ({"modules": modules(Pooling="../../etc")}, "Pooling is in the folder '../../etc'. Supported: '1_Pooling'"),
        ({"modules": modules(Transformer="0_Transformer")}, "Transformer is in the folder '0_Transformer'"),
        ({"modules": modules(Pooling=3)}, "Pooling is in the folder 3"),
        ({"modules": [{"type": "os.system"}]}, "has the module {'type': 'os.system'}. Supported: those of sentence_tr"),
        ({"modules": ["x"]}, "has the module 'x'"),
        ({"modules": []}, "must hold a list of 1 to 16 modules"),
        ({"modules": {}}, "must hold a list of 1 to 16 modules"),
        ({"modules": modules() * 9}, "must hold a list of 1 to 16 modules"),
        ({"modules": [{"type": "x" * 70_000}]}, "is not valid JSON of at most 65536 bytes"),
        ({"sentences": {"max_seq_length": 2}}, "max_seq_length is 2. Supported: an integer from 3"),
        ({"sentences": {"do_lower_case": "yes"}}, "do_lower_case is 'yes'. Supported: False or True"),
    ],
)  # fmt: skip
def test_unsupported_pooling_is_refused(changes, message, tmp_path):
    refused(write(tmp_path, **{"modules": modules(), "pooling": MEAN, **changes}), message)
