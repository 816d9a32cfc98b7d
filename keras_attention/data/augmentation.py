"""Random changes of training images and spectrograms, decided by random integers alone."""

from typing import NamedTuple

import numpy as np

NUMBERS = 16  # random integers for one example


class Warp(NamedTuple):
    """How an array (height, width, channels) is changed at random. Sides are (height, width).

    Attributes:
        shift: pair of floats >= 0, the longest way as a share of the side.
        scale: pair of floats in [0, 1): sides become longer or shorter by up to this share.
        rotate: float >= 0, the largest angle in degrees.
        flip: bool. Half of the arrays are mirrored, left and right.
        erase: list of pairs of floats in [0, 1]: for each erased rectangle, the longest sides as shares; 1 stands for
            the whole side, so (1, 0.1) erases columns.
        background: float for places outside of the array, or None for the nearest value.
    """

    shift: tuple[float, float] = (0.0, 0.0)
    scale: tuple[float, float] = (0.0, 0.0)
    rotate: float = 0.0
    flip: bool = False
    erase: tuple[tuple[float, float], ...] = ()
    background: float | None = None


def uniform(numbers: np.ndarray) -> np.ndarray:
    """64-bit random integers as floats in [0, 1)."""
    return (numbers >> np.uint64(11)).astype("float64") * 2.0**-53


def warped(values: np.ndarray, numbers: np.ndarray, warp: Warp) -> np.ndarray:
    """One array (height, width, channels) after the changes of `warp`; the rectangles become the mean value.

    Args:
        values: float32 array (height, width, channels).
        numbers: uint64 array (NUMBERS,), random.
        warp: Warp with at most two rectangles.

    Returns:
        float32 array of the same shape.
    """
    chances = uniform(numbers)
    height, width, _ = values.shape
    both = 2.0 * chances[:5] - 1.0
    angle = np.deg2rad(warp.rotate) * both[0]
    away = np.array([height * warp.shift[0] * both[1], width * warp.shift[1] * both[2]])
    factors = 1.0 + np.array(warp.scale) * both[3:5]
    rows, columns = np.arange(height)[:, None] - (height - 1) / 2, np.arange(width)[None] - (width - 1) / 2
    if warp.flip and chances[5] < 0.5:
        columns = -columns
    y = (np.cos(angle) * rows - np.sin(angle) * columns) * factors[0] + (height - 1) / 2 + away[0]  # (height, width)
    x = (np.sin(angle) * rows + np.cos(angle) * columns) * factors[1] + (width - 1) / 2 + away[1]
    result = interpolated(values, y, x)
    if warp.background is not None:
        outside = (y < -0.5) | (y > height - 0.5) | (x < -0.5) | (x > width - 0.5)
        result[outside] = warp.background
    for (most_y, most_x), four in zip(warp.erase, chances[6:].reshape(-1, 5)[:, :4], strict=False):
        sides = [height if most_y == 1 else int(four[0] * most_y * height)]
        sides.append(width if most_x == 1 else int(four[1] * most_x * width))
        top, left = int(four[2] * (height - sides[0] + 1)), int(four[3] * (width - sides[1] + 1))
        result[top : top + sides[0], left : left + sides[1]] = values.mean()
    return result


def interpolated(values: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Bilinear values of an array (height, width, channels) at the places `y` and `x` (rows, columns), float32."""
    height, width, _ = values.shape
    y, x = np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)
    top, left = np.minimum(y.astype(int), max(0, height - 2)), np.minimum(x.astype(int), max(0, width - 2))
    below, right = np.minimum(top + 1, height - 1), np.minimum(left + 1, width - 1)
    down, across = (y - top)[..., None].astype("float32"), (x - left)[..., None].astype("float32")
    upper = values[top, left] * (1 - across) + values[top, right] * across
    lower = values[below, left] * (1 - across) + values[below, right] * across
    return (upper * (1 - down) + lower * down).astype("float32")
