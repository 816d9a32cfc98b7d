"""A map of the amino acids: those that a model finds alike are near each other, beside a table of all pairs."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from keras_attention.visualize.figures import check_figure_path, save_figure

# Chemical classes, from red to blue and grey; every amino acid is in one.
CLASSES = {
    "acidic": ("DE", "#b91c1c"),
    "basic": ("KRH", "#1d4ed8"),
    "polar": ("NQST", "#0f766e"),
    "aliphatic": ("AVLIM", "#a16207"),
    "aromatic": ("FWY", "#7e22ce"),
    "special": ("CGP", "#475569"),
}
SHADES = 8  # of the table; a PNG has 64 colours, which the letters need
LETTER = 0.05  # height of a letter, as a share of the map
ROUNDS = 50
COLOUR_OF = {letter: colour for letters, colour in CLASSES.values() for letter in letters}


def amino_acid_layout(similarities: np.ndarray) -> np.ndarray:
    """Places for amino acids in a plane, so that similar ones are near each other.

    The distance of two amino acids is the rank of their similarity among all pairs, from 0 (the most similar pair) to
    1. Classical scaling finds the places whose distances fit best:

        B = -1/2 C D^2 C,  C = I - 1/A        places = U_2 sqrt(L_2), of the two largest eigenvalues of B

    Args:
        similarities: array (A, A), symmetric; the diagonal is not used.

    Returns:
        float64 array (A, 2).

    Source: classical multidimensional scaling, Torgerson (1952). Ranks in place of distances keep rare amino acids,
    whose similarities are extreme, from filling the plane.
    """
    count = len(similarities)
    pairs = np.tril_indices(count, -1)
    distances = np.zeros((count, count))
    distances[pairs] = _ranks(-similarities[pairs])
    distances += distances.T
    center = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * center @ distances**2 @ center)
    places = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0))
    return places * np.where(places.sum(axis=0) < 0, -1, 1)  # the sign of an eigenvector is arbitrary


def amino_acid_plot(similarities: np.ndarray, others: np.ndarray, letters: str, path: str | Path, name: str) -> None:
    """Draws the map of the amino acids, and a table of all pairs: below the diagonal the learned similarities, above it
    others to compare them with. Cells are shaded by the rank of the pair, so the scales of both need not agree.

    Args:
        similarities: array (A, A), symmetric. Amino acids without similarities (NaN) are left out.
        others: array (A, A), symmetric, such as BLOSUM62.
        letters: str, the codes of the A amino acids.
        path: str or Path ending with .png, .svg or .pdf.
        name: str, the name of the others.

    Raises:
        UserError: if the picture cannot be written.
    """
    check_figure_path(path)
    known = np.flatnonzero(np.isfinite(np.diagonal(similarities)))
    by_class = [letter for part, _ in CLASSES.values() for letter in part]
    order = sorted(known, key=lambda number: by_class.index(letters[number]))
    similarities, others = similarities[np.ix_(order, order)], others[np.ix_(order, order)]
    letters = "".join(letters[number] for number in order)
    figure = Figure(figsize=(10.4, 4.9), layout="constrained")
    _draw_map(figure.add_subplot(1, 2, 1), similarities, letters)
    _draw_table(figure.add_subplot(1, 2, 2), similarities, others, letters, name)
    save_figure(figure, path)


def _draw_map(axes, similarities, letters):
    places = _apart(amino_acid_layout(similarities))
    for (x, y), letter in zip(places, letters, strict=True):
        colour = COLOUR_OF[letter]
        axes.text(x, y, letter, color=colour, size=15.0, weight="bold", ha="center", va="center")
    low, high = places.min(axis=0), places.max(axis=0)
    axes.set_xlim(low[0] - 0.1, high[0] + 0.1)
    axes.set_ylim(low[1] - 0.1, high[1] + 0.1)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title("Near: the model answers alike", size=10.0, loc="left")
    handles = [Rectangle((0, 0), 1, 1, color=colour) for _, colour in CLASSES.values()]
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.01), "ncols": len(CLASSES), "frameon": False}
    axes.legend(handles, list(CLASSES), fontsize=8.0, handlelength=1.0, columnspacing=1.2, **below)


def _apart(places):
    """The places, but those whose letters would cover each other moved apart."""
    least = LETTER * np.ptp(places, axis=0).max()
    for _ in range(ROUNDS):
        offsets = places[:, None] - places  # (A, A, 2)
        distances = np.linalg.norm(offsets, axis=-1) + np.eye(len(places)) * least
        missing = np.maximum(least - distances, 0)[..., None] / 2
        places = places + (missing * offsets / np.maximum(distances, 1e-9)[..., None]).sum(axis=1)
    return places


def _draw_table(axes, similarities, others, letters, name):
    count = len(letters)
    lower, upper = np.tril_indices(count, -1), np.triu_indices(count, 1)
    shades = np.full((count, count), np.nan)
    shades[lower] = _ranks(similarities[lower])
    shades[upper] = _ranks(others[upper])
    axes.imshow(np.round(shades * SHADES) / SHADES, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    ticks = range(count)
    for labels in (axes.set_xticks(ticks, list(letters), size=9.0), axes.set_yticks(ticks, list(letters), size=9.0)):
        for tick, letter in zip(labels, letters, strict=True):
            for label in (tick.label1, tick.label2):
                label.set(color=COLOUR_OF[letter], weight="bold")
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_title(f"Dark: alike. Above the diagonal {name}, below the model", size=10.0, loc="left", pad=8.0)


def _ranks(values):
    """The rank of each value from 0 (lowest) to 1; equal values share the mean of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[places] / max(1, len(values) - 1)
