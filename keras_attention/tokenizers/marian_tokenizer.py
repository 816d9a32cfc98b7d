"""Marian's tokenizer: SentencePiece cuts a text into pieces, and a vocabulary of its own numbers them."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from keras_attention.support.errors import UserError, quoted
from keras_attention.tokenizers.byte_level_tokenizer import MAX_PIECE_CHARACTERS, MAX_PIECES, read_pieces
from keras_attention.tokenizers.special_tokens import (
    END_ID,
    PAD_ID,
    SPECIAL_PIECES,
    START_ID,
    UNKNOWN_ID,
    checked_ids,
    checked_text,
    without_control_characters,
)

WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's character for a space
UNKNOWN_TEXT = " \N{DOUBLE QUESTION MARK} "
LANGUAGE_TOKEN = re.compile(r">>.*?<<", re.DOTALL)
FEW_LANGUAGES = 5  # in a message


class MarianTokenizer:
    """Text <-> ids of a Marian model: the pieces of a SentencePiece model, numbered by a vocabulary.

    Source and target have a SentencePiece model each, and usually one vocabulary. A piece that is not in the vocabulary
    is UNKNOWN. A model with several target languages has tokens such as ">>fra<<"; at the beginning of a text, one of
    them is a token, elsewhere it is ordinary text.

    Args:
        model: bytes, a serialised SentencePiece model.
        vocabulary: list of str, the pieces in the order of their ids, the special ones first, see `special_tokens.py`.

    Attributes:
        vocabulary: as given.
        languages: tuple of str, the language tokens of the vocabulary.

    Raises:
        UserError: if `model` is not a SentencePiece model; or the vocabulary does not begin with the special pieces,
            or has a piece twice, an empty one or a very long one.

    Source: Junczys-Dowmunt et al. (2018), https://aclanthology.org/P18-4020; the ids are those of `MarianTokenizer` in
    transformers, in another order. Difference: special pieces such as "</s>" in a text are ordinary text.
    """

    kind = "marian"
    pad_id, unknown_id, start_id, end_id = PAD_ID, UNKNOWN_ID, START_ID, END_ID
    files = ("tokenizer.json", "tokenizer.model", "vocab.json")
    settings = ("kind",)  # of tokenizer.json

    def __init__(self, model: bytes, vocabulary: Sequence[str]):
        import sentencepiece

        self._model, self.vocabulary = bytes(model), list(vocabulary)
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self._model)
            self._processor.encode("a", out_type=str)
        except (RuntimeError, UnicodeDecodeError) as error:
            raise UserError(f"This is not a valid SentencePiece model ({error!s:.200}).") from error
        _check_vocabulary(self.vocabulary)
        self._ids = {piece: number for number, piece in enumerate(self.vocabulary) if number >= len(SPECIAL_PIECES)}
        self.languages = tuple(piece for piece in self._ids if LANGUAGE_TOKEN.fullmatch(piece))
        self._graph_parts = None

    @property
    def vocabulary_size(self) -> int:
        """int, the number of ids, special ones included."""
        return len(self.vocabulary)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encodes texts, without START and END.

        Args:
            texts: list of str.

        Returns:
            List of int32 arrays, one for each text.

        Raises:
            UserError: if a text cannot be written as UTF-8, or begins with the token of a language that the model
                does not have, although it has others.
        """
        tokens, rests = [], []
        for text in map(checked_text, texts):
            token = LANGUAGE_TOKEN.match(text)
            tokens.append([] if token is None else [self._language(token[0])])
            rests.append(text[token.end() if token else 0 :])
        pieces = self._processor.encode(rests, out_type=str)
        return [
            np.array([*first, *(self._ids.get(piece, UNKNOWN_ID) for piece in of_text)], np.int32)
            for first, of_text in zip(tokens, pieces, strict=True)
        ]

    def _language(self, token):
        """The id of a language token."""
        if self.languages and token not in self._ids:
            known = ", ".join(self.languages[:FEW_LANGUAGES]) + ", ..." * (len(self.languages) > FEW_LANGUAGES)
            raise UserError(f"The model has no target language {quoted(token, 40)}. Its languages: {known}")
        return self._ids.get(token, UNKNOWN_ID)

    def decode(self, sequences: Iterable) -> list[str]:
        """Returns a list of str. PAD, START and END are dropped; UNKNOWN is shown as "⁇"."""
        texts = []
        for ids in sequences:
            kept = [i for i in checked_ids(ids, self.vocabulary_size) if i not in (PAD_ID, START_ID, END_ID)]
            joined = "".join(UNKNOWN_TEXT if i == UNKNOWN_ID else self.vocabulary[i] for i in kept)
            texts.append(without_control_characters(joined.replace(WORD_START, " ")).strip())
        return texts

    def tokens(self, ids: Iterable) -> list[str]:
        """Returns one readable str for each id; "▁" marks the start of a word."""
        return [without_control_characters(self.vocabulary[i]) for i in checked_ids(ids, self.vocabulary_size)]

    def tokenize_in_graph(self, texts: Any) -> Any:
        """Encodes a string tensor (B,) inside a TensorFlow graph: tf.RaggedTensor int32 (B, None).

        As `encode`, but the token of an unknown language is UNKNOWN.
        """
        import tensorflow as tf

        if self._graph_parts is None:
            with tf.init_scope():
                self._graph_parts = self.parts_of_graph()
        return tokenize_with(texts, *self._graph_parts)

    def parts_of_graph(self) -> tuple:
        """A SentencePiece tokenizer of tensorflow-text and a table from pieces to ids, for `tokenize_with`."""
        import tensorflow as tf
        import tensorflow_text

        pieces, ids = list(self._ids), np.array(list(self._ids.values()), np.int32)
        pairs = tf.lookup.KeyValueTensorInitializer(tf.constant(pieces, tf.string), ids)
        table = tf.lookup.StaticHashTable(pairs, UNKNOWN_ID)
        return tensorflow_text.SentencepieceTokenizer(self._model, out_type=tf.string), table

    def save(self, folder: str | Path) -> None:
        """Writes tokenizer.json, tokenizer.model and vocab.json into `folder`, which is created if missing."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.model").write_bytes(self._model)
        ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        for name, content in (("vocab.json", ids), ("tokenizer.json", {"kind": self.kind})):
            text = json.dumps(content, ensure_ascii=False)
            (folder / name).write_text(f"{text}\n", encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Loads a tokenizer from a folder that `save` wrote.

        Raises:
            UserError: if a file is missing or damaged.
        """
        path = Path(folder) / "tokenizer.model"
        try:
            model = path.read_bytes()
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}). Expected: a SentencePiece model.") from error
        vocabulary = read_pieces(Path(folder) / "vocab.json")
        try:
            return cls(model, vocabulary)
        except UserError as error:
            raise UserError(f"{folder}: {error}") from error


def tokenize_with(texts, sentencepiece, table):
    """Texts (B,) -> tf.RaggedTensor int32 (B, None), with the results of `MarianTokenizer.parts_of_graph`."""
    import tensorflow as tf

    begins = tf.strings.regex_full_match(texts, r"(?s)>>.*?<<.*")
    token = tf.strings.regex_replace(texts, r"(?s)\A(>>.*?<<).*\z", r"\1")
    rest = tf.where(begins, tf.strings.regex_replace(texts, r"(?s)\A>>.*?<<", "", replace_global=False), texts)
    pieces = sentencepiece.tokenize(rest)
    ids = pieces.with_flat_values(table.lookup(pieces.flat_values))
    first = tf.ragged.boolean_mask(table.lookup(token)[:, None], begins[:, None])
    return tf.concat([first, ids], axis=1)


def _check_vocabulary(vocabulary):
    """Raises UserError for the first wrong piece."""
    if not len(SPECIAL_PIECES) < len(vocabulary) <= MAX_PIECES:
        raise UserError(f"The vocabulary has {len(vocabulary)} pieces. Supported: 5 to {MAX_PIECES}")
    if tuple(vocabulary[: len(SPECIAL_PIECES)]) != SPECIAL_PIECES:
        received = quoted(vocabulary[: len(SPECIAL_PIECES)])
        raise UserError(f"The vocabulary must begin with {', '.join(SPECIAL_PIECES)}. Found: {received}")
    seen = set()
    for number, piece in enumerate(vocabulary):
        if not isinstance(piece, str) or not 0 < len(piece) <= MAX_PIECE_CHARACTERS or piece in seen:
            expected = f"a text of 1 to {MAX_PIECE_CHARACTERS} characters that occurs once"
            raise UserError(f"Piece {number} of the vocabulary must be {expected}. Found: {quoted(piece, 60)}")
        seen.add(piece)
