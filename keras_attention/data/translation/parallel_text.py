"""Reads sentence pairs from files; every error message names file and line."""

import codecs

from keras_attention.data.files import opened
from keras_attention.errors import UserError


def read_parallel(source_path, target_path):
    """Reads two files; line n of the target file is the translation of line n of the source file.

    Args:
        source_path, target_path: str or Path, UTF-8 text; names ending with .gz or .xz are decompressed.

    Returns:
        (list of str, list of str), of equal length. Empty lines are kept.

    Raises:
        UserError: see `read_lines`, and if the numbers of lines differ.
    """
    sources, targets = read_lines(source_path), read_lines(target_path)
    if len(sources) != len(targets):
        raise UserError(
            f"{source_path} has {len(sources):,} lines and {target_path} has {len(targets):,}. "
            "Expected: equal numbers, line n of one file being the translation of line n of the other."
        )
    return sources, targets


def read_tsv(path, source_column=0, target_column=1, header=False):
    """Reads sentence pairs from two columns of a file; columns are separated by one TAB, without quotes or escapes.

    Args:
        path: str or Path, UTF-8 text; names ending with .gz or .xz are decompressed.
        source_column, target_column: int >= 0, counted from 0.
        header: bool. Skip the first line.

    Returns:
        (list of str, list of str), of equal length. Empty cells are kept.

    Raises:
        UserError: see `read_lines`, and if a line has too few columns or only the header is there.
    """
    if source_column < 0 or target_column < 0:
        raise ValueError(
            f"Columns are counted from 0. Received: source_column={source_column}, target_column={target_column}"
        )
    needed = max(source_column, target_column) + 1
    sources, targets = [], []
    for number, line in enumerate(read_lines(path), start=1):
        if header and number == 1:
            continue
        cells = line.split("\t")
        if len(cells) < needed:
            raise UserError(
                f"{path}, line {number}: found {len(cells)} column(s), expected at least {needed}, separated by TABs."
            )
        sources.append(cells[source_column])
        targets.append(cells[target_column])
    if not sources:
        raise UserError(f"{path}: there is nothing below the header line. Expected: one sentence pair on each line.")
    return sources, targets


def read_lines(path):
    """Reads the lines of a UTF-8 file. Only "\\n" ends a line; a "\\r" before it and a mark at the start (BOM) are
    removed.

    Args:
        path: str or Path; names ending with .gz or .xz are decompressed.

    Returns:
        list of str, at least one.

    Raises:
        UserError: if the file is missing, a folder, empty, wrongly compressed or not UTF-8 text; names line and column,
            both counted from 1.
    """
    return list(lines_of(path))


def lines_of(path):
    """Yields the lines of `read_lines` one by one, for files of any size; raises the same errors."""
    with opened(path) as file:
        yield from decoded_lines(file, path)


def decoded_lines(file, path):
    """Yields the lines of an open binary file as `lines_of` does; `path` is its name in messages."""
    number = 0
    for number, line in enumerate(file, start=1):
        yield _decoded(path, number, line)
    if number == 0:
        raise _empty(path)


def _decoded(path, number, line):
    """The text of a line of bytes, without its line end and BOM."""
    if number == 1 and line == codecs.BOM_UTF8:
        raise _empty(path)
    if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{path}, line 1: the file is UTF-16. Save it as UTF-8.")
    if number == 1 and b"\r" in line.rstrip(b"\r") and not line.endswith(b"\n"):
        raise UserError(f"{path}, line 1: lines end with CR alone. Save it with LF or CRLF at the end of each line.")
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        column, byte = len(error.object[: error.start].decode("utf-8", errors="replace")) + 1, error.object[error.start]
        raise UserError(
            f"{path}, line {number}, column {column}: found the byte 0x{byte:02X}, which is not valid UTF-8. "
            "Save the file as UTF-8."
        ) from error
    if "\0" in text:
        column = text.index("\0") + 1
        raise UserError(f"{path}, line {number}, column {column}: found a NUL character. Save the file as UTF-8.")
    return text.removesuffix("\n").removesuffix("\r")


def _empty(path):
    return UserError(f"{path}: the file is empty. Expected: one sentence on each line.")
