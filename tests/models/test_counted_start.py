"""Vectors of pieces that are counted from texts before the first update."""

import math

import keras
import numpy as np
import pytest

from keras_attention.data.prose.documents import PackedSequences
from keras_attention.models import BertMaskedLM
from keras_attention.models import bert_initialization as start

V, SPECIAL = 40, (0, 1, 2, 3, 4)


def make_rows(texts=60, seed=0):
    random = np.random.default_rng(seed)
    drawn = [random.integers(5, V - 2, random.integers(1, 20)) for _ in range(texts)]  # the last two never occur
    return PackedSequences.pack(drawn, 24, pad_id=0, start_id=2, end_id=3)


def make_model(dim=16):
    keras.utils.set_random_seed(3)
    model = BertMaskedLM(V, dim, 8, 2, 1, max_length=24, normalize_first=True)
    model.build()
    return model


def counts_by_hand(rows):
    pairs = np.zeros((V, V))
    for ids, blocks in zip(rows.token_ids, rows.block_ids, strict=True):
        for i in range(24):
            for j in range(24):
                if i != j and abs(i - j) <= 5 and blocks[i] == blocks[j] != 0 and not {ids[i], ids[j]} & {*SPECIAL}:
                    pairs[ids[i], ids[j]] += 1 / abs(i - j)
    return pairs


def test_pairs_are_counted_within_texts():
    rows = make_rows()
    assert rows.block_ids.max() > 1
    np.testing.assert_allclose(start.count_pairs(rows, V, SPECIAL), counts_by_hand(rows), rtol=1e-5)


def test_information_is_the_equation():
    pairs = counts_by_hand(make_rows())
    each = [sum(row) for row in pairs]
    smooth = [n**0.75 for n in each]

    def one_way(i, j):
        if not pairs[i, j]:
            return 0.0
        return max(0.0, math.log(pairs[i, j] * sum(smooth) / (each[i] * smooth[j])))

    expected = [[(one_way(i, j) + one_way(j, i)) / 2 for j in range(V)] for i in range(V)]
    np.testing.assert_allclose(start.information(pairs.astype("float32")), expected, atol=1e-4)


def test_vectors_are_those_of_the_largest_eigenvalues():
    matrix = start.information(counts_by_hand(make_rows()))
    actual = start.principal_vectors(matrix, 7, np.random.default_rng(0))
    values, vectors = np.linalg.eigh(matrix)
    largest = np.argsort(-np.abs(values))[:7]
    expected = vectors[:, largest] * np.sqrt(np.abs(values[largest]))
    np.testing.assert_allclose(actual @ actual.T, expected @ expected.T, atol=1e-4)


@pytest.mark.parametrize("dim", [16, 64])  # 64: more than there are pieces
def test_counts_change_embeddings_and_output_bias_alone(dim):
    rows, plain, started = make_rows(), make_model(dim), make_model(dim)
    start.start_with_counts(started, rows, SPECIAL)
    changed = {one.path for one, other in zip(plain.weights, started.weights, strict=True) if np.any(one != other)}
    assert sorted(path.rsplit("/", 1)[-1] for path in changed) == ["embeddings", "output_bias"]
    assert any("token_embedding" in path for path in changed)
    before, after = (np.array(model.encoder.token_embedding.embeddings) for model in (plain, started))
    unseen = [*SPECIAL, V - 2, V - 1]
    np.testing.assert_array_equal(after[unseen], before[unseen])
    seen = np.setdiff1d(np.arange(V), unseen)
    np.testing.assert_allclose(np.sqrt(np.mean(after[seen] ** 2, axis=1)), start.TOKEN_RMS, rtol=1e-3)
    assert np.exp(np.array(started.output_bias)).sum() == pytest.approx(1)


def test_pieces_of_like_company_have_like_vectors():
    random = np.random.default_rng(1)
    texts = [[random.integers(5, 20), a, random.integers(5, 20)] for a in (30, 31) for _ in range(300)]
    texts += [[random.integers(20, 30), 32, random.integers(20, 30)] for _ in range(300)]
    model = make_model()
    start.start_with_counts(model, PackedSequences.pack([np.array(text) for text in texts], 24, 0, 2, 3), SPECIAL)
    alike, other, apart = np.array(model.encoder.token_embedding.embeddings)[[30, 31, 32]]
    cosine = lambda x, y: x @ y / np.sqrt(x @ x * (y @ y))  # noqa: E731
    assert cosine(alike, other) > 0.7 > 0.3 > cosine(alike, apart)


def test_the_seed_decides():
    kernels = []
    for seed in (0, 0, 1):
        model = make_model()
        start.start_with_counts(model, make_rows(), SPECIAL, seed)
        kernels.append(np.array(model.encoder.token_embedding.embeddings))
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert np.any(kernels[0] != kernels[2])


def test_a_large_vocabulary_is_refused(monkeypatch):
    monkeypatch.setattr(start, "MOST_PIECES", 39)
    with pytest.raises(ValueError, match="at most 39 pieces. Received: 40"):
        start.start_with_counts(make_model(), make_rows(), SPECIAL)
