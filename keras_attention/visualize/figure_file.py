"""Saving a figure: checked before it is drawn, written beside and renamed."""

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg

from keras_attention.errors import UserError
from keras_attention.whole_file import check_place, whole_file

SUFFIXES = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 150


def check_figure_path(path):
    """Refuses a path that `save_figure` could not write.

    Args:
        path: str or Path, ending with .png, .svg or .pdf, in a folder that exists.

    Returns:
        Path.

    Raises:
        UserError: if the suffix is unknown, the folder is missing or nothing can be written there.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"A picture's name must end with one of {', '.join(SUFFIXES)}. Received: {str(path)!r}")
    check_place(path)
    return path


def save_figure(figure, path):
    """Draws the figure into a file beside `path`, then renames it: a failure leaves no half-written picture.

    Args:
        figure: matplotlib.figure.Figure.
        path: str or Path, ending with .png, .svg or .pdf.

    Raises:
        UserError: see `check_figure_path`, and if the disk refuses the file.
    """
    path = check_figure_path(path)
    FigureCanvasAgg(figure)
    how = {"format": path.suffix[1:].lower(), "dpi": DOTS_PER_INCH, "bbox_inches": "tight", "pad_inches": 0.1}
    with whole_file(path, "wb") as file:
        figure.savefig(file, **how)
