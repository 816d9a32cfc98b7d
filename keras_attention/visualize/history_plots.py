"""Which items of a history a recommendation attends to."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from keras_attention.support.errors import UserError
from keras_attention.visualize.figures import check_figure_path, drawable, save_figure

MOST_ITEMS = 8  # of a history
LONGEST_NAME = 44  # characters


class Recommendation(NamedTuple):
    """A recommended item and the history behind it.

    Attributes:
        item: str.
        probability: float in [0, 1], that the user likes it.
        history: list of str, the items of the history with their answers.
        weights: float array (history,), attention weights from the item.
    """

    item: str
    probability: float
    history: Sequence[str]
    weights: np.ndarray


def because_plot(recommendations: Sequence[Recommendation], path: str | Path) -> None:
    """Draws, for each recommendation, a bar for each of the items that it attends to most: "because you watched ...".

    Args:
        recommendations: list of Recommendation.
        path: str or Path ending with .png, .svg or .pdf.

    Raises:
        UserError: if there is nothing to draw, or the picture cannot be written.
    """
    check_figure_path(path)
    if not recommendations or not all(len(one.history) for one in recommendations):
        raise UserError("There is nothing to draw: no recommendation has a history.")
    strongest = [np.argsort(one.weights)[::-1][:MOST_ITEMS] for one in recommendations]
    heights = [len(rows) + 2 for rows in strongest]
    figure = Figure(figsize=(7.0, 0.22 * sum(heights)), layout="constrained")
    axes = figure.subplots(len(recommendations), squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    for axis, one, rows in zip(axes, recommendations, strongest, strict=True):
        title = f"{_short(one.item)}: liked with probability {one.probability:.2f}. It attends to"
        (title, *names), families = drawable([title, *(_short(one.history[row]) for row in rows)])
        axis.barh(range(len(rows)), one.weights[rows], color="0.35", height=0.6)
        axis.set_yticks(range(len(rows)), names, family=families)
        axis.invert_yaxis()
        axis.set_title(title, loc="left", fontsize="medium", family=families)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("attention weight, mean over heads")
    save_figure(figure, path)


def _short(name):
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "\N{HORIZONTAL ELLIPSIS}"
