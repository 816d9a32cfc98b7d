"""Which label was taken for which, as a picture."""

import numpy as np
from matplotlib.figure import Figure

from keras_attention.errors import UserError
from keras_attention.visualize.figure_file import check_figure_path, save_figure
from keras_attention.visualize.fonts import drawable

CELL = 0.55  # inches, side of a cell
LONGEST_SIDE = 24.0  # inches; more cells than fit at full size are drawn smaller
LONGEST_LABEL = 32  # characters; what is longer ends with an ellipsis
MOST_NUMBERED = 40  # labels; with more the cells are too small for numbers


def confusion_matrix_plot(counts, labels, path, title=None):
    """Draws a table of counts: a row for each true label, a column for each label that was given.

    A cell is the darker, the larger its share of the row. Counts stand in the cells of up to 40 labels.

    Args:
        counts: int array (K, K).
        labels: list of K str.
        path: str or Path ending with .png, .svg or .pdf; written beside and renamed.
        title: str or None.

    Raises:
        ValueError: if counts and labels differ in number.
        UserError: if there is nothing to draw or the picture cannot be written.

    Example:
        confusion_matrix_plot([[9, 1], [2, 8]], ["bad", "good"], "confusion.png")
    """
    counts = np.asarray(counts)
    if counts.shape != (len(labels), len(labels)):
        raise ValueError(
            f"`counts` must have a row and a column for each of the {len(labels)} labels. "
            f"Received: counts.shape={counts.shape}"
        )
    if not counts.size:
        raise UserError("There is nothing to draw: no label is there.")
    check_figure_path(path)
    shown = [
        label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "\N{HORIZONTAL ELLIPSIS}"
        for label in labels
    ]
    (*names, title), families = drawable([*shown, title or ""])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    cell = min(CELL, LONGEST_SIDE / len(labels))
    font = {"family": families, "size": min(10.0, 22 * cell)}
    figure = Figure(figsize=(len(labels) * cell, len(labels) * cell))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    axes.set_xticks(range(len(names)), names, rotation=90, parse_math=False, **font)
    axes.set_yticks(range(len(names)), names, parse_math=False, **font)
    axes.tick_params(length=0)
    axes.set_xlabel("given", family=families)
    axes.set_ylabel("true", family=families)
    if len(names) <= MOST_NUMBERED:
        for (row, column), count in np.ndenumerate(counts):
            ink = "white" if shares[row, column] > 0.5 else "black"
            size = min(9.0, 60 * cell / max(2, len(str(count))))
            axes.text(column, row, str(count), ha="center", va="center", color=ink, size=size)
    if title:
        axes.set_title(title, family=families, parse_math=False, pad=10.0)
    save_figure(figure, path)
