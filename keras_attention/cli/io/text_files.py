"""Text files with one sentence per line in UTF-8; output is written whole or not at all."""

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from functools import partial

from keras_attention.data.file_bytes import opened
from keras_attention.data.translation.parallel_text import decoded_lines, lines_of
from keras_attention.errors import UserError
from keras_attention.whole_file import whole_file


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


def keyboard_lines():
    """Yields each line of standard input as soon as it is there, until Ctrl-D."""
    for number, line in enumerate(iter(sys.stdin.buffer.readline, b""), start=1):
        yield decode_line(line.removesuffix(b"\n"), number)


def decode_line(line, number):
    """Line `number` of standard input, bytes, as str without a carriage return or a mark at the start (BOM)."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(
            f"Standard input, line {number}: found the byte 0x{line[error.start]:02X}, not valid UTF-8."
        ) from error


@contextmanager
def input_lines(path):
    """A file of texts that is read several times; of a pipe or a device, which cannot be, a copy without a name.

    Args:
        path: str or None.

    Yields:
        callable() -> iterator over the lines, see `parallel_text.lines_of`; None where there is no path.
    """
    if not path or os.path.isfile(path) or not os.path.exists(path) or os.path.isdir(path):
        yield path and partial(lines_of, path)
        return
    with tempfile.TemporaryFile() as copy:
        with opened(path) as file:
            shutil.copyfileobj(file, copy)

        def lines():
            copy.seek(0)
            return decoded_lines(copy, path)

        yield lines


@contextmanager
def text_output(path=None):
    """A text file for writing: standard output, or a file that appears at `path` after success.

    Args:
        path: str or None for standard output.

    Yields:
        A text file.

    Raises:
        UserError: if the path cannot be written; raised immediately, before the work.
    """
    if not path:
        yield sys.stdout
        return
    with whole_file(path) as file:
        yield file
