"""Word vectors of GloVe or word2vec as the first embeddings of a new network."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_attention.data.word_vectors import WordVectors, read_word_vectors
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import AnyTokenizer, SentencePieceTokenizer, WordPieceTokenizer

EXAMPLES = 5  # frequent tokens without a vector that are named
WORD_START, WORD_PART = "▁", "##"  # the marks of SentencePiece and WordPiece


class KnownWords(NamedTuple):
    """How many tokens of a vocabulary have a vector.

    Attributes:
        known, total: int, tokens of the vocabulary with a vector, and all of them.
        share: float in [0, 1], tokens of the texts with a vector.
        missing: list of str, the most frequent tokens without a vector.
    """

    known: int
    total: int
    share: float
    missing: list[str]

    def __str__(self):
        missing = f" Frequent ones without: {', '.join(self.missing)}." if self.missing else ""
        return (
            f"Word vectors: {self.known:,} of {self.total:,} tokens have one, which are {100 * self.share:.1f} % of "
            f"the tokens of the texts. The other {self.total - self.known:,} start with random vectors.{missing}"
        )


def read_vectors_of_width(path: str | Path, embedding_dim: int) -> WordVectors:
    """Reads word vectors for embeddings whose width is already chosen.

    Raises:
        UserError: see `read_word_vectors`, or if the vectors have another width.
    """
    vectors = read_word_vectors(path)
    width = vectors.vectors.shape[1]
    if width != embedding_dim:
        raise UserError(
            f"{path}: its vectors have {width} numbers, and the embeddings {embedding_dim}. Pass "
            f"--embedding-dim {width}."
        )
    return vectors


def words_of(tokenizer: AnyTokenizer) -> list[str | None]:
    """The word that each token of a vocabulary is; None for special tokens and parts of words, see `WORD_START`.

    A piece of SentencePiece that begins a word counts as a word, because most words that are one piece begin no other;
    so does a piece without letters and digits, such as the full stop after a word.
    """
    tokens = tokenizer.tokens(range(tokenizer.vocabulary_size))
    if isinstance(tokenizer, SentencePieceTokenizer):
        words = (token.removeprefix(WORD_START) for token in tokens)
        begins = (token.startswith(WORD_START) or not any(map(str.isalnum, token)) for token in tokens)
        return [word if word and whole else None for word, whole in zip(words, begins, strict=True)]
    if isinstance(tokenizer, WordPieceTokenizer):
        special = set(tokenizer.special_ids)
        return [None if i in special or token.startswith(WORD_PART) else token for i, token in enumerate(tokens)]
    raise TypeError(f"A tokenizer must have words or pieces of words. Received: {type(tokenizer).__name__}")


def embedding_table(words: list[str | None], vectors: WordVectors) -> tuple[np.ndarray, np.ndarray]:
    """The vectors of words; those of words without a vector are drawn.

    They are drawn from a normal distribution with the mean and the standard deviation of the others, column by column.

    Args:
        words: list of V str, or None for a token that is no word. The first is padding, whose vector is 0.
        vectors: WordVectors of width D.

    Returns:
        float32 array (V, D), and a bool array (V,), which is True for words with a vector.
    """
    places = [None if word is None else vectors.place(word) for word in words]
    known = np.array([place is not None for place in places])
    table = np.zeros((len(places), vectors.vectors.shape[1]), "float32")  # (V, D)
    table[known] = vectors.vectors[[place for place in places if place is not None]]
    center, spread = (f(table[known], axis=0) if known.any() else 0.0 for f in (np.mean, np.std))
    draw = np.random.default_rng(len(places)).standard_normal(table.shape)
    table[~known] = (center + spread * draw)[~known]
    table[0] = 0.0
    return table, known


def set_embeddings(embedding: Any, tokenizer: AnyTokenizer, vectors: WordVectors, token_ids: np.ndarray) -> KnownWords:
    """Sets the vectors of all tokens that are words with a vector; for the other tokens, see `embedding_table`.

    Args:
        embedding: built `keras.layers.Embedding`, as wide as the vectors.
        tokenizer: tokenizer of words or pieces of words, whose padding has the id 0.
        vectors: WordVectors.
        token_ids: int array (N,), all tokens of the training texts, to count how often each occurs.

    Returns:
        KnownWords.

    Raises:
        UserError: if no token has a vector.
    """
    table, known = embedding_table(words_of(tokenizer), vectors)
    if not known.any():
        raise UserError(
            f"None of the {len(known):,} tokens of the vocabulary is among the {len(vectors):,} words that have "
            "vectors. Expected: vectors of words in the language of the texts."
        )
    embedding.embeddings.assign(table)
    counts = np.bincount(token_ids, minlength=len(known))  # (V,)
    frequent = np.flatnonzero((counts > 0) & ~known)
    missing = frequent[np.argsort(-counts[frequent], kind="stable")][:EXAMPLES]
    share = counts[known].sum() / max(1, counts.sum())
    return KnownWords(int(known.sum()), len(known), float(share), tokenizer.tokens(missing))
