"""The result of a training: history, weights to load on another machine, and facts about the run for its card."""

import json
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.cores import available_cores
from keras_attention.errors import UNREADABLE, UserError
from keras_attention.whole_file import locked, until_the_command_ends, whole_file


class TrainResult(NamedTuple):
    """`history` has a dict for each epoch; `best` is the best monitored score or None; `seconds` is wall-clock time."""

    history: list
    steps: int
    seconds: float
    best: float | None
    best_epoch: int | None
    stopped_because: str


def weights_path(out):
    """The file in which `save_trained` writes weights: Path."""
    return Path(f"{out}.npz")


def claim_files(config, out):
    """Reserves the files that a recipe may write instead of an entry, until the command ends.

    Args:
        config: RunSettings, optionally with `encoded` (write only weights) and `encode_to` (write only encoded texts).
        out: str or Path, without an ending.

    Raises:
        UserError: if another process writes there, or weights exist already and `config.overwrite` is False.
    """
    weights = weights_path(out) if getattr(config, "encoded", "") else None
    if weights and weights.exists() and not config.overwrite:
        raise UserError(f"{weights} already contains trained weights. Choose another --out, or pass --overwrite.")
    for place in (weights, getattr(config, "encode_to", "")):
        if place and Path(place).absolute().parent.is_dir():  # a missing folder is created at writing
            until_the_command_ends(locked(place))


def save_trained(path, model, result, facts):
    """Writes PATH.npz: the weights, the training result and the facts about the run.

    Args:
        path: str or Path, without an ending.
        model: built keras.Model.
        result: TrainResult.
        facts: dict of JSON types, see `run_facts`.
    """
    path = weights_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = {f"weights.{number}": array for number, array in enumerate(model.get_weights())}
    with whole_file(path, "wb") as file:
        np.savez(file, told=json.dumps({"result": result._asdict(), "facts": facts}), **weights)


def load_trained(path, model):
    """Loads weights written by `save_trained` into the model.

    Args:
        path: str or Path, as given to `save_trained`.
        model: built keras.Model with the same settings.

    Returns:
        TrainResult and facts.

    Raises:
        UserError: if the file is missing, damaged or does not fit the model.
    """
    try:
        with np.load(weights_path(path), allow_pickle=False) as file:
            told = json.loads(file["told"].item())
            model.set_weights([file[f"weights.{number}"] for number in range(len(file.files) - 1)])
        return TrainResult(**told["result"]), told["facts"]
    except UNREADABLE as error:
        raise UserError(f"{path}.npz: no weights for this model ({str(error).splitlines()[0]}).") from error


def run_facts():
    """Returns a dict of str that describes this process: "command", "commit" and "hardware".

    The commit is that of the script's git checkout, with "+changes" if files are modified; or "unknown".
    """
    script = Path(sys.argv[0])
    folder = script.resolve().parent
    commit = _git(folder, "rev-parse", "--short=12", "HEAD") or "unknown"
    if _git(folder, "status", "--porcelain", "--untracked-files=no"):
        commit += "+changes"
    name = os.path.relpath(script) if script.exists() else script.name
    cores = available_cores()
    return {
        "command": shlex.join(["python", name, *map(without_folders, sys.argv[1:])]),
        "commit": commit,
        "hardware": f"{cores} core{'s' * (cores > 1)} of {_processor()}",
    }


def without_folders(argument):
    """Shortens an absolute path in an argument to its last part, because folders are private: /a/b/c -> c."""
    flag, equals, value = argument.rpartition("=")
    return flag + equals + (Path(value).name if os.path.isabs(value) else value)


def _git(folder, *arguments):
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]} ({platform.machine()})" if names else platform.machine()
