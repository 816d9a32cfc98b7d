"""Files of series: tables with one series a row (CSV, TSV), `.npy` arrays with labels beside them, and `.ts` files."""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.data.files import lines_of
from keras_attention.support.errors import UserError, counted, quoted
from keras_attention.support.series_limits import ARRAYS, MAX_CHANNELS, MAX_STEPS, TABLES, UCR

COMPRESSED = (".gz", ".xz")
LABELS = ("label", "labels", "class", "target", "y")  # usual names of the column of the labels
MAX_FILE_BYTES = 1 << 30
KINDS = "Series are CSV or TSV (one series a row), .npy arrays or .ts files."


class SeriesTable(NamedTuple):
    """Series with their labels.

    Attributes:
        series: list of N float64 arrays (steps, channels), finite.
        labels: list of N str, or None.
        lines: list of N int, the line of each series in its file, or None.
        label_column: str, the name of the column of the labels or of their file, or None.
    """

    series: list
    labels: list | None
    lines: list | None
    label_column: str | None = None

    def summary(self) -> str:
        """One line for the user: "50 series of 150 steps, labels 1 (24), 2 (26)"."""
        lengths, channels = sorted(map(len, self.series)), self.series[0].shape[1]
        steps = f"{lengths[0]:,}" if lengths[0] == lengths[-1] else f"{lengths[0]:,} to {lengths[-1]:,}"
        wide = "" if channels == 1 else f" of {channels:,} channels"
        text = f"{len(self.series):,} series of {steps} steps{wide}"
        if self.labels is None:
            return text
        different = len(set(self.labels))
        column = f" in {self.label_column}" if self.label_column else ""
        return f"{text}, {counted(different, 'different label')}{column}"


def read_series(
    path: str | Path, label: str | None = None, labelled: bool = True, steps: int = 0, channels: int = 1
) -> SeriesTable:
    """Reads a file of series.

    Tables have one series a row, with or without a header. The labels are in the column with the name `label`; without
    it, in the one that is called label, class, target or y, in the only one that does not hold numbers, or, in a table
    without a header, in the first. Empty fields at the end of a row, or NaN, end a shorter series. An array (N, steps)
    or (N, steps, channels) has its labels in a file beside it: `X_train.npy` in `y_train.npy`, and `NAME.npy` in
    `NAME_labels.npy` or `NAME_labels.txt`, one a line; or `label` is the name of that file.

    Args:
        path: str or Path, ending with .csv, .tsv, .tab, .txt (also with .gz or .xz), .npy or .ts.
        label: str or None, see above.
        labelled: bool. Whether there must be labels; if not, a column of labels is left out.
        steps: int, the usual length of a series where it is known. Without `labelled`, a table without a header whose
            rows all have one number more begins with labels if these are whole numbers.
        channels: int > 0. Without `labelled`, a table with so many columns, if these are several, has no labels.

    Returns:
        SeriesTable.

    Raises:
        UserError: if the file is missing, too large, damaged or another kind of file, a field is not a number, a number
            is missing inside of a series, or there are no labels.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}.") from error
    if path.is_dir() or not path.is_file():
        raise UserError(f"{path} is no file. {KINDS}")
    if size > MAX_FILE_BYTES:
        raise UserError(f"{path} has {size:,} bytes. Allowed: {MAX_FILE_BYTES:,}")
    suffix = Path(path.stem).suffix.lower() if path.suffix.lower() in COMPRESSED else path.suffix.lower()
    if suffix == ARRAYS:
        return _of_array(path, label, labelled)
    if suffix == UCR:
        return _of_ts(path, labelled)
    if suffix not in TABLES:
        raise UserError(f"{path} is no file of series that can be read. {KINDS}")
    return _of_table(path, label, labelled, steps, channels)


def as_series(values, name: str) -> np.ndarray:
    """Any numbers (steps,) or (steps, channels) as a series: float64 array (steps, channels).

    NaN at the end of all channels ends the series.

    Args:
        values: array or nested list.
        name: str, for messages, such as "Series 3".

    Raises:
        UserError: if they are no such numbers, or one is missing or infinite.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":  # integers of any size, None for a missing number
            array = array.astype("float64")
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{name} must be numbers (steps,) or (steps, channels), with equal channels.") from error
    if array.dtype.kind not in "iuf" or array.ndim not in (1, 2) or not array.size:
        received = f"the shape {array.shape}" if array.dtype.kind in "iuf" else f"the type {array.dtype}"
        raise UserError(f"{name} must be numbers (steps,) or (steps, channels). Received: {received}")
    array = array.reshape(len(array), -1).astype("float64")
    present = np.flatnonzero(~np.isnan(array).all(axis=1))
    array = array[: present[-1] + 1] if len(present) else array[:0]
    if not len(array):
        raise UserError(f"{name} has no numbers.")
    if len(array) > MAX_STEPS or array.shape[1] > MAX_CHANNELS:
        raise UserError(
            f"{name} has {len(array):,} steps of {counted(array.shape[1], 'channel')}. Allowed: {MAX_STEPS:,} steps "
            f"and {MAX_CHANNELS:,} channels."
        )
    if not np.isfinite(array).all():
        step, _ = np.argwhere(~np.isfinite(array))[0]
        raise UserError(
            f"{name}, step {step + 1}: found {array[step].max()}. Expected: finite numbers; fill in what is missing."
        )
    return array


def numbers_of(text: str, name: str) -> np.ndarray:
    """The series (steps, 1) of numbers that are separated by commas, semicolons, tabs or blanks.

    Raises:
        UserError: if there is anything else.
    """
    fields = [field for field in re.split(r"[,;\s\[\]]+", text) if field]
    values = [_number(field) for field in fields]
    if None in values or not values:
        wrong = quoted(fields[values.index(None)] if fields else text, 40)
        raise UserError(f"{name} must be the name of a file, or numbers separated by commas. Found: {wrong}")
    return as_series(values, name)


def _number(field):
    """The float of a field, NaN if it is empty, or None."""
    field = field.strip().strip('"')
    if not field:
        return np.nan
    try:
        return float(field) if "_" not in field else None
    except ValueError:
        return None


def _of_table(path, label, labelled, steps, channels):
    lines = [(number, line) for number, line in enumerate(lines_of(path), start=1) if line.strip()]
    if not lines:
        raise UserError(f"{path} has no rows. {KINDS}")
    delimiter = _delimiter(lines[0][1])
    decimal_comma = delimiter == ";" and not any("." in line for _, line in lines[:20])
    rows = [
        (number, (line.replace(",", ".") if decimal_comma else line).split(delimiter) if delimiter else line.split())
        for number, line in lines
    ]
    header = _header(rows, label)
    rows = rows[1:] if header else rows
    if not rows:
        raise UserError(f"{path} has a header but no row. Expected: one series a row.")
    recorded = not labelled and channels > 1 and len(rows[0][1]) == channels  # a column for each channel
    column = None if recorded else _label_column(path, rows, header, label, labelled, steps)
    left_out = _index_column(rows, header)
    series, labels = [], []
    for number, fields in rows:
        fields = fields + [""] * (column + 1 - len(fields)) if column is not None else fields
        if header and len(fields) > len(header):
            raise UserError(f"{path}, line {number}: {len(fields)} fields. Expected: {len(header)}, as in the header.")
        values = [_number(field) for at, field in enumerate(fields) if at not in (column, left_out)]
        if None in values:
            known = [(at, field) for at, field in enumerate(fields) if at not in (column, left_out)]
            at, field = known[values.index(None)]
            place = repr(header[at].strip()) if header else at + 1
            raise UserError(
                f"{path}, line {number}, column {place}: found {quoted(field.strip(), 40)}. Expected: a number"
                f"{'' if label or not labelled else '; name the column of the labels with --label'}."
            )
        if not values:
            raise UserError(f"{path}, line {number}: there are no numbers. Expected: one series a row.")
        series.append(as_series(values, f"{path}, line {number}"))
        if column is not None:
            labels.append(fields[column].strip().strip('"'))
            if labelled and not labels[-1]:
                raise UserError(f"{path}, line {number}: the label is empty.")
    name = None if column is None else repr(header[column].strip().strip('"')) if header else f"column {column + 1}"
    return SeriesTable(
        series, None if column is None or not labelled else _plain(labels), [number for number, _ in rows], name
    )


def _delimiter(line):
    """The delimiter of a table; "" for blanks."""
    return next((sign for sign in ("\t", ";", ",") if sign in line), "")


def _header(rows, label):
    """The fields of the first row if it names the columns, else None."""
    first = rows[0][1]
    names = [field.strip().strip('"') for field in first]
    texts = [at for at, field in enumerate(first) if _number(field) is None]
    if label is not None and label in names:
        return first
    if len(texts) > 1:
        return first
    whole = [value for value in map(_number, first) if value is not None and not np.isnan(value)]
    counting = len(whole) > 2 and [value - whole[0] for value in whole] == list(range(len(whole)))
    if texts and len(rows) > 1:
        (at,) = texts
        below = [fields[at] for _, fields in rows[1:] if at < len(fields)]
        if counting or names[at].lower() in LABELS or all(_number(field) is not None for field in below):
            return first
    return first if counting and len(rows) > 1 else None


def _index_column(rows, header):
    """The place of a column without a name that counts the rows, as pandas writes it, or None."""
    if not header or header[0].strip().strip('"') not in ("", "Unnamed: 0"):
        return None
    values = [_number(fields[0]) for _, fields in rows]
    return 0 if values == list(range(len(rows))) else None


def _label_column(path, rows, header, label, labelled, steps):
    """The place of the column of the labels, or None."""
    names = [name.strip().strip('"') for name in header] if header else []
    if label is not None:
        if label in names:
            return names.index(label)
        if not header and label.isdecimal() and 1 <= int(label) <= len(rows[0][1]):
            return int(label) - 1
        known = ", ".join(names[:5]) + ", ..." * (len(names) > 5) if header else "none: the file has no header"
        raise UserError(f"{path} has no column {quoted(label)}. Columns: {known}")
    usual = [at for at, name in enumerate(names) if name.lower() in LABELS]
    if usual:
        return usual[0]
    width = max(len(fields) for _, fields in rows)
    texts = [at for at in range(width) if any(at < len(row) and _number(row[at]) is None for _, row in rows)]
    if len(texts) == 1:
        return texts[0]
    if header or texts:
        if not labelled and not texts:
            return None
        raise UserError(
            f"{path}: the column of the labels is not clear. Name it with --label, or call it label."
            if labelled
            else f"{path}: columns {', '.join(str(at + 1) for at in texts[:3])} hold texts. Expected: numbers."
        )
    if labelled:
        return 0
    begins = [_number(fields[0]) for _, fields in rows]
    lengths = {len(fields) for _, fields in rows}
    return 0 if steps and lengths == {steps + 1} and all(value.is_integer() for value in begins) else None


def _plain(labels):
    """Labels as they are; whole numbers in any notation, such as "1.0000000e+00", without it."""
    values = [_number(label) for label in labels]
    if all(value is not None and np.isfinite(value) and value.is_integer() for value in values):
        return [str(int(value)) for value in values]
    return labels


def _loaded(path):
    """An array of a `.npy` file, without pickled objects; the size of the file bounds that of the array."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError, SyntaxError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{path} is no .npy array of numbers that can be read.") from error


def _of_array(path, label, labelled):
    array = _loaded(path)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iuf" or array.ndim not in (1, 2, 3):
        raise UserError(
            f"{path} must be an array of numbers (series, steps) or (series, steps, channels). Received: "
            f"{getattr(array, 'shape', type(array).__name__)} of {getattr(array, 'dtype', 'another type')}"
        )
    array = array[None] if array.ndim == 1 else array
    if not len(array):
        raise UserError(f"{path} has no series.")
    series = [as_series(values, f"{path}, series {number}") for number, values in enumerate(array, start=1)]
    if not labelled:
        return SeriesTable(series, None, None)
    file = _labels_beside(path, label)
    labels = _labels_of(file)
    if len(labels) != len(series):
        raise UserError(f"{file} must have a label for each of {len(series):,} series. Received: {len(labels):,}")
    return SeriesTable(series, labels, None, file.name)


def _labels_beside(path, label):
    if label is not None:
        place_of_labels = next((place for place in (path.parent / label, Path(label)) if place.is_file()), None)
        if place_of_labels is None:
            raise UserError(f"There is no file {label} with the labels of {path}.")
        return place_of_labels
    stem = path.stem
    stems = [f"{stem}_labels"] + [re.sub("^[Xx]", "y", stem)] * (stem[:1] in "Xx")
    places = [path.with_name(f"{each}{suffix}") for each in stems for suffix in (ARRAYS, ".txt", ".csv")]
    place_of_labels = next((place for place in places if place.is_file()), None)
    if place_of_labels is None:
        known = ", ".join(place.name for place in places[:2])
        raise UserError(f"There are no labels beside {path}. Expected: {known}, or --label FILE with one on each line.")
    return place_of_labels


def _labels_of(path):
    if path.suffix.lower() != ARRAYS:
        return _plain([line.strip() for line in lines_of(path) if line.strip()])
    array = _loaded(path)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iufUb" or array.size != len(array):
        raise UserError(f"{path} must be an array of labels (series,): numbers or texts.")
    return _plain([str(value) for value in array.ravel().tolist()])


def _of_ts(path, labelled):
    """A file of the UEA and UCR archives: channels separated by ":", the label is the last part."""
    series, labels, numbers, data, has_labels = [], [], [], False, True
    for number, line in enumerate(lines_of(path), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("@"):
            word, *rest = line.lower().split()
            data = data or word == "@data"
            if word in ("@classlabel", "@targetlabel"):
                has_labels = rest[:1] == ["true"]
            if word == "@timestamps" and rest[:1] == ["true"]:
                raise UserError(f"{path}: series with time stamps cannot be read. Expected: @timeStamps false")
            continue
        if not data:
            raise UserError(f"{path}, line {number}: there is no @data before it. {KINDS}")
        *channels, label = line.split(":") if has_labels else [*line.split(":"), ""]
        values = [
            [np.nan if field.strip() == "?" else _number(field) for field in each.split(",")] for each in channels
        ]
        if not values or any(None in each for each in values) or len(set(map(len, values))) > 1:
            raise UserError(f"{path}, line {number}: expected channels of equal length and a label, separated by ':'.")
        series.append(as_series(np.array(values).T, f"{path}, line {number}"))
        labels.append(label.strip())
        numbers.append(number)
    if not series:
        raise UserError(f"{path} has no series. {KINDS}")
    if len(Counter(each.shape[1] for each in series)) > 1:
        raise UserError(f"{path}: the series have different numbers of channels.")
    if labelled and not has_labels:
        raise UserError(f"{path} has no labels.")
    return SeriesTable(series, _plain(labels) if labelled else None, numbers, "the last part of a line")
