"""Encoded sentence pairs in one file, for a training on a machine that has the arrays only: no texts, no tokenizers."""

from pathlib import Path

import numpy as np

from keras_attention.data.parallel_corpus import ParallelCorpus, TokenSequences
from keras_attention.errors import UserError
from keras_attention.whole_file import whole_file


def save_encoded(path, corpora, vocabulary_sizes):
    """Writes corpora whole or not at all.

    Args:
        path: str or Path, ends with .npz.
        corpora: list of ParallelCorpus.
        vocabulary_sizes: pair of int, of the source and the target.
    """
    path = Path(path)
    arrays = {"vocabulary_sizes": np.array(vocabulary_sizes, "int64")}
    for number, corpus in enumerate(corpora):
        arrays[f"{number}.counts"] = np.array([corpus.num_cut, corpus.num_dropped], "int64")
        for side in ("source", "target"):
            sequences = getattr(corpus, side)
            # Ids of a small vocabulary take half the room.
            small = max(vocabulary_sizes) <= np.iinfo("uint16").max
            arrays[f"{number}.{side}.values"] = sequences.values.astype("uint16" if small else "int32")
            arrays[f"{number}.{side}.offsets"] = sequences.offsets
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, "wb") as file:
        np.savez_compressed(file, **arrays)


def load_encoded(path):
    """Reads what `save_encoded` wrote.

    Returns:
        The list of ParallelCorpus and the pair of vocabulary sizes.

    Raises:
        UserError: if the file is missing or holds something else.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        count = sum(name.endswith(".counts") for name in arrays)
        corpora = [_corpus(arrays, number) for number in range(count)]
        source_size, target_size = map(int, arrays["vocabulary_sizes"])
        if not corpora:
            raise KeyError("0.counts")
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: no encoded pairs ({error}). Expected: a file by --encode_to.") from error
    return corpora, (source_size, target_size)


def _corpus(arrays, number):
    num_cut, num_dropped = map(int, arrays[f"{number}.counts"])
    sides = []
    for side in ("source", "target"):
        values, offsets = (arrays[f"{number}.{side}.{part}"] for part in ("values", "offsets"))
        sides.append(TokenSequences(values.astype("int32"), offsets))
    return ParallelCorpus(*sides, num_cut, num_dropped)
