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
    """What a model answers at N hidden places, whose residues are of A kinds.

    Attributes:
        log_probabilities: float32 array (N, A), natural logarithms.
        residues: int array (N,), the true residue at each place, from 0 to A - 1.
        proteins: int array (N,), the number of the protein, or piece of one, from 0.
    """

    log_probabilities: np.ndarray
    residues: np.ndarray
    proteins: np.ndarray

    @property
    def loss(self) -> float:
        """Mean cross-entropy in nats."""
        return -float(self.log_probabilities[np.arange(len(self.residues)), self.residues].mean())


def residue_answers(model, batches, residue_ids: np.ndarray, jit_compile: bool = True) -> ResidueAnswers:
    """Asks a masked language model for the masked residues of batches.

    Args:
        model: BertMaskedLM, built.
        batches: list of dict of int32 arrays, with `labels` (B, P), 0 for no label, `masked_positions` (B, P) and
            `block_ids` (B, T). All masked residues should be hidden, not replaced by others.
        residue_ids: int32 array (A,), the tokens of the amino acids, one after the other.
        jit_compile: bool, compile with XLA.
    """

    @tf.function(jit_compile=jit_compile, autograph=False)
    def log_probabilities(inputs):
        return tf.gather(tf.nn.log_softmax(model(inputs, training=False)), residue_ids, axis=-1)  # (B, P, A)

    answers, residues, proteins = [], [], []
    for number, batch in enumerate(batches):
        labels = batch["labels"]
        inputs = {name: tf.constant(values) for name, values in batch.items() if name != "labels"}
        chosen = labels > 0
        blocks = np.take_along_axis(batch["block_ids"], batch["masked_positions"], axis=1)  # (B, P)
        rows = np.arange(number * len(labels), (number + 1) * len(labels))[:, None]
        answers.append(log_probabilities(inputs).numpy()[chosen])
        residues.append(labels[chosen] - residue_ids[0])
        proteins.append((rows * (1 + batch["block_ids"].shape[1]) + blocks)[chosen])
    proteins = np.unique(np.concatenate(proteins), return_inverse=True)[1]
    return ResidueAnswers(np.concatenate(answers), np.concatenate(residues), proteins)


def substitution_similarities(answers: ResidueAnswers) -> np.ndarray:
    """How much more probable than on average a model finds one amino acid in the places of another.

        s(a, b) = (log P(b | a) / q(b) + log P(a | b) / q(a)) / 2

    P(b | a) is the mean probability of b over the places whose residue is a, and q(b) the mean over all places.

    Args:
        answers: ResidueAnswers, on proteins that the model was not trained on.

    Returns:
        float64 array (A, A), symmetric, in nats; NaN for pairs with an amino acid that was never hidden.

    Source: log odds of substitutions as in Henikoff & Henikoff (1992). Difference: they count the pairs of amino acids
    in aligned proteins; here, the answers of a model take the place of the counts.
    """
    probabilities = np.exp(answers.log_probabilities.astype("float64"))
    counts = np.bincount(answers.residues, minlength=probabilities.shape[1]).astype("float64")
    counts[counts == 0] = np.nan
    is_residue = answers.residues[:, None] == np.arange(len(counts))  # (N, A)
    odds = np.log(is_residue.T.astype("float64") @ probabilities / counts[:, None] / probabilities.mean(axis=0))
    return (odds + odds.T) / 2


def place_similarities(answers: ResidueAnswers) -> np.ndarray:
    """Whether a model finds two amino acids probable at the same places of a protein.

        c_i(a) = log P(a | place i) - the mean of log P(b | place i) over all amino acids b
        d_i(a) = c_i(a) - the mean of c_j(a) over the hidden places j of the same protein
        s(a, b) = correlation of d_i(a) and d_i(b) over all hidden places i

    The first difference leaves ratios of probabilities, the second leaves out the composition of a protein, because of
    which all amino acids of a habitat would be alike.

    Args:
        answers: ResidueAnswers, on proteins that the model was not trained on.

    Returns:
        float64 array (A, A), symmetric, from -1 to 1.

    Source: c is the centered log ratio of Aitchison (1982), https://doi.org/10.1111/j.2517-6161.1982.tb01195.x.
    """
    ratios = answers.log_probabilities.astype("float64")
    ratios -= ratios.mean(axis=1, keepdims=True)  # (N, A)
    sums = np.zeros((answers.proteins.max() + 1, ratios.shape[1]))
    np.add.at(sums, answers.proteins, ratios)
    means = sums / np.bincount(answers.proteins)[:, None]  # (proteins, A)
    return np.corrcoef((ratios - means[answers.proteins]).T)


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
