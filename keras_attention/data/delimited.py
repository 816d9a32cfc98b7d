"""Reads tables of lines with delimiters (CSV, TSV): what does not add up is told, never guessed."""

import re
from typing import NamedTuple

from keras_attention.data.bad_row import BadRow, listed, shown
from keras_attention.errors import UserError

USUAL_DELIMITERS = {",": "comma", "\t": "TAB", ";": "semicolon", "|": "bar"}


class RawRow(NamedTuple):
    """One row as bytes: the line on which it begins, over how many lines it goes, its fields, and the number of the
    first field that has text behind its closing quote (None if there is none)."""

    line: int
    num_lines: int
    fields: list
    torn: int | None


def delimited_rows(path, content, delimiter, columns):
    """Reads some columns of a table that has a header.

    Only "\\n" ends a line; a "\\r" before it goes away. Quotes are those of RFC 4180: a field that begins with `"` ends
    at the next `"` that is not doubled, and may hold delimiters and line ends. A quote inside an unquoted field is
    text. Where the delimiter is a TAB no quote means anything: such files are usually written without quoting, and
    a sentence that begins with `"` is common. Empty lines at the end of the file are no rows.

    Args:
        path: str or Path, for messages.
        content: bytes.
        delimiter: str, one ASCII character.
        columns: list of str, the names of the wanted columns.

    Yields:
        (line, row): int, the line on which the row begins (the first is 1), and its list of str, one for each of
        `columns`, or a `BadRow`.

    Raises:
        UserError: if the header does not fit `columns` or `delimiter`, or a quote never closes.
    """
    raw_rows = _split_rows(path, content, delimiter)
    names = _read_header(path, next(raw_rows), delimiter, columns)
    places = [names.index(column) for column in columns]
    for raw in raw_rows:
        yield raw.line, _values(raw, names, places, delimiter)


def _read_header(path, raw, delimiter, columns):
    """Returns the list of all column names, in which every wanted column occurs once."""
    line = delimiter.encode().join(raw.fields)
    if raw.num_lines == 1 and b"\r" in line:
        raise UserError(f"{path}: its lines end with CR alone. Save it with LF or CRLF at the end of each line.")
    names = [field.decode("utf-8", errors="replace") for field in raw.fields]
    if len(names) == 1 and names != columns:
        for other, name in USUAL_DELIMITERS.items():
            if other != delimiter and other in names[0]:
                raise UserError(
                    f"{path}, line 1: the header is one column, {shown(line)}, with a {name} in it. Expected: columns "
                    f"separated by {delimiter!r}. If the {name} separates them, give --delimiter {other!r}."
                )
    if raw.torn is not None:
        raise UserError(
            f"{path}, line 1: there is text behind a closing quote in the header: found {shown(line)}. "
            f"Expected: {delimiter!r} or the end of the line there."
        )
    for column in columns:
        if column not in names:
            raise UserError(f"{path}: there is no column {shown(column)}. The columns are: {listed(names, 20)}.")
        if names.count(column) > 1:
            raise UserError(
                f"{path}: the header has the column {shown(column)} {names.count(column)} times. Rename all but one."
            )
    return names


def _values(raw, names, places, delimiter):
    """Returns the wanted fields of a row as a list of str, or a BadRow."""
    fields, width = raw.fields, len(names)
    one_line = raw.num_lines == 1  # If not, a stray quote may have swallowed the rows that follow.
    extent = "" if one_line else f" in a row of {raw.num_lines:,} lines"
    if raw.torn is not None:
        column = names[raw.torn] if raw.torn < width else None
        return BadRow(
            "text behind a closing quote",
            shown(fields[raw.torn]) + extent,
            "quotes inside a field doubled",
            column,
            one_line,
        )
    if len(fields) != width:
        if fields == [b""]:
            return BadRow("empty line", "''", f"{width} fields ({listed(names)})")
        reason = "too few fields" if len(fields) < width else "too many fields"
        found = f"{len(fields)} ({shown(delimiter.encode().join(fields))}){extent}"
        expected = f"{width} ({listed(names)})"
        if delimiter == "\t" and any(field.startswith(b'"') for field in fields):
            expected += "; between TABs quotes mean nothing"
        return BadRow(reason, found, expected, names[min(len(fields), width - 1)], one_line)
    try:
        texts = [field.decode() for field in fields]
    except UnicodeDecodeError as error:
        field = fields.index(error.object)
        return BadRow("invalid UTF-8", shown(error.object), "a file saved as UTF-8", names[field])
    return [texts[place] for place in places]


def _split_rows(path, content, delimiter):
    """Yields a RawRow for every row; all but rows with quotes are found by bytes.find and bytes.split."""
    mark = delimiter.encode()
    position = 3 if content.startswith(b"\xef\xbb\xbf") else 0
    end = len(content)
    while end > position and content[end - 1] in b"\r\n":
        end -= 1
    # A field in quotes and what stands behind it, or a field without.
    field = re.compile(rb'"((?:[^"]++|"")*+)"([^%b\n]*)|((?!")[^%b\n]*)' % (2 * (re.escape(mark),)))
    line, quote = 1, -1
    while position <= end:
        if quote < position:
            quote = content.find(b'"', position, end) if delimiter != "\t" else -1
            quote = end if quote == -1 else quote
        newline = content.find(b"\n", position, end)
        newline = end if newline == -1 else newline
        if newline <= quote:
            row = RawRow(line, 1, content[position:newline].removesuffix(b"\r").split(mark), None)
        else:
            row, newline = _split_quoted(path, content, field, position, end, line)
        yield row
        position, line = newline + 1, line + row.num_lines


def _split_quoted(path, content, field, position, end, line):
    """Splits the row that begins at `position`. Returns its RawRow and the place of its end."""
    fields, torn, start = [], None, position
    while True:
        match = field.match(content, start, end)
        if match is None:
            opening = line + content.count(b"\n", position, start)
            raise UserError(
                f"{path}, line {opening}: a quote opens here and never closes: "
                f"found {shown(content[start : start + 400])}. Expected: a closing quote at the end of the field. "
                "Close it, or put the whole field into quotes and double those inside."
            )
        quoted, behind, plain = match.groups()
        start = match.end()
        last = start == end or content[start] == 10
        if quoted is None:
            fields.append(plain.removesuffix(b"\r") if last else plain)
        elif behind and not (last and behind == b"\r"):
            torn = len(fields) if torn is None else torn
            fields.append(match.group())
        else:
            fields.append(quoted.replace(b'""', b'"'))
        if last:
            return RawRow(line, content.count(b"\n", position, start) + 1, fields, torn), start
        start += 1
