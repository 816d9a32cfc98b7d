"""What every layer and head looked at, as a grid of heat maps."""

import numpy as np
from matplotlib.figure import Figure

from keras_attention.errors import UserError
from keras_attention.visualize.figure_file import check_figure_path, save_figure
from keras_attention.visualize.fonts import drawable
from keras_attention.visualize.heatmap import visible

CELL = 0.17  # inches, side of a cell
LONGEST_SIDE = 40.0  # inches; more cells than fit at full size are drawn smaller
GAP = 0.3  # inches between two maps, room for a heading
POINTS = 72.0  # per inch


def heads_heatmap(weights, source_tokens, target_tokens, path, layers=None, heads=None):
    """Draws one grey map for each chosen layer (down) and head (across): 0 is black, 1 is white.

    In every map a row is one target token and a column one source token; the tokens stand at the left and upper edge.

    Shapes: L layers, H heads, T target tokens, S source tokens.

    Args:
        weights: array (L, H, T, S), floats in [0, 1].
        source_tokens: list of S str.
        target_tokens: list of T str.
        path: str or Path ending with .png, .svg or .pdf; written beside and renamed.
        layers, heads: lists of int from 1 on, or None for all.

    Raises:
        ValueError: if the shapes disagree or a weight is not a finite number.
        UserError: if there is no such layer or head, nothing to draw, or the picture cannot be written.

    Source: Vaswani et al. (2017), figures 3 to 5, which draw single heads as lines.

    Example:
        heads_heatmap(np.full((4, 2, 2, 2), 0.5), ["A", "dog"], ["Ein", "Hund"], "heads.png", layers=[4])
    """
    weights = np.asarray(weights, dtype="float32")
    if weights.ndim != 4 or weights.shape[2:] != (len(target_tokens), len(source_tokens)):
        raise ValueError(
            f"`weights` must be (layers, heads, {len(target_tokens)} target tokens, {len(source_tokens)} source tokens)"
            f". Received: weights.shape={weights.shape}"
        )
    if not np.isfinite(weights).all():
        raise ValueError("`weights` must be finite. Received: NaN or infinity")
    if weights.size == 0:
        raise UserError("There is nothing to draw: an attention map needs at least one source and one target token.")
    layers = _chosen(layers, weights.shape[0], "layer")
    heads = _chosen(heads, weights.shape[1], "head")
    check_figure_path(path)
    labels, families = drawable([visible(token) for token in (*source_tokens, *target_tokens)])
    sides = labels[: len(source_tokens)], labels[len(source_tokens) :]
    save_figure(_draw(weights, layers, heads, sides, families), path)


def _chosen(numbers, count, what):
    """The numbers from 1 on, all of them if None, checked."""
    numbers = list(range(1, count + 1)) if numbers is None else list(numbers)
    for number in numbers:
        if not 1 <= number <= count:
            raise UserError(f"There is no {what} {number}: the model has {count}, counted from 1.")
    return numbers


def _draw(weights, layers, heads, labels, families):
    """A figure as large as its maps; the tokens outside of them are added when the file is written."""
    rows, columns = weights.shape[2:]
    longest = max(len(layers) * rows, len(heads) * columns)
    cell = min(CELL, LONGEST_SIDE / longest)
    width, height = columns * cell, rows * cell
    total = len(heads) * (width + GAP), len(layers) * (height + GAP)
    font = {"family": families, "size": min(8.0, 0.62 * cell * POINTS)}
    figure = Figure(figsize=total)
    for i, layer in enumerate(layers):
        for j, head in enumerate(heads):
            left, bottom = j * (width + GAP), total[1] - i * (height + GAP) - height
            place = (left / total[0], bottom / total[1], width / total[0], height / total[1])
            axes = figure.add_axes(place)
            shown = weights[layer - 1, head - 1]
            axes.imshow(shown, cmap="gray", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
            axes.tick_params(length=0)
            axes.xaxis.tick_top()
            axes.set_xticks(range(columns) if i == 0 else [], labels[0] if i == 0 else [], parse_math=False, **font)
            axes.set_yticks(range(rows) if j == 0 else [], labels[1] if j == 0 else [], parse_math=False, **font)
            for tick in axes.xaxis.get_major_ticks():
                tick.label2.set_rotation(90)
            axes.set_xlabel(f"layer {layer}, head {head}", size=8.0, labelpad=3.0)
    return figure
