"""Reads texts and labels from a table; every row is used or reported."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.data.files import OPENERS, read_bytes
from keras_attention.data.tables.raw_rows import BadRow, delimited_rows, json_rows, shown
from keras_attention.errors import UserError

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
    """See `Table.summary`; of a number of used rows and a dict from reason to number of skipped ones."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items())
    left_out = sum(skipped.values())
    return f"read {used + left_out:,}, used {used:,}, skipped {left_out:,}" + (f" ({reasons})" if reasons else "")


def read_table(path, text, label=None, text_b=None, *, skip_bad_rows=False, delimiter=None, empty_labels=False):
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
        delimiter: str, one ASCII character (backslash and t mean a TAB), or None to infer it from the suffix.
        empty_labels: bool. Accept blank labels; in a multilabel task they mean "no label".

    Returns:
        Table.

    Raises:
        UserError: if the file or its header cannot be used, a row is bad, a quote never closes, or no row is left.
    """
    columns = [column for column in (text, text_b, label) if column is not None]
    if len(set(columns)) < len(columns):
        raise UserError(f"Text, second text and label must be different columns. Received: {', '.join(columns)}")
    values, lines, skipped = {column: [] for column in columns}, [], Counter()
    for line, row in _rows(path, columns, label, delimiter):
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


def _rows(path, columns, label, delimiter):
    """Returns an iterator over (line, list of str or BadRow), after the checks of the whole file."""
    content, delimiter = table_content(path, delimiter)
    if delimiter is None:
        return json_rows(content, columns, label)
    return delimited_rows(path, content, delimiter, columns)


def format_of(path):
    """The delimiter that the name of a table (str or Path) stands for, "json", or None for an unknown name."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in OPENERS:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    return JSON if suffix in JSON_LINES else DELIMITERS.get(suffix)


def table_content(path, delimiter=None):
    """Reads the file of a table and finds its format; see `read_table`.

    Returns:
        Its bytes, and its delimiter, or None for JSON lines.
    """
    known = format_of(path)
    if delimiter is None and known is None:
        names = ", ".join((*DELIMITERS, *JSON_LINES))
        raise UserError(
            f"{path}: the format is not known by this name. Expected: {names} (and .gz or .xz), or a --delimiter."
        )
    if delimiter is not None and known == JSON:
        raise UserError(f"{path}: JSON lines have no delimiter. Received: --delimiter {delimiter!r}")
    content = read_bytes(path)
    if not content.removeprefix(BOM).strip():
        raise UserError(f"{path}: the file is empty. Expected: a table of texts.")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UserError(f"{path}: the file is UTF-16. Save it as UTF-8.")
    if known == JSON:
        return content, None
    return content, known if delimiter is None else _checked_delimiter(delimiter)


def _checked_delimiter(delimiter):
    delimiter = "\t" if delimiter == "\\t" else delimiter
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise UserError(f"The delimiter must be one ASCII character, no quote and no line end. Received: {delimiter!r}")
    return delimiter


def fault_of(row, columns, label=None, empty_labels=False):
    """Returns a BadRow if a value cannot be used, else None."""
    for column, value in zip(columns, row, strict=True):
        if not value.strip() and not (column == label and empty_labels):
            kind = "label" if column == label else "text"
            return BadRow(f"empty {kind}", shown(value), f"a {kind}", column)
        if "\0" in value:
            return BadRow("NUL character", shown(value), "no NUL character in a text", column)
    return None


def split_validation(labels_or_targets, share, seed, texts=None):
    """Chooses the rows for training and for validation; the same arguments give the same rows.

    Rows with the same text stay together, so that no validation text was seen in training. The split is stratified:
    about the same share of each label goes to validation, and at least one row to each side if the label has two
    different texts. A text with several labels counts for the rarest of them; a label with mostly such texts may be
    missing on one side.

    Args:
        labels_or_targets: (N,) labels as int or str, or float targets, (N,) or (N, labels), which are not balanced.
        share: float in (0, 1), share of the rows for validation.
        seed: int >= 0.
        texts: list of N hashables (str, or pairs of str), or None if no two rows are the same.

    Returns:
        (training rows, validation rows): sorted, non-empty int64 arrays.

    Raises:
        UserError: if `share` is out of range or there are not two different texts.
    """
    if not 0 < share < 1:
        raise UserError(f"The share of the rows for validation must be between 0 and 1. Received: {share}")
    targets = np.asarray(labels_or_targets)
    if texts is not None and len(texts) != len(targets):
        raise ValueError(f"Expected one text for each label. Received: {len(texts)} texts and {len(targets)} labels")
    groups = _group_numbers(range(len(targets)) if texts is None else texts)
    sizes = np.bincount(groups)
    if len(sizes) < 2:
        raise UserError(f"Validation needs rows with 2 different texts. Found: {len(sizes)}.")
    strata = _strata(targets, groups, len(sizes))
    random = np.random.default_rng(seed)
    in_validation = np.zeros(len(sizes), dtype=bool)
    for stratum in range(strata.max() + 1):
        members = random.permutation(np.flatnonzero(strata == stratum))
        in_validation[_choose(members, sizes, share)] = True
    if not in_validation.any():  # Every label has a single text.
        in_validation[_choose(random.permutation(len(sizes)), sizes, share)] = True
    rows = in_validation[groups]
    return np.flatnonzero(~rows), np.flatnonzero(rows)


def _group_numbers(texts):
    """Returns int64 (N,): rows with the same text have the same number."""
    numbers = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)


def _strata(targets, groups, num_groups):
    """Returns int64 (groups,), the index of each group's label; the rarest one if there are several."""
    if targets.ndim != 1 or targets.dtype.kind == "f":
        return np.zeros(num_groups, dtype=np.int64)
    _, label, counts = np.unique(targets, return_inverse=True, return_counts=True)
    strata = np.empty(num_groups, dtype=np.int64)
    by_count = np.argsort(-counts[label], kind="stable")  # The rarest comes last, and stays.
    strata[groups[by_count]] = label[by_count]
    return strata


def _choose(members, sizes, share):
    """Returns the first groups, in the given order, that fill the share of the rows; never all groups."""
    if len(members) < 2:
        return members[:0]
    num_rows = sizes[members].sum()
    wanted = min(max(1, round(share * num_rows)), num_rows - 1)
    chosen, taken = [], 0
    for member in members:
        if taken + sizes[member] <= wanted:
            chosen.append(member)
            taken += sizes[member]
    return chosen or [members[np.argmin(sizes[members])]]
