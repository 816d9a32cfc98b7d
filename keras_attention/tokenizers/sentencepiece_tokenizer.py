"""A tokenizer that splits words into learned pieces (byte-pair encoding with SentencePiece)."""

import io
import itertools
import json
import re
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from keras_attention.support.errors import UserError, quoted
from keras_attention.tokenizers.special_tokens import (
    END_ID,
    PAD_ID,
    SPECIAL_PIECES,
    START_ID,
    UNKNOWN_ID,
    checked_text,
    control_character,
    without_control_characters,
)

FEW_TEXTS = 64  # for fewer texts, the library's threads cost more time than they save
MAX_LINE_BYTES = 1 << 20  # the trainer skips longer lines
SEED_LOCK = threading.Lock()  # the library has one seed for the whole process


class SentencePieceTokenizer:
    """Text <-> ids through a SentencePiece model.

    Text is normalised by the model (NFKC, control characters removed, runs of blanks joined), so decoding gives the
    normalised text back. "</s>" or "<pad>" in a text is ordinary text: encoding yields no special id except UNKNOWN.

    Args:
        model: bytes, a serialised SentencePiece model with the special ids of `special_tokens.py`.

    Raises:
        UserError: if `model` is not such a model, or a piece has a control character or is a byte piece.

    Source: Kudo & Richardson (2018); Sennrich, Haddow & Birch (2016) for byte-pair encoding.
    """

    kind = "sentencepiece"
    pad_id, unknown_id, start_id, end_id = PAD_ID, UNKNOWN_ID, START_ID, END_ID
    files = ("tokenizer.json", "tokenizer.model")
    settings = ("kind",)  # of tokenizer.json

    def __init__(self, model: bytes):
        import sentencepiece

        self._model = bytes(model)
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self._model)
            pieces = self._processor.id_to_piece(list(range(self._processor.vocab_size())))  # fails if one is not UTF-8
        except (RuntimeError, UnicodeDecodeError) as error:
            raise UserError(
                f"This is not a valid SentencePiece model ({_reason(error)}). Expected: one of this package."
            ) from error
        ids = tuple(getattr(self._processor, name)() for name in ("pad_id", "unk_id", "bos_id", "eos_id"))
        if ids != (PAD_ID, UNKNOWN_ID, START_ID, END_ID):
            raise UserError(
                f"The SentencePiece model has the ids {ids} for padding, unknown, start and end. "
                f"Expected: {(PAD_ID, UNKNOWN_ID, START_ID, END_ID)}"
            )
        are_bytes = self._processor.is_byte(list(range(len(pieces))))
        wrong = next((n for n, piece in enumerate(pieces) if are_bytes[n] or not self._is_allowed(piece)), None)
        if wrong is not None:
            raise UserError(
                f"Piece {wrong} must be a text without control characters. Found: {quoted(pieces[wrong], 60)}"
            )
        self._graph_tokenizer = None

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocabulary_size: int,
        character_coverage: float = 1.0,
        lowercase: bool = False,
        split_digits: bool = False,
    ) -> Self:
        """Learns the pieces of byte-pair encoding; the same texts give the same model, byte for byte.

        Control characters in the texts are treated as blanks.

        Args:
            texts: iterable of str, one sentence each.
            vocabulary_size: int > 4, the largest number of ids, special ones included. Small texts give fewer.
            character_coverage: float in (0, 1]. Share of the characters' occurrences that get an id.
            lowercase: bool. Whether to fold the case of every text; decoded text is then lower case as well.
            split_digits: bool. Whether each digit is a piece of its own, so that numbers can be copied.

        Raises:
            ValueError: if `character_coverage` is out of range.
            UserError: if there is no text, or `vocabulary_size` is less than the number of different characters.
        """
        import sentencepiece

        if not 0.0 < character_coverage <= 1.0:
            raise ValueError(
                f"`character_coverage` must be in (0, 1]. Received: character_coverage={character_coverage}"
            )

        texts = map(without_control_characters, texts)
        first = next((text for text in texts if text.strip()), None)
        if first is None:
            raise UserError("There is no text to learn a vocabulary from: every line is empty.")
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=itertools.chain([first], texts),
                model_writer=model,
                model_type="bpe",
                vocab_size=vocabulary_size,
                hard_vocab_limit=False,
                character_coverage=character_coverage,
                normalization_rule_name="nmt_nfkc_cf" if lowercase else "nmt_nfkc",
                split_digits=split_digits,
                max_sentence_length=MAX_LINE_BYTES,
                pad_id=PAD_ID,
                unk_id=UNKNOWN_ID,
                bos_id=START_ID,
                eos_id=END_ID,
                pad_piece=SPECIAL_PIECES[PAD_ID],
                unk_piece=SPECIAL_PIECES[UNKNOWN_ID],
                bos_piece=SPECIAL_PIECES[START_ID],
                eos_piece=SPECIAL_PIECES[END_ID],
                num_threads=1,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise UserError(f"`vocabulary_size={vocabulary_size}` does not fit the text: {_reason(error)}") from error
        return cls(model.getvalue())

    @staticmethod
    def _is_allowed(piece):
        return control_character(piece) is None

    @property
    def vocabulary_size(self) -> int:
        """int, the number of ids, special ones included."""
        return self._processor.vocab_size()

    def encode(self, texts: Sequence[str], dropout: float = 0.0, seed: int = 0) -> list[np.ndarray]:
        """Encodes texts, without START and END.

        Args:
            texts: list of str.
            dropout: float in [0, 1). Share of the merges that are skipped, so that a word is split differently each
                time: BPE-dropout (Provilkov, Emelianenko & Voita 2020, section 3) for training texts.
            seed: int >= 0, selects the merges to skip; the same seed and texts give the same ids.

        Returns:
            List of int32 arrays, one for each text.

        Raises:
            ValueError: if `dropout` is out of range.
            UserError: if a text cannot be written as UTF-8.
        """
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout}")
        texts = [checked_text(text) for text in texts]
        if dropout:
            encoded = self._encode_with_dropout(texts, dropout, seed)
        elif len(texts) < FEW_TEXTS:
            encoded = [self._processor.encode(text) for text in texts]
        else:
            encoded = self._processor.encode(texts)
        return [np.asarray(ids, dtype=np.int32) for ids in encoded]

    def _encode_with_dropout(self, texts, dropout, seed):
        import sentencepiece

        # The library has one random generator per thread, seeded when the thread first uses it. A batch runs in new
        # threads; with a single thread, the ids depend only on seed and texts.
        with SEED_LOCK:
            sentencepiece.set_random_generator_seed(seed)
            return self._processor.encode(texts, enable_sampling=True, alpha=dropout, nbest_size=-1, num_threads=1)

    def decode(self, sequences: Iterable) -> list[str]:
        """Returns a list of str. PAD, START and END are dropped; UNKNOWN is shown as "⁇"."""
        dropped = (PAD_ID, START_ID, END_ID)
        texts = [self._processor.decode([i for i in _integers(ids) if i not in dropped]) for ids in sequences]
        return [without_control_characters(text).strip() for text in texts]  # a model may have its own rules

    def tokens(self, ids: Iterable) -> list[str]:
        """Returns one readable str for each id; "▁" marks the start of a word."""
        return [self._processor.id_to_piece(i) for i in _integers(ids)]

    def tokenize_in_graph(self, texts: Any) -> Any:
        """Encodes a string tensor (B,) inside a TensorFlow graph: tf.RaggedTensor int32 (B, None), as `encode`."""
        import tensorflow as tf
        import tensorflow_text

        if self._graph_tokenizer is None:
            with tf.init_scope():
                self._graph_tokenizer = tensorflow_text.SentencepieceTokenizer(self._model, out_type=tf.int32)
        return self._graph_tokenizer.tokenize(texts)

    def save(self, folder: str | Path) -> None:
        """Writes tokenizer.json and tokenizer.model into `folder`, which is created if missing."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.model").write_bytes(self._model)
        (folder / "tokenizer.json").write_text(json.dumps({"kind": self.kind}) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Loads a tokenizer from a folder that `save` wrote.

        Raises:
            UserError: if tokenizer.model is missing or damaged.
        """
        path = Path(folder) / "tokenizer.model"
        try:
            model = path.read_bytes()
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}). Expected: a SentencePiece model.") from error
        try:
            return cls(model)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error


def _integers(ids):
    """Returns a list of int, from any sequence, array or tensor of ids."""
    return np.asarray(ids, dtype=np.int64).tolist()


def _reason(error):
    """The message of a SentencePiece error, without the source location."""
    return re.sub(r"^.*\] ?", "", str(error)).strip() or "the library gives no reason"
