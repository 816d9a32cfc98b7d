"""A bag of words as files of an entry: its terms as text, its numbers as plain HDF5 arrays."""

import h5py
import numpy as np

from keras_attention.errors import EntryError
from keras_attention.zoo.schema import MAX_TERM_CHARACTERS
from keras_attention.zoo.weights_file import read_arrays

TERMS, ARRAYS = "words.txt", "words.h5"
DTYPES = {"idf": "float32", "kernel": "float16", "bias": "float32"}


def shapes(num_terms, num_labels):
    """Dict from the name of each array to its shape."""
    return {"idf": (num_terms,), "kernel": (num_terms, num_labels), "bias": (num_labels,)}


def max_bytes(num_terms, num_labels):
    """Dict from the name of each file to the most bytes that it may have."""
    numbers = sum(int(np.prod(shape)) * 4 for shape in shapes(num_terms, num_labels).values())
    return {TERMS: num_terms * (4 * MAX_TERM_CHARACTERS + 1), ARRAYS: numbers + 65536}


def save_words(folder, terms, arrays):
    """Writes both files into the folder of an entry.

    Args:
        folder: Path.
        terms: list of V different str without line breaks.
        arrays: dict of arrays "idf" (V,), "kernel" (V, K) and "bias" (K,).
    """
    (folder / TERMS).write_text("\n".join(terms), encoding="utf-8")
    with h5py.File(folder / ARRAYS, "w") as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=np.asarray(values).astype(DTYPES[name]))


def load_words(entry):
    """Reads the files of an entry whose config.json has "words".

    Args:
        entry: Entry.

    Returns:
        List of terms, and a dict of float32 arrays, as in `save_words`.

    Raises:
        EntryError: if a file holds something else than config.json says, or a number that is not finite.
    """
    count, labels = entry.config["words"]["num_terms"], entry.config["model"]["num_labels"]
    try:
        terms = (entry.folder / TERMS).read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise EntryError(f"{entry.folder / TERMS} is not UTF-8: {error}") from error
    if len(terms) != count or len(set(terms)) != count:
        raise EntryError(f"{entry.folder / TERMS} holds {len(set(terms))} different terms. Expected: {count}")
    for term in terms:
        if not 0 < len(term) <= MAX_TERM_CHARACTERS or not term.isprintable():
            raise EntryError(f"{entry.folder / TERMS}: {term!r:.80} is no term of up to {MAX_TERM_CHARACTERS} signs.")
    expected = {name: (shape, DTYPES[name]) for name, shape in shapes(count, labels).items()}
    arrays = read_arrays(entry.folder / ARRAYS, expected)
    return terms, {name: values.astype("float32") for name, values in arrays.items()}
