"""Text files, perhaps compressed: bytes and lines; every error message names file and line."""

import codecs
import gzip
import io
import lzma
import re
import zlib
from contextlib import contextmanager
from pathlib import Path

from keras_attention.support.errors import UserError, quoted

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


def read_lines(path: str | Path, encoding: str | None = None) -> list[str]:
    """Reads the lines of a text file. Only "\\n" ends a line; a "\\r" before it and a mark at the start (BOM) are
    removed.

    Args:
        path: str or Path; names ending with .gz or .xz are decompressed.
        encoding: str, such as "windows-1252", or None for UTF-8.

    Returns:
        list of str, at least one.

    Raises:
        UserError: if the file is missing, a folder, empty, wrongly compressed or not text in this encoding; names
            line and column, both counted from 1.
    """
    return list(lines_of(path, encoding))


def lines_of(path, encoding=None):
    """Yields the lines of `read_lines` one by one, for files of any size; raises the same errors."""
    with opened(path) as file:
        yield from decoded_lines(file, path, encoding)


def decoded_lines(file, path, encoding=None):
    """Yields the lines of an open binary file as `lines_of` does; `path` is its name in messages."""
    number = 0
    if not is_utf8(encoding):
        file = _as_utf8(file, path, encoding)
    for number, line in enumerate(file, start=1):
        yield _decoded(path, number, line)
    if number == 0:
        raise _empty(path)


def is_utf8(encoding):
    """Whether this is the name of UTF-8, or None.

    Raises:
        UserError: if there is no such encoding of texts.
    """
    if encoding is None:
        return True
    try:
        "".encode(encoding)
        return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")
    except (LookupError, ValueError, UnicodeError) as error:
        raise UserError(
            f"There is no encoding {quoted(encoding)}. Expected: a name such as windows-1252, latin-1, windows-1251, "
            "shift_jis, gb18030 or utf-16."
        ) from error


def _as_utf8(file, path, encoding):
    """Yields the lines of an open binary file, each in UTF-8."""
    text, number = io.TextIOWrapper(file, encoding=encoding, newline="\n"), 0
    try:
        for number, line in enumerate(text, start=1):  # noqa: B007
            yield line.encode("utf-8", "surrogatepass")
    except UnicodeError as error:
        raise UserError(
            f"{path}, after line {number}: the file is not text in the encoding {encoding} ({error}). Give another "
            "--encoding."
        ) from error
    finally:
        text.detach()


def recoded(content, path, encoding):
    """The bytes of a file in UTF-8, without a byte order mark that the encoding does not take for one.

    Args:
        content: bytes.
        path: str or Path, for messages.
        encoding: str, or None for UTF-8.

    Raises:
        UserError: if there is no such encoding, or the file is not text in it.
    """
    if is_utf8(encoding):
        return content
    try:
        return content.decode(encoding).encode("utf-8")
    except UnicodeError as error:
        raise UserError(
            f"{path}: the file is not text in the encoding {encoding} ({error}). Give another --encoding."
        ) from error


FOREIGN = re.compile(rb"[\x80-\xff]{3}")  # in western languages, accents and quotation marks stand alone or in pairs


def encoding_hint(content):
    """What to do about bytes that are not UTF-8: a sentence that names their probable encoding."""
    try:
        content.decode("windows-1252")
        western = not FOREIGN.search(content)
    except UnicodeDecodeError:
        western = False
    if western:
        return "It looks like Windows-1252. Save the file as UTF-8, or give --encoding windows-1252."
    return "Save the file as UTF-8, or give its encoding, such as --encoding windows-1251 or shift_jis."


def _decoded(path, number, line):
    """The text of a line of bytes, without its line end and BOM."""
    if number == 1 and line == codecs.BOM_UTF8:
        raise _empty(path)
    if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{path}, line 1: the file is UTF-16. Save it as UTF-8, or give --encoding utf-16.")
    if number == 1 and b"\r" in line.rstrip(b"\r") and not line.endswith(b"\n"):
        raise UserError(f"{path}, line 1: lines end with CR alone. Save it with LF or CRLF at the end of each line.")
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        column, byte = len(error.object[: error.start].decode("utf-8", errors="replace")) + 1, error.object[error.start]
        raise UserError(
            f"{path}, line {number}, column {column}: found the byte 0x{byte:02X}, which is not valid UTF-8. "
            f"{encoding_hint(line.rstrip())}"
        ) from error
    if "\0" in text:
        column = text.index("\0") + 1
        raise UserError(f"{path}, line {number}, column {column}: found a NUL character. Save the file as UTF-8.")
    return text.removesuffix("\n").removesuffix("\r")


def _empty(path):
    return UserError(f"{path}: the file is empty. Expected: one sentence on each line.")
