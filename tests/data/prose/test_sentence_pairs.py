"""Rows of two texts: what is said to follow does, what is not is of another document, and nothing is lost."""

import numpy as np
import pytest

from keras_attention.data.prose.documents import pair_sentences, sentences
from keras_attention.support.errors import UserError

PAD, START, END = 0, 5, 3  # as in a published vocabulary
SPECIAL_IDS = {"pad_id": PAD, "start_id": START, "end_id": END}
RANDOM = np.random.default_rng(3)
LENGTHS = [RANDOM.integers(0, 17, size=RANDOM.integers(1, 23)) for _ in range(61)]


def make_documents():
    """Documents of sentences whose token ids are all different, and rise; and the document of each id."""
    ends = 7 + np.cumsum(np.concatenate(LENGTHS))
    flat = iter(np.split(np.arange(7, ends[-1], dtype=np.int32), ends[:-1] - 7))
    owner = np.repeat(np.arange(len(LENGTHS)), [lengths.sum() for lengths in LENGTHS])
    return [[next(flat) for _ in lengths] for lengths in LENGTHS], np.r_[np.full(7, -1), owner]


DOCUMENTS, OWNER = make_documents()


def pairs_of(rows):
    """The two texts of each row, and whether one follows the other."""
    for tokens, follows in zip(rows.token_ids, rows.is_next, strict=True):
        middle, end = np.flatnonzero(tokens == END)
        assert tokens[0] == START
        assert (tokens[end + 1 :] == PAD).all()
        yield tokens[1:middle], tokens[middle + 1 : end], follows


@pytest.mark.parametrize("sequence_length", [5, 19, 67, 131])
def test_pairs_are_of_adjacent_texts_or_of_two_documents(sequence_length):
    starts = {sentence[0] for document in DOCUMENTS for sentence in document if len(sentence)}
    for first, second, follows in pairs_of(pair_sentences(DOCUMENTS, sequence_length, **SPECIAL_IDS)):
        assert len(first)
        assert len(second)
        for text in (first, second):
            np.testing.assert_array_equal(np.diff(text), 1)
        assert second[0] in starts
        assert (second[0] == first[-1] + 1 and OWNER[second[0]] == OWNER[first[-1]]) == follows
        assert (OWNER[second[0]] == OWNER[first[-1]]) == follows


def test_every_sentence_is_read_once_where_nothing_is_cut():
    rows = pair_sentences(DOCUMENTS, 997, **SPECIAL_IDS)
    read = [text for first, second, follows in pairs_of(rows) for text in (first, second)[: 1 + follows]]
    np.testing.assert_array_equal(np.concatenate(read), np.arange(7, len(OWNER)))


def test_half_of_what_could_follow_does():
    twice = [[np.array([7, 8]), np.array([9])] for _ in range(4_001)]
    rows = pair_sentences(twice, 17, **SPECIAL_IDS)
    # A document is one row, or two where its first sentence met another's: then its second is alone, and follows none.
    follow = rows.is_next.sum()
    assert len(rows) == follow + 2 * (4_001 - follow)
    assert abs(follow - 4_001 / 2) < 4 * np.sqrt(4_001 / 4)


def test_pairs_have_block_position_and_segment_ids():
    rows = pair_sentences(DOCUMENTS, 31, **SPECIAL_IDS)
    real = rows.token_ids != PAD
    np.testing.assert_array_equal(rows.block_ids, real)
    np.testing.assert_array_equal(rows.position_ids, np.where(real, np.arange(31), 0))
    ends_before = np.cumsum(rows.token_ids == END, axis=1) - (rows.token_ids == END)
    np.testing.assert_array_equal(rows.segment_ids, np.where(real, ends_before, 0))
    assert {array.dtype for array in vars(rows).values()} == {np.dtype("int32")}


def test_the_seed_decides():
    one, same, other = (pair_sentences(DOCUMENTS, 31, **SPECIAL_IDS, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.token_ids, same.token_ids)
    assert one.token_ids.shape != other.token_ids.shape or (one.token_ids != other.token_ids).any()


def test_texts_without_pairs_are_an_error():
    with pytest.raises(UserError, match="None of the 2 documents has two sentences"):
        pair_sentences([[np.array([7])], [np.array([8])]], 17, **SPECIAL_IDS)
    with pytest.raises(UserError, match="Documents with a token: 1. Expected: at least two"):
        pair_sentences([[np.array([7])], [np.zeros(0, "int32")]], 17, **SPECIAL_IDS)
    with pytest.raises(ValueError, match="`sequence_length` must be greater than 4. Received: sequence_length=4"):
        pair_sentences(DOCUMENTS, 4, **SPECIAL_IDS)


def test_sentences():
    text = 'He said: "Is it 3.5 m?" (No.) "It is!" She left.  Then'
    assert sentences(text) == ['He said: "Is it 3.5 m?"', "(No.)", '"It is!"', "She left.", "Then"]
    assert sentences("no stop") == ["no stop"]
    assert sentences("") == []
