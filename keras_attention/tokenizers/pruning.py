"""A smaller vocabulary out of a larger one: the pieces that the texts need."""

import numpy as np

from keras_attention.tokenizers.bert_characters import part_words
from keras_attention.tokenizers.wordpiece_tokenizer import WordPieceTokenizer
from keras_attention.tokenizers.wordpiece_training import CONTINUATION, SPECIALS


def piece_counts(tokenizer, encoded):
    """How often each id of `tokenizer` occurs in a list of int arrays: int64 (vocabulary size,)."""
    return sum((np.bincount(ids, minlength=tokenizer.vocabulary_size) for ids in encoded), np.int64(0))


def prune(tokenizer, counts, vocabulary_size):
    """Keeps the most frequent pieces and all characters, so that no further word becomes [UNK].

    A word whose pieces are all kept is split as before; other words are split into more, shorter pieces. The order of
    the pieces stays the same.

    Args:
        tokenizer: WordPieceTokenizer.
        counts: int array (vocabulary size,), see `piece_counts`.
        vocabulary_size: int > 0, pieces to keep.

    Returns:
        The pair of a WordPieceTokenizer and int64 (pieces kept,), their ids in `tokenizer`.

    Raises:
        ValueError: if `vocabulary_size` is too small for the special pieces and the characters.
    """
    needed = np.array([_is_needed(piece, tokenizer.lowercase) for piece in tokenizer.vocabulary])
    room = vocabulary_size - needed.sum()
    if room < 0:
        raise ValueError(
            f"`vocabulary_size` must be at least {needed.sum()}, the special pieces and the characters. "
            f"Received: vocabulary_size={vocabulary_size}"
        )
    others = np.flatnonzero(~needed)
    frequent = others[np.argsort(-np.asarray(counts)[others], kind="stable")][:room]
    kept = np.sort(np.concatenate([np.flatnonzero(needed), frequent]))
    return WordPieceTokenizer([tokenizer.vocabulary[i] for i in kept], tokenizer.lowercase), kept


def align_pieces(tokenizer, pruned, kept, encoded, encoded_pruned):
    """Finds the pieces of words that both tokenizers split in the same way.

    Args:
        tokenizer, pruned, kept: see `prune`.
        encoded, encoded_pruned: lists of int arrays, the same texts as both tokenizers encode them.

    Returns:
        List of int32 arrays, for each piece of a text of `encoded_pruned` its place in `encoded`, or -1 where the word
        is split differently.
    """
    ids, few_ids = (np.concatenate([np.zeros(0, np.int32), *texts]) for texts in (encoded, encoded_pruned))
    new_id = np.full(tokenizer.vocabulary_size, -1)
    new_id[kept] = np.arange(len(kept))
    starts = np.flatnonzero(~tokenizer.is_continuation[ids])  # of the words, of all texts
    few_starts = np.flatnonzero(~pruned.is_continuation[few_ids])
    lengths, few_lengths = np.diff([*starts, len(ids)]), np.diff([*few_starts, len(few_ids)])
    word = np.repeat(np.arange(len(few_starts)), few_lengths)
    place = starts[word] + np.arange(len(few_ids)) - few_starts[word]
    different = new_id[ids[np.minimum(place, len(ids) - 1)]] != few_ids
    alike = (lengths == few_lengths) & (np.bincount(word[different], minlength=len(few_starts)) == 0)
    before = np.cumsum([0, *map(len, encoded)])
    text = np.repeat(np.arange(len(encoded_pruned)), [len(text) for text in encoded_pruned])
    places = np.where(alike[word], place - before[text], -1).astype("int32")
    return np.split(places, np.cumsum([len(text) for text in encoded_pruned])[:-1])


def _is_needed(piece, lowercase):
    """Whether a piece is special, or a single character in the position (word start or inside) that it is for."""
    letters = piece.removeprefix(CONTINUATION)
    inside = piece != letters and letters != ""
    if piece in SPECIALS or len(letters) != 1:
        return piece in SPECIALS
    return not inside or part_words([f"a{letters}"], lowercase) == [f"a{letters}"]
