"""Histograms of oriented gradients: what a simple model reads of images (Dalal & Triggs 2005)."""

from typing import Any

import numpy as np

BINS = 9  # of angles, from 0 to 180 degrees
CELLS = 7  # along the shorter side
MOST_PIXELS = 16  # along a side, of the small image beside the histograms
EPSILON = 1e-2


def gradient_histograms(values: Any) -> Any:
    """Histograms of oriented gradients of images, followed by a small version of each image.

    Each pixel votes with the length of its gradient for the two nearest of nine angles; the votes are averaged in
    square cells, and the histograms of each 2 x 2 cells are divided by their length:

        block / sqrt(|block|^2 + 0.01^2)

    Args:
        values: float array or tensor (B, height, width, channels) ; sides below 4 have no histograms.

    Returns:
        float32 tensor (B, D).

    Source: Dalal & Triggs (2005), section 6, https://doi.org/10.1109/CVPR.2005.177. Differences: gradients of the mean
    over the channels, no interpolation between cells, and the pixels themselves beside them.
    """
    from keras import ops

    values = ops.cast(values, "float32")
    height, width, channels = values.shape[1:]
    gray = ops.mean(values, axis=-1)  # (B, height, width)
    gray = ops.concatenate([gray[:, :1], gray, gray[:, -1:]], axis=1)
    gray = ops.concatenate([gray[:, :, :1], gray, gray[:, :, -1:]], axis=2)
    down, across = gray[:, 2:, 1:-1] - gray[:, :-2, 1:-1], gray[:, 1:-1, 2:] - gray[:, 1:-1, :-2]
    lengths = ops.sqrt(ops.square(down) + ops.square(across))
    place = ops.arctan2(down, across) * (BINS / np.pi)  # from -9 to 9; opposite directions are alike
    away = ops.mod(place[..., None] - np.arange(BINS, dtype="float32") + BINS / 2, float(BINS)) - BINS / 2
    votes = lengths[..., None] * ops.maximum(0.0, 1.0 - ops.abs(away))  # (B, height, width, BINS)

    cell = max(2, round(min(height, width) / CELLS))
    cells = averaged(votes, cell)  # (B, rows, columns, BINS)
    corners = [cells[:, :-1, :-1], cells[:, :-1, 1:], cells[:, 1:, :-1], cells[:, 1:, 1:]]
    blocks = ops.concatenate(corners, axis=-1)  # (B, rows - 1, columns - 1, 4 BINS)
    blocks = blocks / ops.sqrt(ops.sum(ops.square(blocks), axis=-1, keepdims=True) + EPSILON**2)
    small = averaged(values, -(-max(height, width) // MOST_PIXELS))
    parts = [part for part in (blocks, small) if np.prod(part.shape[1:])]  # tiny images have no blocks
    return ops.concatenate([ops.reshape(part, (-1, int(np.prod(part.shape[1:])))) for part in parts], axis=1)


def averaged(values: Any, size: int) -> Any:
    """Means over squares of `size` places of (B, height, width, channels); what is left at the ends is dropped."""
    from keras import ops

    rows, columns, channels = values.shape[1] // size, values.shape[2] // size, values.shape[3]
    squares = ops.reshape(values[:, : rows * size, : columns * size], (-1, rows, size, columns, size, channels))
    return ops.mean(squares, axis=(2, 4))
