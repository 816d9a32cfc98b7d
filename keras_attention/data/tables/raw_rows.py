"""Reads the rows of CSV, TSV and JSONL files; unusable rows are reported, never repaired."""

import json
import re
from typing import NamedTuple

from keras_attention.data.files import encoding_hint
from keras_attention.support.errors import UserError

MAX_SHOWN, MAX_LISTED = 80, 40


class BadRow(NamedTuple):
    """Describes a row that cannot be read.

    Attributes:
        reason: str, the category for counting, such as "too many fields".
        received, expected: str, for the message.
        column: str or None, the column of the error.
        skippable: bool. False if the end of the row is unclear, so that skipping it might lose other rows.
        mend: str or None, what to do about it; by default, to fix the row or to skip it.
    """

    reason: str
    received: str
    expected: str
    column: str | None = None
    skippable: bool = True
    mend: str | None = None

    def message(self, path, line):
        """Returns a one-line message: where the row is, what is wrong and how to fix it."""
        column = "" if self.column is None else f", column {shown(self.column)}"
        mend = self.mend or (
            "Fix the row, or leave such rows out with --skip-bad-rows."
            if self.skippable
            else "Fix it first: --skip-bad-rows cannot tell where this row ends."
        )
        return f"{path}, line {line}{column}: {self.reason}: found {self.received}. Expected: {self.expected}. {mend}"


def shown(value, most=MAX_SHOWN):
    """Returns the repr of a text or of UTF-8 bytes, shortened to `most` characters, for a message."""
    value = value[: 4 * most]
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def listed(values, most=10):
    """Returns the first values for a message, separated by commas: "'a', 'b', ... (7 in all)"."""
    values = list(values)
    rest = f", ... ({len(values):,} in all)" if len(values) > most else ""
    return ", ".join(shown(value, MAX_LISTED) for value in values[:most]) + rest


USUAL_DELIMITERS = {",": "comma", "\t": "TAB", ";": "semicolon", "|": "bar"}


class RawRow(NamedTuple):
    """One row as bytes: its first line, number of lines, fields, and the index of the first field with text after its
    closing quote (or None)."""

    line: int
    num_lines: int
    fields: list
    torn: int | None


def delimited_rows(path, content, delimiter, columns):
    """Reads some columns of a table that has a header.

    Only "\\n" ends a line; a "\\r" before it is removed. Quotes are those of RFC 4180: a field that begins with `"`
    ends at the next `"` that is not doubled, and may hold delimiters and line ends. A quote inside an unquoted field is
    text. If the delimiter is a TAB, quotes are ordinary text: such files are usually written without quoting, and many
    sentences begin with `"`. Empty lines at the end of the file are not rows.

    Args:
        path: str or Path, for messages.
        content: bytes.
        delimiter: str, one ASCII character.
        columns: list of str, the names of the wanted columns.

    Yields:
        (line, row): int, the line on which the row begins (the first is 1), and its list of str, one for each of
        `columns`, or a `BadRow`.

    Raises:
        UserError: if the header does not match `columns` or `delimiter`, or a quote never closes.
    """
    names, rows = whole_rows(path, content, delimiter, columns)
    places = [names.index(column) for column in columns]
    for line, row in rows:
        yield line, row if isinstance(row, BadRow) else [row[place] for place in places]


def whole_rows(path, content, delimiter, columns):
    """Reads all columns of a table that has a header; see `delimited_rows`, also for the errors.

    Returns:
        List of str, the names of all columns; and an iterator over (line, row) as in `delimited_rows`, each row with
        one str for each column.
    """
    raw_rows = _split_rows(path, content, delimiter)
    names = _read_header(path, next(raw_rows), delimiter, columns)
    return names, ((raw.line, _values(raw, names, delimiter)) for raw in raw_rows)


def recognised_delimiter(content, delimiter, columns):
    """The delimiter of a table: that of its file name, or another usual one if only it gives the wanted columns.

    Spreadsheets of many countries write semicolons into files whose name ends with .csv. If no delimiter gives the
    wanted columns, it is one that gives several columns, so that an error can list them.

    Args:
        content: bytes, UTF-8.
        delimiter: str, by the file name.
        columns: list of str, the names of the wanted columns.
    """
    header = content.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].rstrip(b"\r").decode(errors="replace")
    splits = {}
    for candidate in (delimiter, *USUAL_DELIMITERS):
        names = [name.removeprefix('"').removesuffix('"').replace('""', '"') for name in header.split(candidate)]
        if all(names.count(column) == 1 for column in columns):
            return candidate
        splits[candidate] = names
    return delimiter if len(splits[delimiter]) > 1 else max(splits, key=lambda candidate: len(splits[candidate]))


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
            f"{path}, line 1: there is text after a closing quote in the header: found {shown(line)}. "
            f"Expected: {delimiter!r} or the end of the line there."
        )
    for column in columns:
        if column not in names:
            hint = f" {encoding_hint(line)}" if "\N{REPLACEMENT CHARACTER}" in "".join(names) else ""
            raise UserError(f"{path}: there is no column {shown(column)}. The columns are: {listed(names, 20)}.{hint}")
        if names.count(column) > 1:
            raise UserError(
                f"{path}: the header has the column {shown(column)} {names.count(column)} times. Rename all but one."
            )
    return names


def _values(raw, names, delimiter):
    """Returns the fields of a row as a list of str, or a BadRow."""
    fields, width = raw.fields, len(names)
    one_line = raw.num_lines == 1  # If not, a stray quote may have merged the following rows into this one.
    extent = "" if one_line else f" in a row of {raw.num_lines:,} lines"
    if raw.torn is not None:
        column = names[raw.torn] if raw.torn < width else None
        return BadRow(
            "text after a closing quote",
            shown(fields[raw.torn]) + extent,
            "quotes inside a field doubled",
            column,
            one_line,
        )
    if len(fields) != width:
        if fields == [b""]:
            return BadRow("empty line", "''", f"{width} fields ({listed(names)})")
        reason = "too few fields" if len(fields) < width else "too many fields"
        received = f"{len(fields)} ({shown(delimiter.encode().join(fields))}){extent}"
        expected = f"{width} ({listed(names)})"
        if delimiter == "\t" and any(field.startswith(b'"') for field in fields):
            expected += "; between TABs quotes mean nothing"
        return BadRow(reason, received, expected, names[min(len(fields), width - 1)], one_line)
    try:
        return [field.decode() for field in fields]
    except UnicodeDecodeError as error:
        field = fields.index(error.object)
        return _not_utf8(error.object, b" ".join(fields), names[field])


def _not_utf8(content, row, column=None):
    mend = f"{encoding_hint(row)} --skip-bad-rows leaves such rows out."
    return BadRow("invalid UTF-8", shown(content), "a file saved as UTF-8", column, mend=mend)


def _split_rows(path, content, delimiter):
    """Yields a RawRow for every row; rows without quotes are split by the fast bytes.find and bytes.split."""
    mark = delimiter.encode()
    position = 3 if content.startswith(b"\xef\xbb\xbf") else 0
    end = len(content)
    while end > position and content[end - 1] in b"\r\n":
        end -= 1
    # A quoted field and the text after its closing quote, or an unquoted field.
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
    """Splits the row that begins at `position`; returns its RawRow and the position of its end."""
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


HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")  # Valid in JSON, but not allowed in a text.
KINDS = {str: "a text", tuple: "an object", list: "an array", bool: "true or false", type(None): "null"}


class _Number(str):
    """A JSON number as written in the file: the label 1.0 stays "1.0"."""


def json_rows(content, columns, label=None):
    """Reads some keys of every object; a label may also be a number, true or false, which becomes text.

    Args:
        content: bytes, UTF-8. Only "\\n" ends a line. Empty lines at the end are not rows.
        columns: list of str, the wanted keys.
        label: str or None, the key of the label.

    Yields:
        (line, row): int, counted from 1, and its list of str, one for each of `columns`, or a `BadRow`.
    """
    for line, text in json_lines(content):
        yield line, json_values(text, columns, label)


def json_lines(content):
    """Yields (line, bytes) of each line of JSON, without its line end; see `json_rows`."""
    position = 3 if content.startswith(b"\xef\xbb\xbf") else 0
    end, line = len(content), 1
    while end > position and content[end - 1] in b"\r\n":
        end -= 1
    while position <= end:
        newline = content.find(b"\n", position, end)
        newline = end if newline == -1 else newline
        yield line, content[position:newline]
        position, line = newline + 1, line + 1


def json_values(text, columns, label=None, nulls=False):
    """Returns the wanted values of an object as a list of str, or a BadRow; with `nulls`, null is an empty text."""
    expected = f"a JSON object with {listed(columns)}, all of it on one line"
    if not text.strip():
        return BadRow("empty line", shown(text), expected)
    try:
        pairs = DECODER.decode(text.decode())
    except UnicodeDecodeError:
        return _not_utf8(text, text)
    except (ValueError, RecursionError):
        return BadRow("invalid JSON", shown(text), expected)
    if not isinstance(pairs, tuple):
        return BadRow("not an object", shown(text), expected)
    keys = [key for key, _ in pairs]
    values = []
    for column in columns:
        if keys.count(column) != 1:
            reason = "key twice" if column in keys else "key missing"
            return BadRow(reason, f"the keys {listed(keys)}", f"{shown(column)} once", column)
        value = pairs[keys.index(column)][1]
        value = "" if value is None and nulls else value
        if column == label and isinstance(value, bool):
            value = "true" if value else "false"
        if type(value) is not str and not (column == label and isinstance(value, _Number)):
            received = f"the number {value[:40]}" if isinstance(value, _Number) else KINDS[type(value)]
            expected = "a text, a number, true or false" if column == label else "a text"
            return BadRow("value not a text", received, expected, column)
        if not value.isascii() and HALF_A_CHARACTER.search(value):
            return BadRow("invalid UTF-8", shown(value), "no half of a surrogate pair, \\ud800 to \\udfff", column)
        values.append(str(value))
    return values


def _refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


# Objects become tuples of (key, value), which keeps keys that occur twice; arrays are lists.
DECODER = json.JSONDecoder(
    object_pairs_hook=tuple, parse_int=_Number, parse_float=_Number, parse_constant=_refuse_constant
)
