"""Plots of scores: BLEU by length, confusion matrix, learning curve, score by number of labels."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from keras_attention.support.errors import UserError
from keras_attention.visualize.figures import check_figure_path, drawable, save_figure

LINES = ("-", "--", "-.", ":")


def bleu_by_length_plot(series: dict, path: str | Path, title: str | None = None) -> None:
    """Draws one line per system: BLEU (0 to 100) of the sentences in each range of source lengths, in words.

    Args:
        series: dict from a system's name to a list of pairs (bucket label, BLEU); every system has the same labels
            in the same order.
        path: str or Path ending with .png, .svg or .pdf.
        title: str or None.

    Raises:
        ValueError: if the systems' labels differ.
        UserError: if there is nothing to draw or the picture cannot be written.

    Source: Bahdanau, Cho & Bengio (2015), figure 2. Difference: length buckets instead of a moving average.
    """
    check_figure_path(path)
    labels = [[str(label) for label, _ in points] for points in series.values()]
    if not labels or not labels[0]:
        raise UserError("There is nothing to draw: no system has a BLEU score.")
    if any(other != labels[0] for other in labels):
        raise ValueError(f"Every system must have the same buckets. Received: {labels}")
    (*names, title), families = drawable([*map(str, series), title or ""])
    figure = Figure(figsize=(6.4, 4.0))
    axes = figure.add_subplot()
    for position, (name, points) in enumerate(zip(names, series.values(), strict=True)):
        scores = [score for _, score in points]
        axes.plot(range(len(scores)), scores, LINES[position % len(LINES)], marker="o", label=name)
    axes.set_xticks(range(len(labels[0])), labels[0])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("source length (words)")
    axes.set_ylabel("BLEU")
    axes.grid(alpha=0.3)
    # Below the axes, where no line runs through it.
    axes.legend(prop={"family": families}, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False)
    if title:
        axes.set_title(title, family=families, parse_math=False)
    save_figure(figure, path)


CELL = 0.55  # inches, side of a cell
LONGEST_SIDE = 24.0  # inches; larger matrices get smaller cells
LONGEST_LABEL = 32  # characters; longer labels end with an ellipsis
MOST_NUMBERED = 40  # labels; with more the cells are too small for numbers


def confusion_matrix_plot(counts: ArrayLike, labels: Sequence[str], path: str | Path, title: str | None = None) -> None:
    """Draws a confusion matrix: true labels in rows, predicted labels in columns.

    The larger a cell's share of its row, the darker the cell. With up to 40 labels, the cells show their counts.

    Args:
        counts: int array (K, K).
        labels: list of K str.
        path: str or Path ending with .png, .svg or .pdf.
        title: str or None.

    Raises:
        ValueError: if the numbers of counts and labels differ.
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
        raise UserError("There is nothing to draw: there are no labels.")
    check_figure_path(path)
    short_labels = [
        label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "\N{HORIZONTAL ELLIPSIS}"
        for label in labels
    ]
    (*names, title), families = drawable([*short_labels, title or ""])
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


LOSS_LINES = {"loss": "-", "val_loss": "o--"}
LABELS = {"loss": "training, mean of an epoch", "val_loss": "validation, at its end"}


def learning_curve_plot(history: Sequence[dict], path: str | Path) -> None:
    """Draws training and validation loss over the number of updates.

    Args:
        history: list of dict, one per epoch, with "steps" (int, updates so far), "loss" and, if there was a
            validation, "val_loss" (float, nats per token); see `training.history.TrainResult`.
        path: str or Path ending with .png, .svg or .pdf.

    Raises:
        UserError: if there are no epochs, or the picture cannot be written.
    """
    check_figure_path(path)
    if not history:
        raise UserError("There is nothing to draw: no epoch has ended.")
    figure = Figure(figsize=(6.4, 4.0))
    axes = figure.add_subplot()
    for name, line in LOSS_LINES.items():
        points = [(entry["steps"], entry[name]) for entry in history if name in entry]
        if points:
            axes.plot(*zip(*points, strict=True), line, label=LABELS[name])
    axes.set_xlabel("updates")
    axes.set_ylabel("loss (nats a token)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    save_figure(figure, path)


def score_by_labels_plot(series: dict, path: str | Path, measure: str, title: str | None = None) -> None:
    """Draws one line per system: its score (0 to 100) over the number of labels, on a logarithmic axis.

    Args:
        series: dict from a system's name to a list of pairs (labels, list of scores, one for each seed); the line goes
            through the means, and bars reach from the lowest to the highest.
        path: str or Path ending with .png, .svg or .pdf.
        measure: str, name of the score.
        title: str or None.

    Raises:
        UserError: if there is nothing to draw or the picture cannot be written.
    """
    check_figure_path(path)
    if not any(series.values()):
        raise UserError("There is nothing to draw: no system has a score.")
    (*names, measure, title), families = drawable([*map(str, series), measure, title or ""])
    figure = Figure(figsize=(6.4, 4.0))
    axes = figure.add_subplot()
    for position, (name, points) in enumerate(zip(names, series.values(), strict=True)):
        labels = [count for count, _ in points]
        means = [sum(scores) / len(scores) for _, scores in points]
        below = [mean - min(scores) for mean, (_, scores) in zip(means, points, strict=True)]
        above = [max(scores) - mean for mean, (_, scores) in zip(means, points, strict=True)]
        line = LINES[position % len(LINES)]
        axes.errorbar(labels, means, [below, above], linestyle=line, marker="o", capsize=3, label=name)
    axes.set_xscale("log")
    counts = sorted({count for points in series.values() for count, _ in points})
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("labels to learn from")
    axes.set_ylabel(measure, family=families)
    axes.grid(alpha=0.3)
    axes.legend(prop={"family": families}, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False)
    if title:
        axes.set_title(title, family=families, parse_math=False)
    save_figure(figure, path)


def completion_plot(images: Sequence[str], completed: Sequence[str], path: str | Path) -> None:
    """Draws square images in the upper row, and below each the image whose lower half a model has drawn.

    Args:
        images: list of str of "0" (dark) and "1" (bright), one character per pixel, line by line.
        completed: list of as many such texts. Missing pixels and other characters are grey.
        path: str or Path ending with .png, .svg or .pdf.

    Raises:
        UserError: if there is nothing to draw or the picture cannot be written.
    """
    check_figure_path(path)
    if not images:
        raise UserError("There is nothing to draw: no images.")
    side = round(len(images[0]) ** 0.5)
    figure = Figure(figsize=(len(images), 2.2))
    grid = figure.subplots(2, len(images), squeeze=False)
    for row, texts in zip(grid, (images, completed), strict=True):
        for axes, text in zip(row, texts, strict=True):
            levels = [{"0": 0.0, "1": 1.0}.get(character, 0.5) for character in text[: side**2].ljust(side**2)]
            axes.imshow(np.reshape(levels, (side, side)), cmap="gray", vmin=0, vmax=1)
            axes.axhline(side / 2 - 0.5, color="tab:red", linewidth=0.8)
            axes.set_axis_off()
    save_figure(figure, path)
