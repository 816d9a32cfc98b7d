"""Rows of several texts: every token is there once, in its text, at its position."""

import numpy as np
import pytest

from keras_attention.data import PackedSequences
from keras_attention.data.translation.parallel_corpus import TokenSequences
from keras_attention.support.errors import UserError

PAD, START, END = 0, 5, 3  # as in a published vocabulary
SPECIAL_IDS = {"pad_id": PAD, "start_id": START, "end_id": END}


def make_texts(lengths):
    """Texts whose token ids are all different."""
    offsets = np.r_[0, np.cumsum(lengths)]
    return TokenSequences(np.arange(7, 7 + offsets[-1], dtype=np.int32), offsets)


def blocks_of(rows):
    """The (token ids, position ids) of each block, row by row."""
    for tokens, blocks, positions in zip(rows.token_ids, rows.block_ids, rows.position_ids, strict=True):
        for number in range(1, blocks.max() + 1):
            yield tokens[blocks == number], positions[blocks == number]


LENGTHS = np.random.default_rng(3).integers(0, 61, size=211)


@pytest.mark.parametrize("sequence_length", [3, 7, 31, 67])
def test_every_text_can_be_read_from_the_rows(sequence_length):
    texts = make_texts(LENGTHS)
    rows = PackedSequences.pack(texts, sequence_length, **SPECIAL_IDS)
    chunks = []
    for tokens, positions in blocks_of(rows):
        np.testing.assert_array_equal(positions, np.arange(len(tokens)))
        assert (tokens[0], tokens[-1]) == (START, END)
        chunks.append(tokens[1:-1])
    chunks.sort(key=lambda chunk: chunk[0])
    np.testing.assert_array_equal(np.concatenate(chunks), texts.values)
    size = sequence_length - 2
    expected = [text[i : i + size].tolist() for text in texts for i in range(0, len(text), size)]
    assert [chunk.tolist() for chunk in chunks] == expected


def test_places_without_text_are_padding():
    rows = PackedSequences.pack(make_texts(LENGTHS), 31, **SPECIAL_IDS)
    padding = rows.block_ids == 0
    assert padding.any()
    for array, filler in ((rows.token_ids, PAD), (rows.position_ids, 0)):
        assert array.dtype == np.int32
        assert array.shape == rows.block_ids.shape == (len(rows), 31)
        assert (array[padding] == filler).all()
    assert not (rows.token_ids[~padding] == PAD).any()
    assert rows.filled_share == pytest.approx(1 - padding.mean())


def test_texts_come_one_after_the_other():
    rows = PackedSequences.pack(make_texts([2, 0, 4, 1]), 11, **SPECIAL_IDS)
    assert rows.token_ids.tolist() == [[5, 7, 8, 3, 5, 9, 10, 11, 12, 3, 0], [5, 13, 3] + [0] * 8]
    assert rows.block_ids.tolist() == [[1] * 4 + [2] * 6 + [0], [1] * 3 + [0] * 8]
    assert rows.position_ids.tolist() == [[0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 0], [0, 1, 2] + [0] * 8]


def test_little_is_padding():
    lengths = np.random.default_rng(5).geometric(0.01, size=4_001)
    assert PackedSequences.pack(make_texts(lengths), 127, **SPECIAL_IDS).filled_share > 0.95


def test_lists_of_arrays_are_texts_too():
    texts = make_texts([2, 3])
    expected = PackedSequences.pack(texts, 7, **SPECIAL_IDS)
    rows = PackedSequences.pack([texts[0], texts[1]], 7, **SPECIAL_IDS)
    np.testing.assert_array_equal(rows.token_ids, expected.token_ids)


@pytest.mark.parametrize("texts", [[], [np.zeros(0, np.int32)] * 3])
def test_no_token_is_an_error(texts):
    with pytest.raises(UserError, match=f"None of the {len(texts)} texts"):
        PackedSequences.pack(texts, 7, **SPECIAL_IDS)


def test_rows_without_room_for_a_piece_are_refused():
    with pytest.raises(ValueError, match="sequence_length=2"):
        PackedSequences.pack(make_texts([1]), 2, **SPECIAL_IDS)
