"""A table that is written back unchanged, with columns for the answers appended."""

import hashlib
import json
from collections import Counter
from typing import NamedTuple

from keras_attention.data.tables.raw_rows import BadRow, json_lines, json_values, listed, whole_rows
from keras_attention.data.tables.table import BOM, fault_of, summary, table_content
from keras_attention.errors import UserError

ANSWERS = ("label", "probability")
PREFIX = "predicted_"  # of their names, where the table has such columns already


class TextRow(NamedTuple):
    """`texts` has the text of a row, or both of a pair; `source` is the row as one line of the file."""

    texts: tuple
    source: str


class AnsweredTable:
    """Reads the texts of a table, and writes its rows with two more columns, label and probability.

    The format stays: a CSV file gives a CSV file with the same delimiter, JSON lines give JSON lines. The values
    of a CSV file and the characters of a JSON line stay as they are.

    Args:
        path: str or Path, see `table.read_table`, as for the other arguments.
        text: str, column of the texts.
        text_b: str or None, column of the second texts of pairs.
        skip_bad_rows: bool.
        delimiter: str or None.
        separator: str, between several labels of a row.

    Attributes:
        count: int, the usable rows.
        skipped: dict from reason to number of rows.
        names: tuple of str, the names of the two new columns.
        sha256: str, of the file.

    Raises:
        UserError: see `table.read_table`.
    """

    def __init__(self, path, text, text_b=None, *, skip_bad_rows=False, delimiter=None, separator="|"):
        self.path, self._separator = path, separator
        self._columns = [column for column in (text, text_b) if column is not None]
        if text == text_b:
            raise UserError(f"Text and second text must be different columns. Received: {text}, {text_b}")
        self._content, self._delimiter = table_content(path, delimiter)
        self.sha256 = hashlib.sha256(self._content).hexdigest()
        self.count, skipped, taken = 0, Counter(), set()
        for line, row in self._all_rows():
            if not isinstance(row, BadRow):
                self.count += 1
                if self._delimiter is None:
                    taken |= json.loads(row.source).keys()
            elif skip_bad_rows and row.skippable:
                skipped[row.reason] += 1
            else:
                raise UserError(row.message(path, line))
        self.skipped = dict(skipped.most_common())
        if not self.count:
            raise UserError(f"{path}: there is no row to answer: {self.summary()}.")
        header = self._header()
        self.names = _free_names(path, header or taken)
        mark = BOM.decode() * self._content.startswith(BOM)  # without it, spreadsheets misread UTF-8
        self._head = header and [mark + self._joined([*header, *self.names])]

    def summary(self):
        """One line of str, see `table.Table.summary`."""
        return summary(self.count, self.skipped)

    @property
    def head(self):
        """The lines above the first row: list of str."""
        return list(self._head)

    def rows(self):
        """Yields the TextRow of each usable row."""
        return (row for _, row in self._all_rows() if not isinstance(row, BadRow))

    def answered(self, row, label, probability):
        """The line of str that a TextRow and its answer make.

        Args:
            row: TextRow.
            label: str, float, list of str, or None.
            probability: float, list of float, or None.
        """
        if self._delimiter is None:
            answer = json.dumps(dict(zip(self.names, (label, probability), strict=True)), ensure_ascii=False)
            return f"{row.source[:-1].rstrip()}, {answer[1:]}"
        return self._delimiter.join((row.source, self._joined([self._cell(label), self._cell(probability)])))

    def _cell(self, value):
        if isinstance(value, list):
            return self._separator.join(map(self._cell, value))
        return "" if value is None else f"{value:.4f}" if isinstance(value, float) else value

    def _joined(self, fields):
        """A row as text; between TABs quotes mean nothing, see `raw_rows.delimited_rows`."""
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
                values = json_values(text, columns)
                yield line, self._checked(values, lambda text=text: text.decode().strip())
            return
        names, rows = whole_rows(self.path, self._content, self._delimiter, columns)
        places = [names.index(column) for column in columns]
        for line, fields in rows:
            values = fields if isinstance(fields, BadRow) else [fields[place] for place in places]
            yield line, self._checked(values, lambda fields=fields: self._joined(fields))

    def _checked(self, values, source):
        """The TextRow of values, with what `source()` gives, or a BadRow."""
        fault = values if isinstance(values, BadRow) else fault_of(values, self._columns)
        return TextRow(tuple(values), source()) if fault is None else fault


def _free_names(path, taken):
    """Names for the new columns that differ from the existing ones."""
    names = ANSWERS if not set(ANSWERS) & set(taken) else tuple(PREFIX + name for name in ANSWERS)
    if set(names) & set(taken):
        raise UserError(f"{path} has the columns {listed([*ANSWERS, *names])} already. Rename those of answers.")
    return names
