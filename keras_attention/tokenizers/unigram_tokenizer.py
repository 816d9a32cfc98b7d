"""The tokenizer of multilingual encoders: the most probable split into pieces, each with a probability of its own."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from keras_attention.support.errors import UserError
from keras_attention.tokenizers.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_attention.tokenizers.special_tokens import (
    PAD_ID,
    SPECIAL_PIECES,
    UNKNOWN_ID,
    without_control_characters,
)

MASK_PIECE = "<mask>"
MASK = "[MASK]"  # how users write it, as for a WordPieceTokenizer
WORD_BEGINS = "▁"
HIDDEN = "\ufffd"
NORMAL, UNKNOWN, CONTROL = 1, 2, 3  # types of pieces in the library's format


class UnigramTokenizer(SentencePieceTokenizer):
    """Text <-> ids with the pieces of a unigram language model, as XLM-R and the encoders after it have.

    Of all ways to split a text into pieces, the one with the greatest sum of log probabilities is taken. Texts are
    normalised by the model (NFKC for published ones); case and accents stay.

    Args:
        model: bytes, a serialised SentencePiece model of the type unigram, with the special ids of
            `special_tokens.py`, and with the control piece "<mask>".

    Attributes:
        vocabulary: list of str, the pieces in the order of their ids.
        mask_id: int.
        special_ids: tuple of int, those of PAD, UNKNOWN, START, END and the mask.
        is_continuation: bool array (vocabulary size,), whether a piece continues a word: it does not begin with "▁".
            UNKNOWN does: a "▁" of its own stands before an unknown first character.

    Raises:
        UserError: see `SentencePieceTokenizer`; also if the type is another one, or there is no mask.

    Source: Kudo (2018), Subword Regularization; Conneau et al. (2020) for XLM-R.
    """

    kind = "unigram"

    def __init__(self, model: bytes):
        super().__init__(model)
        if _parsed(model).trainer_spec.model_type != 1:
            raise UserError("The SentencePiece model is not of the type unigram.")
        self.mask_id = self._processor.piece_to_id(MASK_PIECE)
        if self.mask_id == UNKNOWN_ID or not self._processor.is_control(self.mask_id):
            raise UserError(f"The SentencePiece model has no control piece {MASK_PIECE}.")
        self.special_ids = (self.pad_id, self.unknown_id, self.start_id, self.end_id, self.mask_id)
        self.vocabulary = self._processor.id_to_piece(list(range(self.vocabulary_size)))
        self.is_continuation = np.array([not piece.startswith(WORD_BEGINS) for piece in self.vocabulary])
        self.is_continuation[[self.pad_id, self.start_id, self.end_id, self.mask_id]] = False

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary_size: int, **options: Any) -> Self:
        """Not supported: published pieces are read by `keras-attention convert`."""
        raise NotImplementedError("The pieces of a UnigramTokenizer come from a published model.")

    @classmethod
    def from_pieces(cls, pieces: Sequence[str], log_probabilities: Sequence[float], charsmap: bytes) -> Self:
        """A tokenizer with these pieces behind the special ones; the mask is the last id.

        Args:
            pieces: list of str, the ordinary pieces.
            log_probabilities: list of float, one for each piece.
            charsmap: bytes, the compiled normalisation of a SentencePiece model; empty: none.

        Raises:
            UserError: see the class; also if a piece occurs twice.
        """
        model = model_format()()  # an empty one
        model.trainer_spec.model_type = 1
        names = ("pad", "unk", "bos", "eos")
        for token_id, (name, piece) in enumerate(zip(names, SPECIAL_PIECES, strict=True)):
            setattr(model.trainer_spec, f"{name}_id", token_id)
            setattr(model.trainer_spec, f"{name}_piece", piece)
            model.pieces.add(piece=piece, score=0.0, type=UNKNOWN if token_id == UNKNOWN_ID else CONTROL)
        for piece, score in zip(pieces, log_probabilities, strict=True):
            model.pieces.add(piece=piece, score=score, type=NORMAL)
        model.pieces.add(piece=MASK_PIECE, score=0.0, type=CONTROL)
        model.trainer_spec.vocab_size = len(model.pieces)
        model.normalizer_spec.precompiled_charsmap = charsmap
        model.normalizer_spec.add_dummy_prefix = True
        model.normalizer_spec.remove_extra_whitespaces = True
        model.normalizer_spec.escape_whitespaces = True
        return cls(model.SerializeToString())

    def with_pieces(self, token_ids: Sequence[int]) -> Self:
        """A tokenizer with these ids alone, in ascending order; the special ones must be among them."""
        model = _parsed(self._model)
        kept = [model.pieces[i] for i in token_ids if i not in self.special_ids]
        charsmap = model.normalizer_spec.precompiled_charsmap
        return self.from_pieces([one.piece for one in kept], [one.score for one in kept], charsmap)

    @staticmethod
    def _is_allowed(piece):
        return True  # the published pieces have marks of direction; `tokens` does not show them

    def tokens(self, ids: Iterable) -> list[str]:
        """Returns one readable str for each id; "▁" marks the start of a word, "\ufffd" a control character."""
        return [without_control_characters(piece).replace(" ", HIDDEN) for piece in super().tokens(ids)]

    def encode(self, texts: Sequence[str], masks: bool = False) -> list[np.ndarray]:
        """Encodes texts, without START and END.

        Args:
            texts: list of str.
            masks: bool. Whether "[MASK]" in a text becomes `mask_id`. Special pieces are ordinary text.

        Returns:
            List of int32 arrays, one for each text.

        Raises:
            UserError: if a text cannot be written as UTF-8.
        """
        texts = list(texts)
        if not masks:
            return super().encode(texts)
        parts = [text.split(MASK) for text in texts]
        encoded = iter(super().encode([part for of_text in parts for part in of_text]))
        mask = np.array([self.mask_id], np.int32)
        return [np.concatenate([array for _ in of_text for array in (mask, next(encoded))][1:]) for of_text in parts]

    def decode(self, sequences: Iterable) -> list[str]:
        """Returns a list of str. PAD, START and END are dropped; UNKNOWN is shown as "⁇", and the mask as "[MASK]"."""
        texts = []
        for ids in sequences:
            parts: list[list[int]] = [[]]
            for token_id in np.asarray(ids, np.int64).tolist():
                if token_id == self.mask_id:
                    parts.append([])
                elif token_id != PAD_ID:
                    parts[-1].append(token_id)
            texts.append(f" {MASK} ".join(super().decode(parts)).strip())
        return texts


def model_format() -> Any:
    """The class of SentencePiece models, a message of protobuf."""
    from sentencepiece import sentencepiece_model_pb2

    return sentencepiece_model_pb2.ModelProto  # pyright: ignore[reportAttributeAccessIssue]  # made when it is imported


def _parsed(model):
    return model_format().FromString(model)
