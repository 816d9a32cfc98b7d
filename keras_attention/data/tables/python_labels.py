"""Labels from Python: lists, arrays, sparse matrices and tables of any library, as names."""

from collections.abc import Iterable, Mapping, Set
from numbers import Number

import numpy as np

from keras_attention.data.tables.label_task import spelling_key
from keras_attention.data.tables.raw_rows import listed
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import UserError, quoted

BYTES = (bytes, bytearray, memoryview)
TEXT_OR_BYTES = (str, *BYTES)


def as_labels(labels, where="texts"):
    """Converts labels of any common Python type into a list.

    Args:
        labels: iterable of labels; or a matrix or table with one row for each text and one column for each label: a
            NumPy array, a sparse matrix of SciPy, a DataFrame.
        where: str, the name of the texts, for messages.

    Returns:
        List with a str or a number for each text; or, if a text may have several labels, with a list or an array.

    Raises:
        UserError: if it is neither, or a label is missing, blank, bytes or an object with keys; names the label.
    """
    if hasattr(labels, "toarray"):
        labels = labels.toarray()
    elif label_columns(labels):
        columns = list(labels.columns)
        of_pandas = hasattr(labels, "to_numpy")
        labels = labels.to_numpy() if of_pandas else zip(*(labels[name] for name in columns), strict=True)
        labels = labels if len(columns) > 1 else (row[0] for row in labels)
    elif getattr(labels, "ndim", 1) == 2:
        labels = labels if np.ma.isMaskedArray(labels) else np.asarray(labels)
        labels = labels[:, 0] if labels.shape[1] == 1 else labels
    no_order = isinstance(labels, (*TEXT_OR_BYTES, Mapping, Set))
    if no_order or not isinstance(labels, Iterable) or getattr(labels, "ndim", 1) not in (1, 2):
        kind = f"{type(labels).__name__}{_axes(labels)}"
        raise UserError(f"`labels` must be a list or another sequence of labels. Received: {kind}")
    return [_cleaned(label, number, where) for number, label in enumerate(labels, start=1)]


def _axes(labels):
    axes = getattr(labels, "ndim", None)
    return "" if axes is None else f" with {axes} axes"


def label_columns(labels):
    """The names of the columns of a table of labels: list of str; None unless `labels` is such a table."""
    columns = getattr(labels, "columns", None)
    return None if columns is None or callable(columns) else [str(name) for name in columns]


def _cleaned(label, number, where):
    """A str or a number; or a list of them, or an array of numbers."""
    of_numbers = isinstance(label, np.ndarray) and label.dtype.kind in "biuf" and label.ndim == 1
    if of_numbers and not np.ma.isMaskedArray(label) and not np.isnan(label).any():
        return label
    if getattr(label, "ndim", None) == 0 and not isinstance(label, (np.generic, np.ma.core.MaskedConstant)):
        label = np.asarray(label)[()]  # of NumPy, TensorFlow or PyTorch
    several = isinstance(label, Iterable) and not isinstance(label, (*TEXT_OR_BYTES, Mapping))
    if several and getattr(label, "ndim", 1) == 1:
        ordered = sorted(label, key=str) if isinstance(label, Set) else label
        return [_cleaned_name(name, number, where) for name in ordered]
    return _cleaned_name(label, number, where)


def _cleaned_name(name, number, where):
    """A single label, or one of several, as a str or a number."""
    if getattr(name, "ndim", None) == 0 and not isinstance(name, (np.generic, np.ma.core.MaskedConstant)):
        name = np.asarray(name)[()]
    if isinstance(name, str):
        if is_blank(name):
            raise UserError(f"Label {number} of `{where}` is empty. Received: {str(name)!r}. Leave out such rows.")
        return str(name)
    missing = name is None or isinstance(name, np.ma.core.MaskedConstant) or str(name) in ("<NA>", "NaT")
    if missing or (isinstance(name, Number) and name != name):
        raise UserError(f"Label {number} of `{where}` is missing. Received: {name!r}. Leave out such rows.")
    if isinstance(name, BYTES):
        raise UserError(
            f"Label {number} of `{where}` is {type(name).__name__}. Received: {name!r:.80}. Expected: a str, such as "
            "label.decode()."
        )
    if isinstance(name, Iterable):
        raise UserError(
            f"Label {number} of `{where}` is a {type(name).__name__}. Received: {quoted(name)}. Expected: a str, a "
            "number, or a list of these."
        )
    return name


def named_labels(labels, label_names=None, where="texts"):
    """Replaces columns of 0 and 1, and class numbers with `label_names`, by the names of the labels.

    Lists of other numbers are lists of names, as lists of str are.

    Args:
        labels: list, see `as_labels`.
        label_names: iterable of str, the names of the columns or of the class numbers; or None: columns have their
            numbers, from 0, as names, and a class number is a name itself.
        where: str, the name of the texts, for messages.

    Returns:
        List of labels: a str or a number for each text, or a list; and the names of the columns, a tuple of str, or
        None unless the labels are columns of 0 and 1.

    Raises:
        UserError: if rows of 0 and 1 differ in length or have another number, or `label_names` does not fit.
    """
    names = None if label_names is None else _checked_names(label_names)
    lists = [label for label in labels if isinstance(label, SEVERAL)]
    if lists and len(lists) == len(labels) and _are_columns(labels, names, where):
        widths = {len(row): number for number, row in reversed(list(enumerate(labels, start=1)))}
        if len(widths) > 1:
            (first, row), (other, another) = sorted(widths.items(), key=lambda item: item[1])[:2]
            raise UserError(
                f"Labels of 0 and 1 need one column for each label. Found: row {row} of `{where}` has {first} and row "
                f"{another} has {other}. If the numbers are names, give them as str."
            )
        (width,) = widths
        if width > 1:
            return _of_columns(labels, width, names, where)
        labels, lists = [row[0] for row in labels], []
    if names is None:
        return labels, None
    if lists:
        raise UserError(
            f"`label_names` names columns of 0 and 1, or class numbers. `{where}` has lists of other labels."
        )
    return [_class_name(label, names, number, where) for number, label in enumerate(labels, start=1)], None


SEVERAL = (list, np.ndarray)  # the types of several labels of a text, see `as_labels`


def _checked_names(label_names):
    if isinstance(label_names, (str, bytes, Mapping, Set)) or not isinstance(label_names, Iterable):
        raise UserError(f"`label_names` must be a list of str. Received: {quoted(label_names)}")
    label_names = list(label_names)
    if any(not isinstance(name, (str, Number, np.bool_)) or name != name for name in label_names):
        raise UserError(f"`label_names` must be a list of str. Received: {quoted(label_names)}")
    names = tuple(str(name).strip() for name in label_names)
    if len({spelling_key(name) for name in names}) < len(names) or any(map(is_blank, names)):
        raise UserError(f"`label_names` must be different names. Received: {listed(names)}")
    return names


def _are_columns(rows, names, where):
    """Whether rows of several labels are columns of 0 and 1; raises UserError if they are, but with other numbers."""
    values = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
    different = {value for row in values for value in row}
    repeated = any(len(set(row)) < len(row) for row in values)  # in a list of names, each occurs once
    if not all(isinstance(value, (Number, np.bool_)) for value in different):
        if different <= {"0", "1"} and repeated:
            raise UserError(f"The labels of `{where}` are lists of '0' and '1' as text. Expected: the numbers 0 and 1.")
        return False
    others = {value for value in different if value not in (0, 1)}
    if others and (repeated or names is not None or not all(map(_is_whole, others))):
        number, value = next((n, v) for n, row in enumerate(values, start=1) for v in row if v in others)
        raise UserError(
            f"Label {number} of `{where}` has {value!r}. Expected: 0 or 1 in each column, or a list of different names."
        )
    return bool(different) and not others


def _of_columns(rows, width, names, where):
    """Lists of the names of the columns with a 1, and all names."""
    if names is not None and len(names) != width:
        raise UserError(f"The labels of `{where}` have {width} columns. Received: {len(names)} `label_names`")
    names = names or tuple(str(column) for column in range(width))
    return [[names[column] for column in np.flatnonzero(row)] for row in rows], names


def _is_whole(number):
    try:
        return number == int(number)
    except (TypeError, OverflowError):  # complex or infinite
        return False


def _class_name(label, names, number, where):
    """The name of a class number."""
    if not isinstance(label, (Number, np.bool_)) or not _is_whole(label) or not 0 <= label < len(names):
        raise UserError(
            f"Label {number} of `{where}` is {label!r}. Expected, with `label_names`: columns of 0 and 1, or a number "
            f"from 0 to {len(names) - 1}"
        )
    return names[int(label)]
