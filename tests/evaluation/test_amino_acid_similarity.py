"""Similarities of amino acids by the answers of a model, against their definition in loops; BLOSUM62 against itself."""

import numpy as np
import pytest
from keras import ops

from keras_attention.evaluation.amino_acid_similarity import (
    BLOSUM62,
    ResidueAnswers,
    blosum62,
    embedding_cosines,
    place_similarities,
    rank_correlation,
    residue_answers,
    substitution_similarities,
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


def some_answers(places=97, kinds=7, seed=3, never=()):
    random = np.random.default_rng(seed)
    residues = random.choice([kind for kind in range(kinds) if kind not in never], places)
    probabilities = random.dirichlet(np.ones(kinds), places)
    return ResidueAnswers(np.log(probabilities).astype("float32"), residues, np.sort(random.integers(0, 5, places)))


def test_the_loss_is_the_mean_over_places():
    answers = some_answers()
    losses = [-answers.log_probabilities[i, residue] for i, residue in enumerate(answers.residues)]
    assert answers.loss == pytest.approx(np.mean(losses), rel=1e-6)


def test_substitutions_equal_their_definition():
    answers = some_answers()
    p = np.exp(answers.log_probabilities.astype("float64"))
    similarities = substitution_similarities(answers)
    for a in range(7):
        for b in range(7):
            of_a, of_b = (p[[i for i in range(97) if answers.residues[i] == residue]] for residue in (a, b))
            ratios = of_a[:, b].mean() / p[:, b].mean(), of_b[:, a].mean() / p[:, a].mean()
            assert similarities[a, b] == pytest.approx((np.log(ratios[0]) + np.log(ratios[1])) / 2, rel=1e-9)


def test_a_residue_that_was_never_hidden_has_no_substitutions():
    similarities = substitution_similarities(some_answers(never=(2,)))
    assert np.isnan(similarities[2]).all()
    assert np.isnan(similarities[:, 2]).all()
    assert np.isfinite(np.delete(np.delete(similarities, 2, 0), 2, 1)).all()
    assert rank_correlation(similarities, similarities) == 1.0


def test_places_equal_their_definition():
    answers = some_answers()
    values = answers.log_probabilities.astype("float64").tolist()
    ratios = [[value - sum(row) / 7 for value in row] for row in values]
    differences = []
    for row, protein in zip(ratios, answers.proteins, strict=True):
        others = [ratios[i] for i in range(97) if answers.proteins[i] == protein]
        differences.append([value - np.mean([other[a] for other in others]) for a, value in enumerate(row)])
    d = np.array(differences)
    similarities = place_similarities(answers)
    for a in range(7):
        for b in range(7):
            expected = (d[:, a] @ d[:, b]) / np.sqrt((d[:, a] @ d[:, a]) * (d[:, b] @ d[:, b]))
            assert similarities[a, b] == pytest.approx(expected, abs=1e-9)


def test_places_do_not_depend_on_scale_and_composition():
    """A factor of all probabilities of a place, and one of an amino acid in a protein, change nothing."""
    answers = some_answers()
    random = np.random.default_rng(5)
    factors = random.normal(size=(97, 1)) + random.normal(size=(5, 7))[answers.proteins]
    changed = answers._replace(log_probabilities=answers.log_probabilities + factors)
    np.testing.assert_allclose(place_similarities(changed), place_similarities(answers), atol=1e-6)


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


def test_answers_are_those_at_the_masked_places():
    random = np.random.default_rng(7)
    table = random.normal(size=(11, 11)).astype("float32")
    batches = []
    for _ in range(2):
        labels = random.choice([0, 5, 6, 7], (3, 2))  # 0 is none
        batch = {"token_ids": random.integers(1, 11, (3, 13)), "masked_positions": random.integers(0, 13, (3, 2))}
        batch |= {"block_ids": np.sort(random.integers(1, 3, (3, 13))), "labels": labels}
        batches.append({name: values.astype("int32") for name, values in batch.items()})
    answers = residue_answers(AnswersOfTheToken(table), batches, np.array([5, 6, 7], "int32"), jit_compile=False)
    expected, residues, proteins = [], [], []
    for number, batch in enumerate(batches):
        for row in range(3):
            for place, label in zip(batch["masked_positions"][row], batch["labels"][row], strict=True):
                if label:
                    logits = table[batch["token_ids"][row, place]].astype("float64")
                    expected.append(logits[5:8] - np.log(np.exp(logits).sum()))
                    residues.append(label - 5)
                    proteins.append((number, row, batch["block_ids"][row, place]))
    np.testing.assert_allclose(answers.log_probabilities, expected, rtol=1e-5)
    assert answers.residues.tolist() == residues
    known = sorted(set(proteins))
    assert answers.proteins.tolist() == [known.index(protein) for protein in proteins]
