"""The graph gives the answers of the translator, for texts of every kind and any number of them."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from varied_texts import varied_texts
from zoo.tiny_entry import DECODING, ENGLISH, tiny_parts

from keras_attention.export import graph_writers as chunks
from keras_attention.export.graph_writers import GraphTranslator
from keras_attention.export.signatures import TEXT
from keras_attention.models import Transformer
from keras_attention.pipelines.translator import Translator
from keras_attention.support.errors import UserError

ODD = [
    "",
    "  ",
    "\u2003\u00a0\n",
    "\u200b",
    "\x01",
    " A dog runs.\u3000",
    "A dog runs. " * 97,
    "Men sit. " * 7 + "\u00e9",
]


@functools.cache
def both(attention="additive", **decoding):
    """A translator of tiny sizes and its graph, which keep what they have compiled."""
    translator = Translator(*tiny_parts(attention=attention), {**DECODING, "max_source_length": 13, **decoding})
    return translator, GraphTranslator(translator)


@pytest.fixture
def one_chunk_size(monkeypatch):
    """Fewer branches are traced faster."""
    monkeypatch.setattr(chunks, "BATCH_SIZES", (7,))


def check_equal(answers, expected):
    """Compares the tensors of a graph with a list of Translation, and with what is told of them."""
    for name, (kind, _) in TEXT["outputs"].items():
        assert (answers[name].dtype.name, len(answers[name].shape)) == (kind.split()[0], kind.count(",") + 1)
    answers = {name: value.numpy() for name, value in answers.items()}
    assert [text.decode() for text in answers["text"]] == [answer.text for answer in expected]
    assert answers["truncated"].tolist() == [answer.truncated for answer in expected]
    for name in ("score", "log_prob"):
        np.testing.assert_allclose(answers[name], [getattr(answer, name) for answer in expected], atol=1e-4)
    for name in ("tokens", "source_tokens"):
        for pieces, answer in zip(answers[name], expected, strict=True):
            padded = getattr(answer, name) + [""] * (len(pieces) - len(getattr(answer, name)))
            assert [piece.decode() for piece in pieces] == padded
    for weights, answer in zip(answers.get("attention", ()), expected, strict=True):
        tokens, source_tokens = len(answer.tokens), len(answer.source_tokens)
        np.testing.assert_allclose(weights[:tokens, :source_tokens], answer.attention, atol=1e-5)
        assert weights.sum() == pytest.approx(weights[:tokens, :source_tokens].sum())


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:.*only their beginning was translated")
def test_texts_of_every_kind():
    translator, graph = both()
    texts = [*ODD, *ENGLISH, *varied_texts(61, seed=5)]
    check_equal(graph.translate(tf.constant(texts)), translator.translate(texts, return_attention=True))


@pytest.mark.slow
def test_any_number_of_sentences():
    translator, graph = both()
    texts = (ENGLISH * 11)[:41]
    expected = translator.translate(texts, return_attention=True)
    for count in (0, 1, 2, 11, 37):
        check_equal(graph.translate(tf.constant(texts[:count], tf.string)), expected[:count])


@pytest.mark.slow
def test_nothing_but_empty_sentences():
    _, graph = both()
    answers = graph.translate(tf.constant(["", " ", "\x00", "\r\u200b\u200d\r ", "\u2800\ufe0f\U000e0041"]))
    assert answers["text"].numpy().tolist() == [b""] * 5
    assert answers["score"].numpy().tolist() == [0.0] * 5
    assert set(answers["tokens"].numpy().ravel()) == {b""}
    assert not answers["attention"].numpy().any()


@pytest.mark.slow
def test_bytes_that_are_no_text_count_as_replacement_characters():
    _, graph = both()
    broken, replaced = graph.translate(tf.constant([b"A d\xffg runs.", "A d\ufffdg runs."]))["source_tokens"].numpy()
    assert broken.tolist() == replaced.tolist()


@pytest.mark.slow
def test_coverage_and_length_penalty(one_chunk_size):
    translator, graph = both(coverage_penalty=0.3, length_penalty=0.7)
    check_equal(graph.translate(tf.constant(ENGLISH)), translator.translate(ENGLISH, return_attention=True))


@pytest.mark.slow
def test_model_without_attention(one_chunk_size):
    translator, graph = both(attention="none")
    answers = graph.translate(tf.constant(ENGLISH))
    assert "attention" not in answers
    assert [text.decode() for text in answers["text"].numpy()] == translator.translate(ENGLISH)


@pytest.mark.slow
def test_transformer(one_chunk_size):
    _, source, target = tiny_parts()
    sizes = {"hidden_dim": 12, "intermediate_dim": 19, "num_heads": 3, "num_encoder_layers": 1, "num_decoder_layers": 2}
    model = Transformer(source.vocabulary_size, target.vocabulary_size, **sizes, tie_embeddings="none")
    model.build()
    model.output_projection.kernel.assign(model.output_projection.kernel * 3.0)  # answers differ from each other
    translator = Translator(model, source, target, {**DECODING, "max_source_length": 13})
    texts = ["", *ENGLISH, "A dog."]
    answers = GraphTranslator(translator).translate(tf.constant(texts))
    check_equal(answers, translator.translate(texts, return_attention=True))


def test_settings_out_of_range():
    translator = Translator(*tiny_parts(), DECODING)
    for settings in ({"beam_size": 0}, {"beam_size": 65}, {"length_penalty": -1.0}, {"length_penalty": float("nan")}):
        (value,) = settings.values()
        with pytest.raises(UserError, match=f"Received: .*={value}"):
            GraphTranslator(translator, **settings)
