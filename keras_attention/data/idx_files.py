"""Arrays of bytes in IDX files, the format of MNIST."""

import gzip
from pathlib import Path

import numpy as np

from keras_attention.support.errors import UserError

MOST_ITEMS, MOST_SIDE = 10_000_000, 4096  # along the first axis, and along each other axis


def read_idx(path: str | Path, axes: int, sides: tuple[int, ...] | None = None) -> np.ndarray:
    """Reads an IDX file of bytes, plain or compressed by gzip. No more is decompressed than its head announces.

    Args:
        path: str or Path.
        axes: int > 0, the number of axes that the array must have: 3 for images, 1 for labels.
        sides: tuple of int, the sizes of the axes after the first one that it must have, or None for any.

    Returns:
        uint8 array.

    Raises:
        UserError: if the file is missing, damaged, or something else.

    Source: the format is described at https://yann.lecun.com/exdb/mnist.
    """
    what = f" of images with {' by '.join(map(str, sides))} pixels" if sides else f" of bytes with {axes} axes"
    try:
        with open(path, "rb") as file:
            compressed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if compressed else open(path, "rb") as file:
            head = file.read(4 + 4 * axes)
            sizes = [int.from_bytes(head[4 + 4 * i : 8 + 4 * i]) for i in range(axes)]
            right = len(head) == 4 + 4 * axes and head[:4] == bytes([0, 0, 8, axes])
            right = right and sizes[0] <= MOST_ITEMS and max([*sizes[1:], 0]) <= MOST_SIDE
            if not right or (sides is not None and tuple(sizes[1:]) != tuple(sides)):
                raise UserError(f"{path}: no IDX file{what}.")
            count = int(np.prod(sizes))
            values = file.read(count + 1)
    except FileNotFoundError:
        raise UserError(f"There is no file {path}.") from None
    except (OSError, EOFError, ValueError) as error:
        raise UserError(f"{path}: damaged ({error}). Expected: an IDX file{what}.") from error
    if len(values) != count:
        raise UserError(f"{path}: no IDX file{what}: {count:,} bytes must follow its head.")
    return np.frombuffer(values, "uint8").reshape(sizes)
