"""Texts for a masked language model: settings, and encoded sequences with their vocabulary, stored once."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.data.prose.documents import PackedSequences, docstrings, encode_documents, hold_out, read_documents
from keras_attention.data.prose.masked_lm import MaskedLMBatches
from keras_attention.errors import UNREADABLE, UserError
from keras_attention.flags import setting
from keras_attention.tokenizers import WordPieceTokenizer
from keras_attention.whole_file import check_holds_only, whole_folder

ROWS = "rows.npz"
PAIRS = ("segment_ids", "is_next")  # arrays of sequences with two texts
SMOKE_FILES, SMOKE_DOCUMENTS = 20, 100


@dataclass(frozen=True)
class ProseSettings:
    """Base class for the `Config` of a recipe: texts, masks, and storage of the model."""

    text: tuple[str, ...] = setting((), "text files; default: the docstrings of the Python standard library")
    validation: tuple[str, ...] = setting((), "text files for validation; default: a share of the documents")
    validation_share: float = setting(0.02, "share of the documents for validation, without --validation")
    language: str = setting("en", "code of the language, for the card")
    vocabulary_size: int = setting(8000, "vocabulary size, including special tokens")
    lowercase: bool = setting(True, "convert to lower case and remove accents")
    max_tokens: int = setting(128, "tokens per sequence; short texts are packed into one sequence")
    mask_rate: float = setting(0.15, "share of the tokens to predict")
    whole_words: bool = setting(False, "mask all tokens of a word together")
    next_sentence: bool = setting(False, "also predict whether the second text of a sequence follows the first")
    rows_per_batch: int = setting(64, "sequences per update")
    parts: int = setting(1, "number of parts of a pass over the texts, with a validation after each")
    half_precision: bool = setting(True, "store the weights in float16")
    encode_to: str = setting("", "only write the encoded texts to this folder, for a machine without TensorFlow")
    encoded: str = setting("", "train on texts encoded with --encode-to, and write only the weights")
    start_from: str = setting("", "start from this trained model, with its settings and vocabulary")

    @property
    def file_names(self):
        """The names of the files without their folders, a dict."""
        return {name: [Path(path).name for path in getattr(self, name)] for name in ("text", "validation")}


class Prose(NamedTuple):
    """A WordPieceTokenizer, and PackedSequences to train and to validate with."""

    tokenizer: WordPieceTokenizer
    sequences: PackedSequences
    validation_sequences: PackedSequences

    def __str__(self):
        return f"{len(self.sequences):,} sequences"

    def batches(self, config):
        """The MaskedLMBatches to train on, by ProseSettings."""
        return self._batches(self.sequences, config, seed=config.seed, parts=config.parts)

    def validation_batches(self, config):
        """The batches to validate with: the same masks each time."""
        return self._batches(self.validation_sequences, config, seed=0).epoch(0)

    def _batches(self, sequences, config, **options):
        masking = {name: getattr(config, name) for name in ("rows_per_batch", "mask_rate", "whole_words")}
        return MaskedLMBatches(sequences, self.tokenizer, **masking, **options)

    def save(self, folder):
        """See `save_encoded_prose`."""
        save_encoded_prose(folder, *self)


def load_prose(config, tokenizer=None):
    """Reads and encodes texts, or loads the files that `Prose.save` wrote.

    Args:
        config: ProseSettings and RunSettings; with `smoke`, only a few texts are used.
        tokenizer: WordPieceTokenizer, or None to train one on the texts.

    Returns:
        Prose.

    Raises:
        UserError: if a file is missing or holds something else.
    """
    if config.encoded:
        return Prose(*load_encoded_prose(config.encoded))
    few, most = (SMOKE_FILES, SMOKE_DOCUMENTS) if config.smoke else (None, None)
    documents = (read_documents(config.text) if config.text else docstrings(most_files=few))[:most]
    given = (documents, read_documents(config.validation)) if config.validation else None
    documents, held_out = given or hold_out(documents, config.validation_share)
    tokenizer = tokenizer or WordPieceTokenizer.train(documents, config.vocabulary_size, config.lowercase)
    options = tokenizer, config.max_tokens, config.next_sentence, config.seed
    return Prose(tokenizer, *(encode_documents(texts, *options) for texts in (documents, held_out)))


def save_encoded_prose(folder, tokenizer, sequences, validation_sequences):
    """Writes the vocabulary and both sets of sequences, in about two bytes a token before compression.

    Args:
        folder: str or Path; takes the place of a former one.
        tokenizer: WordPieceTokenizer.
        sequences, validation_sequences: PackedSequences.

    Raises:
        UserError: if the folder holds anything else.
    """
    small = tokenizer.vocabulary_size <= np.iinfo("uint16").max
    arrays = {}
    for name, packed in (("train", sequences), ("validation", validation_sequences)):
        arrays[f"{name}.token_ids"] = packed.token_ids.astype("uint16" if small else "int32")
        arrays[f"{name}.block_ids"] = packed.block_ids.astype("uint16")
        pairs = {part: getattr(packed, part) for part in PAIRS}
        arrays |= {f"{name}.{part}": values.astype("uint8") for part, values in pairs.items() if values is not None}
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(folder, partial(check_holds_only, names=(ROWS, *tokenizer.files))) as new:
        tokenizer.save(new)
        np.savez_compressed(new / ROWS, **arrays)


def load_encoded_prose(folder):
    """Reads a folder written by `save_encoded_prose`; does not need TensorFlow.

    Returns:
        WordPieceTokenizer and two PackedSequences, to train and to validate with.

    Raises:
        UserError: if a file is missing or holds something else.
    """
    path = Path(folder) / ROWS
    try:
        with np.load(path, allow_pickle=False) as file:
            parts = [
                {
                    part: file[f"{name}.{part}"].astype("int32")
                    for part in ("token_ids", "block_ids", *PAIRS)
                    if part not in PAIRS or f"{name}.{part}" in file
                }
                for name in ("train", "validation")
            ]
    except UNREADABLE as error:
        raise UserError(f"{path}: no encoded prose ({error}). Expected: a folder written with --encode-to.") from error
    tokenizer = WordPieceTokenizer.load(folder)
    return tokenizer, *(PackedSequences(**given, position_ids=_positions(given["block_ids"])) for given in parts)


def _positions(block_ids):
    """Positions int32 (N, T) that begin at 0 in each block of a sequence, and are 0 in padding."""
    columns = np.arange(block_ids.shape[1])
    begins = np.diff(block_ids, axis=1, prepend=0) != 0  # (N, T)
    first = np.maximum.accumulate(np.where(begins, columns, 0), axis=1)
    return np.where(block_ids, columns - first, 0).astype("int32")
