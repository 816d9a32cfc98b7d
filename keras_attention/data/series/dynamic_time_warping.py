"""The distance of series that may run at different speeds, and the label of the nearest one (Sakoe & Chiba 1978)."""

import numpy as np

PAIRS_AT_A_TIME = 1 << 14


def warping_distances(first: np.ndarray, second: np.ndarray, window: float = 1.0) -> np.ndarray:
    """The squared distance of each two series along their best alignment.

        d(i, j) = |x_i - y_j|^2 + min(d(i - 1, j), d(i, j - 1), d(i - 1, j - 1))        distance = d(T, T)

    Args:
        first: float array (N, T, C).
        second: float array (M, T, C).
        window: float in [0, 1], the largest |i - j| as a share of T (the band of Sakoe and Chiba).

    Returns:
        Array (N, M).

    Raises:
        ValueError: if the series have different lengths or channels.

    Source: Sakoe & Chiba (1978), https://doi.org/10.1109/TASSP.1978.1163055, with symmetric steps of weight 1.
    """
    first, second = np.asarray(first, "float64"), np.asarray(second, "float64")
    if first.ndim != 3 or second.ndim != 3 or first.shape[1:] != second.shape[1:]:
        raise ValueError(
            f"`first` and `second` must be (N, T, C) and (M, T, C). Received: {first.shape} and {second.shape}"
        )
    at_a_time = max(1, PAIRS_AT_A_TIME // len(second))
    parts = [first[start : start + at_a_time] for start in range(0, len(first), at_a_time)]
    return np.concatenate([_distances(part, second, window) for part in parts])


def _distances(first, second, window):
    steps = first.shape[1]
    band = max(0, int(window * steps))
    above = np.full((len(first), len(second), steps + 1), np.inf)  # d of the previous step of the first series
    above[..., 0] = 0
    for i in range(steps):
        here = np.full_like(above, np.inf)
        low, high = max(0, i - band), min(steps, i + band + 1)
        costs = np.square(first[:, None, i, None] - second[None, :, low:high]).sum(axis=-1)  # (N, M, places)
        for j in range(low, high):
            best = np.minimum(np.minimum(above[..., j + 1], above[..., j]), here[..., j])
            here[..., j + 1] = costs[..., j - low] + best
        above = here
    return above[..., steps]


def nearest_labels(known: np.ndarray, labels: list, asked: np.ndarray, window: float = 1.0) -> list:
    """The label of the nearest of `known` (N, T, C) for each of `asked` (M, T, C): 1-NN with DTW."""
    return [labels[place] for place in warping_distances(asked, known, window).argmin(axis=1)]
