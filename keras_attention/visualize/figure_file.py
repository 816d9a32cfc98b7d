"""Saving a figure: checked before it is drawn, written beside and renamed."""

import os
import tempfile
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg

from keras_attention.errors import UserError

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
    if not path.parent.is_dir():
        raise UserError(f"The folder of the picture does not exist: {str(path.parent)!r}. Make it first.")
    if path.is_dir():
        raise UserError(f"A picture cannot be written over a folder: {str(path)!r}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UserError(f"The folder of the picture is not writable: {str(path.parent)!r}")
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
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        figure.savefig(temporary, dpi=DOTS_PER_INCH, bbox_inches="tight", pad_inches=0.1)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"The picture {str(path)!r} could not be written: {error.strerror or error}") from error
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


def _umask():
    """The file mode mask of the process, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
