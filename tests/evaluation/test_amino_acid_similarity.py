"""Similarities of amino acids by the answers of a model, against their definition in loops; BLOSUM62 against itself."""

import numpy as np
import pytest
from keras import ops

from keras_attention.evaluation.amino_acid_similarity import (
    BLOSUM62,
    ResidueAnswers,
    ResidueScores,
    blosum62,
    embedding_cosines,
    learned_similarities,
    rank_correlation,
)

# Of the blocks from which BLOSUM62 was computed, in the order ACDEFGHIKLMNPQRSTVWY.
FREQUENCIES = np.array(
    [0.0742, 0.0247, 0.0536, 0.0543, 0.0474, 0.0742, 0.0262, 0.0679, 0.0582, 0.0989]
    + [0.0250, 0.0447, 0.0385, 0.0343, 0.0516, 0.0572, 0.0509, 0.0729, 0.0130, 0.0323]
)


def test_blosum62_has_log_odds_of_pairs_in_half_bits():
    assert (BLOSUM62 == BLOSUM62.T).all()
    by_chance = FREQUENCIES[:, None] * FREQUENCIES
    scores = blosum62("ACDEFGHIKLMNPQRSTVWY")
    assert (by_chance * scores).sum() / 2 == pytest.approx(-0.52, abs=0.03)  # "Expected = -0.5209" in the NCBI's file
    of_pairs = by_chance * 2 ** (scores / 2)
    np.testing.assert_allclose(of_pairs.sum(axis=1), FREQUENCIES, rtol=0.15)  # the scores are rounded
    assert blosum62("W")[0, 0] == 11
    assert blosum62("ILV").tolist() == [[4, 2, 3], [2, 4, 1], [3, 1, 4]]


def test_similarities_equal_the_definition():
    random = np.random.default_rng(3)
    probabilities, counts = random.dirichlet(np.ones(7), 7), random.integers(1, 30, 7)
    got = learned_similarities(ResidueAnswers(probabilities, counts, 1.0))
    q = [sum(counts[a] * probabilities[a, b] for a in range(7)) / counts.sum() for b in range(7)]
    for a in range(7):
        for b in range(7):
            expected = (np.log(probabilities[a, b] / q[b]) + np.log(probabilities[b, a] / q[a])) / 2
            assert got[a, b] == pytest.approx(expected, rel=1e-12)


def test_a_residue_that_was_never_masked_has_no_similarity():
    probabilities = np.random.default_rng(3).dirichlet(np.ones(5), 5)
    probabilities[2] = np.nan
    got = learned_similarities(ResidueAnswers(probabilities, np.array([3, 5, 0, 2, 7]), 1.0))
    known = np.array([0, 1, 3, 4])
    assert np.isnan(got[2]).all()
    assert np.isnan(got[:, 2]).all()
    assert np.isfinite(got[np.ix_(known, known)]).all()
    assert rank_correlation(got, got) == 1.0


def test_rank_correlation_is_over_different_pairs():
    random = np.random.default_rng(5)
    a = random.normal(size=(7, 7))
    a += a.T
    assert rank_correlation(a, np.exp(a) + 100 * np.eye(7)) == pytest.approx(1.0)
    assert rank_correlation(a, -a) == pytest.approx(-1.0)
    assert rank_correlation(a, np.zeros((7, 7))) == 0.0
    ranks = [np.argsort(np.argsort(each[np.tril_indices(7, -1)])) for each in (a, a**3 + random.normal(size=(7, 7)))]
    assert rank_correlation(a, a) == 1.0
    assert -1 < np.corrcoef(*ranks)[0, 1] < 1


def test_cosines():
    table = np.array([[3.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    np.testing.assert_allclose(embedding_cosines(table)[:, 2], [0.5**0.5, 0.5**0.5, 1.0])


class AnswersOfTheToken:
    """Logits that depend only on the token at the masked position, with the interface of a BertMaskedLM."""

    def __init__(self, table):
        self.table = ops.convert_to_tensor(table)

    def __call__(self, inputs, training):
        assert training is False
        tokens = ops.take_along_axis(inputs["token_ids"], inputs["masked_positions"], axis=1)
        return ops.take(self.table, tokens, axis=0)  # (B, P, V)


def test_answers_are_means_over_the_places_of_each_residue():
    random = np.random.default_rng(7)
    table = random.normal(size=(11, 11)).astype("float32")
    ids = np.array([4, 6, 9], "int32")
    batches = []
    for rows in (3, 5):
        labels = random.choice([0, 4, 6], (rows, 2)).astype("int32")  # 0 is none; 9 never
        batch = {"token_ids": random.integers(1, 11, (rows, 13)), "masked_positions": random.integers(0, 13, (rows, 2))}
        batches.append({name: values.astype("int32") for name, values in (batch | {"labels": labels}).items()})
    answers = ResidueScores(AnswersOfTheToken(table), ids, jit_compile=False)(batches)
    losses, of_residue = [], {4: [], 6: []}
    for batch in batches:
        for row, places, labels in zip(batch["token_ids"], batch["masked_positions"], batch["labels"], strict=True):
            for place, label in zip(places, labels, strict=True):
                if label:
                    logits = table[row[place]].astype("float64")
                    losses.append(np.log(np.exp(logits).sum()) - logits[label])
                    of_residue[label].append(np.exp(logits[ids]) / np.exp(logits[ids]).sum())
    assert answers.loss == pytest.approx(np.mean(losses), rel=1e-5)
    assert answers.counts.tolist() == [len(of_residue[4]), len(of_residue[6]), 0]
    np.testing.assert_allclose(answers.probabilities[0], np.mean(of_residue[4], axis=0), rtol=1e-5)
    np.testing.assert_allclose(answers.probabilities[1], np.mean(of_residue[6], axis=0), rtol=1e-5)
    assert np.isnan(answers.probabilities[2]).all()
