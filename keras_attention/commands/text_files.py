"""Sentences in, answers out: one a line, UTF-8; output is written whole or not at all."""

import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from keras_attention.errors import UserError


def standard_input_lines():
    r"""Reads sentences from standard input, one a line; only "\n" ends a line.

    Returns:
        List of str.

    Raises:
        UserError: if it is empty, or a line is not valid UTF-8; names the line.
    """
    content = sys.stdin.buffer.read()
    if not content:
        raise UserError("Standard input is empty. Expected: one sentence on each line.")
    return [decode_line(line, number) for number, line in enumerate(content.removesuffix(b"\n").split(b"\n"), start=1)]


def decode_line(line, number):
    """Line `number` of standard input, bytes, as str without a carriage return or a mark at the start (BOM)."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(
            f"Standard input, line {number}: found the byte 0x{line[error.start]:02X}, not valid UTF-8."
        ) from error


@contextmanager
def text_output(path=None):
    """A text file for writing: standard output, or a file beside `path` that is renamed when all went well.

    Args:
        path: str or None for standard output.

    Yields:
        A text file.

    Raises:
        UserError: if nothing can be written there; raised at once, before the work.
    """
    if not path:
        yield sys.stdout
        return
    path = Path(path)
    if path.is_dir() or not path.parent.is_dir():
        raise UserError(
            f"{path} cannot be written: {'it is a folder' if path.is_dir() else 'its folder does not exist'}"
        )
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:50]}-", dir=path.parent)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
