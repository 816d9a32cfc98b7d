"""One run: its settings and its result."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.errors import UNREADABLE, UserError
from keras_attention.flags import setting
from keras_attention.whole_file import whole_file

STRATEGIES = ("auto", "none", "mirrored", "multiworker")


@dataclass(frozen=True)
class AccelerationSettings:
    """Number format and compiler; `training.devices` chooses for settings that are None."""

    mixed_precision: bool | None = setting(None, "compute in bfloat16; default: if that is faster on the device")
    jit_compile: bool | None = setting(None, "compile whole steps with XLA; default: if that is faster on the device")


@dataclass(frozen=True)
class RunSettings(AccelerationSettings):
    """Base class for the `Config` of a recipe: the settings that `training.session` uses."""

    seed: int = setting(1, "random seed of weights, dropout and order of the batches")
    out: str = setting("", "folder of the trained model")
    weights: str = setting("", "use these weights, trained with --encoded, instead of training")
    strategy: str = setting(
        "auto",
        "none: one device; mirrored: all devices of this machine; multiworker: several processes; auto: by the devices",
        STRATEGIES,
    )
    accumulate: int = setting(1, "number of parts in which each batch is computed, to save memory")
    log_dir: str = setting("", "folder for TensorBoard")
    resume: bool = setting(False, "continue from the last checkpoint of the same run")
    restart: bool = setting(False, "start from the beginning although checkpoints exist")
    overwrite: bool = setting(False, "replace the trained model in --out")
    smoke: bool = setting(False, "run the whole recipe in seconds with a tiny model")
    debug: bool = setting(False, "show the traceback of an error")


class TrainResult(NamedTuple):
    """`history` has a dict for each epoch; `best` is the best monitored score or None; `seconds` is wall-clock time."""

    history: list
    steps: int
    seconds: float
    best: float | None
    best_epoch: int | None
    stopped_because: str


def save_trained(path, model, result, facts):
    """Writes PATH.npz: the weights, and what is told of them.

    Args:
        path: str or Path, without an ending.
        model: built keras.Model.
        result: TrainResult.
        facts: dict of JSON types, see `run_facts`.
    """
    path = Path(f"{path}.npz")
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = {f"weights.{number}": array for number, array in enumerate(model.get_weights())}
    with whole_file(path, "wb") as file:
        np.savez(file, told=json.dumps({"result": result._asdict(), "facts": facts}), **weights)


def load_trained(path, model):
    """Loads weights written by `save_trained` into the model.

    Args:
        path: str or Path, as given to `save_trained`.
        model: built keras.Model of the same settings.

    Returns:
        TrainResult and facts.

    Raises:
        UserError: if a file is missing or does not fit the model.
    """
    try:
        with np.load(f"{path}.npz", allow_pickle=False) as file:
            told = json.loads(file["told"].item())
            model.set_weights([file[f"weights.{number}"] for number in range(len(file.files) - 1)])
        return TrainResult(**told["result"]), told["facts"]
    except UNREADABLE as error:
        raise UserError(f"{path}.npz: no weights for this model ({str(error).splitlines()[0]}).") from error
