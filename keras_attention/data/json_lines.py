"""Reads tables of one JSON object on each line (JSONL)."""

import json
import re

from keras_attention.data.bad_row import BadRow, listed, shown

HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")  # What JSON can write and no text may hold.
KINDS = {str: "a text", tuple: "an object", list: "an array", bool: "true or false", type(None): "null"}


class _Number(str):
    """A JSON number as it is written in the file: the label 1.0 stays "1.0"."""


def json_rows(content, columns, label=None):
    """Reads some keys of every object; a number, true or false is taken as text where it is the label.

    Args:
        content: bytes, UTF-8. Only "\\n" ends a line. Empty lines at the end are no rows.
        columns: list of str, the wanted keys.
        label: str or None, the one of them that is the label.

    Yields:
        (line, row): int, counted from 1, and its list of str, one for each of `columns`, or a `BadRow`.
    """
    position = 3 if content.startswith(b"\xef\xbb\xbf") else 0
    end, line = len(content), 1
    while end > position and content[end - 1] in b"\r\n":
        end -= 1
    while position <= end:
        newline = content.find(b"\n", position, end)
        newline = end if newline == -1 else newline
        yield line, _values(content[position:newline], columns, label)
        position, line = newline + 1, line + 1


def _values(text, columns, label):
    """Returns the wanted values of an object as a list of str, or a BadRow."""
    expected = f"a JSON object with {listed(columns)}, all of it on one line"
    if not text.strip():
        return BadRow("empty line", shown(text), expected)
    try:
        pairs = DECODER.decode(text.decode())
    except UnicodeDecodeError:
        return BadRow("invalid UTF-8", shown(text), "a file saved as UTF-8")
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
        if column == label and isinstance(value, bool):
            value = "true" if value else "false"
        if type(value) is not str and not (column == label and isinstance(value, _Number)):
            found = f"the number {value[:40]}" if isinstance(value, _Number) else KINDS[type(value)]
            expected = "a text, a number, true or false" if column == label else "a text"
            return BadRow("value not a text", found, expected, column)
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
