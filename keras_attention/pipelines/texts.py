"""What may go into a pipeline as texts, and what may come out of one that writes dates."""

from collections.abc import Iterable, Mapping, Set
from datetime import date
from numbers import Number

from keras_attention.errors import UserError, quoted


class TruncatedText(UserWarning):
    """A text was longer than the model reads, and was cut."""


def as_texts(texts, name="texts"):
    """Texts in any form that Python users have them in, as a list.

    Args:
        texts: str, or any iterable of str: a list, a tuple, a NumPy array, a pandas Series, a column of a `datasets`
            table, a generator.
        name: str, what messages call them.

    Returns:
        Pair of a list of str, and whether it was one str alone.

    Raises:
        UserError: if it is neither, or an item is no str that can be written as UTF-8; names the item.
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
    """`as_texts` of texts and, unless None, of the second texts of pairs.

    Returns:
        Triple of a list of str, a list of str or None, and whether the first was one str alone.

    Raises:
        UserError: see `as_texts`; also if there are not as many second texts as texts.
    """
    texts, alone = as_texts(texts)
    if texts_b is None:
        return texts, None, alone
    texts_b, _ = as_texts(texts_b, "texts_b")
    if len(texts) != len(texts_b):
        raise UserError(f"There must be as many second texts as texts. Received: {len(texts)} and {len(texts_b)}")
    return texts, texts_b, alone


def labelled_texts(texts, labels=None, texts_b=None, *, text=None, label=None, text_b=None, where="texts"):
    """Labelled texts in any form that Python users have them in, as lists.

    Args:
        texts: see `as_texts`; or a table with named columns, such as a pandas DataFrame.
        labels: iterable of labels, or None with a table.
        texts_b: see `as_texts`, second texts, or None.
        text, label, text_b: str, the columns of a table.
        where: str, what messages call it.

    Returns:
        Triple of a list of str, a list of labels, and a list of str or None.

    Raises:
        UserError: if a column is not there, a label is missing, or a text is no text.
    """
    if (labels is None) != (text is not None and label is not None):
        raise UserError(
            f"`{where}` needs labels beside it, or, if it is a table, text=COLUMN and label=COLUMN. Received: "
            f"labels={'None' if labels is None else 'given'}, text={text!r}, label={label!r}"
        )
    if labels is None:
        texts, labels, texts_b = (
            name if name is None else _column(texts, name, where) for name in (text, label, text_b)
        )
    texts, _ = as_texts(texts, where)
    texts_b = None if texts_b is None else as_texts(texts_b, f"{where}, second texts")[0]
    if isinstance(labels, (str, bytes, Mapping)) or not isinstance(labels, Iterable):
        raise UserError(f"`labels` must be a list or another sequence of labels. Received: {type(labels).__name__}")
    labels = list(labels)
    for number, one in enumerate(labels, start=1):
        if one is None or str(one) in ("<NA>", "NaT") or (isinstance(one, Number) and one != one):
            raise UserError(f"Label {number} of `{where}` is missing. Received: {one!r}. Leave out such rows.")
    return texts, labels, texts_b


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
        raise UserError(f"Sentence {number} holds half of a surrogate pair, which is no text.") from error
    return str(text)  # a str of NumPy becomes one of Python


def is_calendar_day(text):
    """Whether the text is the ISO 8601 form of a day that there is, such as "2020-02-29"."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
