"""Tokenizers as part of a TensorFlow graph, saved with the model."""

import tempfile
from pathlib import Path

import tensorflow as tf
import tensorflow_text

from keras_attention.errors import UserError
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID

# What str.strip removes; TensorFlow's own strip removes ASCII blanks only.
BLANKS = "".join(rf"\x{{{point:X}}}" for point in range(0x3001) if chr(point).isspace())


def strip(texts):
    """Removes blanks at both ends of each text (B,), as `str.strip`."""
    return tf.strings.regex_replace(texts, rf"\A[{BLANKS}]+|[{BLANKS}]+\z", "")


class SentencePieceInGraph(tf.Module):
    """A SentencePieceTokenizer in a graph.

    Args:
        tokenizer: SentencePieceTokenizer.
    """

    def __init__(self, tokenizer):
        super().__init__()
        self._pieces = tokenizer.tokens(range(tokenizer.vocabulary_size))
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save(folder)
            model = (Path(folder) / "tokenizer.model").read_bytes()
        self._library = tensorflow_text.SentencepieceTokenizer(model, out_type=tf.int32)  # a module, so it is saved

    def tokenize(self, texts):
        """Texts (B,) -> tf.RaggedTensor int32 (B, None), as `SentencePieceTokenizer.encode`."""
        return self._library.tokenize(texts)

    def detokenize(self, token_ids):
        """Ids (B, T), padded -> texts (B,), as `SentencePieceTokenizer.decode`."""
        return strip(self._library.detokenize(without_specials(token_ids)))

    def tokens(self, token_ids):
        """Ids (B, T) -> readable pieces (B, T), "" at padding."""
        return pieces_of(token_ids, self._pieces)


class CharactersInGraph(tf.Module):
    """A CharacterTokenizer in a graph.

    Args:
        tokenizer: CharacterTokenizer.
    """

    def __init__(self, tokenizer):
        super().__init__()
        self._pieces = tokenizer.tokens(range(tokenizer.vocabulary_size))
        self._tokenizer = tokenizer

    def tokenize(self, texts):
        """Texts (B,) -> tf.RaggedTensor int32 (B, None), as `CharacterTokenizer.encode`."""
        return self._tokenizer.tokenize_in_graph(texts)

    def detokenize(self, token_ids):
        """Ids (B, T), padded, without UNKNOWN -> texts (B,), as `CharacterTokenizer.decode`."""
        return tf.strings.reduce_join(tf.gather(self._pieces, without_specials(token_ids)), axis=1)

    def tokens(self, token_ids):
        """Ids (B, T) -> readable characters (B, T), "" at padding."""
        return pieces_of(token_ids, self._pieces)


GRAPH_TOKENIZERS = {"sentencepiece": SentencePieceInGraph, "characters": CharactersInGraph}


def in_graph(tokenizer):
    """The tokenizer as part of a graph.

    Args:
        tokenizer: SentencePieceTokenizer or CharacterTokenizer.

    Returns:
        A tf.Module with `tokenize`, `detokenize` and `tokens`.

    Raises:
        UserError: for another tokenizer.
    """
    if tokenizer.kind not in GRAPH_TOKENIZERS:
        known = " or ".join(GRAPH_TOKENIZERS)
        raise UserError(f"A {tokenizer.kind} tokenizer cannot be part of a TensorFlow graph. Supported: {known}")
    return GRAPH_TOKENIZERS[tokenizer.kind](tokenizer)


def without_specials(token_ids):
    """Drops PAD and END of each sequence (B, T): tf.RaggedTensor (B, None)."""
    written = tf.logical_and(tf.not_equal(token_ids, PAD_ID), tf.not_equal(token_ids, END_ID))
    return tf.ragged.boolean_mask(token_ids, written)


def pieces_of(token_ids, pieces):
    return tf.where(tf.equal(token_ids, PAD_ID), "", tf.gather(pieces, token_ids))
