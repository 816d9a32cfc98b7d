"""One id for each character, equal in Python and in a graph."""

import json

import numpy as np
import pytest
import tensorflow as tf
from varied_texts import varied_texts

from keras_attention.support.errors import UserError
from keras_attention.tokenizers import CharacterTokenizer
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID, UNKNOWN_ID

TEXTS = ["3rd of March 2021", "5 Μαρτίου 2021", "2021年3月5日", "пятница", "é"]


@pytest.mark.parametrize("lowercase", [False, True])
def test_ids_in_python_and_in_a_graph_are_equal(lowercase):
    tokenizer = CharacterTokenizer.train(varied_texts(101, seed=5), lowercase=lowercase)
    texts = varied_texts(1_009, seed=3)
    in_graph = tf.function(tokenizer.tokenize_in_graph)(tf.constant(texts))
    assert in_graph.dtype == tf.int32
    for text, ids, expected in zip(texts, in_graph.to_list(), tokenizer.encode(texts), strict=True):
        assert ids == expected.tolist(), repr(text)


def test_decoding_gives_the_text_back():
    tokenizer = CharacterTokenizer.train(TEXTS)
    encoded = tokenizer.encode(TEXTS)
    assert all(ids.dtype == np.int32 for ids in encoded)
    assert [len(ids) for ids in encoded] == [len(text) for text in TEXTS]
    assert tokenizer.decode(encoded) == TEXTS


def test_ids_begin_behind_the_special_ones_and_are_all_used():
    tokenizer = CharacterTokenizer.train(TEXTS)
    used = {int(i) for ids in tokenizer.encode(TEXTS) for i in ids}
    assert used == set(range(4, tokenizer.vocabulary_size))


def test_a_letter_with_its_accent_apart_is_the_same_character():
    tokenizer = CharacterTokenizer.train(["e\u0301"])
    assert tokenizer.vocabulary_size == 5
    assert [ids.tolist() for ids in tokenizer.encode(["é", "e\u0301", "e"])] == [[4], [4], [UNKNOWN_ID]]


def test_unknown_characters_and_special_ids():
    tokenizer = CharacterTokenizer.train(["ab"])
    (ids,) = tokenizer.encode(["a?b\x00"])
    assert ids.tolist() == [4, UNKNOWN_ID, 5, UNKNOWN_ID]
    assert tokenizer.decode([[START_ID, *ids, END_ID, PAD_ID]]) == ["a⁇b⁇"]
    assert tokenizer.tokens([START_ID, *ids, END_ID]) == ["<s>", "a", "<unk>", "b", "<unk>", "</s>"]


def test_lowercase_reads_both_cases_as_one():
    tokenizer = CharacterTokenizer.train(["MARCH", "ΜΑΡΤΊΟΥ"], lowercase=True)
    upper, lower = tokenizer.encode(["MARCH ΜΑΡΤΊΟΥ", "march μαρτίου"])
    np.testing.assert_array_equal(upper, lower)
    assert tokenizer.decode([upper]) == ["march⁇μαρτίου"]
    assert UNKNOWN_ID in CharacterTokenizer.train(["march"]).encode(["MARCH"])[0]


def test_a_limited_vocabulary_keeps_the_most_frequent_characters():
    tokenizer = CharacterTokenizer.train(["aaabbbccd"], vocabulary_size=7)
    assert tokenizer.vocabulary_size == 7
    assert tokenizer.characters == "abc"


@pytest.mark.parametrize("lowercase", [False, True])
def test_saved_and_loaded_is_the_same(tmp_path, lowercase):
    tokenizer = CharacterTokenizer.train(TEXTS, lowercase=lowercase)
    tokenizer.save(tmp_path)
    loaded = CharacterTokenizer.load(tmp_path)
    assert (loaded.characters, loaded.lowercase) == (tokenizer.characters, lowercase)


@pytest.mark.parametrize("token_id", [-1, 6, 1_009])
def test_an_id_out_of_range_is_refused(token_id):
    with pytest.raises(ValueError, match=rf"\[0, 6\).*{token_id}"):
        CharacterTokenizer("ab").decode([[token_id]])


@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_no_text_is_an_error(texts):
    with pytest.raises(UserError, match="no character"):
        CharacterTokenizer.train(texts)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        [],
        {"characters": "ab"},
        {"characters": ["a"], "lowercase": True},
        {"characters": "aa", "lowercase": True},
        {"characters": "", "lowercase": True},
        {"characters": "ab", "lowercase": 1},
    ],
)
def test_damaged_settings_are_an_error(tmp_path, settings):
    (tmp_path / "tokenizer.json").write_text(json.dumps(settings))
    with pytest.raises(UserError):
        CharacterTokenizer.load(tmp_path)
