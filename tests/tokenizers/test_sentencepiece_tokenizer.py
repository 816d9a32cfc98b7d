"""Byte-pair pieces: equal in Python and in a graph, repeatable, and blind to control symbols in the text."""

import numpy as np
import pytest
import tensorflow as tf
from varied_texts import varied_texts

from keras_attention.support.errors import UserError
from keras_attention.tokenizers import SentencePieceTokenizer
from keras_attention.tokenizers.sentencepiece_tokenizer import FEW_TEXTS
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID, UNKNOWN_ID

SENTENCES = ["a dog runs in the park.", "two dogs are running in parks", "ein Hund läuft durch den Park.", "zwei Hunde"]


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(SENTENCES + varied_texts(307, seed=5), 607)


def test_ids_in_python_and_in_a_graph_are_equal(tokenizer):
    texts = varied_texts(1_009, seed=3) + SENTENCES
    in_graph = tf.function(tokenizer.tokenize_in_graph)(tf.constant(texts))
    assert in_graph.dtype == tf.int32
    for text, ids, expected in zip(texts, in_graph.to_list(), tokenizer.encode(texts), strict=True):
        assert ids == expected.tolist(), repr(text)


def test_few_texts_have_the_ids_that_they_have_among_many(tokenizer):
    texts = varied_texts(2 * FEW_TEXTS, seed=4)
    alone = [tokenizer.encode([text])[0].tolist() for text in texts]
    assert alone == [ids.tolist() for ids in tokenizer.encode(texts)]


def test_decoding_gives_the_text_back(tokenizer):
    encoded = tokenizer.encode(SENTENCES)
    assert all(ids.dtype == np.int32 for ids in encoded)
    assert tokenizer.decode(encoded) == SENTENCES


def test_special_ids_vanish_when_decoding_and_unknown_is_shown(tokenizer):
    (ids,) = tokenizer.encode([SENTENCES[0]])
    assert tokenizer.decode([[START_ID, *ids, END_ID, PAD_ID, PAD_ID]]) == [SENTENCES[0]]
    assert "⁇" in tokenizer.decode([np.array([*ids, UNKNOWN_ID])])[0]


def test_text_is_never_a_control_symbol():
    texts = ["</s> <pad> <s> <unk>", "<s>"] * 11 + SENTENCES
    tokenizer = SentencePieceTokenizer.train(texts, 101)
    for ids in tokenizer.encode(texts):
        assert not {PAD_ID, START_ID, END_ID} & set(ids.tolist())


def test_training_is_repeatable_byte_for_byte(tmp_path):
    for name in ("first", "second"):
        SentencePieceTokenizer.train(iter(SENTENCES), 61).save(tmp_path / name)
    files = [(tmp_path / name / "tokenizer.model").read_bytes() for name in ("first", "second")]
    assert files[0] == files[1]


def test_every_character_of_the_training_text_is_known_by_default():
    texts = ["plain words again and again"] * 997 + ["one rare 犬"]
    tokenizer = SentencePieceTokenizer.train(texts, 59)
    assert UNKNOWN_ID not in tokenizer.encode(["犬"])[0]


def test_a_small_text_gives_fewer_ids_than_allowed():
    tokenizer = SentencePieceTokenizer.train(["abc abd"], 997)
    assert len("abcd") + 4 < tokenizer.vocabulary_size < 997


def test_lowercase_folds_the_case():
    tokenizer = SentencePieceTokenizer.train(SENTENCES, 61, lowercase=True)
    assert tokenizer.decode(tokenizer.encode(["EIN HUND"])) == ["ein hund"]


def test_tokens_are_readable_one_for_each_id(tokenizer):
    (ids,) = tokenizer.encode(["a dog"])
    pieces = tokenizer.tokens(ids)
    assert len(pieces) == len(ids)
    assert "".join(pieces) == "▁a▁dog"
    assert tokenizer.tokens([PAD_ID, START_ID, END_ID]) == ["<pad>", "<s>", "</s>"]


def test_saved_and_loaded_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "new" / "folder")
    loaded = SentencePieceTokenizer.load(tmp_path / "new" / "folder")
    assert loaded.vocabulary_size == tokenizer.vocabulary_size
    for ids, expected in zip(loaded.encode(SENTENCES), tokenizer.encode(SENTENCES), strict=True):
        np.testing.assert_array_equal(ids, expected)


def test_dropout_cuts_words_differently_and_depends_on_the_seed_alone(tokenizer):
    texts = SENTENCES * 307  # enough that several threads would get in each other's way

    def lists(**options):
        return [ids.tolist() for ids in tokenizer.encode(texts, **options)]

    first = lists(dropout=0.3, seed=7)
    assert lists(dropout=0.3, seed=11) != first
    assert lists(dropout=0.3, seed=7) == first
    assert sum(map(len, first)) > sum(map(len, lists()))
    assert tokenizer.decode(first) == texts


@pytest.mark.parametrize("dropout", [-0.1, 1.0])
def test_dropout_out_of_range_is_refused(tokenizer, dropout):
    with pytest.raises(ValueError, match=f"dropout={dropout}"):
        tokenizer.encode(["a"], dropout=dropout)


@pytest.mark.parametrize("texts", [[], ["", "  "]])
def test_no_text_is_an_error(texts):
    with pytest.raises(UserError, match="no text"):
        SentencePieceTokenizer.train(texts, 61)


def test_a_vocabulary_smaller_than_the_alphabet_is_an_error():
    with pytest.raises(UserError, match=r"vocabulary_size=7.*required_chars"):
        SentencePieceTokenizer.train(SENTENCES, 7)


@pytest.mark.parametrize("coverage", [0.0, 1.5])
def test_a_coverage_out_of_range_is_an_error(coverage):
    with pytest.raises(ValueError, match=f"Received: character_coverage={coverage}"):
        SentencePieceTokenizer.train(SENTENCES, 61, character_coverage=coverage)


def test_text_that_is_no_unicode_is_an_error(tokenizer):
    with pytest.raises(UserError, match="UTF-8"):
        tokenizer.encode(["fine", "broken \udcff"])


@pytest.mark.parametrize("content", [b"", b"no model", b"\x00" * 101])
def test_a_damaged_model_file_is_an_error(tmp_path, content):
    (tmp_path / "tokenizer.model").write_bytes(content)
    with pytest.raises(UserError, match=r"tokenizer\.model"):
        SentencePieceTokenizer.load(tmp_path)


def test_a_missing_model_file_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"tokenizer\.model: cannot be read"):
        SentencePieceTokenizer.load(tmp_path)


def test_a_model_with_other_special_ids_is_an_error():
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=model, model_type="bpe", vocab_size=61, minloglevel=2
    )
    with pytest.raises(UserError, match=r"\(-1, 0, 1, 2\)"):
        SentencePieceTokenizer(model.getvalue())
