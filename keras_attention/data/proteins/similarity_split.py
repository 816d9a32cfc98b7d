"""Splits proteins into parts so that similar proteins are in the same part."""

from collections.abc import Sequence

import numpy as np

from keras_attention.support.errors import UserError, counted
from keras_attention.tokenizers.amino_acid_tokenizer import AMINO_ACIDS

WORD = 6  # residues of the words that are compared
LEAST_SHARED = 3  # words that two similar proteins share, or all words of the shorter protein
LEAST_SHARE = 0.05  # of the words of the protein with fewer words
MOST_OWNERS = 1000  # a word in more proteins is a repeat such as QQQQQQ, which does not tell that they are similar
ROWS = 1000  # proteins that are compared at a time with all others
SPLIT_SEED = 0


def similarity_clusters(proteins: Sequence[str]) -> np.ndarray:
    """Numbers the clusters of similar proteins.

    Two proteins are similar if they are equal, or share at least 3 different words of 6 residues and 5 % of the words
    of the one with fewer. A cluster is a connected component: each protein is similar to another one of its cluster,
    and to none outside.

    Args:
        proteins: sequence of N str of residues.

    Returns:
        int array (N,), the cluster of each protein, from 0.

    Source: shared words as a measure of similarity as in Edgar (2004), https://doi.org/10.1093/nar/gkh180; single
    linkage as in BLASTCLUST. Distant relatives share no word and are not found.
    """
    from scipy.sparse import coo_matrix, csr_matrix
    from scipy.sparse.csgraph import connected_components

    count = len(proteins)
    same = {protein: number for number, protein in enumerate(proteins)}  # the last one of equal proteins
    firsts, seconds = [np.arange(count)], [np.array([same[protein] for protein in proteins])]
    words = [_words(protein) for protein in proteins]
    sizes = np.array([len(of_protein) for of_protein in words])
    owners = np.repeat(np.arange(count), sizes)
    _, columns, counts = np.unique(np.concatenate(words), return_inverse=True, return_counts=True)
    telling = (counts[columns] > 1) & (counts[columns] <= MOST_OWNERS)
    owners, columns = owners[telling], columns[telling]
    has_word = csr_matrix((np.ones(len(owners), np.int32), (owners, columns)), shape=(count, len(counts)))
    transposed = has_word.T.tocsr()
    for begin in range(0, count, ROWS):
        shared = (has_word[begin : begin + ROWS] @ transposed).tocoo()
        first, second = shared.row + begin, shared.col
        fewer = np.minimum(sizes[first], sizes[second])
        similar = (shared.data >= np.minimum(LEAST_SHARED, fewer)) & (shared.data >= LEAST_SHARE * fewer)
        firsts.append(first[similar])
        seconds.append(second[similar])
    first, second = np.concatenate(firsts), np.concatenate(seconds)
    links = coo_matrix((np.ones(len(first), bool), (first, second)), shape=(count, count))
    return connected_components(links, directed=False)[1]


def _words(protein):
    """The different words of a protein without unknown residues, as numbers: sorted int64 array."""
    numbers = np.full(128, -1)
    numbers[[ord(letter) for letter in AMINO_ACIDS]] = np.arange(len(AMINO_ACIDS))
    residues = numbers[np.frombuffer(protein.encode("ascii"), np.uint8)]
    if len(residues) < WORD:
        return np.zeros(0, np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(residues, WORD)
    windows = windows[(windows >= 0).all(axis=1)]
    return np.unique(windows @ len(AMINO_ACIDS) ** np.arange(WORD))


def split_by_similarity(proteins: Sequence[str], shares: Sequence[float]) -> list[list[str]]:
    """Splits proteins into a first part and further parts, whole clusters of similar proteins at a time.

    The clusters are shuffled, the same way in each call. Each further part takes clusters until it has its share of the
    residues; clusters larger than a tenth of that share stay in the first part, which has all others.

    Args:
        proteins: sequence of str of residues.
        shares: float in (0, 1) for each further part, its share of all residues.

    Returns:
        List of `1 + len(shares)` lists of str, each in the order of `proteins`.

    Raises:
        UserError: if a part would be empty.
    """
    clusters = similarity_clusters(proteins)
    lengths = np.array([len(protein) for protein in proteins])
    sizes = np.bincount(clusters, lengths)
    order = np.argsort(np.random.PCG64(SPLIT_SEED).random_raw(len(sizes)), kind="stable")
    part_of_cluster = np.zeros(len(sizes), int)
    for part, share in enumerate(shares, start=1):
        wanted = share * sizes.sum()
        # Many small clusters measure better than a few large ones; if all are large, take whatever there is.
        small = [cluster for cluster in order if not part_of_cluster[cluster]]
        small = [cluster for cluster in small if sizes[cluster] <= wanted / 10] or small[:-1]
        filled = np.cumsum(sizes[small]) - sizes[small]
        part_of_cluster[np.array(small, int)[filled < wanted]] = part
    parts = part_of_cluster[clusters]
    split = [
        [protein for protein, of in zip(proteins, parts, strict=True) if of == part] for part in range(len(shares) + 1)
    ]
    if not all(split):
        raise UserError(
            f"{counted(len(proteins), 'protein')} in {counted(len(sizes), 'cluster')} of similar ones: too few for "
            f"{len(split)} parts without similar proteins in common."
        )
    return split
