"""Weights that a new BERT starts with: embeddings from counts of neighbours, heads that attend to neighbours."""

import numpy as np

WINDOW = 5  # maximum distance between two tokens of a pair
SMOOTHING = 0.75  # exponent of the neighbours' frequencies, to reduce the influence of rare neighbours
TOKEN_RMS = 0.018  # root mean square of a token embedding, as with random initialization
MOST_PIECES = 16_000  # the counts are a square matrix of this size
MORE, ROUNDS = 40, 6  # oversampling and power iterations of the randomized eigendecomposition


def start_with_structure(model, sequences, special_ids, *, neighbour_heads=True, counts=True, seed=0):
    """Initializes a new model with `start_with_neighbour_heads` and `start_with_counts`.

    The counts need memory for the square of the vocabulary size, so they are skipped for more than 16,000 pieces.

    Args:
        model: BertMaskedLM, built; changed in place.
        sequences, special_ids, seed: see `start_with_counts`.
        neighbour_heads, counts: bool. Whether to use each of the two.
    """
    if neighbour_heads:
        start_with_neighbour_heads(model.encoder, seed)
    if counts and model.encoder.vocabulary_size <= MOST_PIECES:
        print("Counting which pieces occur together")
        start_with_counts(model, sequences, special_ids, seed)


def start_with_counts(model, sequences, special_ids, seed=0):
    """Initializes token embeddings and output bias of a new BertMaskedLM from counts in its training texts.

        m[i, j] = max(0, log(n_ij n' / (n_i n'_j))), n_i = sum_j n_ij, n'_j = n_j^0.75, n' = sum_j n'_j
        (m + m^T) / 2 ~ U diag(s) U^T          embedding[i] ~ U[i] |s|^0.5          bias[i] = log((c_i + 1) / sum)

    n_ij counts how often the pieces i and j occur in one text at a distance of at most 5, weighted by 1 / distance;
    c_i counts how often i occurs. All vectors are rotated by one random rotation and scaled to the length of randomly
    initialized vectors. Pieces without neighbours keep their vectors.

    Why: a masked language model spends its first millions of tokens on learning how often pieces occur, and then which
    pieces occur together. Counting takes a minute.

    Args:
        model: BertMaskedLM, built, with at most 16,000 pieces; changed in place.
        sequences: PackedSequences.
        special_ids: ids of special tokens, which are not counted.
        seed: int, seed of the rotation.

    Raises:
        ValueError: if the vocabulary has more pieces.

    Source: Levy & Goldberg (2014), section 5 (vectors from shifted positive pointwise mutual information), and Levy,
    Goldberg & Dagan (2015), section 3, https://aclanthology.org/Q15-1016 (smoothing, the root of s). Differences: the
    matrix is symmetric, so words and contexts share one set of vectors; all vectors have the same length.
    """
    embeddings = model.encoder.token_embedding.embeddings
    size, width = embeddings.shape
    if size > MOST_PIECES:
        raise ValueError(f"The vocabulary must have at most {MOST_PIECES:,} pieces. Received: {size:,}")
    random = np.random.default_rng(seed)
    weights = information(count_pairs(sequences, size, special_ids))
    vectors = principal_vectors(weights, min(width, size), random)
    lengths = np.sqrt(np.mean(vectors**2, axis=1, keepdims=True))
    turn, _ = np.linalg.qr(random.normal(size=(width, width)))
    turned = TOKEN_RMS * (vectors / np.maximum(lengths, 1e-9)) @ turn[: vectors.shape[1]]
    turned *= np.sqrt(width / vectors.shape[1])
    embeddings.assign(np.where(lengths > 1e-6, turned, np.array(embeddings)))
    counts = np.bincount(sequences.token_ids[sequences.block_ids > 0], minlength=size) + 1.0
    counts[list(special_ids)] = 1.0
    model.output_bias.assign(np.log(counts / counts.sum()))


def count_pairs(sequences, size, special_ids):
    """Counts how often two pieces occur in one text at a distance of at most WINDOW, weighted by 1 / distance.

    Returns:
        float32 array (size, size), symmetric.
    """
    ids, blocks = sequences.token_ids, sequences.block_ids
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
    gain = np.zeros_like(pairs)
    expected = np.outer(each, smooth / max(smooth.sum(), 1e-9))
    np.log(np.divide(pairs, expected, out=gain, where=pairs > 0), out=gain, where=pairs > 0)
    gain = np.maximum(gain, 0.0)
    return (gain + gain.T) / 2


def principal_vectors(matrix, count, random):
    """Eigenvectors (V, count) of a symmetric matrix for the largest |eigenvalues|, scaled by |eigenvalue|^0.5.

    Randomized: Halko, Martinsson & Tropp (2011), algorithm 4.4, https://arxiv.org/abs/0909.4061.
    """
    basis = random.normal(size=(len(matrix), min(len(matrix), count + MORE))).astype(matrix.dtype)
    for _ in range(ROUNDS):
        basis, _ = np.linalg.qr(matrix @ basis)
    values, vectors = np.linalg.eigh(basis.T @ matrix @ basis)
    largest = np.argsort(-np.abs(values))[:count]
    return basis @ vectors[:, largest] * np.sqrt(np.abs(values[largest]))


OFFSETS = (-1, 1, -2, 2)  # of the heads in the first layer; the middle layers use only the first two
FASTEST, SLOWEST = 3.0, 0.05  # frequencies, in radians per token
POSITION_RMS = 0.03  # larger than TOKEN_RMS, so that positions dominate at the start
GAIN = 1.2  # scale of queries and keys: in a sequence of 256, a first-layer head gives its neighbour half of the weight


def start_with_neighbour_heads(encoder, seed=0):
    """Initializes some heads of a new BertEncoder so that they attend to the tokens at distance 1 or 2.

    The position embedding of t becomes [sin(w_j t), cos(w_j t)] for D / 2 frequencies w_j. The queries of a head copy
    every H-th of these pairs, and its keys copy them rotated by the angle w_j o, so that for the offset o

        q(t) . k(s) = gain^2 sum_j cos(w_j (t + o - s)) + contribution of the tokens,      largest at s = t + o

    Values and outputs of these heads get a standard deviation of D^-0.5. All weights remain trainable; architecture and
    settings are those of any BERT.

    Why: a masked language model first learns the frequencies of pieces, and then hardly anything until some heads
    attend to neighbours. This plateau lasts for millions of tokens, a large part of a small budget.

    Args:
        encoder: BertEncoder, built; changed in place.
        seed: int, seed of the values and outputs.

    Source: Clark et al. (2019), https://arxiv.org/abs/1906.04341, section 3.1, found such heads in trained BERTs;
    Trockman & Kolter (2023), https://arxiv.org/abs/2305.09828, initialize attention to resemble trained attention.
    Difference: they initialize products of kernels near the identity; we use sinusoids and rotations.
    """
    length, width = encoder.position_embedding.embeddings.shape
    frequencies = np.geomspace(FASTEST, SLOWEST, width // 2)
    angles = np.arange(length)[:, None] * frequencies  # (T, D / 2)
    waves = np.zeros((length, width))
    waves[:, 0 : 2 * len(frequencies) : 2], waves[:, 1 : 2 * len(frequencies) : 2] = np.sin(angles), np.cos(angles)
    encoder.position_embedding.embeddings.assign(POSITION_RMS * np.sqrt(2) * waves)
    random = np.random.default_rng(seed)
    for number, layer in enumerate(encoder.encoder_layers[: max(1, encoder.num_layers - 1)]):
        for head, offset in zip(range(encoder.num_heads), OFFSETS[: None if number == 0 else 2], strict=False):
            _aim(layer.self_attention, head, offset, frequencies, random)


def _aim(attention, head, offset, frequencies, random):
    """Initializes head number `head` to attend to the position at distance `offset`."""
    names = ("query_projection", "key_projection", "value_projection", "output_projection")
    kernels = [getattr(attention, name).kernel for name in names]
    query, key, value, output = (np.array(kernel) for kernel in kernels)  # (D, H, d) thrice, (H, d, D)
    width, num_heads, size = query.shape
    waves = np.arange(head, len(frequencies), num_heads)[: size // 2]
    sines, cosines = 2 * waves, 2 * waves + 1  # indices in a position embedding
    to_sines, to_cosines = 2 * np.arange(len(waves)), 2 * np.arange(len(waves)) + 1  # indices in a query or key
    turn = frequencies[waves] * offset
    query[:, head] = key[:, head] = 0.0
    query[sines, head, to_sines] = query[cosines, head, to_cosines] = GAIN
    key[sines, head, to_sines] = key[cosines, head, to_cosines] = GAIN * np.cos(turn)
    key[cosines, head, to_sines], key[sines, head, to_cosines] = -GAIN * np.sin(turn), GAIN * np.sin(turn)
    value[:, head] = random.normal(scale=width**-0.5, size=(width, size))
    output[head] = random.normal(scale=width**-0.5, size=(size, width))
    for kernel, new in zip(kernels, (query, key, value, output), strict=True):
        kernel.assign(new)
