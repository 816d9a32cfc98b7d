"""Pickling and deep copies of pipelines: a pipeline is pickled as the folder of its entry, not as compiled programs.

A process that unpickles it loads the entry, and refuses one that has changed in the meantime. Settings that were
changed after loading, such as `threshold`, travel with it.
"""

import hashlib
from pathlib import Path

import numpy as np

from keras_attention.support.errors import UserError
from keras_attention.zoo.entry import MANIFEST
from keras_attention.zoo.registry import find_entry

SAVE = 'save it with `save("FOLDER")`, and pickle `keras_attention.load("FOLDER")`'
PLAIN = (str, int, float, bool, type(None), list, dict)


def pickled(pipeline, load):
    """What another process needs to have the same pipeline.

    Args:
        pipeline: Pipeline.
        load: callable(folder) -> Pipeline.

    Returns:
        Pair of the arguments of `pickled_folder` and a dict of the changed settings.

    Raises:
        UserError: if the pipeline has no entry, or another network or engine than its entry.
    """
    if pipeline.entry is None:
        raise UserError(f"This {type(pipeline).__name__} has no folder from which another process can load it: {SAVE}.")
    folder = pipeline.entry.folder.absolute()
    stored = load(folder)
    if not _equal_weights(pipeline.model, stored.model):
        raise UserError(f"The weights have changed since {folder} was loaded: {SAVE}.")
    settings = {}
    for name, value in vars(pipeline).items():
        other = vars(stored).get(name)
        if type(value) is not type(other) and not isinstance(value, PLAIN):
            raise UserError(f"`{name}` has changed since {folder} was loaded: pickle it before, and change the copy.")
        if isinstance(value, PLAIN) and value != other:
            settings[name] = value
    return (str(folder), pipeline.entry.name, _digest(folder)), settings


def pickled_folder(folder, name, digest):
    """Path of the entry of a pickled pipeline; in the zoo of this installation if the folder is not here.

    Args:
        folder: str, path of the entry.
        name: str, name of the entry.
        digest: str, SHA-256 of its manifest.

    Returns:
        Path.

    Raises:
        UserError: if there is no such entry, or it has changed.
    """
    entry_folder = Path(folder) if (Path(folder) / MANIFEST).is_file() else find_entry(name)
    if _digest(entry_folder) != digest:
        raise UserError(f"{entry_folder} has changed since a pipeline of it was pickled: load it, and pickle it again.")
    return entry_folder


def _digest(folder):
    return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()


def _equal_weights(model, other):
    if len(model.weights) != len(other.weights):
        return False
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(model.weights, other.weights, strict=True))
