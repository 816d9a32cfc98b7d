"""Input texts of the pipelines: any Python type as a list of str, texts as token ids, and source text in an answer."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import date
from typing import NamedTuple

import numpy as np

from keras_attention.data.tables.python_labels import as_labels, label_columns
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import UserError, quoted
from keras_attention.support.normalization import normalized
from keras_attention.tokenizers.special_tokens import PAD_ID, UNKNOWN_ID

Texts = str | Iterable[str]
Progress = Callable[[int, int], None] | None  # is called with the number of texts done and of all texts


class TruncatedText(UserWarning):
    """A text exceeded the model's limit and was cut."""


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


def is_calendar_day(text):
    """Whether the text is an existing calendar day in ISO 8601, such as "2020-02-29"."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


# Which part of a text that exceeds the limit is used: its start, both ends, or all of it in several sequences.
START, ENDS, WHOLE = "start", "ends", "whole"
DROPPED_PART = {START: "end", ENDS: "middle", WHOLE: "middle"}  # the part removed if a text becomes one sequence
# Characters per token of the limit. Longer texts are cut before tokenization, to save time.
CHARACTERS_PER_TOKEN = 64
MOST_TOKENS_OF_WHOLE = 50_000  # tokens of a text that is read whole, about 40,000 words: seconds of computation


TOKEN_PADDING = {"token_ids": PAD_ID, "segment_ids": PAD_ID}


class TokenSequence(NamedTuple):
    """One sequence: int32 arrays (T,) `token_ids` and `segment_ids`, and `truncated`, whether the text was cut."""

    token_ids: np.ndarray
    segment_ids: np.ndarray
    truncated: bool

    def inputs(self, num_segments):
        """The arrays that a network reads: dict by name. Without `segment_ids` if it has fewer than two segments."""
        token_ids = {"token_ids": self.token_ids}
        return token_ids if num_segments < 2 else {**token_ids, "segment_ids": self.segment_ids}


def text_sequences(tokenizer, texts, texts_b=None, *, max_tokens, long_texts=START, masks=False, warn=True):
    """Converts each text, or each pair of texts, into one sequence.

    Args:
        tokenizer: WordPieceTokenizer.
        texts: list of str.
        texts_b: list of str of the same length, or None. The second text has segment 1.
        max_tokens: int > 2, limit of a sequence. Longer texts are cut; in a pair, the longer text first.
        long_texts: "start" keeps the start of a text that is cut; "ends" and "whole" keep both ends.
        masks: bool. Whether "[MASK]" in a text is the mask token.
        warn: bool. Whether to warn if a text is cut.

    Returns:
        List of TokenSequence.

    Raises:
        UserError: if a text is not a str, or the numbers of texts and second texts differ.
    """
    texts, texts_b, _ = as_pair(texts, texts_b)
    sides = [texts] if texts_b is None else [texts, texts_b]
    longest = max_tokens * CHARACTERS_PER_TOKEN
    sides = [[text.strip() for text in side] for side in sides]
    encoded = [tokenizer.encode([cut_text(text, longest, long_texts) for text in side], masks=masks) for side in sides]
    sequences = [_framed(tokenizer, parts, max_tokens, long_texts) for parts in zip(*encoded, strict=True)]
    too_long = [max(map(len, texts)) > longest for texts in zip(*sides, strict=True)]
    sequences = [
        sequence._replace(truncated=sequence.truncated or cut)
        for sequence, cut in zip(sequences, too_long, strict=True)
    ]
    if warn:
        warn_of_cut(sequences, max_tokens, long_texts)
    return sequences


def whole_text_sequences(tokenizer, texts, *, max_tokens):
    """Converts each text, however long, into as many sequences as needed.

    Args:
        tokenizer, texts, max_tokens: see `text_sequences`.

    Returns:
        List of lists of TokenSequence. A text within the limit has one sequence. A longer one has as few full
        sequences as suffice; their starts are equally spaced, so neighbours may overlap. A text of more than
        `MOST_TOKENS_OF_WHOLE` tokens loses its middle; its sequences are `truncated`.

    Raises:
        UserError: if a text is not a str.
    """
    texts, _ = as_texts(texts)
    room = max_tokens - 2
    sequences = []
    texts, longest = [text.strip() for text in texts], MOST_TOKENS_OF_WHOLE * CHARACTERS_PER_TOKEN
    for text, ids in zip(texts, tokenizer.encode([cut_text(text, longest, WHOLE) for text in texts]), strict=True):
        truncated = len(ids) > MOST_TOKENS_OF_WHOLE or len(text) > longest
        ids = cut_text(list(ids), MOST_TOKENS_OF_WHOLE, WHOLE)
        count = max(1, -(-len(ids) // room))
        starts = np.linspace(0, max(0, len(ids) - room), count).astype(int)
        parts = [_framed(tokenizer, [ids[start : start + room]], max_tokens, WHOLE) for start in starts]
        sequences.append([part._replace(truncated=truncated) for part in parts])
    return sequences


def warn_of_cut(sequences, max_tokens, long_texts=START):
    """Warns of truncated sequences, if there are any."""
    cut = [number for number, sequence in enumerate(sequences, start=1) if sequence.truncated]
    if cut:
        warnings.warn(
            f"{len(cut)} of {len(sequences)} texts (the first is number {cut[0]}) have more than the "
            f"{max_tokens:,} tokens that this model reads: their {DROPPED_PART[long_texts]} was left out.",
            TruncatedText,
            stacklevel=5,
        )


def cut_text(sequence, length, long_texts):
    """At most `length` characters or ids: the first ones, or the first and the last ones."""
    if long_texts == START or len(sequence) <= length:
        return sequence[:length]
    return sequence[: length - length // 2] + sequence[len(sequence) - length // 2 :]


def _framed(tokenizer, parts, max_tokens, long_texts):
    room = max_tokens - 1 - len(parts)
    kept = [min(len(part), room) for part in parts]
    if sum(kept) > room:  # a pair: shorten the longer text first, until both are equal
        first, second = kept
        half = room // 2
        if min(first, second) > half:
            kept = [room - half, half]
        else:
            kept = [room - second, second] if second < first else [first, room - first]
    ids, segments = [tokenizer.start_id], [0]
    for segment, (part, length) in enumerate(zip(parts, kept, strict=True)):
        ids += [*cut_text(list(part), length, long_texts), tokenizer.end_id]
        segments += [segment] * (length + 1)
    truncated = any(length < len(part) for part, length in zip(parts, kept, strict=True))
    return TokenSequence(np.array(ids, "int32"), np.array(segments, "int32"), truncated)


WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's character for a space


def copy_unknowns(tokens, ids, weights, source_tokens, source_ids, source_text):
    """The answer's text, each unknown token replaced by the source text with the highest attention weight.

    Args:
        tokens: list of T str, the pieces of the answer, without END.
        ids: int array (T,).
        weights: float array (T, S).
        source_tokens: list of S str, without END.
        source_ids: int array (S,).
        source_text: str.

    Returns:
        str.
    """
    from keras_attention.decoding.hypotheses import replace_unknowns  # here: it imports Keras, which commands silence

    written = source_surfaces(source_tokens, source_ids, source_text)
    pieces = replace_unknowns(ids, tokens, weights, written, UNKNOWN_ID)
    return " ".join("".join(pieces).replace(WORD_START, " ").split())


def source_surfaces(tokens, ids, text):
    """The tokens, each unknown one replaced by the text between its known neighbours.

    Args:
        tokens: list of S str.
        ids: int array (S,).
        text: str, the text of these tokens.

    Returns:
        List of S str. An unknown token that cannot be located in the text stays unchanged.
    """
    text = " ".join(normalized("NFKC", text).split())
    if tokens and tokens[0].startswith(WORD_START):
        text = " " + text
    surfaces, position, open_ones = list(tokens), 0, []
    for i in range(len(tokens) + 1):
        if i < len(tokens) and ids[i] == UNKNOWN_ID:
            open_ones.append(i)
            continue
        known = tokens[i].replace(WORD_START, " ") if i < len(tokens) else ""
        start = text.find(known, position + len(open_ones)) if known else len(text)
        if start < 0:
            return surfaces
        between = text[position:start]
        if len(open_ones) == len(between):
            for j, character in zip(open_ones, between, strict=True):
                surfaces[j] = character
        elif open_ones:
            surfaces[open_ones[0] : i] = [between] + [""] * (len(open_ones) - 1)
        position, open_ones = start + len(known), []
    return surfaces
