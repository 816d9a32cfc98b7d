"""Everything that a training needs to go on as if it had never stopped, as arrays and JSON."""

import dataclasses
import hashlib
import json

import keras
import numpy as np

from keras_attention.errors import UserError
from keras_attention.training.divergence import TrainingDivergedError


@dataclasses.dataclass
class Progress:
    """Where a training is, and what it has measured.

    `epoch` and `epoch_step` count what is done; the sums are those of the running epoch.
    """

    epoch: int = 0
    epoch_step: int = 0
    total_steps: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    tokens: float = 0.0
    correct: float = 0.0
    history: list = dataclasses.field(default_factory=list)

    def start_epoch(self):
        """Clears what belongs to one epoch."""
        self.epoch, self.epoch_step = self.epoch + 1, 0
        self.loss_sum = self.tokens = self.correct = 0.0


def settings_of(model, optimizer, batches, settings):
    """The settings that a resumed training must share with the one it resumes, as a flat dict of JSON values.

    The data are represented by the length of the first epoch and the sha256 of its first batch.

    Args:
        model, optimizer: as in `train`, built.
        batches: as in `train`.
        settings: nested dict of further settings.
    """
    sequence = batches.epoch(0)
    digest = hashlib.sha256()
    for name, array in sorted(sequence[0].items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    config = {
        "backend": keras.backend.backend(),
        "optimizer": {"class": type(optimizer).__name__, **_without_names(optimizer.get_config())},
        "variables": {str(i): f"{v.name} {v.dtype} {tuple(v.shape)}" for i, v in enumerate(_unique(model.variables))},
        "data": {"steps_in_first_epoch": len(sequence), "sha256_of_first_batch": digest.hexdigest()},
        **settings,
    }
    return json.loads(json.dumps(_flatten(config), default=str))


def check_same_settings(path, saved, now):
    """Raises `UserError` naming the first setting in which the checkpoint at `path` differs from this training."""
    for name in [*saved, *(name for name in now if name not in saved)]:
        if saved.get(name) != now.get(name):
            raise UserError(
                f"The checkpoint {path} was made with another setting: `{name}` was {saved.get(name)!r} and is now "
                f"{now.get(name)!r}. Resume with the old value, or choose an empty folder for a new training."
            )


def capture(model, optimizer, **lists):
    """Copies all variables, with the states of the random generators, and further lists of arrays.

    Args:
        model, optimizer: built.
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
                    "The checkpoint was not written; earlier ones are untouched."
                )
    for name, values in lists.items():
        arrays.update({f"{name}.{index}": _storable(value) for index, value in enumerate(values)})
    return arrays


def restore(model, optimizer, arrays):
    """Puts what `capture` copied back into the variables of `model` and `optimizer`."""
    for group, variables in (("model", _unique(model.variables)), ("optimizer", optimizer.variables)):
        for index, variable in enumerate(variables):
            array = arrays[f"{group}.{index}"]
            variable.assign(array.view("bfloat16") if variable.dtype == "bfloat16" else array)


def restore_list(arrays, name):
    """The list of arrays that `capture` was given under `name`."""
    values = []
    while f"{name}.{len(values)}" in arrays:
        values.append(arrays[f"{name}.{len(values)}"])
    return values


def _unique(variables):
    """Without repetitions, which occur where layers share a random generator."""
    return list({id(variable): variable for variable in variables}.values())


def _storable(array):
    """bfloat16, which .npz does not know, as the same bits in uint16."""
    return array.view("uint16") if array.dtype.name == "bfloat16" else array


def _without_names(value):
    """Keras numbers its automatic names, so that they differ between two objects with the same settings."""
    if isinstance(value, dict):
        return {key: _without_names(entry) for key, entry in value.items() if key != "name"}
    return value


def _flatten(value, prefix=""):
    if not isinstance(value, dict):
        return {prefix: value}
    return {k: v for key, entry in value.items() for k, v in _flatten(entry, f"{prefix}.{key}".lstrip(".")).items()}
