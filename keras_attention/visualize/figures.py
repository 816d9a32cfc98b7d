"""Fonts for any script, and saving figures whole or not at all."""

import importlib.util
import unicodedata
import warnings
from pathlib import Path

import matplotlib.font_manager as font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.ft2font import FT2Font

from keras_attention.errors import UserError
from keras_attention.whole_file import check_place, whole_file

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
        remedy = "Run `pip install 'keras-attention[cjk]'`." if east_asian else "Install a font for this script."
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
    with whole_file(path, "wb") as file:
        figure.savefig(file, **how)
