"""Files that may be compressed, with one-line error messages."""

import gzip
import lzma
import zlib
from contextlib import contextmanager
from pathlib import Path

from keras_attention.errors import UserError

OPENERS = {".gz": gzip.open, ".xz": lzma.open}


def read_bytes(path):
    """Reads a whole file: bytes. See `opened`."""
    with opened(path) as file:
        return file.read()


@contextmanager
def opened(path):
    """Opens a file for reading bytes.

    Args:
        path: str or Path; names ending with .gz or .xz are decompressed.

    Yields:
        Binary file.

    Raises:
        UserError: if the file is missing, a folder, wrongly compressed or unreadable; also raised while reading.
    """
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path}: this is a folder. Expected: a text file.")
    try:
        with OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
            yield file
    except FileNotFoundError as error:
        raise UserError(f"{path}: there is no such file. Check the name.") from error
    except (gzip.BadGzipFile, lzma.LZMAError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be decompressed ({error}). It is damaged, or its ending is wrong.") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}).") from error
