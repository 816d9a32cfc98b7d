"""Where each word of a transcript looks in its recording: a diagonal below the spectrogram (Chorowski et al. 2015)."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from keras_attention.support.errors import UserError, check_finite
from keras_attention.visualize.figures import drawable, save_figure

INCHES_PER_SECOND, NARROWEST, WIDEST = 1.6, 5.0, 24.0
ROW = 0.22  # inches of a word
MOST_WORDS = 200


class SpeechAttention(NamedTuple):
    """The attention weights of a transcript over its recording. A notebook displays it.

    Attributes:
        values: array (frames, bands), the spectrogram from 0 (silence) to 1.
        words: list of W str.
        weights: array (W, S), the attention weights of each word over S cells of time.
        seconds: float, length of the recording.
        title: str, the transcript.

    Source: Chorowski et al. (2015), figure 2, https://arxiv.org/abs/1506.07503.
    """

    values: np.ndarray
    words: list[str]
    weights: np.ndarray
    seconds: float
    title: str = ""

    def save(self, path: str | Path) -> None:
        """Writes a picture (.png, .svg, .pdf).

        Raises:
            UserError: if the name has another ending, or the file cannot be written.
        """
        save_figure(self.figure(), path)

    def figure(self) -> Figure:
        """A matplotlib figure: the spectrogram, and below it one line for each word.

        Raises:
            UserError: if a weight is not finite, or there are too many words.
        """
        check_finite(self.weights, "an attention weight")
        if len(self.words) > MOST_WORDS:
            raise UserError(f"The transcript has {len(self.words):,} words. At most {MOST_WORDS} can be drawn.")
        (title, *words), families = drawable([self.title, *self.words])
        lines = max(1, len(words))
        width = float(np.clip(INCHES_PER_SECOND * self.seconds, NARROWEST, WIDEST))
        heights = 1.3, ROW * lines
        figure = Figure(figsize=(width, sum(heights) + 1.1), layout="constrained")
        sound, alignment = figure.subplots(2, 1, sharex=True, height_ratios=heights)
        place = {"aspect": "auto", "interpolation": "nearest", "vmin": 0, "vmax": 1}
        sound.imshow(self.values.T, cmap="magma", origin="lower", extent=(0, self.seconds, 0, 1), **place)
        sound.set_yticks([])
        sound.set_ylabel("low to high", size=7.0)
        sound.set_title(title, family=families, size=10.0, loc="left", parse_math=False)
        if words:
            alignment.imshow(self.weights, cmap="Blues", extent=(0, self.seconds, lines, 0), **place)
        alignment.set_yticks(np.arange(len(words)) + 0.5, words, size=8.0, family=families, parse_math=False)
        alignment.tick_params(axis="y", length=0)
        alignment.tick_params(axis="x", labelsize=7.0)
        alignment.set_xlabel("seconds", size=7.0)
        return figure

    def _repr_png_(self):
        from io import BytesIO

        content = BytesIO()
        self.figure().savefig(content, format="png", bbox_inches="tight")
        return content.getvalue()
