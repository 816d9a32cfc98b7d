"""Reads files that may be compressed; what goes wrong is told in one line."""

import gzip
import lzma
import zlib
from pathlib import Path

from keras_attention.errors import UserError

OPENERS = {".gz": gzip.open, ".xz": lzma.open}


def read_bytes(path):
    """Reads a whole file.

    Args:
        path: str or Path; names ending with .gz or .xz are decompressed.

    Returns:
        bytes.

    Raises:
        UserError: if the file is missing, a folder, wrongly compressed or cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path}: this is a folder. Expected: a text file.")
    try:
        with OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
            return file.read()
    except FileNotFoundError as error:
        raise UserError(f"{path}: there is no such file. Check the name.") from error
    except (gzip.BadGzipFile, lzma.LZMAError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be decompressed ({error}). It is damaged, or its ending is wrong.") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}).") from error
