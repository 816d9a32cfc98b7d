"""Word vectors as first embeddings: which tokens are words, what the others get, and what is told."""

import keras
import numpy as np
import pytest

from keras_attention.data.word_embeddings import embedding_table, read_vectors_of_width, set_embeddings, words_of
from keras_attention.data.word_vectors import WordVectors
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import CharacterTokenizer, SentencePieceTokenizer, WordPieceTokenizer

TEXTS = ["the dog runs.", "the dogs run", "The runner"] * 5
VECTORS = WordVectors(["the", "s", "ner", "[UNK]", "<unk>"], np.arange(15, dtype="float32").reshape(5, 3) - 7)


def test_words_of_pieces_of_sentencepiece():
    tokenizer = SentencePieceTokenizer.train(TEXTS, 40)
    tokens = tokenizer.tokens(range(tokenizer.vocabulary_size))
    words = dict(zip(tokens, words_of(tokenizer), strict=True))
    assert (words["▁the"], words["▁The"], words["▁"], words["s"], words["<unk>"]) == ("the", "The", None, None, None)
    assert words["."] == "."


def test_words_of_wordpieces():
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "dog", "##s"], lowercase=True)
    assert words_of(tokenizer) == [None] * 5 + ["dog", None]
    with pytest.raises(TypeError, match="CharacterTokenizer"):
        words_of(CharacterTokenizer("dog"))


def test_other_tokens_are_drawn_like_the_words_with_a_vector():
    generator = np.random.default_rng(3)
    vectors = WordVectors(
        [f"w{i}" for i in range(500)], generator.normal([5, -2], [0.1, 3], (500, 2)).astype("float32")
    )
    table, known = embedding_table([None, *vectors.words, *[None] * 700], vectors)
    assert known.tolist() == [False] + [True] * 500 + [False] * 700
    np.testing.assert_array_equal(table[1:501], vectors.vectors)
    np.testing.assert_array_equal(table[0], [0, 0])
    np.testing.assert_allclose(table[501:].mean(axis=0), [5, -2], atol=0.5)
    np.testing.assert_allclose(table[501:].std(axis=0), [0.1, 3], rtol=0.1)


def test_embeddings_are_set_and_counted():
    tokenizer = SentencePieceTokenizer.train(TEXTS, 40)
    embedding = keras.layers.Embedding(tokenizer.vocabulary_size, 3)
    embedding.build()
    token_ids = np.concatenate(tokenizer.encode(["the the The dog", "dog the"]))
    known = set_embeddings(embedding, tokenizer, VECTORS, token_ids)
    tokens = tokenizer.tokens(range(tokenizer.vocabulary_size))
    table = np.asarray(embedding.embeddings)
    for piece in ("▁the", "▁The"):
        np.testing.assert_array_equal(table[tokens.index(piece)], VECTORS.vectors[0])
    assert (known.known, known.total, known.missing) == (2, len(tokens), ["▁dog"])
    assert known.share == pytest.approx(4 / 6)
    assert "\n" not in str(known)
    assert str(known).startswith(f"Word vectors: 2 of {len(tokens)} tokens have one, which are 66.7 % of the tokens")
    with pytest.raises(UserError, match="None of the .* tokens of the vocabulary is among the 1 words"):
        set_embeddings(embedding, tokenizer, WordVectors(["nowhere"], np.ones((1, 3), "float32")), token_ids)


def test_vectors_of_another_width(tmp_path):
    (tmp_path / "vectors.txt").write_text("the 1 2 3\n")
    assert len(read_vectors_of_width(tmp_path / "vectors.txt", 3)) == 1
    with pytest.raises(UserError, match="have 3 numbers, and the embeddings 256. Pass --embedding-dim 3"):
        read_vectors_of_width(tmp_path / "vectors.txt", 256)
