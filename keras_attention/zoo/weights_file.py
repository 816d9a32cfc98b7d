"""Weights as plain HDF5 arrays: one dataset a weight, no code, no links, no compression."""

import h5py
import numpy as np

from keras_attention.errors import EntryError

WEIGHTS = "model.weights.h5"


def weight_names(model):
    """Dict from the stored name of each weight to the weight.

    The name is the weight's path inside the model, joined by dots: the same in every process and for every instance.

    Args:
        model: built keras.Model.

    Raises:
        ValueError: if two weights share a name.
    """
    names = {}
    for weight in model.weights:
        name = weight.path.removeprefix(f"{model.name}/").replace("/", ".")
        if name in names:
            raise ValueError(f"Two weights of the model have the same name. Received: {name}")
        names[name] = weight
    return names


def save_weights(model, path, dtype="float32"):
    """Writes each weight as one dataset.

    Args:
        model: built keras.Model.
        path: Path.
        dtype: "float32" or "float16", how the numbers are stored.

    Raises:
        EntryError: if a weight is not finite, or not after rounding to `dtype`.
    """
    with h5py.File(path, "w") as file:
        for name, weight in sorted(weight_names(model).items()):
            with np.errstate(over="ignore"):
                values = np.asarray(weight).astype(dtype)
            if not np.isfinite(values).all():
                raise EntryError(f"Weight {name!r} holds a value that is not a finite {dtype}.")
            file.create_dataset(name, data=values)


def load_weights(model, path, dtype="float32"):
    """Fills the model, if the file holds exactly its weights: same names, shapes and dtype, finite values.

    Args:
        model: built keras.Model.
        path: Path of a file by `save_weights`.
        dtype: "float32" or "float16", how the numbers must be stored.

    Raises:
        EntryError: names the first weight that is missing, extra, different or not finite. The model is then unchanged.
    """
    expected = weight_names(model)
    try:
        with h5py.File(path, "r") as file:
            for name in sorted(set(file) - set(expected)):
                raise EntryError(f"{path} holds the weight {name!r}, which the model of config.json does not have.")
            for name in sorted(set(expected) - set(file)):
                raise EntryError(f"{path} lacks the weight {name!r} of the model of config.json.")
            values = {name: _read(file, name, weight.shape, dtype) for name, weight in expected.items()}
    except EntryError:
        raise
    except Exception as error:  # whatever the library finds wrong with the bytes
        raise EntryError(f"{path} is not a sound file of weights: {error}") from error
    for name, weight in expected.items():
        weight.assign(values[name].astype("float32"))


def _read(file, name, shape, dtype):
    """One array, after its shape, dtype and layout were found to be what the model expects."""
    dataset = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    plain = isinstance(dataset, h5py.Dataset) and not dataset.is_virtual and not dataset.external
    if not plain or dataset.chunks is not None or dataset.id.get_storage_size() != dataset.nbytes:
        raise EntryError(f"{file.filename}: {name!r} is not a plain array.")
    found = (tuple(dataset.shape), str(dataset.dtype))
    if found != (tuple(shape), dtype):
        raise EntryError(f"{file.filename}: {name!r} has shape and dtype {found}. Expected: {(tuple(shape), dtype)}")
    values = dataset[()]
    if not np.isfinite(values).all():
        raise EntryError(f"{file.filename}: {name!r} holds NaN or infinity.")
    return values
