"""Encoded pairs in a file: the same arrays come back, and another file is refused."""

import numpy as np
import pytest

from keras_attention.data.translation.parallel_corpus import ParallelCorpus, TokenSequences, load_encoded, save_encoded
from keras_attention.support.errors import UserError


def corpora(largest):
    random = np.random.default_rng(3)
    sides = []
    for _ in range(4):
        lengths = random.integers(2, 11, 7)
        values = random.integers(1, largest, lengths.sum()).astype("int32")
        sides.append(TokenSequences(values, np.r_[0, np.cumsum(lengths)]))
    return [ParallelCorpus(sides[0], sides[1], 5, 3), ParallelCorpus(sides[2], sides[3])]


@pytest.mark.parametrize("sizes", [(13, 17), (13, 100_003)], ids=["small", "large"])
def test_saved_values_are_read_back(tmp_path, sizes):
    path = tmp_path / "new" / "pairs.npz"
    saved = corpora(sizes[1])
    save_encoded(path, saved, sizes)
    loaded, loaded_sizes = load_encoded(path)
    assert loaded_sizes == sizes
    for before, after in zip(saved, loaded, strict=True):
        assert (after.num_cut, after.num_dropped) == (before.num_cut, before.num_dropped)
        for side in ("source", "target"):
            actual, expected = getattr(after, side), getattr(before, side)
            assert actual.values.dtype == np.int32
            np.testing.assert_array_equal(actual.values, expected.values)
            np.testing.assert_array_equal(actual.offsets, expected.offsets)
    assert [file.name for file in path.parent.iterdir()] == ["pairs.npz"]


def test_another_file_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", numbers=np.arange(3))
    (tmp_path / "text.npz").write_text("no arrays", encoding="utf-8")
    for name in ("other.npz", "text.npz", "missing.npz"):
        with pytest.raises(UserError, match=f"{name}: no encoded pairs .* Expected: a file written with --encode-to"):
            load_encoded(tmp_path / name)
