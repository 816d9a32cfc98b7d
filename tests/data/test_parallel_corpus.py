"""Sentence pairs as arrays: END at the end, cuts and empty sides counted."""

import numpy as np
import pytest

from keras_attention.data import ParallelCorpus
from keras_attention.errors import UserError
from keras_attention.tokenizers import CharacterTokenizer
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
