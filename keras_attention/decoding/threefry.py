"""Random numbers that depend only on a key and a counter, on every backend the same."""

from keras import ops

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def threefry_2x32(key, counter):
    """Returns two random words for a key and a counter of two words each, by 20 rounds of Threefry.

    `keras.random` draws one stream per tensor, so that a row's numbers would depend on the size of its batch.

    Args:
        key: pair of uint32 tensors.
        counter: pair of uint32 tensors that broadcast with the key.

    Returns:
        Pair of uint32 tensors.

    Source: Salmon et al. (2011), Parallel Random Numbers: As Easy as 1, 2, 3, section 3.2,
    https://doi.org/10.1145/2063384.2063405. No differences.
    """
    keys = [*key, ops.bitwise_xor(ops.bitwise_xor(*key), _word(PARITY))]
    left, right = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for distance in ROTATIONS[group % 2]:
            left = left + right
            right = ops.bitwise_xor(_rotate_left(right, distance), left)
        left = left + keys[(group + 1) % 3]
        right = right + keys[(group + 2) % 3] + _word(group + 1)
    return left, right


def uniform(seed, row_keys, index):
    """Returns one float32 in [0, 1) for each of `row_keys` (int tensor (B,)) at step `index`, a multiple of 2**-24."""
    key = (ops.broadcast_to(_word(seed), row_keys.shape), ops.cast(row_keys, "uint32"))
    counter = (ops.broadcast_to(_word(index), row_keys.shape), ops.zeros(row_keys.shape, "uint32"))
    word, _ = threefry_2x32(key, counter)
    return ops.cast(ops.bitwise_right_shift(word, _word(8)), "float32") * 2.0**-24  # (B,)


def _word(value):
    """Returns the lowest 32 bits of an int or an integer tensor as uint32."""
    if isinstance(value, int):
        return ops.convert_to_tensor(value % 2**32, "uint32")
    return ops.cast(value, "uint32")


def _rotate_left(word, distance):
    high = ops.bitwise_left_shift(word, _word(distance))
    return ops.bitwise_or(high, ops.bitwise_right_shift(word, _word(32 - distance)))
