"""Encoded prose in a folder: rows for a masked language model with their vocabulary, made once and read anywhere."""

from pathlib import Path

import numpy as np

from keras_attention.data.prose.packed_text import PackedRows
from keras_attention.errors import UserError
from keras_attention.tokenizers import WordPieceTokenizer
from keras_attention.whole_file import whole_file

ROWS = "rows.npz"
PAIRS = ("segment_ids", "is_next")  # which rows of two texts have


def save_encoded_prose(folder, tokenizer, rows, validation_rows):
    """Writes the vocabulary and, last, both sets of rows, in about two bytes a token before compression.

    Args:
        folder: str or Path; made if missing.
        tokenizer: WordPieceTokenizer.
        rows, validation_rows: PackedRows.
    """
    folder = Path(folder)
    tokenizer.save(folder)
    small = tokenizer.vocabulary_size <= np.iinfo("uint16").max
    arrays = {}
    for name, packed in (("train", rows), ("validation", validation_rows)):
        arrays[f"{name}.token_ids"] = packed.token_ids.astype("uint16" if small else "int32")
        arrays[f"{name}.block_ids"] = packed.block_ids.astype("uint16")
        pairs = {part: getattr(packed, part) for part in PAIRS}
        arrays |= {f"{name}.{part}": values.astype("uint8") for part, values in pairs.items() if values is not None}
    with whole_file(folder / ROWS, "wb") as file:
        np.savez_compressed(file, **arrays)


def load_encoded_prose(folder):
    """Reads what `save_encoded_prose` wrote; needs no TensorFlow.

    Returns:
        WordPieceTokenizer and two PackedRows, to train and to validate with.

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
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: no encoded prose ({error}). Expected: a folder by --encode_to.") from error
    tokenizer = WordPieceTokenizer.load(folder)
    return tokenizer, *(PackedRows(**given, position_ids=_positions(given["block_ids"])) for given in parts)


def _positions(block_ids):
    """Positions int32 (N, T) that begin at 0 in each block of a row, and are 0 in padding."""
    columns = np.arange(block_ids.shape[1])
    begins = np.diff(block_ids, axis=1, prepend=0) != 0  # (N, T)
    first = np.maximum.accumulate(np.where(begins, columns, 0), axis=1)
    return np.where(block_ids, columns - first, 0).astype("int32")
