"""Tables of texts: reads or reports every row, and writes rows back with their answers in further columns."""

import hashlib
import json
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from keras_attention.data.files import OPENERS, is_utf8, read_bytes, recoded
from keras_attention.data.tables.raw_rows import (
    DECODER,
    BadRow,
    delimited_rows,
    json_lines,
    json_rows,
    json_values,
    listed,
    recognised_delimiter,
    shown,
    whole_rows,
)
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import UserError

DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
JSON_LINES, JSON = (".jsonl", ".ndjson"), "json"
BOM = b"\xef\xbb\xbf"


class Table(NamedTuple):
    """The usable rows of a table, and counts of the skipped ones.

    Attributes:
        texts: list of str.
        texts_b: list of str, the second text of each pair, or None.
        labels: list of str, exactly as in the file, or None.
        rows_read: int, used and skipped rows.
        skipped: dict from reason to number of rows.
        lines: list of int, the line of the file on which each used row begins; the first line is 1.
    """

    texts: list
    texts_b: list | None
    labels: list | None
    rows_read: int
    skipped: dict
    lines: list

    def summary(self):
        """Returns one line of str: "read 7, used 4, skipped 3 (2 empty text, 1 too many fields)"."""
        return summary(len(self.texts), self.skipped)


def summary(used, skipped):
    """The text of `Table.summary`, from the number of used rows and a dict from reason to number of skipped rows."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items())
    left_out = sum(skipped.values())
    return f"read {used + left_out:,}, used {used:,}, skipped {left_out:,}" + (f" ({reasons})" if reasons else "")


def read_table(
    path, text, label=None, text_b=None, *, skip_bad_rows=False, delimiter=None, empty_labels=False, encoding=None
):
    """Reads CSV, TSV (.tsv, .tab, .txt) or JSON lines (.jsonl, .ndjson), each also with .gz or .xz.

    CSV and TSV have a header; see `delimited_rows` for quotes and line ends. There are no missing values: "NA" and
    "null" are ordinary labels, and blanks around a field belong to it. A row is bad if it has more or fewer fields than
    the header, a text or label is blank, there is text after a closing quote, or it has invalid UTF-8 or a NUL. In JSON
    lines, a row is bad if it is not a JSON object with each key exactly once and texts as values.

    Args:
        path: str or Path.
        text: str, column of the texts.
        label, text_b: str or None, columns of the labels and of the second texts of pairs.
        skip_bad_rows: bool. Skip and count bad rows instead of stopping at the first one.
        delimiter: str, one ASCII character (backslash and t mean a TAB), or None to infer it from the suffix;
            if only another usual one gives the wanted columns, it is that one.
        empty_labels: bool. Accept blank labels; in a multilabel task they mean "no label".
        encoding: str, such as "windows-1252", or None for UTF-8.

    Returns:
        Table.

    Raises:
        UserError: if the file or its header cannot be used, a row is bad, a quote never closes, or no row is left.
    """
    columns = [column for column in (text, text_b, label) if column is not None]
    if len(set(columns)) < len(columns):
        raise UserError(f"Text, second text and label must be different columns. Received: {', '.join(columns)}")
    values, lines, skipped = {column: [] for column in columns}, [], Counter()
    for line, row in _rows(path, columns, label, delimiter, encoding):
        fault = row if isinstance(row, BadRow) else fault_of(row, columns, label, empty_labels)
        if fault is None:
            for column, value in zip(columns, row, strict=True):
                values[column].append(value)
            lines.append(line)
        elif skip_bad_rows and fault.skippable:
            skipped[fault.reason] += 1
        else:
            raise UserError(fault.message(path, line))
    rows_read = len(lines) + sum(skipped.values())
    if not rows_read:
        raise UserError(f"{path}: there is a header but no row. Expected: a header, then one row for each text.")
    reasons = dict(skipped.most_common())
    table = Table(values[text], values.get(text_b), values.get(label), rows_read, reasons, lines)
    if not lines:
        raise UserError(f"{path}: no row is left: {table.summary()}. Fix the rows, or check the names of the columns.")
    return table


def _rows(path, columns, label, delimiter, encoding):
    """Returns an iterator over (line, list of str or BadRow), after the checks of the whole file."""
    content, delimiter = table_content(path, columns, delimiter, encoding)
    if delimiter is None:
        return json_rows(content, columns, label)
    return delimited_rows(path, content, delimiter, columns)


def format_of(path):
    """The delimiter of a table by its file name (str or Path): a str, "json", or None for an unknown suffix."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in OPENERS:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    return JSON if suffix in JSON_LINES else DELIMITERS.get(suffix)


WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".ods")
WORKBOOK_BYTES = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # a workbook with another ending; no text begins like this


def _is_workbook(path):
    """Whether a file is a workbook of a spreadsheet, by its name or its first bytes."""
    if Path(path).suffix.lower() in WORKBOOKS:
        return True
    with suppress(OSError):  # told when the whole file is read
        if Path(path).is_file():  # a pipe can be read only once
            with open(path, "rb") as file:
                return file.read(4) in WORKBOOK_BYTES
    return False


def table_content(path, columns, delimiter=None, encoding=None):
    """Reads the file of a table and finds its format; see `read_table`.

    Returns:
        Its bytes in UTF-8, and its delimiter, or None for JSON lines.
    """
    known = format_of(path)
    if _is_workbook(path):
        raise UserError(
            f"{path}: this is an Excel workbook. In Excel or LibreOffice, save the sheet as CSV UTF-8, and use that."
        )
    if delimiter is None and known is None:
        names = ", ".join((*DELIMITERS, *JSON_LINES))
        raise UserError(
            f"{path}: the format is not known by this name. Expected: {names} (and .gz or .xz), or a --delimiter."
        )
    if delimiter is not None and known == JSON:
        raise UserError(f"{path}: JSON lines have no delimiter. Received: --delimiter {delimiter!r}")
    content = read_bytes(path)
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) and is_utf8(encoding):
        raise UserError(f"{path}: the file is UTF-16. Save it as UTF-8, or give --encoding utf-16.")
    content = recoded(content, path, encoding)
    if not content.removeprefix(BOM).strip():
        raise UserError(f"{path}: the file is empty. Expected: a table of texts.")
    if known == JSON:
        return content, None
    if delimiter is None:
        return content, recognised_delimiter(content, known, columns)
    return content, _checked_delimiter(delimiter)


def _checked_delimiter(delimiter):
    delimiter = "\t" if delimiter == "\\t" else delimiter
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise UserError(f"The delimiter must be one ASCII character, no quote and no line end. Received: {delimiter!r}")
    return delimiter


def fault_of(row, columns, label=None, empty_labels=False, blanks=False):
    """Returns a BadRow if a value cannot be used, else None; with `blanks`, texts may be blank."""
    for column, value in zip(columns, row, strict=True):
        if "\0" in value:
            return BadRow("NUL character", shown(value), "no NUL character in a text", column)
        if is_blank(value) and not (empty_labels if column == label else blanks):
            kind = "label" if column == label else "text"
            return BadRow(f"empty {kind}", shown(value), f"a {kind}", column)
    return None


ANSWERS = ("label", "probability")  # the further columns
# A spreadsheet takes a cell that begins with one of these for a formula, unless it is a number.
FORMULA = re.compile(r"\s*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
CELL_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
LINE_ENDS_AND_TABS = re.compile(r"[\t\r\n]")
PREFIX = "predicted_"  # of their names, if the table already has such columns


class TextRow(NamedTuple):
    """`texts` has the text of a row, or both of a pair; `source` is the row as one line of the file."""

    texts: tuple
    source: str


class AnsweredTable:
    """Reads the texts of a table, and writes its rows with further columns, such as label and probability.

    The format is kept: a CSV file gives a CSV file with the same delimiter, JSON lines give JSON lines. The values of a
    CSV file and the characters of a JSON line are unchanged. A row whose text is empty, blank or null stays, too. A
    text that a spreadsheet would take for a formula gets a "'" before it, except in JSON lines.

    Args:
        path: str or Path, see `read_table`, also for the other arguments.
        text: str, column of the texts.
        text_b: str or None, column of the second texts of pairs.
        skip_bad_rows: bool.
        delimiter: str or None.
        separator: str, between several labels of a row.
        encoding: str or None; the rows are written in UTF-8, which begins with a BOM if `encoding` is another one.
        raw: bool. Write texts as they are, also those that look like formulas.
        answers: tuple of str, the names of the new columns; the first one gets texts.

    Attributes:
        count: int, number of usable rows.
        skipped: dict from reason to number of rows.
        names: tuple of str, the names of the new columns, which differ from those of the table.
        sha256: str, the hash of the file.
        shielded: int, number of texts so far that got a "'".

    Raises:
        UserError: see `read_table`.
    """

    def __init__(
        self,
        path,
        text,
        text_b=None,
        *,
        skip_bad_rows=False,
        delimiter=None,
        separator="|",
        encoding=None,
        raw=False,
        answers=ANSWERS,
    ):
        self.path, self._separator, self._raw, self.shielded = path, separator, raw, 0
        self._columns = [column for column in (text, text_b) if column is not None]
        if text == text_b:
            raise UserError(f"Text and second text must be different columns. Received: {text}, {text_b}")
        self._content, self._delimiter = table_content(path, self._columns, delimiter, encoding)
        self.sha256 = hashlib.sha256(self._content).hexdigest()
        self.count, skipped, taken = 0, Counter(), set()
        for line, row in self._all_rows():
            if not isinstance(row, BadRow):
                self.count += 1
                if self._delimiter is None:
                    taken |= {key for key, _ in DECODER.decode(row.source)}
            elif skip_bad_rows and row.skippable:
                skipped[row.reason] += 1
            else:
                raise UserError(row.message(path, line))
        self.skipped = dict(skipped.most_common())
        if not self.count:
            raise UserError(f"{path}: there is no row to answer: {self.summary()}.")
        header = self._header()
        self.names = _free_names(path, header or taken, answers)
        # Without the mark, spreadsheets misread UTF-8; a table in another encoding comes from one.
        mark = BOM.decode() * (self._content.startswith(BOM) or not is_utf8(encoding))
        self._head = header and [mark + self._joined([*header, *self.names])]

    def summary(self):
        """One line of str, see `Table.summary`."""
        return summary(self.count, self.skipped)

    @property
    def head(self):
        """The lines above the first row: list of str."""
        return list(self._head)

    def rows(self):
        """Yields the TextRow of each usable row."""
        return (row for _, row in self._all_rows() if not isinstance(row, BadRow))

    def answered(self, row, *values):
        """The line (str) of a TextRow with its answer.

        Args:
            row: TextRow.
            values: one for each new column: str, float, a list of these, or None.
        """
        if self._delimiter is None:
            answer = json.dumps(dict(zip(self.names, values, strict=True)), ensure_ascii=False, allow_nan=False)
            return f"{row.source[:-1].rstrip()}, {answer[1:]}"
        first, *others = values
        return self._delimiter.join((row.source, self._joined([self._text(first), *map(self._cell, others)])))

    def _text(self, value):
        cell = self._cell(value)
        if self._delimiter == "\t":
            cell = LINE_ENDS_AND_TABS.sub(" ", cell)
        if self._raw or isinstance(value, float) or not FORMULA.match(cell) or CELL_NUMBER.fullmatch(cell):
            return cell
        self.shielded += 1
        return f"'{cell}"

    def _cell(self, value):
        if isinstance(value, list):
            return self._separator.join(map(self._cell, value))
        return "" if value is None else f"{value:.4f}" if isinstance(value, float) else value

    def _joined(self, fields):
        """A row as text; with TABs, quotes are ordinary text, see `raw_rows.delimited_rows`."""
        if self._delimiter != "\t":
            signs = (self._delimiter, '"', "\n", "\r")
            doubled = (field.replace('"', '""') for field in fields)
            pairs = zip(fields, doubled, strict=True)
            fields = [f'"{other}"' if any(sign in field for sign in signs) else field for field, other in pairs]
        return self._delimiter.join(fields)

    def _header(self):
        """The names of the columns; an empty list for JSON lines."""
        return whole_rows(self.path, self._content, self._delimiter, self._columns)[0] if self._delimiter else []

    def _all_rows(self):
        """Yields (line, TextRow or BadRow)."""
        columns = self._columns
        if self._delimiter is None:
            for line, text in json_lines(self._content):
                values = json_values(text, columns, nulls=True)
                yield line, self._checked(values, lambda text=text: text.decode().strip())
            return
        names, rows = whole_rows(self.path, self._content, self._delimiter, columns)
        places = [names.index(column) for column in columns]
        for line, fields in rows:
            values = fields if isinstance(fields, BadRow) else [fields[place] for place in places]
            yield line, self._checked(values, lambda fields=fields: self._joined(fields))

    def _checked(self, values, source):
        """The TextRow of the values and `source()`, or a BadRow."""
        fault = values if isinstance(values, BadRow) else fault_of(values, self._columns, blanks=True)
        return TextRow(tuple(values), source()) if fault is None else fault


def _free_names(path, taken, answers):
    """Names for the new columns that differ from the existing ones."""
    names = answers if not set(answers) & set(taken) else tuple(PREFIX + name for name in answers)
    if set(names) & set(taken):
        raise UserError(f"{path} has the columns {listed([*answers, *names])} already. Rename those of answers.")
    return names
