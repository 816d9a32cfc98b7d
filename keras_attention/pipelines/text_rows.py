"""Texts as the rows of ids that a BERT reads: [CLS] text [SEP], or [CLS] text [SEP] second text [SEP]."""

import warnings
from typing import NamedTuple

import numpy as np

from keras_attention.pipelines.texts import TruncatedText, as_pair, as_texts

# What is read of a text that is too long: its start, both ends without the middle, or all of it, in several rows.
START, ENDS, WHOLE = "start", "ends", "whole"
LOST = {START: "end", ENDS: "middle", WHOLE: "middle"}  # where there is one row for a text
# Characters that are looked at for each token that the model can read; what is longer is cut before tokenizing.
CHARACTERS_PER_TOKEN = 64


class Row(NamedTuple):
    """`token_ids` and `segment_ids` are int32 arrays (T,); `truncated` says whether something was cut."""

    token_ids: np.ndarray
    segment_ids: np.ndarray
    truncated: bool


def text_rows(tokenizer, texts, texts_b=None, *, max_tokens, long_texts=START, masks=False, warn=True):
    """Makes the row of each text, or of each pair.

    Args:
        tokenizer: WordPieceTokenizer.
        texts: list of str.
        texts_b: list of str of the same length, or None. The second text has segment 1.
        max_tokens: int > 2, of a row. Longer texts are cut, of a pair the longer text is first.
        long_texts: "start", what is cut loses its end, or "ends" or "whole", it loses its middle.
        masks: bool, whether "[MASK]" in a text is the mask.
        warn: bool, whether to warn where something is cut.

    Returns:
        List of Row.

    Raises:
        UserError: if a text is no text, or there are not as many second texts as texts.
    """
    texts, texts_b, _ = as_pair(texts, texts_b)
    sides = [texts] if texts_b is None else [texts, texts_b]
    longest = max_tokens * CHARACTERS_PER_TOKEN
    sides = [[text.strip() for text in side] for side in sides]
    encoded = [tokenizer.encode([_cut(text, longest, long_texts) for text in side], masks=masks) for side in sides]
    rows = [_row(tokenizer, parts, max_tokens, long_texts) for parts in zip(*encoded, strict=True)]
    too_long = [max(map(len, texts)) > longest for texts in zip(*sides, strict=True)]
    rows = [row._replace(truncated=row.truncated or cut) for row, cut in zip(rows, too_long, strict=True)]
    if warn:
        warn_of_cut(rows, max_tokens, long_texts)
    return rows


def whole_text_rows(tokenizer, texts, *, max_tokens):
    """Makes rows that hold all of each text, however long.

    Args:
        tokenizer, texts, max_tokens: see `text_rows`.

    Returns:
        List of lists of Row. A text that fits has one row. One that does not has as few as can hold it, each full; they
        begin at equal distances, so that neighbours may overlap.

    Raises:
        UserError: if a text is no text.
    """
    texts, _ = as_texts(texts)
    room = max_tokens - 2
    rows = []
    for ids in tokenizer.encode([text.strip() for text in texts]):
        count = max(1, -(-len(ids) // room))
        starts = np.linspace(0, max(0, len(ids) - room), count).astype(int)
        rows.append([_row(tokenizer, [ids[start : start + room]], max_tokens, WHOLE) for start in starts])
    return rows


def warn_of_cut(rows, max_tokens, long_texts=START):
    """Warns of the rows that are truncated, if there are some."""
    cut = [number for number, row in enumerate(rows, start=1) if row.truncated]
    if cut:
        warnings.warn(
            f"{len(cut)} of {len(rows)} texts (the first is number {cut[0]}) have more than the {max_tokens} tokens "
            f"that this model reads: their {LOST[long_texts]} was left out.",
            TruncatedText,
            stacklevel=5,
        )


def _cut(sequence, length, long_texts):
    """At most `length` signs or ids: the first ones, or the first and the last ones."""
    if long_texts == START or len(sequence) <= length:
        return sequence[:length]
    return sequence[: length - length // 2] + sequence[len(sequence) - length // 2 :]


def _row(tokenizer, parts, max_tokens, long_texts):
    room = max_tokens - 1 - len(parts)
    kept = [min(len(part), room) for part in parts]
    if sum(kept) > room:  # a pair: the longer one loses what is too much, until both are equal
        first, second = kept
        half = room // 2
        if min(first, second) > half:
            kept = [room - half, half]
        else:
            kept = [room - second, second] if second < first else [first, room - first]
    ids, segments = [tokenizer.start_id], [0]
    for segment, (part, length) in enumerate(zip(parts, kept, strict=True)):
        ids += [*_cut(list(part), length, long_texts), tokenizer.end_id]
        segments += [segment] * (length + 1)
    truncated = any(length < len(part) for part, length in zip(parts, kept, strict=True))
    return Row(np.array(ids, "int32"), np.array(segments, "int32"), truncated)
