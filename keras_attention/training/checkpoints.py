"""Checkpoints: the complete state of a training, written atomically, so that it can be resumed exactly."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import warnings
from pathlib import Path

import keras
import numpy as np

from keras_attention.support.atomic_files import LOCK, locked, remove_leftovers, temporary_name
from keras_attention.support.errors import TrainingDivergedError, UserError, quoted

ARRAYS, STATE, MANIFEST = "arrays.npz", "state.json", "manifest.json"
_NAME = re.compile(r"step-(\d{9,})")
_UNFINISHED = "unfinished-"


@contextlib.contextmanager
def open_folder(folder, resume, restart):
    """Context manager: reserves the checkpoint folder for one training.

    Checks that the folder is writable before the training starts.

    Args:
        folder: path; created if missing.
        resume: bool. Whether to continue from existing checkpoints.
        restart: bool. Whether to remove existing checkpoints; ignored if `resume` is True.

    Raises:
        UserError: if the folder is not writable, another process uses it, or it contains checkpoints and neither flag
            is True.
    """
    folder = Path(folder)
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.callback(_remove_if_empty, folder)
            stack.enter_context(locked(folder, inside=True))
            remove_leftovers(Path(os.path.realpath(folder)))
            if restart and not resume:
                remove(folder)
            probe = folder / f"{_UNFINISHED}probe-{os.getpid()}"
            probe.write_bytes(b"probe")
            probe.unlink()
        except OSError as error:
            raise UserError(
                f"Checkpoints cannot be written to {folder}: {error.strerror}. Expected a writable folder."
            ) from error
        if not resume:
            check_unused(folder)
        yield folder


def check_unused(folder):
    """Raises a UserError if the folder has checkpoints. Call it first, because a training may prepare for minutes."""
    if _checkpoints(Path(folder)):
        raise UserError(
            f"{folder} already holds checkpoints of another training, perhaps an interrupted one: --resume continues "
            "it, --restart starts from the beginning."
        )


def discard_folder(folder):
    """Removes a folder of checkpoints atomically. If it contains other files, removes only the checkpoints.

    Ignores errors, and does not touch a folder that another process uses.
    """
    folder = Path(os.path.realpath(folder))
    if not folder.is_dir():
        return
    with contextlib.suppress(OSError, UserError), locked(folder, inside=True):
        if all(_NAME.fullmatch(name) or name.startswith((_UNFINISHED, LOCK)) for name in os.listdir(folder)):
            aside = temporary_name(folder)
            os.rename(folder, aside)
            shutil.rmtree(aside)
        else:
            remove(folder)


def remove(folder):
    """Removes all checkpoints in the folder, also incomplete ones of a killed run; keeps other files.

    Raises:
        UserError: if a checkpoint cannot be removed.
    """
    try:
        for path in [*_checkpoints(Path(folder)), *Path(folder).glob(f"{_UNFINISHED}*")]:
            _discard(path)
    except OSError as error:
        raise UserError(f"The checkpoints in {folder} cannot be removed: {error.strerror}.") from error


def write(folder, step, arrays, state, keep=2):
    """Writes the checkpoint `folder/step-<step>` and removes all but the `keep` newest.

    The write is atomic: all files, the last of which is a manifest with the size and sha256 of the others, are written
    to a temporary folder and flushed to disk; then the folder is renamed. Only then are older checkpoints removed.

    Args:
        folder: path of an existing folder.
        step: int >= 0, the number of steps trained so far.
        arrays: dict from str to NumPy array.
        state: dict of JSON types.
        keep: int > 0, number of checkpoints to keep.

    Returns:
        The path of the checkpoint.

    Raises:
        UserError: if it cannot be written; earlier checkpoints are unchanged.
    """
    folder = Path(folder)
    target = folder / f"step-{step:09d}"
    unfinished = folder / f"{_UNFINISHED}{target.name}"
    try:
        for leftover in folder.glob(f"{_UNFINISHED}*"):  # from a run that was killed while writing
            _discard(leftover)
        unfinished.mkdir()
        _write_file(unfinished / ARRAYS, lambda file: np.savez(file, allow_pickle=False, **arrays))
        _write_file(unfinished / STATE, lambda file: file.write(json.dumps(state, indent=1).encode()))
        files = {name: _size_and_hash(unfinished / name) for name in (ARRAYS, STATE)}
        _write_file(unfinished / MANIFEST, lambda file: file.write(json.dumps({"files": files}, indent=1).encode()))
        _flush_folder(unfinished)
        if target.exists():
            _discard(target)
        unfinished.rename(target)
        _flush_folder(folder)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise UserError(
            f"The checkpoint {target} could not be written: {error.strerror}. Earlier checkpoints are unchanged; "
            "free some space or fix the permissions, then resume."
        ) from error
    # Checkpoints of later steps are damaged, or the training was resumed from an earlier checkpoint.
    behind = [path for path in _checkpoints(folder) if path.name <= target.name]
    for path in _checkpoints(folder):
        if path not in behind[-keep:]:
            with contextlib.suppress(OSError):  # the next checkpoint tries again
                _discard(path)
    return target


def latest_valid(folder):
    """Finds the newest checkpoint whose files all match its manifest.

    Skips damaged checkpoints, with a warning that names the file and the fault.

    Args:
        folder: path.

    Returns:
        The path of the checkpoint, or None if the folder contains no checkpoint.

    Raises:
        UserError: if there are checkpoints but all are damaged.
    """
    paths = _checkpoints(Path(folder))
    for path in reversed(paths):
        fault = _fault(path)
        if fault is None:
            return path
        warnings.warn(f"Damaged checkpoint skipped: {fault}", stacklevel=2)
    if paths:
        raise UserError(
            f"{folder} holds {len(paths)} checkpoints, but all are damaged: {fault}. "
            "Expected at least one undamaged checkpoint; choose an empty folder to start from the beginning."
        )
    return None


def read(path):
    """Reads a checkpoint that `latest_valid` has checked.

    Returns:
        Pair of arrays and state, as given to `write`.
    """
    with np.load(Path(path) / ARRAYS, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return arrays, json.loads((Path(path) / STATE).read_text())


def settings_of(model, optimizer, sequence, settings):
    """The settings that must not change when a training is resumed, as a flat dict of JSON values.

    The data are represented by the length of the first epoch and the sha256 of its first batch.

    Args:
        model: built keras.Model.
        optimizer: built keras.Optimizer.
        sequence: the batches of the first epoch, see `Session.epochs`.
        settings: nested dict of further settings.
    """
    digest = hashlib.sha256()
    for name, array in sorted(sequence[0].items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    config = {
        "backend": keras.backend.backend(),
        "model": {"class": type(model).__name__, **_without_names(_config_of(model), model.layers)},
        "optimizer": {"class": type(optimizer).__name__, **_config_of_optimizer(optimizer, model)},
        "variables": {str(i): f"{v.name} {v.dtype} {tuple(v.shape)}" for i, v in enumerate(_unique(model.variables))},
        "data": {"steps_in_first_epoch": len(sequence), "sha256_of_first_batch": digest.hexdigest()},
        **settings,
    }
    return json.loads(json.dumps(_flatten(config), default=str))


def check_same_settings(path, saved, now):
    """Raises a UserError that names the first setting in which the checkpoint at `path` differs from this training."""
    for name in [*saved, *(name for name in now if name not in saved)]:
        if saved.get(name) != now.get(name):
            raise UserError(
                f"The checkpoint {path} was made with another setting: `{name}` was {quoted(saved.get(name))} and is "
                f"now {quoted(now.get(name))}. Resume with the old value, or choose an empty folder for a new training."
            )


def capture(model, optimizer, **lists):
    """Copies all variables, including the states of the random generators, and further lists of arrays.

    Args:
        model: built keras.Model.
        optimizer: built keras.Optimizer.
        lists: lists of NumPy arrays by name.

    Returns:
        dict from str to NumPy array.

    Raises:
        TrainingDivergedError: if a weight is not finite, or any other variable is NaN.
    """
    arrays = {}
    for group, variables in (("model", _unique(model.variables)), ("optimizer", optimizer.variables)):
        for index, variable in enumerate(variables):
            array = variable.numpy()
            arrays[f"{group}.{index}"] = _storable(array)
            sound = np.isfinite(array) if variable.trainable else ~np.isnan(array)
            if array.dtype.kind not in "iub" and not np.all(sound):
                raise TrainingDivergedError(
                    f"Training diverged: the variable {variable.path} holds numbers that are not finite. "
                    "The checkpoint was not written; earlier ones are unchanged."
                )
    for name, values in lists.items():
        arrays.update({f"{name}.{index}": _storable(value) for index, value in enumerate(values)})
    return arrays


def restore(model, optimizer, arrays):
    """Assigns the arrays of `capture` to the variables of `model` and `optimizer`."""
    for group, variables in (("model", _unique(model.variables)), ("optimizer", optimizer.variables)):
        for index, variable in enumerate(variables):
            array = arrays[f"{group}.{index}"]
            variable.assign(array.view("bfloat16") if variable.dtype == "bfloat16" else array)


def restore_list(arrays, name):
    """The list of arrays given to `capture` as `name`."""
    values = []
    while f"{name}.{len(values)}" in arrays:
        values.append(arrays[f"{name}.{len(values)}"])
    return values


def _unique(variables):
    """The variables, each once: variables are repeated if layers share a random generator."""
    return list({id(variable): variable for variable in variables}.values())


def _storable(array):
    """Views bfloat16, which .npz cannot store, as uint16."""
    return array.view("uint16") if array.dtype.name == "bfloat16" else array


def _config_of(model):
    """The model's `get_config`, or an empty dict if its class has none."""
    try:
        return model.get_config()
    except NotImplementedError:
        return {}


def _config_of_optimizer(optimizer, model):
    """The optimizer's config without names, also without the paths of the variables in `LayerWiseAdamW.factors`."""
    config = _without_names(optimizer.get_config())
    if "factors" in config:
        config["factors"] = [optimizer.factors.get(variable.path, 1.0) for variable in model.trainable_variables]
    return config


def _without_names(value, layers=()):
    """The config without names: Keras numbers automatic names, so they differ between equal objects.

    Where the config of a functional model refers to one of its `layers` by name, it gets the number of the layer.
    """
    numbers = {layer.name: f"layer {number}" for number, layer in enumerate(layers)}

    def without(value):
        if isinstance(value, dict):
            return {key: without(entry) for key, entry in value.items() if key != "name"}
        if isinstance(value, (list, tuple)):
            return [numbers.get(entry, entry) if isinstance(entry, str) else without(entry) for entry in value]
        return value

    return without(value)


def _flatten(value, prefix=""):
    if not isinstance(value, dict):
        return {prefix: value}
    return {k: v for key, entry in value.items() for k, v in _flatten(entry, f"{prefix}.{key}".lstrip(".")).items()}


def _discard(path):
    """Removes a checkpoint, complete or not. Renames it first, so that no partial checkpoint has a valid name."""
    if not path.name.startswith(_UNFINISHED):
        aside = path.with_name(f"{_UNFINISHED}discarded-{path.name}")
        shutil.rmtree(aside, ignore_errors=True)
        path = path.rename(aside)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _remove_if_empty(folder):
    with contextlib.suppress(OSError):
        folder.rmdir()


def _checkpoints(folder):
    """All checkpoint folders, oldest first, damaged or not."""
    paths = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(paths, key=lambda path: int(_NAME.fullmatch(path.name)[1]))


def _fault(path):
    """The fault of a checkpoint, with the name of the file, or None."""
    try:
        files = json.loads((path / MANIFEST).read_text())["files"]
        expected = {name: (files[name]["size"], files[name]["sha256"]) for name in (ARRAYS, STATE)}
    except OSError as error:
        return f"{path / MANIFEST}: {error.strerror}"
    except (ValueError, KeyError, TypeError):
        return f"{path / MANIFEST} is not a manifest"
    for name, (size, sha256) in expected.items():
        try:
            facts = _size_and_hash(path / name)
        except OSError as error:
            return f"{path / name}: {error.strerror}"
        if facts["size"] != size:
            return f"{path / name} has {facts['size']} bytes instead of {size}"
        if facts["sha256"] != sha256:
            return f"{path / name} has changed since it was written (sha256 differs)"
    return None


def _write_file(path, write):
    with open(path, "xb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def _size_and_hash(path):
    with open(path, "rb") as file:
        return {"size": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _flush_folder(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
