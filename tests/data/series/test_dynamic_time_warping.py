"""Dynamic time warping equals its recursion, written as loops."""

import numpy as np
import pytest

from keras_attention.data.series.dynamic_time_warping import nearest_labels, warping_distances


def in_loops(x, y, band):
    steps = len(x)
    d = [[float("inf")] * (steps + 1) for _ in range(steps + 1)]
    d[0][0] = 0.0
    for i in range(1, steps + 1):
        for j in range(1, steps + 1):
            if abs(i - j) <= band:
                cost = sum((a - b) ** 2 for a, b in zip(x[i - 1], y[j - 1], strict=True))
                d[i][j] = cost + min(d[i - 1][j], d[i][j - 1], d[i - 1][j - 1])
    return d[steps][steps]


@pytest.mark.parametrize("window", [0.0, 0.2, 1.0])
def test_distances_equal_the_recursion(window):
    random = np.random.default_rng(3)
    first, second = random.normal(size=(3, 11, 2)), random.normal(size=(5, 11, 2))
    actual = warping_distances(first, second, window)
    for i in range(3):
        for j in range(5):
            assert actual[i, j] == pytest.approx(in_loops(first[i], second[j], int(11 * window)))
    with pytest.raises(ValueError, match="Received"):
        warping_distances(first, second[:, :7], window)


def test_a_series_that_is_late_is_near():
    line = np.sin(np.arange(23.0) / 3)
    known = np.stack([line, -line])[..., None]
    late = np.concatenate([line[:1], line[:1], line[:-2]])[None, :, None]
    assert nearest_labels(known, ["up", "down"], late) == ["up"]
    assert warping_distances(late, known)[0, 0] < ((late[0] - known[0]) ** 2).sum() / 5
