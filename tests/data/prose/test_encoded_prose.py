"""Encoded prose in a folder: the same rows come back, and another file is refused."""

import numpy as np
import pytest

from keras_attention.data.prose.documents import PackedSequences, pair_sentences
from keras_attention.data.prose.masked_lm import load_encoded_prose, save_encoded_prose
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import WordPieceTokenizer

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"]


def rows(seed, size):
    random = np.random.default_rng(seed)
    return PackedSequences.pack([random.integers(5, size, random.integers(1, 23)) for _ in range(29)], 17, 0, 2, 3)


@pytest.mark.parametrize("more", [0, 70_000], ids=["small", "large"])
def test_saved_values_are_read_back(tmp_path, more):
    tokenizer = WordPieceTokenizer([*VOCABULARY, *(f"x{i}" for i in range(more))])
    saved = [rows(seed, tokenizer.vocabulary_size) for seed in (3, 5, 7)]
    save_encoded_prose(tmp_path / "new", tokenizer, *saved)
    loaded, *values = load_encoded_prose(tmp_path / "new")
    assert loaded.vocabulary == tokenizer.vocabulary
    for before, after in zip(saved, values, strict=True):
        for name in ("token_ids", "block_ids", "position_ids"):
            assert getattr(after, name).dtype == np.int32
            np.testing.assert_array_equal(getattr(after, name), getattr(before, name))


def test_pairs_come_back(tmp_path):
    documents = [[np.array([5, 6]), np.array([6])] for _ in range(7)]
    tokenizer, saved = WordPieceTokenizer(VOCABULARY), pair_sentences(documents, 11, 0, 2, 3)
    save_encoded_prose(tmp_path, tokenizer, saved, saved)
    _, *actual = load_encoded_prose(tmp_path)
    for after in actual:
        for name, values in vars(saved).items():
            assert getattr(after, name).dtype == np.int32
            np.testing.assert_array_equal(getattr(after, name), values)


def test_another_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="no encoded prose"):
        load_encoded_prose(tmp_path)
    np.savez(tmp_path / "rows.npz", numbers=np.arange(3))
    with pytest.raises(UserError, match="no encoded prose"):
        load_encoded_prose(tmp_path)


def test_another_encoding_is_replaced_and_nothing_else(tmp_path):
    tokenizer = WordPieceTokenizer(VOCABULARY)
    save_encoded_prose(tmp_path / "rows", tokenizer, rows(3, 7), rows(5, 7))
    save_encoded_prose(tmp_path / "rows", tokenizer, rows(7, 7), rows(5, 7))
    _, values, _ = load_encoded_prose(tmp_path / "rows")
    np.testing.assert_array_equal(values.token_ids, rows(7, 7).token_ids)
    (tmp_path / "rows" / "thesis").write_text("precious")
    with pytest.raises(UserError, match=r"rows holds 'thesis', so it is not replaced"):
        save_encoded_prose(tmp_path / "rows", tokenizer, rows(3, 7), rows(5, 7))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows"]
    assert len(list((tmp_path / "rows").iterdir())) == 4
