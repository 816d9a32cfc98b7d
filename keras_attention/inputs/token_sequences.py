"""Texts as sequences of token ids: framed, cut at the model's limit or read whole in several sequences."""

import warnings
from typing import NamedTuple

import numpy as np

from keras_attention.inputs.given_texts import as_pair, as_texts
from keras_attention.tokenizers.special_tokens import PAD_ID


class TruncatedText(UserWarning):
    """A text exceeded the model's limit and was cut."""


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
