"""A picture once for each word of its caption, with a spotlight where the word looks (Xu et al. 2015)."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from keras_attention.support.errors import UserError, check_finite
from keras_attention.visualize.figures import drawable, save_figure

PANEL = 1.4  # inches, the longer side of a panel
COLUMNS = 6  # panels in a row
DOTS = 240  # of the longer side of a panel
DARKNESS = 0.55  # share of its brightness that the picture loses where a word does not look
GLOW = 0.5  # opacity of the light where it looks most
LIGHT = np.array([1.0, 0.80, 0.25])
MOST_WORDS = 200


class Spotlights(NamedTuple):
    """The attention weights of a caption over its picture. A notebook displays it.

    Attributes:
        values: array (height, width) or (height, width, 3) of the picture, from 0 to 1.
        words: list of W str.
        weights: array (W, rows, columns), the attention weights of each word over the cells of the picture.
        title: str, the caption.

    Source: Xu et al. (2015), figure 2, https://arxiv.org/abs/1502.03044. Difference: each map has its own scale, and
    the light is coloured, so that it is seen on black pictures as well.
    """

    values: np.ndarray
    words: list[str]
    weights: np.ndarray
    title: str = ""

    def save(self, path: str | Path) -> None:
        """Writes a picture (.png, .svg, .pdf).

        Raises:
            UserError: if the name has another ending, or the file cannot be written.
        """
        save_figure(self.figure(), path)

    def panel(self, word: int) -> np.ndarray:
        """The picture with the spotlight of a word: uint8 array (height, width, 3), `DOTS` on the longer side."""
        height, width = self.values.shape[:2]
        scale = DOTS / max(height, width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        pixels = np.rint(255 * np.clip(self.values, 0, 1)).astype("uint8")
        picture = np.asarray(Image.fromarray(pixels).convert("RGB").resize(size, Image.Resampling.NEAREST)) / 255
        weights = np.asarray(self.weights[word], "float32")
        shares = weights / (weights.max() or 1.0)
        light = np.asarray(Image.fromarray(shares).resize(size, Image.Resampling.BILINEAR))[..., None]
        lit = picture * (1 - DARKNESS * (1 - light))
        return np.rint(255 * (lit * (1 - GLOW * light) + GLOW * light * LIGHT)).astype("uint8")

    def figure(self) -> Figure:
        """A matplotlib figure: the picture, then one panel for each word.

        Raises:
            UserError: if a weight is not finite, or there are too many words.
        """
        check_finite(self.weights, "an attention weight")
        if len(self.words) > MOST_WORDS:
            raise UserError(f"The caption has {len(self.words):,} words. At most {MOST_WORDS} can be drawn.")
        (title, *words), families = drawable([self.title, *self.words])
        height, width = self.values.shape[:2]
        wide, tall = (side * PANEL / max(height, width) for side in (width, height))
        count = 1 + len(words)
        columns, rows = min(COLUMNS, count), -(-count // COLUMNS)
        step, drop, head = wide + 0.1, tall + 0.25, 0.25
        total = columns * step, rows * drop + head
        figure = Figure(figsize=total)
        for number in range(count):
            row, column = divmod(number, columns)
            place = column * step, total[1] - head - row * drop - drop, wide, tall
            axes = figure.add_axes(tuple(x / total[i % 2] for i, x in enumerate(place)))
            picture = self.values if number == 0 else self.panel(number - 1)
            axes.imshow(picture, cmap="gray", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
            axes.set_axis_off()
            label = "" if number == 0 else words[number - 1]
            axes.set_title(label, size=8.0, pad=2.0, family=families, parse_math=False)
        figure.text(0, 1 - 0.02 / total[1], title, family=families, size=9.0, parse_math=False, va="top")
        return figure

    def _repr_png_(self):
        from io import BytesIO

        content = BytesIO()
        self.figure().savefig(content, format="png", bbox_inches="tight")
        return content.getvalue()
