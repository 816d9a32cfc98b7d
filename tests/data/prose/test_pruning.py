"""A pruned vocabulary cuts texts whose pieces are all kept as before, and loses no word."""

import numpy as np
import pytest

from keras_attention.data.prose.distillation import align_pieces, piece_counts, prune
from keras_attention.tokenizers import UnigramTokenizer, WordPieceTokenizer

SPECIALS = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHARACTERS = [*"adghknosu!鬼", *(f"##{letter}" for letter in "adghknosu!鬼")]
WORDS = ["dog", "dogs", "dogshank", "gnu", "hank", "##s", "##shank", "##gs"]
NEEDED = 5 + 11 + 9  # special pieces, characters, and those that can stand inside a word
FULL = WordPieceTokenizer(list(dict.fromkeys([*SPECIALS, *CHARACTERS, *WORDS])))


def pruned_to(*pieces):
    """The tokenizer that keeps these pieces beside the needed ones."""
    counts = [len(pieces) - pieces.index(piece) if piece in pieces else 0 for piece in FULL.vocabulary]
    return prune(FULL, counts, NEEDED + len(pieces))


def test_keeps_every_character_where_it_can_stand():
    pruned, kept = pruned_to()
    assert [FULL.vocabulary[i] for i in kept] == pruned.vocabulary
    assert set("adghknosu!鬼") <= set(pruned.vocabulary)
    assert {"##a", "##s"} <= set(pruned.vocabulary)
    assert not {"##!", "##鬼", "[unused0]", *WORDS} & (set(pruned.vocabulary) - {"##s"})  # punctuation stands alone
    assert pruned.lowercase == FULL.lowercase
    texts = ["dogshank!", "dog鬼gnu hanks"]
    assert [pruned.unknown_id not in ids for ids in pruned.encode(texts)] == [True, True]
    assert [text.replace(" ", "") for text in pruned.decode(pruned.encode(texts))] == ["dogshank!", "dog鬼gnuhanks"]


def test_remaining_pieces_cut_words_as_before():
    pruned, kept = pruned_to("dog", "gnu")
    (before,), (after,) = (tokenizer.encode(["dog gnu dog! gnu"]) for tokenizer in (FULL, pruned))
    np.testing.assert_array_equal(kept[after], before)
    assert pruned.tokens(pruned.encode(["dogshank"])[0]) == ["dog", "##s", "##h", "##a", "##n", "##k"]


def test_counts_and_the_most_frequent_pieces():
    counts = piece_counts(FULL, FULL.encode(["gnu gnu dogs", "gnu hank"]))
    assert {p: int(counts[i]) for i, p in enumerate(FULL.vocabulary) if counts[i]} == {"gnu": 3, "dogs": 1, "hank": 1}
    size = NEEDED + 1
    assert set(prune(FULL, counts, size)[0].vocabulary) - set(pruned_to()[0].vocabulary) == {"gnu"}


def test_too_small():
    with pytest.raises(ValueError, match="`vocabulary_size` must be at least 25, .* Received: vocabulary_size=7"):
        prune(FULL, np.zeros(FULL.vocabulary_size), 7)


def test_aligned_are_the_words_that_both_cut_alike():
    pruned, kept = pruned_to("dog", "gnu", "hank")
    texts = ["gnu dogshank! dog", "", "hankgs gnu", "dogs"]
    encoded, few = FULL.encode(texts), pruned.encode(texts)
    aligned = align_pieces(FULL, pruned, kept, encoded, few)
    assert [FULL.tokens(ids) for ids in encoded[:3:2]] == [["gnu", "dogshank", "!", "dog"], ["hank", "##gs", "gnu"]]
    assert pruned.tokens(few[0]) == ["gnu", "dog", "##s", "##h", "##a", "##n", "##k", "!", "dog"]
    assert [places.tolist() for places in aligned] == [[0, -1, -1, -1, -1, -1, -1, 2, 3], [], [-1, -1, -1, 2], [-1, -1]]
    assert align_pieces(FULL, FULL, np.arange(len(FULL.vocabulary)), encoded, encoded)[0].tolist() == [0, 1, 2, 3]


def unigram_tokenizer():
    words = {"▁dogs": -1.0, "▁snow": -1.0, "▁gnu": -1.0, "sh": -2.0, "ank": -2.0}
    characters = dict.fromkeys("▁dogsnwuhak!鬼", -9.0)
    return UnigramTokenizer.from_pieces([*words, *characters], [*words.values(), *characters.values()], b"")


def test_unigram_pieces_keep_the_characters_of_all_counted_pieces():
    """Also those that never stand alone, such as "w" and the "▁" before a word whose piece is lost."""
    tokenizer, texts = unigram_tokenizer(), ["dogs snow dogs", "snow gnu dogs"]
    encoded = tokenizer.encode(texts)
    pruned, kept = prune(tokenizer, piece_counts(tokenizer, encoded), 5 + 8 + 1)
    assert [tokenizer.vocabulary[i] for i in kept] == pruned.vocabulary
    assert set(pruned.vocabulary) - {"<pad>", "<unk>", "<s>", "</s>", "<mask>"} == {*"▁dogsnwu", "▁dogs"}
    assert pruned.decode(pruned.encode(texts)) == texts
    places = align_pieces(tokenizer, pruned, kept, encoded, pruned.encode(texts))
    assert [place.tolist() for place in places] == [[0, *[-1] * 5, 2], [*[-1] * 5, *[-1] * 4, 2]]


def test_unknown_characters_do_not_shift_the_words():
    tokenizer, texts = unigram_tokenizer(), ["dogs 鬼 dogs", "鬼snow", "語 dogs語 snow"]
    counts = piece_counts(tokenizer, tokenizer.encode(["dogs snow"]))
    pruned, kept = prune(tokenizer, counts, 5 + 8 + 2)
    encoded, few = tokenizer.encode(texts), pruned.encode(texts)
    places = align_pieces(tokenizer, pruned, kept, encoded, few)
    assert [[pruned.tokens([i])[0] for i in ids] for ids in few][0] == ["▁dogs", "▁", "<unk>", "▁dogs"]
    assert places[0].tolist() == [0, -1, -1, 3]
    assert places[2].tolist() == [0, 1, 2, 3, 4]
