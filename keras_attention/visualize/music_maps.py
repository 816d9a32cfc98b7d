"""Which earlier notes and bars a note attends to, on a piano roll."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from keras_attention.support.errors import UserError, check_finite
from keras_attention.visualize.figures import save_figure

COLOURS = ("#c2410c", "#15803d", "#1d4ed8", "#6d28d9")  # of the voices, from the highest to the lowest
CHOSEN = "#111111"
PALEST, STRONGEST = 0.12, 0.95  # opacity of a note without attention, and of the one with the most
STEP_WIDTH, LONGEST = 0.045, 20.0  # inches


def attention_of_last_note(weights, notes, steps_per_bar, voices, first_step=0):
    """The attention of the last note that begins in a piece, and of all bars.

    Args:
        weights: array (L, H, T, T) of L layers and H heads, for T tokens: a token before the piece, and then one for
            each voice of each step. The query at a token predicts the next token.
        notes: list of (voice, first step, number of steps, pitch).
        steps_per_bar: int.
        voices: names of the voices, list of str.
        first_step: int, number of steps of the piece that are left out at its beginning.

    Returns:
        MusicAttention.

    Raises:
        UserError: if no note begins after the first step, or a weight is not finite.
    """
    begun = [(start, -voice) for voice, start, _, _ in notes]
    if not begun or max(begun)[0] == 0:
        raise UserError("There is no note with others before it. Expected: music of at least two time steps.")
    check_finite(weights, "an attention weight")
    step, voice = max(begun)[0], -max(begun)[1]
    predicting = np.asarray(weights, "float32").mean(axis=1)[:, :-1, 1:]  # (L, notes, notes)
    layers, count, _ = predicting.shape
    of_note = predicting[:, step * len(voices) + voice].reshape(layers, -1, len(voices))
    starts = np.arange(0, count, steps_per_bar * len(voices))
    bars = np.add.reduceat(np.add.reduceat(predicting, starts, axis=2), starts, axis=1)  # (L, bars, bars)
    bars /= np.diff([*starts, count])[:, None]  # the mean over the notes of a bar
    (pitch,) = (note[3] for note in notes if note[:2] == (voice, step))
    bar, place = divmod(step, steps_per_bar)
    title = f"The {voices[voice]}'s note {pitch} in bar {bar + 1}, step {place + 1}"
    if first_step:
        title += f" (bar 1 is bar {first_step // steps_per_bar + 1} of the piece)"
    steps = count // len(voices)
    return MusicAttention(notes, list(voices), steps, steps_per_bar, (voice, step), of_note, bars, title)


class MusicAttention(NamedTuple):
    """The attention of one note over the notes before it, and of all bars over the bars before them.

    Attributes:
        notes: list of (voice, first step, number of steps, pitch).
        voices: names of the voices, list of str.
        num_steps: int, steps in the picture.
        steps_per_bar: int.
        chosen: (voice, step) of the note whose attention is shown.
        weights: array (L, num_steps, voices): the mean over the heads of L layers of the attention weights with which
            this note was predicted.
        bars: array (L, bars, bars): row i has the shares of attention from bar i to each bar.
        title: str.
    """

    notes: list
    voices: list
    num_steps: int
    steps_per_bar: int
    chosen: tuple
    weights: np.ndarray
    bars: np.ndarray
    title: str = ""

    def save(self, path: str | Path) -> None:
        """Writes a picture (.png, .svg, .pdf).

        Raises:
            UserError: if the name has another ending, or the file cannot be written.
        """
        save_figure(self.figure(), path)

    def figure(self) -> Figure:
        """A matplotlib figure: the piano roll, the attention to each bar, and a map of bars for each layer."""
        layers = len(self.weights)
        width = min(LONGEST, max(7.0, self.num_steps * STEP_WIDTH))
        side = min(width / layers, 2.4)
        heights = [2.9, 1.1, side]
        figure = Figure(figsize=(width, sum(heights) + 1.7), layout="constrained")
        grid = figure.add_gridspec(3, layers, height_ratios=heights)
        roll = figure.add_subplot(grid[0, :])
        self._draw_roll(roll)
        shares = figure.add_subplot(grid[1, :], sharex=roll)
        self._draw_shares(shares)
        for layer in range(layers):
            axes = figure.add_subplot(grid[2, layer])
            axes.imshow(self.bars[layer], cmap="Greys", vmin=0, interpolation="nearest")
            axes.set_title(f"layer {layer + 1}", size=8.0)
            axes.set_xlabel("attends to bar", size=7.0)
            axes.set_ylabel("bar" if layer == 0 else "", size=7.0)
            ticks = range(0, len(self.bars[layer]), max(1, len(self.bars[layer]) // 5))
            axes.set_xticks(ticks, [str(tick + 1) for tick in ticks], size=6.0)
            axes.set_yticks(ticks, [str(tick + 1) for tick in ticks], size=6.0)
        return figure

    def _draw_roll(self, axes):
        mean = self.weights.mean(axis=0)  # (num_steps, voices)
        most = mean.max() or 1.0
        voice, step = self.chosen
        for note_voice, start, length, pitch in self.notes:
            colour = COLOURS[note_voice % len(COLOURS)]
            axes.add_patch(Rectangle((start, pitch - 0.5), length, 1, color=colour, alpha=PALEST, linewidth=0))
            for place in range(start, start + length):
                opacity = STRONGEST * (mean[place, note_voice] / most) ** 0.5
                axes.add_patch(Rectangle((place, pitch - 0.5), 1, 1, color=colour, alpha=opacity, linewidth=0))
            if note_voice == voice and start <= step < start + length:
                outline = {"fill": False, "edgecolor": CHOSEN, "linewidth": 1.6, "zorder": 3}
                axes.add_patch(Rectangle((start, pitch - 0.5), length, 1, **outline))
        pitches = [note[3] for note in self.notes]
        axes.set_xlim(0, self.num_steps)
        axes.set_ylim(min(pitches) - 2, max(pitches) + 2)
        axes.set_ylabel("MIDI pitch", size=8.0)
        axes.set_title(self.title, size=9.0, loc="left")
        handles = [Rectangle((0, 0), 1, 1, color=colour) for colour in COLOURS[: len(self.voices)]]
        legend = {"ncols": len(self.voices), "frameon": False, "fontsize": 7.0, "loc": "lower right"}
        axes.legend(handles, self.voices, bbox_to_anchor=(1, 1), borderaxespad=0, **legend)
        self._bar_lines(axes)

    def _draw_shares(self, axes):
        of_steps = self.weights.sum(axis=2)  # (L, num_steps)
        starts = np.arange(0, self.num_steps, self.steps_per_bar)
        of_bars = np.add.reduceat(of_steps, starts, axis=1)  # (L, bars)
        width = self.steps_per_bar / (len(of_bars) + 1)
        for layer, shares in enumerate(of_bars):
            grey = str(round(0.75 * (1 - layer / max(1, len(of_bars) - 1)), 2))
            places = starts + (layer + 0.5) * width
            axes.bar(places, 100 * shares, width, align="edge", color=grey, label=f"layer {layer + 1}")
        axes.set_ylabel("% of the attention\nof the outlined note", size=7.0)
        axes.set_xlabel("bar", size=8.0)
        axes.tick_params(axis="y", labelsize=7.0)
        axes.legend(frameon=False, fontsize=6.0, loc="center left", bbox_to_anchor=(1, 0.5), borderaxespad=0.2)
        self._bar_lines(axes)

    def _bar_lines(self, axes):
        starts = list(range(0, self.num_steps, self.steps_per_bar))
        axes.set_xticks(starts, [str(number + 1) for number in range(len(starts))], size=7.0)
        for start in starts:
            axes.axvline(start, color="#00000033", linewidth=0.5, zorder=0)
