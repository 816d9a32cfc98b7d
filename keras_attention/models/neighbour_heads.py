"""A start for BERT in which some heads look at the neighbours of each token."""

import numpy as np

OFFSETS = (-1, 1, -2, 2)  # of the heads of the first layer; the first two of the middle layers
FASTEST, SLOWEST = 3.0, 0.05  # waves, in radians a token
POSITION_RMS = 0.03  # that of a token's vector is 0.018: at the start, places tell more than pieces
GAIN = 1.2  # of queries and keys: in the first layer half of a head's weight is on its neighbour, in a row of 256


def start_with_neighbour_heads(encoder, seed=0):
    """Sets weights of a new BertEncoder so that some heads attend to the token before, behind, or two away.

    Position t of the table becomes waves, [sin(w_j t), cos(w_j t)] for D / 2 frequencies w_j. A head takes every H-th
    of them into its queries, and, turned by the angle w_j o, into its keys, so that with offset o

        q(t) . k(s) = gain^2 sum_j cos(w_j (t + o - s)) + what comes from the tokens,      largest at s = t + o

    Values and outputs of these heads get a standard deviation of D^-0.5. All stays free to learn; structure and
    settings are those of any BERT.

    Why: a masked language model begins with the frequencies of pieces, and then learns next to nothing until some
    heads have found that the neighbours matter. That plateau takes millions of tokens, much of a small budget.

    Args:
        encoder: BertEncoder, built; changed in place.
        seed: int, of the values and outputs.

    Source: Clark et al. (2019), https://arxiv.org/abs/1906.04341, section 3.1, for such heads in trained BERTs;
    Trockman & Kolter (2023), https://arxiv.org/abs/2305.09828, for starting attention where training leads it.
    Difference: they start with products of kernels near the identity, we with waves and turns.
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
    """Lets head number `head` attend to the position `offset` away."""
    names = ("query_projection", "key_projection", "value_projection", "output_projection")
    kernels = [getattr(attention, name).kernel for name in names]
    query, key, value, output = (np.array(kernel) for kernel in kernels)  # (D, H, d) thrice, (H, d, D)
    width, num_heads, size = query.shape
    waves = np.arange(head, len(frequencies), num_heads)[: size // 2]
    sines, cosines = 2 * waves, 2 * waves + 1  # where they stand in a position's vector
    to_sines, to_cosines = 2 * np.arange(len(waves)), 2 * np.arange(len(waves)) + 1  # and in a query or key
    turn = frequencies[waves] * offset
    query[:, head] = key[:, head] = 0.0
    query[sines, head, to_sines] = query[cosines, head, to_cosines] = GAIN
    key[sines, head, to_sines] = key[cosines, head, to_cosines] = GAIN * np.cos(turn)
    key[cosines, head, to_sines], key[sines, head, to_cosines] = -GAIN * np.sin(turn), GAIN * np.sin(turn)
    value[:, head] = random.normal(scale=width**-0.5, size=(width, size))
    output[head] = random.normal(scale=width**-0.5, size=(size, width))
    for kernel, new in zip(kernels, (query, key, value, output), strict=True):
        kernel.assign(new)
