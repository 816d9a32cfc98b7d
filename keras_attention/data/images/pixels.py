"""Images of an IDX file, such as those of MNIST, as sequences of black and white pixels."""

import gzip
from pathlib import Path

import numpy as np

from keras_attention.errors import UserError

PIXELS = "01"  # the characters of a dark and a bright pixel
BRIGHT = 128  # grey level from which on a pixel is bright
IMAGES = bytes([0, 0, 8, 3])  # unsigned bytes with three axes


def read_images(paths, side=28):
    """Reads the grey levels of images.

    Args:
        paths: list of str or Path of IDX files, whole or compressed by gzip.
        side: int, the width and height that the images must have.

    Returns:
        uint8 array (N, `side`, `side`).

    Raises:
        UserError: if there is no file, or a file holds no such images.
    """
    if not paths:
        raise UserError("--data pixels needs an IDX file of images: --text train-images-idx3-ubyte.gz. Received: none")
    return np.concatenate([_read_file(Path(path), side) for path in paths])


def _read_file(path, side):
    content = path.read_bytes()
    try:
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, ValueError) as error:
        raise UserError(f"{path}: damaged ({error}). Expected: an IDX file of images, compressed by gzip.") from error
    number, height, width = np.frombuffer(content[4:16].ljust(12, b"\0"), ">u4").tolist()
    if content[:4] != IMAGES or (height, width) != (side, side) or len(content) != 16 + number * side * side:
        raise UserError(f"{path}: no IDX file of images with {side} by {side} pixels.")
    return np.frombuffer(content, np.uint8, offset=16).reshape(number, side, side)


def as_sequences(images, begin_id, pixel_ids):
    """Returns the token ids of all images, one after the other.

    Args:
        images: uint8 array (N, height, width).
        begin_id: int, the token before each image.
        pixel_ids: the two int that stand for a dark and a bright pixel.

    Returns:
        int32 (N (1 + height width),).
    """
    bright = (images >= BRIGHT).reshape(len(images), -1)
    tokens = np.asarray(pixel_ids, np.int32)[bright.astype(int)]
    return np.pad(tokens, ((0, 0), (1, 0)), constant_values=begin_id).ravel()


def as_texts(images):
    """Returns each image as a str of `PIXELS`, row after row."""
    return ["".join(PIXELS[int(bright)] for bright in (image >= BRIGHT).ravel()) for image in images]
