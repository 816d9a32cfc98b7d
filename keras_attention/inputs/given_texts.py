"""Texts as users give them: any Python type as a list of str, and columns of tables as texts and labels."""

from collections.abc import Callable, Iterable, Mapping, Set

from keras_attention.data.tables.python_labels import as_labels, label_columns
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import UserError, quoted

Texts = str | Iterable[str]
Progress = Callable[[int, int], None] | None  # is called with the number of texts done and of all texts


def as_texts(texts, name="texts"):
    """Converts texts of any common Python type into a list.

    Args:
        texts: str, or any iterable of str: a list, a tuple, a NumPy array, a pandas Series, a column of a `datasets`
            table, a generator.
        name: str, their name in error messages.

    Returns:
        Pair of a list of str, and whether `texts` was a single str.

    Raises:
        UserError: if it is neither, or an item is not a str that UTF-8 can encode; the message names the item.
    """
    if isinstance(texts, str):
        return [_checked(texts, 1)], True
    expected = f"`{name}` must be a str or a list of str. Received: {type(texts).__name__}"
    if hasattr(texts, "columns"):
        raise UserError(f"{expected}, a table. Give one of its columns, such as table['text'].")
    if isinstance(texts, (bytes, bytearray, Mapping, Set)) or not isinstance(texts, Iterable):  # a set has no order
        raise UserError(expected)
    try:
        items = list(texts)
    except TypeError as error:  # such as a NumPy array without axes
        raise UserError(expected) from error
    return [_checked(text, number) for number, text in enumerate(items, start=1)], False


def as_pair(texts, texts_b):
    """Applies `as_texts` to texts and, unless None, to the second texts of pairs.

    Returns:
        Triple of a list of str, a list of str or None, and whether `texts` was a single str.

    Raises:
        UserError: see `as_texts`; also if the numbers of texts and second texts differ.
    """
    texts, alone = as_texts(texts)
    if texts_b is None:
        return texts, None, alone
    texts_b, _ = as_texts(texts_b, "texts_b")
    if len(texts) != len(texts_b):
        raise UserError(
            f"Every text needs one second text. Received: {len(texts)} texts and {len(texts_b)} second texts"
        )
    return texts, texts_b, alone


def blank_rows(texts, texts_b=None):
    """Whether each text, or one of each pair, shows nothing, so that it has no answer: list of bool."""
    sides = [texts] if texts_b is None else [texts, texts_b]
    return [any(map(is_blank, side)) for side in zip(*sides, strict=True)]


def labelled_texts(texts, labels=None, texts_b=None, *, text=None, label=None, text_b=None, where="texts", files=False):
    """Converts labelled texts of any common Python type into lists.

    Args:
        texts: see `as_texts`; or a table with named columns, such as a pandas DataFrame.
        labels: iterable of labels, or columns of 0 and 1, see `python_labels.as_labels`; or None with a table.
        texts_b: second texts, see `as_texts`, or None.
        text, label, text_b: str, names of columns of a table; `label` may be a list of str, of columns of 0 and 1.
        where: str, the name of `texts` in error messages.
        files: bool. Whether the inputs are no texts, but names of files or arrays, which are not checked here.

    Returns:
        Triple of a list of str, a list of labels, and a list of str or None.

    Raises:
        UserError: if a column does not exist, a label is missing, or a text is not a str.
    """
    if (labels is None) != (text is not None and label is not None):
        raise UserError(
            f"`{where}` needs labels; a table needs text=COLUMN and label=COLUMN instead. Received: "
            f"labels={'None' if labels is None else 'given'}, text={text!r}, label={label!r}"
        )
    if labels is None:
        table = texts
        texts, texts_b = (name if name is None else _column(table, name, where) for name in (text, text_b))
        if isinstance(label, (list, tuple)):
            labels = list(zip(*(_column(table, name, where) for name in label), strict=True))
        else:
            labels = _column(table, label, where)
    if files and texts is not None:
        return list(texts), as_labels(labels, where), None
    texts, _ = as_texts(texts, where)
    texts_b = None if texts_b is None else as_texts(texts_b, f"{where}, second texts")[0]
    if len(texts_b or texts) == len(texts) and any(blank := blank_rows(texts, texts_b)):
        raise UserError(f"Text {blank.index(True) + 1} of `{where}` is empty. Leave out such rows.")
    return texts, as_labels(labels, where), texts_b


def names_of_columns(labels, label=None):
    """The names of several columns of labels: list of str, or None.

    Args:
        labels: labels of any type; those of a DataFrame with several columns have names.
        label: str or list of str, the columns of a table, see `labelled_texts`.
    """
    names = list(label) if isinstance(label, (list, tuple)) else label_columns(labels)
    return names if names and len(names) > 1 else None


def _column(table, name, where):
    """A column of a table of pandas, polars, `datasets` or another library."""
    columns = list(getattr(table, "columns", getattr(table, "column_names", ())))
    if name not in columns:
        known = ", ".join(map(str, columns[:20])) or f"none, it is a {type(table).__name__}"
        raise UserError(f"`{where}` has no column {quoted(name)}. Columns: {known}")
    return table[name]


def _checked(text, number):
    if not isinstance(text, str):
        raise UserError(f"Sentence {number} must be a str. Received: {type(text).__name__} {quoted(text)}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(f"Sentence {number} contains half of a surrogate pair, which UTF-8 cannot encode.") from error
    return str(text)  # converts a NumPy str into a Python str
