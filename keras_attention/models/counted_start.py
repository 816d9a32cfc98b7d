"""A start for BERT in which pieces that keep the same company have similar vectors."""

import numpy as np

WINDOW = 5  # tokens between the two of a pair, at most
SMOOTHING = 0.75  # exponent of how often a neighbour occurs, so that rare neighbours tell less
TOKEN_RMS = 0.018  # of a token's vector, as where it starts at random
MOST_PIECES = 16_000  # counts are a square of so many numbers
MORE, ROUNDS = 40, 6  # directions beyond the width, and products, until the largest ones are found


def start_with_counts(model, rows, special_ids, seed=0):
    """Sets token embeddings and output bias of a new BertMaskedLM to what counting its texts tells.

        m[i, j] = max(0, log(n_ij n' / (n_i n'_j))), n_i = sum_j n_ij, n'_j = n_j^0.75, n' = sum_j n'_j
        (m + m^T) / 2 ~ U diag(s) U^T          embedding[i] ~ U[i] |s|^0.5          bias[i] = log((c_i + 1) / sum)

    with n_ij the number of times that the pieces i and j stand in one text, at most 5 apart, each weighted by 1 over
    their distance, and c_i how often i occurs. All vectors are turned alike, at random, and have the length that they
    would have at random. Pieces that have no neighbours keep the vectors they have.

    Why: the first millions of tokens of a masked language model teach it how often pieces occur, and then which ones
    go together. Counting tells both in a minute.

    Args:
        model: BertMaskedLM, built, with at most 16,000 pieces; changed in place.
        rows: PackedRows.
        special_ids: ids that are no pieces of a text; they are not counted.
        seed: int, of the turn.

    Raises:
        ValueError: if the vocabulary is larger.

    Source: Levy & Goldberg (2014), section 5 (vectors from shifted positive pointwise mutual information), and Levy,
    Goldberg & Dagan (2015), section 3, https://aclanthology.org/Q15-1016 (smoothing, the root of s). Differences: a
    symmetric matrix has one set of vectors for both sides; all have one length.
    """
    embeddings = model.encoder.token_embedding.embeddings
    size, width = embeddings.shape
    if size > MOST_PIECES:
        raise ValueError(f"The vocabulary must have at most {MOST_PIECES:,} pieces. Received: {size:,}")
    random = np.random.default_rng(seed)
    weights = information(count_pairs(rows, size, special_ids))
    vectors = principal_vectors(weights, min(width, size), random)
    lengths = np.sqrt(np.mean(vectors**2, axis=1, keepdims=True))
    turn, _ = np.linalg.qr(random.normal(size=(width, width)))
    turned = TOKEN_RMS * (vectors / np.maximum(lengths, 1e-9)) @ turn[: vectors.shape[1]]
    turned *= np.sqrt(width / vectors.shape[1])
    embeddings.assign(np.where(lengths > 1e-6, turned, np.array(embeddings)))
    counts = np.bincount(rows.token_ids[rows.block_ids > 0], minlength=size) + 1.0
    counts[list(special_ids)] = 1.0
    model.output_bias.assign(np.log(counts / counts.sum()))


def count_pairs(rows, size, special_ids):
    """How often two pieces stand in one text, at most WINDOW apart, weighted by 1 / distance.

    Returns:
        float32 array (size, size), symmetric.
    """
    ids, blocks = rows.token_ids, rows.block_ids
    counted = (blocks > 0) & ~np.isin(ids, list(special_ids))  # (N, T)
    pairs = np.zeros(size * size, "float32")
    for distance in range(1, min(WINDOW, ids.shape[1] - 1) + 1):
        both = counted[:, :-distance] & counted[:, distance:] & (blocks[:, :-distance] == blocks[:, distance:])
        places = ids[:, :-distance][both].astype("int64") * size + ids[:, distance:][both]
        pairs += np.bincount(places, minlength=size * size).astype("float32") / distance
    pairs = pairs.reshape(size, size)
    return pairs + pairs.T


def information(pairs):
    """Positive pointwise mutual information of pairs (V, V), made symmetric."""
    each = pairs.sum(axis=1)
    smooth = each**SMOOTHING
    found = np.zeros_like(pairs)
    expected = np.outer(each, smooth / max(smooth.sum(), 1e-9))
    np.log(np.divide(pairs, expected, out=found, where=pairs > 0), out=found, where=pairs > 0)
    found = np.maximum(found, 0.0)
    return (found + found.T) / 2


def principal_vectors(matrix, count, random):
    """The `count` eigenvectors (V, count) of a symmetric matrix, largest eigenvalues by size first, times their roots.

    By products with random vectors: Halko, Martinsson & Tropp (2011), algorithm 4.4, https://arxiv.org/abs/0909.4061.
    """
    basis = random.normal(size=(len(matrix), min(len(matrix), count + MORE))).astype(matrix.dtype)
    for _ in range(ROUNDS):
        basis, _ = np.linalg.qr(matrix @ basis)
    values, vectors = np.linalg.eigh(basis.T @ matrix @ basis)
    largest = np.argsort(-np.abs(values))[:count]
    return basis @ vectors[:, largest] * np.sqrt(np.abs(values[largest]))
