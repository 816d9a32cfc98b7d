"""Reading and writing text in a graph is the same as in Python."""

import sys

import numpy as np
import pytest
import tensorflow as tf
from varied_texts import varied_texts
from zoo.tiny_entry import ENGLISH, ISO_DATES

from keras_attention.export.graph_texts import in_graph, strip
from keras_attention.tokenizers import CharacterTokenizer, SentencePieceTokenizer
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID


def decoded(tensor):
    return [text.decode() for text in tensor.numpy()]


def test_strip_removes_every_blank_that_python_knows():
    blanks = [chr(point) for point in range(sys.maxunicode + 1) if chr(point).isspace()]
    texts = [f"{blank}a{blank}b{blank}{blank}" for blank in [*blanks, "\u200b", "\x00", "\\", "]", "^", "-"]]
    texts += [*varied_texts(211, seed=11), "".join(blanks)]
    assert decoded(strip(tf.constant(texts))) == [text.strip() for text in texts]


@pytest.mark.parametrize(
    "tokenizer",
    [SentencePieceTokenizer.train(ENGLISH, vocabulary_size=47), CharacterTokenizer.train([*ISO_DATES, " a\u3000b "])],
    ids=["sentencepiece", "characters"],
)
def test_ids_pieces_and_texts(tokenizer):
    graph = in_graph(tokenizer)
    texts = [*ENGLISH, *ISO_DATES, " a\u3000b ", *varied_texts(101, seed=13)]
    ids = tokenizer.encode(texts)
    assert graph.tokenize(tf.constant(texts)).to_list() == [row.tolist() for row in ids]
    random = np.random.default_rng(17)
    answers = [random.integers(END_ID + 1, tokenizer.vocabulary_size, size) for size in (0, 1, 2, 13, 19)]
    padded = np.full((5, 23), PAD_ID, "int32")
    for row, answer in zip(padded, answers, strict=True):
        row[: len(answer) + 1] = [*answer, END_ID]
    assert decoded(graph.detokenize(tf.constant(padded))) == tokenizer.decode(answers)
    for pieces, answer in zip(graph.tokens(tf.constant(padded)), answers, strict=True):
        expected = tokenizer.tokens([*answer, END_ID])
        assert decoded(pieces) == expected + [""] * (23 - len(expected))
