"""Attention over the patches of an image, a spectrogram or a series, and the similarity of their positions."""

import base64
import html
import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike
from PIL import Image

from keras_attention.support.errors import UserError, check_finite
from keras_attention.visualize.figures import check_figure_path, drawable, save_figure
from keras_attention.visualize.pages import check_page_path, check_weights, filled, framed, save_page

IMAGE, SPECTROGRAM, LINES = "image", "spectrogram", "lines"
PANEL = 1.25  # inches, the longer side of a map
STRONGEST = 0.75  # opacity of the largest weight of a map
COLOUR = "#e0202f"


def attention_rollout(weights: ArrayLike) -> np.ndarray:
    """How much of each token of the input is in each output, when attention is followed through all layers.

        A_l = (mean over heads of W_l + I) / 2, its rows normalized        R_l = A_l R_{l-1}        R_0 = I

    Args:
        weights: array (L, H, N, N), attention weights of L layers and H heads.

    Returns:
        Array (N, N), R_L. Each row sums to 1.

    Raises:
        ValueError: if the shape is another one.

    Source: Abnar & Zuidema (2020), section 3, "attention rollout", equation 1, https://arxiv.org/abs/2005.00928. The
    identity is the residual connection.
    """
    weights = np.asarray(weights, "float64")
    if weights.ndim != 4 or weights.shape[2] != weights.shape[3]:
        raise ValueError(f"`weights` must be (layers, heads, N, N). Received: weights.shape={weights.shape}")
    size = weights.shape[2]
    result = np.eye(size)
    for layer in weights:
        mixed = (layer.mean(axis=0) + np.eye(size)) / 2
        result = mixed / mixed.sum(axis=1, keepdims=True) @ result
    return result


def weights_of_patches(weights: ArrayLike, pooling: str) -> np.ndarray:
    """The attention of the vector that is classified: of [CLS] to each patch, or its mean over all patches.

    Args:
        weights: array (..., N, N), attention weights, or a rollout.
        pooling: "cls", if the first of N tokens is [CLS] and classified; or "mean", over N patches.

    Returns:
        Array (..., P), for P = N - 1 or N patches.
    """
    weights = np.asarray(weights)
    return weights[..., 0, 1:] if pooling == "cls" else weights.mean(axis=-2)


def position_similarities(embeddings: ArrayLike) -> np.ndarray:
    """The cosine (N, N) of the embeddings (N, D) of each two places."""
    vectors = np.asarray(embeddings, "float64")
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return np.clip(vectors @ vectors.T, -1, 1)


class PatchAttention(NamedTuple):
    """Attention over the patches of one input, as a picture or a page. A notebook displays it.

    Attributes:
        values: array that is drawn below: (height, width) or (height, width, 3) from 0 to 1 for "image", (frames,
            bands) for "spectrogram", (steps, channels) for "lines".
        drawing: str, one of these.
        weights: array (L, H, *grid) of L layers, H heads and a grid of patches: (rows, columns) or (length,).
        rollout: array (*grid), see `attention_rollout`.
        title: str, the answer.
        note: str, shown below.
    """

    values: np.ndarray
    drawing: str
    weights: np.ndarray
    rollout: np.ndarray
    title: str = ""
    note: str = ""

    def save(self, path: str | Path) -> None:
        """Writes a picture (.png, .svg, .pdf) or a page (.html).

        Raises:
            UserError: if the name has another ending, or the file cannot be written.
        """
        if check_view_path(path).suffix.lower() in PAGES:
            save_page(self.html, path)
        else:
            save_figure(self.figure(), path)

    @property
    def panels(self) -> list[tuple[str, np.ndarray]]:
        """Names and maps, rollout first: list of (str, array (*grid))."""
        layers, heads = self.weights.shape[:2]
        of_heads = [(f"layer {i + 1}, head {j + 1}", self.weights[i, j]) for i in range(layers) for j in range(heads)]
        return [("rollout", self.rollout), *of_heads]

    def figure(self) -> Figure:
        """A matplotlib figure: the input and the rollout above, then a row for each layer."""
        layers, heads = self.weights.shape[:2]
        (title, note), families = drawable([self.title, self.note])
        width, height = self._sides()
        scale = PANEL * (1.6 if self.drawing == LINES else 1.0) / max(width, height)
        width, height = max(0.5, width * scale), max(0.5, height * scale)
        columns, gap = max(2, heads), 0.17
        total = columns * (width + 0.12), (layers + 1) * (height + gap)
        figure = Figure(figsize=total)
        places = [(0, 0), (0, 1), *((i + 1, j) for i in range(layers) for j in range(heads))]
        for (row, column), (name, weights) in zip(places, [("input", None), *self.panels], strict=True):
            left, bottom = column * (width + 0.12), total[1] - row * (height + gap) - height
            axes = figure.add_axes((left / total[0], bottom / total[1], width / total[0], height / total[1]))
            self._draw(axes, weights)
            label = name if weights is None else f"{name}, max {100 * weights.max():.0f} %"
            axes.set_title(label, size=6.0, pad=2.0)
        figure.text(0, 1 + 0.1 / total[1], title, family=families, size=9.0, parse_math=False, va="bottom")
        figure.text(
            0, gap / total[1] - 0.08 / total[1], note, family=families, size=5.5, parse_math=False, va="top", wrap=False
        )
        return figure

    def _sides(self):
        """Width and height of the input as drawn."""
        if self.drawing == LINES:
            return 5, 3
        rows, columns = self.values.shape[:2]
        return (rows, columns) if self.drawing == SPECTROGRAM else (columns, rows)

    def _draw(self, axes, weights):
        if self.drawing == LINES:
            axes.plot(self.values, color="black", linewidth=0.5)
            axes.set_xlim(0, len(self.values) - 1)
        else:
            axes.imshow(self._upright(self.values), cmap="gray", vmin=0, vmax=1, aspect="auto", origin="upper")
        axes.set_axis_off()
        if weights is None:
            return
        shares = np.asarray(weights) / (np.max(weights) or 1.0)
        if self.drawing == LINES:
            step = (len(self.values) - 1) / shares.size
            for number, share in enumerate(shares.ravel()):
                axes.axvspan(number * step, (number + 1) * step, color=COLOUR, alpha=STRONGEST * share, linewidth=0)
            return
        maps = self._upright(shares)
        left, right, bottom, top = -0.5, self._sides()[0] - 0.5, self._sides()[1] - 0.5, -0.5
        axes.imshow(
            np.full((*maps.shape, 3), [0xE0 / 255, 0x20 / 255, 0x2F / 255]),
            alpha=STRONGEST * maps,
            extent=(left, right, bottom, top),
            aspect="auto",
            interpolation="nearest",
        )

    def _upright(self, values):
        """Rows from top to bottom: time to the right and high bands above, for a spectrogram."""
        if self.drawing != SPECTROGRAM:
            return values
        values = values[:, None] if values.ndim == 1 else values  # patches over all bands
        return values.T[::-1]

    @property
    def html(self) -> str:
        """str, a whole HTML document without scripts."""
        check_weights(self.weights.size)
        figures = [self._as_html("input", None), *(self._as_html(name, weights) for name, weights in self.panels)]
        first, others = "".join(figures[:2]), "".join(figures[2:])
        heads = self.weights.shape[1]
        content = (
            f"<h1>{html.escape(self.title)}</h1>{self._symbol()}"
            f'<div class="first">{first}</div><div class="maps" style="--heads: {heads}">{others}</div>'
            f'<p class="note">{html.escape(self.note)}</p>'
        )
        return filled("patch_page.html", "<!--MAPS-->", content)

    def _repr_html_(self):
        return framed(self.html, "40rem")

    def _symbol(self):
        """The input as an SVG symbol, drawn once and used by all maps."""
        width, height = self._sides()
        if self.drawing == LINES:
            content = "".join(
                f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width=".02"/>'
                for points in map(self._points, np.asarray(self.values).T)
            )
        else:
            drawn = io.BytesIO()
            pixels = np.rint(255 * np.clip(self._upright(np.asarray(self.values)), 0, 1)).astype("uint8")
            Image.fromarray(pixels).save(drawn, "png", optimize=True)
            source = f"data:image/png;base64,{base64.b64encode(drawn.getvalue()).decode()}"
            content = f'<image href="{source}" width="{width}" height="{height}" style="image-rendering: pixelated"/>'
        return f'<svg class="source"><symbol id="input" viewBox="0 0 {width} {height}">{content}</symbol></svg>'

    def _points(self, line):
        width, height = self._sides()
        low, high = float(self.values.min()), float(self.values.max())
        across = np.linspace(0, width, len(line))
        down = height * (1 - (line - low) / ((high - low) or 1.0))
        return " ".join(f"{x:.3f},{y:.3f}" for x, y in zip(across, down, strict=True))

    def _as_html(self, name, weights):
        width, height = self._sides()
        cells, label = "", name
        if weights is not None:
            maps = np.atleast_2d(self._upright(np.asarray(weights)))
            rows, columns = maps.shape
            largest = float(maps.max()) or 1.0
            label = f"{name} <span>{largest:.1%}</span>"
            cells = "".join(
                f'<rect x="{x * width / columns:.3f}" y="{y * height / rows:.3f}" width="{width / columns:.3f}" '
                f'height="{height / rows:.3f}" opacity="{STRONGEST * weight / largest:.3f}"><title>{weight:.2%}'
                "</title></rect>"
                for y, row in enumerate(maps)
                for x, weight in enumerate(row)
            )
        return (
            f'<figure tabindex="0"><svg viewBox="0 0 {width} {height}" role="img" aria-label="{name}">'
            f'<use href="#input" width="{width}" height="{height}"/>{cells}</svg>'
            f"<figcaption>{label}</figcaption></figure>"
        )


def patch_attention(values, drawing, weights, grid, pooling, title="", note="") -> PatchAttention:
    """The maps of one input.

    Args:
        values, drawing, title, note: see `PatchAttention`.
        weights: array (L, H, N, N), attention weights of the network.
        grid: tuple of int, the number of patches along each axis.
        pooling: "cls" or "mean", see `weights_of_patches`.

    Returns:
        PatchAttention.

    Raises:
        UserError: if a weight is not finite.
    """
    check_finite(weights, "an attention weight")
    weights = np.asarray(weights, "float32")
    maps = weights_of_patches(weights, pooling)
    followed = weights_of_patches(attention_rollout(weights), pooling)
    maps, followed = maps.reshape(*maps.shape[:2], *grid), followed.reshape(grid)
    return PatchAttention(np.asarray(values), drawing, maps, followed, title, note)


PAGES = (".html", ".htm")


def check_view_path(path: str | Path) -> Path:
    """Returns the path of a picture or page as a Path; raises UserError if it cannot be written."""
    path = Path(path)
    if path.suffix.lower() in PAGES:
        return check_page_path(path)
    return check_figure_path(path)


class PositionMap(NamedTuple):
    """How similar the position embeddings of patches are: one map for each place of the grid.

    Attributes:
        similarities: array (N, N), cosines.
        grid: tuple of int: (rows, columns), or (length,).
        drawing: str, see `PatchAttention`.

    Source: Dosovitskiy et al. (2021), figure 7, center, https://arxiv.org/abs/2010.11929.
    """

    similarities: np.ndarray
    grid: tuple
    drawing: str = IMAGE

    def save(self, path: str | Path) -> None:
        """Writes a picture (.png, .svg, .pdf).

        Raises:
            UserError: if the name has another ending, the file cannot be written, or there are too many places.
        """
        save_figure(self.figure(), path)

    def figure(self) -> Figure:
        """A matplotlib figure; the colours are those of cosines from -1 to 1."""
        rows, columns = (*self.grid, 1)[:2]
        if rows * columns > MOST_PLACES:
            raise UserError(f"There are {rows * columns:,} places. At most {MOST_PLACES:,} can be drawn.")
        if len(self.grid) == 1:
            maps, tall, wide = [[self.similarities]], 1, 1
        else:
            maps = self.similarities.reshape(rows, columns, rows, columns)
            if self.drawing == SPECTROGRAM:  # time to the right, high bands above
                maps = maps.transpose(1, 0, 3, 2)[::-1, :, ::-1]
            tall, wide = maps.shape[:2]
        side = 3.2 / max(tall, wide)
        figure = Figure(figsize=(wide * side + 0.5, tall * side + 0.3))
        grid = figure.add_gridspec(tall, wide, left=0, right=0.86, bottom=0, top=0.92, wspace=0.12, hspace=0.12)
        for row in range(tall):
            for column in range(wide):
                axes = figure.add_subplot(grid[row, column])
                axes.imshow(maps[row][column], cmap="viridis", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
                axes.set_axis_off()
                if len(self.grid) == 2:
                    axes.add_patch(
                        Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="white", linewidth=0.4)
                    )
        colours = ScalarMappable(Normalize(-1, 1), "viridis")
        bar = figure.colorbar(colours, cax=figure.add_axes((0.89, 0.05, 0.025, 0.82)), ticks=[-1, 0, 1])
        bar.ax.tick_params(labelsize=6.0, length=0)
        title = "Similarity of the position embeddings (cosine)"
        figure.text(0, 0.95, title, size=7.0)
        return figure


MOST_PLACES = 1024


def position_map(embeddings: ArrayLike, grid: tuple, drawing: str = IMAGE) -> PositionMap:
    """The PositionMap of embeddings (N, D) for a grid of N places.

    Raises:
        ValueError: if there is not one embedding for each place.
    """
    similarities, grid = position_similarities(embeddings), tuple(grid)
    if len(similarities) != np.prod(grid):
        raise ValueError(f"`grid` must have {len(similarities)} places. Received: grid={grid}")
    return PositionMap(similarities, grid, drawing)
