"""How alike amino acids are to a masked language model, and how much that agrees with BLOSUM62."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

# Henikoff & Henikoff (1992), https://doi.org/10.1073/pnas.89.22.10915, in half bits, as the NCBI distributes it: how
# much more often than by chance two amino acids stand at the same place of aligned proteins.
BLOSUM_ORDER = "ARNDCQEGHILKMFPSTWYV"
BLOSUM62 = np.array(
    [
        [4, -1, -2, -2, 0, -1, -1, 0, -2, -1, -1, -1, -1, -2, -1, 1, 0, -3, -2, 0],
        [-1, 5, 0, -2, -3, 1, 0, -2, 0, -3, -2, 2, -1, -3, -2, -1, -1, -3, -2, -3],
        [-2, 0, 6, 1, -3, 0, 0, 0, 1, -3, -3, 0, -2, -3, -2, 1, 0, -4, -2, -3],
        [-2, -2, 1, 6, -3, 0, 2, -1, -1, -3, -4, -1, -3, -3, -1, 0, -1, -4, -3, -3],
        [0, -3, -3, -3, 9, -3, -4, -3, -3, -1, -1, -3, -1, -2, -3, -1, -1, -2, -2, -1],
        [-1, 1, 0, 0, -3, 5, 2, -2, 0, -3, -2, 1, 0, -3, -1, 0, -1, -2, -1, -2],
        [-1, 0, 0, 2, -4, 2, 5, -2, 0, -3, -3, 1, -2, -3, -1, 0, -1, -3, -2, -2],
        [0, -2, 0, -1, -3, -2, -2, 6, -2, -4, -4, -2, -3, -3, -2, 0, -2, -2, -3, -3],
        [-2, 0, 1, -1, -3, 0, 0, -2, 8, -3, -3, -1, -2, -1, -2, -1, -2, -2, 2, -3],
        [-1, -3, -3, -3, -1, -3, -3, -4, -3, 4, 2, -3, 1, 0, -3, -2, -1, -3, -1, 3],
        [-1, -2, -3, -4, -1, -2, -3, -4, -3, 2, 4, -2, 2, 0, -3, -2, -1, -2, -1, 1],
        [-1, 2, 0, -1, -3, 1, 1, -2, -1, -3, -2, 5, -1, -3, -1, 0, -1, -3, -2, -2],
        [-1, -1, -2, -3, -1, 0, -2, -3, -2, 1, 2, -1, 5, 0, -2, -1, -1, -1, -1, 1],
        [-2, -3, -3, -3, -2, -3, -3, -3, -1, 0, 0, -3, 0, 6, -4, -2, -2, 1, 3, -1],
        [-1, -2, -2, -1, -3, -1, -1, -2, -2, -3, -3, -1, -2, -4, 7, -1, -1, -4, -3, -2],
        [1, -1, 1, 0, -1, 0, 0, 0, -1, -2, -2, 0, -1, -2, -1, 4, 1, -3, -2, -2],
        [0, -1, 0, -1, -1, -1, -1, -2, -2, -1, -1, -1, -1, -2, -1, 1, 5, -2, -2, 0],
        [-3, -3, -4, -4, -2, -2, -3, -2, -2, -3, -2, -3, -1, 1, -4, -3, -2, 11, 2, -3],
        [-2, -2, -2, -3, -2, -1, -2, -3, 2, -1, -1, -2, -1, 3, -3, -2, -2, 2, 7, -1],
        [0, -3, -3, -3, -1, -2, -2, -3, -3, 3, 1, -2, 1, -1, -2, -2, 0, -3, -1, 4],
    ]
)


def blosum62(letters: str) -> np.ndarray:
    """The scores of BLOSUM62 in the order of `letters`, codes of amino acids: int array (A, A)."""
    order = [BLOSUM_ORDER.index(letter) for letter in letters]
    return BLOSUM62[np.ix_(order, order)]


class ResidueAnswers(NamedTuple):
    """What a model answers where residues of A kinds are masked.

    Attributes:
        probabilities: float64 array (A, A), P(b | a): the mean probability of b over the places whose residue is a; NaN
            for an a that was never masked.
        counts: int array (A,), the number of masked places with each residue.
        loss: float, mean cross-entropy in nats.
    """

    probabilities: np.ndarray
    counts: np.ndarray
    loss: float


class ResidueScores:
    """Asks a masked language model for the masked residues of batches.

    Args:
        model: BertMaskedLM, built.
        residue_ids: int32 array (A,), the tokens of the amino acids.
        jit_compile: bool, compile with XLA.

    Call arguments:
        batches: object with `len()` and `[i]` -> dict of int32 arrays, with `labels` (B, P), 0 for no label. All masked
            residues should be hidden, not replaced by others.

    Returns:
        ResidueAnswers.
    """

    def __init__(self, model, residue_ids, jit_compile=True):
        ids = tf.constant(residue_ids)

        @tf.function(jit_compile=jit_compile, autograph=False)
        def sums(batch):
            labels = batch["labels"]  # (B, P)
            logits = model({name: value for name, value in batch.items() if name != "labels"}, training=False)
            of_residues = tf.nn.softmax(tf.gather(logits, ids, axis=-1))  # (B, P, A)
            is_residue = tf.cast(labels[..., None] == ids, "float32")  # (B, P, A)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            total = tf.reduce_sum(tf.where(labels > 0, losses, 0.0))
            return tf.einsum("bpa,bpc->ac", is_residue, of_residues), tf.reduce_sum(is_residue, (0, 1)), total

        self._sums = sums

    def __call__(self, batches):
        probabilities, counts, loss = 0.0, 0.0, 0.0
        for index in range(len(batches)):
            parts: tuple = self._sums({name: tf.constant(value) for name, value in batches[index].items()})
            of_batch, of_each, total = (part.numpy().astype("float64") for part in parts)
            probabilities, counts, loss = probabilities + of_batch, counts + of_each, loss + total
        counts = np.asarray(counts)
        means = np.asarray(probabilities) / np.where(counts > 0, counts, np.nan)[:, None]
        return ResidueAnswers(means, counts.astype(int), float(loss / counts.sum()))


def learned_similarities(answers: ResidueAnswers) -> np.ndarray:
    """How much more probable than on average a model finds one amino acid in the places of another.

        s(a, b) = (log P(b | a) / q(b) + log P(a | b) / q(a)) / 2        q(b) = mean of P(b | .) over all masked places

    Args:
        answers: ResidueAnswers, on proteins that the model was not trained on.

    Returns:
        float64 array (A, A), symmetric, in nats; NaN for pairs with an amino acid that was never masked.

    Source: log odds of substitutions as in Henikoff & Henikoff (1992). Difference: they count the pairs of amino acids
    in aligned proteins; here, the answers of a model take the place of the counts.
    """
    known = answers.counts > 0
    mean = answers.counts[known] @ answers.probabilities[known] / answers.counts.sum()  # (A,)
    odds = np.log(answers.probabilities / mean)
    return (odds + odds.T) / 2


def embedding_cosines(table: np.ndarray) -> np.ndarray:
    """The cosines (A, A) of the token embeddings (A, D) of amino acids."""
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    return unit @ unit.T


def rank_correlation(similarities: np.ndarray, others: np.ndarray) -> float:
    """Spearman's rank correlation of two symmetric arrays (A, A) over the pairs of different amino acids; 0 if one is
    constant. Pairs without a similarity (NaN) are left out."""
    from scipy.stats import spearmanr

    pairs = np.tril_indices(len(similarities), -1)
    first, second = similarities[pairs], others[pairs]
    known = np.isfinite(first) & np.isfinite(second)
    first, second = first[known], second[known]
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(spearmanr(first, second).statistic)
