"""Attention heat maps, and what every figure needs: fonts for any script, and saving whole or not at all."""

import importlib.util
import io
import unicodedata
import warnings
from collections.abc import Sequence
from pathlib import Path

import matplotlib.font_manager as font_manager
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from numpy.typing import ArrayLike
from PIL import Image

from keras_attention.support.atomic_files import check_place, whole_file
from keras_attention.support.errors import UserError
from keras_attention.support.installation import install_command

CELL = 0.3  # inches, side of a cell
LONGEST_SIDE = 24.0  # inches; larger maps get smaller cells
LONGEST_LABEL = 32  # characters; longer labels end with an ellipsis
POINTS = 72.0  # per inch
COLOURS = 64  # of a PNG


def attention_heatmap(
    weights: ArrayLike,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    path: str | Path,
    title: str | None = None,
) -> None:
    """Draws attention weights as grey cells, from 0 (black) to 1 (white).

    Source tokens label the columns, target tokens the rows. Labels of more than two characters are rotated by 90
    degrees. Spaces and line breaks inside tokens are shown as visible signs. Characters that no installed font can draw
    become U+FFFD, with one warning.

    Shapes: T target tokens, S source tokens.

    Args:
        weights: array (T, S), floats in [0, 1].
        source_tokens: list of S str.
        target_tokens: list of T str.
        path: str or Path ending with .png, .svg or .pdf.
        title: str or None.

    Raises:
        ValueError: if the shapes disagree or a weight is not a finite number.
        UserError: if there is nothing to draw, or the picture cannot be written.

    Source: Bahdanau, Cho & Bengio (2015), figure 3. Difference: short labels stay upright.

    Example:
        attention_heatmap([[0.9, 0.1], [0.2, 0.8]], ["A", "dog"], ["Ein", "Hund"], "alignment.png")
    """
    weights = np.asarray(weights, dtype="float32")
    if weights.shape != (len(target_tokens), len(source_tokens)):
        raise ValueError(
            f"`weights` must have one row per target token and one column per source token: "
            f"({len(target_tokens)}, {len(source_tokens)}). Received: weights.shape={weights.shape}"
        )
    if not np.isfinite(weights).all():
        raise ValueError("`weights` must be finite. Received: NaN or infinity")
    if weights.size == 0:
        raise UserError("There is nothing to draw: an attention map needs at least one source and one target token.")
    check_figure_path(path)
    labels = [visible(token) for token in (*source_tokens, *target_tokens)]
    (*labels, title), families = drawable([*labels, title or ""])
    save_figure(_draw(weights, labels[: len(source_tokens)], labels[len(source_tokens) :], title, families), path)


def visible(token: str) -> str:
    """The token with visible signs for invisible characters, shortened to `LONGEST_LABEL` characters."""
    if len(token) > LONGEST_LABEL:
        token = token[: LONGEST_LABEL - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return "".join(_SIGNS.get(character, character) for character in token) or "\N{EMPTY SET}"


_SIGNS = {
    " ": "\N{OPEN BOX}",
    "\N{NO-BREAK SPACE}": "\N{OPEN BOX}",
    "\N{NARROW NO-BREAK SPACE}": "\N{OPEN BOX}",
    "\N{IDEOGRAPHIC SPACE}": "\N{OPEN BOX}",
    "\t": "\N{RIGHTWARDS ARROW TO BAR}",
    "\n": "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}",
    "\r": "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}",
}


def _draw(weights, source_labels, target_labels, title, families):
    """A figure with the size of its cells; the labels around it enlarge the picture when it is saved."""
    rows, columns = weights.shape
    cell = min(CELL, LONGEST_SIDE / max(rows, columns))
    font = {"family": families, "size": min(11.0, 0.62 * cell * POINTS)}
    figure = Figure(figsize=(columns * cell, rows * cell))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(weights, cmap="gray", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    axes.xaxis.tick_top()
    for label, text in zip(
        axes.set_xticks(range(columns), source_labels, parse_math=False, **font), source_labels, strict=True
    ):
        label.label2.set_rotation(90 if len(text) > 2 else 0)
    axes.set_yticks(range(rows), target_labels, parse_math=False, **font)
    axes.tick_params(length=0)
    if title:
        axes.set_title(title, family=families, size=11.0, parse_math=False, pad=10.0)
    return figure


WORD_GAP = 0.85  # inches between two words
FAINTEST = 0.1  # weights below are not drawn


def links_plot(words: Sequence[str], weights: ArrayLike, path: str | Path, title: str | None = None) -> None:
    """Draws an arc from each word to the earlier words that it attends to; strong weights are dark and thick.

    Args:
        words: list of T str.
        weights: array (T, T), floats in [0, 1]: the weight of each word (column) at each word (row).
        path: str or Path ending with .png, .svg or .pdf.
        title: str or None.

    Raises:
        ValueError: if the shapes disagree.
        UserError: if there is nothing to draw, or the picture cannot be written.

    Source: Cheng, Dong & Lapata (2016), figure 1, which shows only the strongest links.
    """
    weights, count = np.asarray(weights, dtype="float32"), len(words)
    if weights.shape != (count, count):
        raise ValueError(f"`weights` must be ({count}, {count}) for {count} words. Received: {weights.shape}")
    if not count:
        raise UserError("There is nothing to draw: no words.")
    check_figure_path(path)
    (*labels, title), families = drawable([*map(visible, words), title or ""])
    links = np.argwhere(np.tril(weights >= FAINTEST, -1))  # (later, earlier) word
    height = 0.3 * max((later - earlier for later, earlier in links), default=1) + 0.3
    figure = Figure(figsize=(WORD_GAP * count, WORD_GAP * height))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(-0.5, count - 0.5), ylim=(-0.05, height))
    turn = np.linspace(0, np.pi, 60)
    for later, earlier in links:
        center, radius, weight = (later + earlier) / 2, (later - earlier) / 2, float(weights[later, earlier])
        line = {"color": "tab:blue", "alpha": min(1.0, 0.15 + weight), "linewidth": 0.5 + 3 * weight}
        axes.plot(center + radius * np.cos(turn), 0.6 * radius * np.sin(turn), **line)
    for place, label in enumerate(labels):
        axes.text(place, -0.1, label, ha="center", va="top", family=families, size=11.0, parse_math=False)
    if title:
        axes.set_title(title, family=families, size=11.0, parse_math=False, pad=10.0)
    axes.set_axis_off()
    save_figure(figure, path)


GRID_CELL = 0.17  # inches, side of a cell
LONGEST_GRID_SIDE = 40.0  # inches; larger maps get smaller cells
GAP = 0.3  # inches between two maps, room for a heading


def heads_heatmap(
    weights: ArrayLike,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    path: str | Path,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> None:
    """Draws a grid of heat maps, one per layer (rows of the grid) and head (columns), from 0 (black) to 1 (white).

    In each map, target tokens are rows and source tokens are columns; the labels are at the left and top edge.

    Shapes: L layers, H heads, T target tokens, S source tokens.

    Args:
        weights: array (L, H, T, S), floats in [0, 1].
        source_tokens: list of S str.
        target_tokens: list of T str.
        path: str or Path ending with .png, .svg or .pdf.
        layers, heads: lists of int, counted from 1, or None for all.

    Raises:
        ValueError: if the shapes disagree or a weight is not a finite number.
        UserError: if a layer or head does not exist, there is nothing to draw, or the picture cannot be written.

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
    save_figure(_draw_grid(weights, layers, heads, sides, families), path)


def _chosen(numbers, count, what):
    """The checked numbers, counted from 1; None means all."""
    numbers = list(range(1, count + 1)) if numbers is None else list(numbers)
    for number in numbers:
        if not 1 <= number <= count:
            raise UserError(f"There is no {what} {number}: the model has {count}, counted from 1.")
    return numbers


def _draw_grid(weights, layers, heads, labels, families):
    """A figure with the size of its maps; the labels around it enlarge the picture when it is saved."""
    rows, columns = weights.shape[2:]
    longest = max(len(layers) * rows, len(heads) * columns)
    cell = min(GRID_CELL, LONGEST_GRID_SIDE / longest)
    width, height = columns * cell, rows * cell
    total = len(heads) * (width + GAP), len(layers) * (height + GAP)
    font = {"family": families, "size": min(8.0, 0.62 * cell * POINTS)}
    figure = Figure(figsize=total)
    for i, layer in enumerate(layers):
        for j, head in enumerate(heads):
            left, bottom = j * (width + GAP), total[1] - i * (height + GAP) - height
            place = (left / total[0], bottom / total[1], width / total[0], height / total[1])
            axes = figure.add_axes(place)
            head_weights = weights[layer - 1, head - 1]
            axes.imshow(head_weights, cmap="gray", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
            axes.tick_params(length=0)
            axes.xaxis.tick_top()
            axes.set_xticks(range(columns) if i == 0 else [], labels[0] if i == 0 else [], parse_math=False, **font)
            axes.set_yticks(range(rows) if j == 0 else [], labels[1] if j == 0 else [], parse_math=False, **font)
            for tick in axes.xaxis.get_major_ticks():
                tick.label2.set_rotation(90)
            axes.set_xlabel(f"layer {layer}, head {head}", size=8.0, labelpad=3.0)
    return figure


# Font packages on PyPI under the SIL Open Font License; used when installed, found without running their code.
FONT_PACKAGES = ("noto_cjk_sans_jp_regular", "devanagari_fonts")
BASE_FAMILY = "DejaVu Sans"  # is part of matplotlib; Latin, Greek, Cyrillic, Arabic, Hebrew, Armenian, Georgian
EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL")  # prefixes of the Unicode names of the characters
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def families_for(texts):
    """Font families that cover the texts, best first: matplotlib's own font, then font packages, then system fonts.

    Args:
        texts: iterable of str.

    Returns:
        Pair of a list of family names, to be given as the `family` of matplotlib texts, and the set of characters
        that none of the fonts can draw. Registers the fonts of `FONT_PACKAGES` with matplotlib.
    """
    missing = {character for text in texts for character in text if _is_drawn(character)}
    families = []
    for family, file in _candidates():
        if not missing:
            break
        try:
            font = FT2Font(file)
        except (RuntimeError, OSError):  # a damaged file, or a collection that matplotlib cannot open
            continue
        covered = {character for character in missing if font.get_char_index(ord(character))}
        if covered and family not in families:
            families.append(family)
            missing -= covered
    return families or [BASE_FAMILY], missing


def drawable(texts):
    """Replaces each character that no font can draw by U+FFFD, and returns the font families for the texts.

    Warns once, in one line, if a character was replaced.

    Args:
        texts: list of str.

    Returns:
        Pair of a list of str, as long as `texts`, and a list of font family names.
    """
    families, missing = families_for([*texts, REPLACEMENT])
    if missing:
        east_asian = any(unicodedata.name(character, "").startswith(EAST_ASIAN) for character in missing)
        remedy = f"Run `{install_command('cjk')}`." if east_asian else "Install a font for this script."
        warnings.warn(
            f"No installed font can draw {' '.join(sorted(missing)[:10])!r}; the figure shows {REPLACEMENT} instead. "
            f"{remedy}",
            stacklevel=3,
        )
    table = {ord(character): REPLACEMENT for character in missing}
    return [text.translate(table) for text in texts], families


def _is_drawn(character):
    """False for invisible characters: joiners, direction marks, variation selectors, spaces."""
    return (
        unicodedata.category(character) not in ("Cf", "Cc", "Zs", "Zl", "Zp") and not "\ufe00" <= character <= "\ufe0f"
    )


def _candidates():
    """Yields pairs (family, file) in order of preference."""
    manager = font_manager.fontManager
    regular = [font for font in manager.ttflist if font.style == "normal" and font.weight in (400, "normal", "regular")]
    yield from ((font.name, font.fname) for font in regular if font.name == BASE_FAMILY)
    for file in _packaged_files():
        if all(font.fname != str(file) for font in manager.ttflist):
            manager.addfont(file)
        yield font_manager.get_font(file).family_name, str(file)
    # "Last Resort" has a glyph for every character: a box that names its script.
    ours = (BASE_FAMILY, "Last Resort", "Last Resort High-Efficiency")
    yield from ((font.name, font.fname) for font in regular if font.name not in ours)


def _packaged_files():
    """Regular font files of the installed font packages."""
    for package in FONT_PACKAGES:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            files = [*Path(folder).rglob("*.otf"), *Path(folder).rglob("*.ttf")]
            yield from sorted(file for file in files if "bold" not in file.stem.lower())[:1]


SUFFIXES = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 150


def check_figure_path(path):
    """Raises an error for a path that `save_figure` cannot write.

    Args:
        path: str or Path, ending with .png, .svg or .pdf, in a folder that exists.

    Returns:
        Path.

    Raises:
        UserError: if the suffix is unknown, or the folder is missing or not writable.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"A picture's name must end with one of {', '.join(SUFFIXES)}. Received: {str(path)!r}")
    check_place(path)
    return path


def save_figure(figure, path):
    """Draws the figure into a temporary file and renames it, so that a failure leaves no partial picture.

    Args:
        figure: matplotlib.figure.Figure.
        path: str or Path, ending with .png, .svg or .pdf.

    Raises:
        UserError: see `check_figure_path`, and if the file cannot be written.
    """
    path = check_figure_path(path)
    FigureCanvasAgg(figure)
    how = {"format": path.suffix[1:].lower(), "dpi": DOTS_PER_INCH, "bbox_inches": "tight", "pad_inches": 0.1}
    with whole_file(path, "wb") as file, io.BytesIO() as drawn:
        figure.savefig(drawn, **how)
        if how["format"] == "png":  # a palette takes a third of the bytes
            Image.open(drawn).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(
                file, "png", optimize=True
            )
        else:
            file.write(drawn.getvalue())
