"""Sentence pairs as arrays: END at the end, cuts and empty sides counted."""

import numpy as np
import pytest

from keras_attention.data import ParallelCorpus
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import CharacterTokenizer, SentencePieceTokenizer
from keras_attention.tokenizers.special_tokens import END_ID

TOKENIZER = CharacterTokenizer("abcdefghijk")
A, B, C = (int(ids[0]) for ids in TOKENIZER.encode(["a", "b", "c"]))


def encode(sources, targets, max_tokens=7):
    return ParallelCorpus.encode(sources, targets, TOKENIZER, TOKENIZER, max_tokens)


def test_sequences_end_with_end():
    corpus = encode(["ab", "c"], ["a", "bbb"])
    assert [corpus.source[n].tolist() for n in range(len(corpus))] == [[A, B, END_ID], [C, END_ID]]
    assert [corpus.target[n].tolist() for n in range(len(corpus))] == [[A, END_ID], [B, B, B, END_ID]]
    assert corpus.source.values.dtype == np.int32
    assert corpus.source.lengths.tolist() == [3, 2]


def test_long_sides_are_cut_and_counted():
    corpus = encode(["abcdef", "abcdefg", "a", "a"], ["a", "a", "a", "abcdefghijk"])
    assert corpus.source.lengths.tolist() == [7, 7, 2, 2]
    assert corpus.target.lengths.tolist() == [2, 2, 2, 7]
    assert corpus.num_cut == 2
    assert all(sequences[n][-1] == END_ID for sequences in (corpus.source, corpus.target) for n in range(4))


def test_pairs_with_an_empty_side_are_dropped_and_counted():
    corpus = encode(["", "a", "b", ""], ["a", "", "c", ""])
    assert corpus.num_dropped == 3
    assert corpus.source[0].tolist() == [B, END_ID]
    assert corpus.target[0].tolist() == [C, END_ID]


@pytest.mark.parametrize("texts", [[], [""], ["", ""]])
def test_no_pair_left_is_an_error(texts):
    with pytest.raises(UserError, match=f"None of the {len(texts)} sentence pairs"):
        encode(texts, texts)


def test_different_numbers_of_texts_are_refused():
    with pytest.raises(ValueError, match="3 and 2"):
        encode(["a", "b", "c"], ["a", "b"])


def test_a_largest_length_without_room_for_a_token_is_refused():
    with pytest.raises(ValueError, match="max_tokens=1"):
        encode(["a"], ["a"], max_tokens=1)


WORDS = ["a walk in the wood", "the wood in the walk", "walking there", "the other one is walking here"]


def test_bpe_dropout_cuts_the_same_words_anew_each_epoch():
    tokenizer = SentencePieceTokenizer.train(WORDS, vocabulary_size=47)
    sides = (WORDS, WORDS[::-1], tokenizer, tokenizer)
    corpora = ParallelCorpus.encode_epochs(*sides, 97, 0.3, 5, 3)
    for corpus in corpora:
        assert tokenizer.decode([corpus.source[n] for n in range(4)]) == WORDS
        assert tokenizer.decode([corpus.target[n] for n in range(4)]) == WORDS[::-1]
    lengths = {tuple(side.lengths) for corpus in corpora for side in (corpus.source, corpus.target)}
    assert len(lengths) > 3
    again = ParallelCorpus.encode_epochs(*sides, 97, 0.3, 5, 3)
    other = ParallelCorpus.encode_epochs(*sides, 97, 0.3, 6, 3)
    for corpus, same in zip(corpora, again, strict=True):
        np.testing.assert_array_equal(corpus.source.values, same.source.values)
        np.testing.assert_array_equal(corpus.target.values, same.target.values)
    assert any(
        corpus.source.values.tolist() != new.source.values.tolist() for corpus, new in zip(corpora, other, strict=True)
    )


def test_without_bpe_dropout_one_encoding_serves_all_epochs():
    (corpus,) = ParallelCorpus.encode_epochs(["ab"], ["c"], TOKENIZER, TOKENIZER, 7, 0.0, 5, 3)
    assert corpus.source[0].tolist() == [A, B, END_ID]


def test_bpe_dropout_needs_pieces():
    with pytest.raises(UserError, match="needs SentencePiece vocabularies. Found: character"):
        ParallelCorpus.encode_epochs(["ab"], ["c"], TOKENIZER, TOKENIZER, 7, 0.1, 5, 3)
