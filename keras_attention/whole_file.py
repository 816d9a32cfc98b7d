"""A file that is written whole or not at all: beside its place first, then renamed."""

import errno
import os
import uuid
from contextlib import contextmanager
from pathlib import Path

from keras_attention.errors import UserError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_place(path):
    """Refuses a path at which no file could be written; ask before long work.

    Args:
        path: str or Path.

    Returns:
        Path, with links followed.

    Raises:
        UserError: if it is a folder, or its folder is missing or cannot be written to.
    """
    given, path = path, Path(os.path.realpath(path))
    if path.is_dir() or not path.parent.is_dir():
        raise UserError(
            f"{given} cannot be written: {'it is a folder' if path.is_dir() else 'its folder does not exist'}"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UserError(f"{given} cannot be written: its folder {str(path.parent)!r} is not writable.")
    return path


@contextmanager
def whole_file(path, mode="w"):
    """A file to write to, which takes the place of `path` when all went well; a pipe or device is written at once.

    Args:
        path: str or Path.
        mode: "w" for text (UTF-8, lines end with "\\n") or "wb" for bytes.

    Yields:
        The open file.

    Raises:
        UserError: see `check_place`, raised at once; and if the disk is full. Nothing is left behind then.
    """
    given, path = path, check_place(path)
    how = {} if mode == "wb" else {"encoding": "utf-8", "newline": "\n"}
    if path.exists() and not path.is_file():  # such as /dev/null: a file may not take its place
        with open(path, mode, **how) as file:
            yield file
        return
    temporary = path.with_name(f".{path.name[:50]}-{uuid.uuid4().hex}")
    with explained(given):
        try:
            with open(temporary, mode.replace("w", "x"), **how) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def explained(path):
    """Turns the errors of a full disk and of a place that may not be written into a UserError that names `path`."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL or isinstance(error, PermissionError):
            raise UserError(f"{path} cannot be written: {error.strerror}") from error
        raise
