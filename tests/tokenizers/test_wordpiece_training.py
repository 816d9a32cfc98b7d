"""Learnt vocabularies: repeatable, never too large, and with every frequent character."""

from collections import Counter

import pytest

from keras_attention.support.errors import UserError
from keras_attention.tokenizers.wordpiece_tokenizer import SPECIALS, count_words, learn_pieces

TEXTS = ["walk walks walked walking talk talks talked talking", "the walkers, the talkers"] * 31 + ["犬 once"]


def test_the_same_words_in_any_order_give_the_same_pieces():
    assert learn_pieces(TEXTS, 61, True) == learn_pieces(iter(TEXTS[::-1]), 61, True)


@pytest.mark.parametrize("size", [7, 11, 23, 61, 997])
def test_never_more_pieces_than_asked_for_and_none_twice(size):
    pieces = learn_pieces(TEXTS, size, True)
    assert len(pieces) == len(set(pieces)) <= size
    assert pieces[:5] == list(SPECIALS)


def test_frequent_words_and_every_character_are_pieces():
    pieces = learn_pieces(TEXTS, 97, True)
    assert {"walk", "talk", "the", "犬", "##犬", "##w", ","} <= set(pieces)


def test_small_vocabularies_leave_rare_characters_out():
    pieces = learn_pieces(TEXTS, 41, True)
    assert {"a", "##a", "l", "##l"} <= set(pieces)
    assert not {"犬", "##犬"} & set(pieces)


def test_words_are_counted_as_the_tokenizer_parts_them(monkeypatch):
    monkeypatch.setattr("keras_attention.tokenizers.wordpiece_tokenizer.CHUNK_TEXTS", 2)
    counts = count_words(["The the,", "", "THÉ", "a\u00a0the", "the"], lowercase=True)
    assert counts == Counter({"the": 5, ",": 1, "a": 1})


def test_of_much_text_an_even_share_is_looked_at(monkeypatch):
    texts = [word for _ in range(50) for word in ("seen", "skipped")]
    assert "skipped" in learn_pieces(texts, 300, lowercase=True)
    monkeypatch.setattr("keras_attention.tokenizers.wordpiece_tokenizer.ENOUGH_CHARACTERS", 300)
    pieces = learn_pieces(texts, 300, lowercase=True)
    assert "seen" in pieces
    assert "skipped" not in pieces


@pytest.mark.parametrize("texts", [[], ["", " \u200b"]])
def test_no_text_is_an_error(texts):
    with pytest.raises(UserError, match="no text"):
        learn_pieces(texts, 61, True)


def test_a_vocabulary_without_room_is_an_error():
    with pytest.raises(ValueError, match="vocabulary_size=6"):
        learn_pieces(TEXTS, 6, True)
