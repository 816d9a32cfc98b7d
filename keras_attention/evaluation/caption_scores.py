"""Scores of captions and transcripts: whether they are right, and whether words look at what they name."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def exact_captions(captions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The percentage of captions that equal one of the captions of their picture.

    Args:
        captions: list of N str.
        references: list of N sequences of str.
    """
    return 100 * float(np.mean([str(one) in right for one, right in zip(captions, references, strict=True)]))


DOUBTED = 0.05  # share of the answers to inputs of the intended kind that may be doubted
FEWEST = 20  # inputs for a threshold


def low_score_threshold(answers: Sequence[Any], share: float = DOUBTED) -> float | None:
    """The mean log probability per token below which answers are doubted.

    Args:
        answers: list of str with `mean_log_prob`, the best answers to inputs of the intended kind that were not used in
            training.
        share: float in (0, 1), the share of them that may be doubted.

    Returns:
        float <= 0, with four decimals, or None for fewer than `FEWEST` answers.
    """
    if len(answers) < FEWEST:
        return None
    return round(float(np.quantile([one.mean_log_prob for one in answers], share)), 4)


def pointing(
    attention: ArrayLike, boxes: Mapping[int, Sequence[float]], size: tuple[int, int]
) -> list[tuple[bool, float]]:
    """Whether words look into the boxes of what they name.

    Args:
        attention: array (W, rows, columns), the attention weights of W words over the cells of a picture.
        boxes: dict from the number of a word to (left, top, right, bottom) in pixels; a cell is in the box if its
            middle is.
        size: (height, width) of the picture in pixels.

    Returns:
        For each word of `boxes`: whether the cell with the largest weight is in the box, and the sum of the weights of
        the cells in it. (False, 0.0) for words beyond W.
    """
    attention = np.asarray(attention, "float64")
    _, rows, columns = attention.shape
    y = (np.arange(rows)[:, None] + 0.5) * size[0] / rows
    x = (np.arange(columns)[None, :] + 0.5) * size[1] / columns
    hits = []
    for word, (left, top, right, bottom) in boxes.items():
        if word >= len(attention):
            hits.append((False, 0.0))
            continue
        inside = (left <= x) & (x < right) & (top <= y) & (y < bottom)  # (rows, columns)
        weights = attention[word]
        hits.append((bool(inside.flat[weights.argmax()]), float(weights[inside].sum())))
    return hits


def edit_distance(received: Sequence, expected: Sequence) -> int:
    """The least number of words to insert, delete or replace so that `received` becomes `expected` (Levenshtein)."""
    costs = list(range(len(expected) + 1))
    for i, one in enumerate(received, start=1):
        before, costs[0] = costs[0], i
        for j, other in enumerate(expected, start=1):
            before, costs[j] = costs[j], min(costs[j] + 1, costs[j - 1] + 1, before + (one != other))
    return costs[-1]


def word_error_rate(received: Sequence[Sequence], expected: Sequence[Sequence]) -> float:
    """Wrong words in percent of the expected ones: 100 * (sum of the edit distances) / (number of expected words).

    Args:
        received, expected: N sequences of words; a str is a sequence of characters.
    """
    wrong = sum(edit_distance(*both) for both in zip(received, expected, strict=True))
    return 100.0 * wrong / max(1, sum(map(len, expected)))


def within_words(times: Sequence[float], places: Sequence[tuple[float, float]]) -> list[bool]:
    """For each word, whether the time at which it looks most is between its start and end, in seconds."""
    return [start <= time < end for time, (start, end) in zip(times, places, strict=True)]
