"""What surrounds a training run: its settings beside the learning, the signals that stop it, the facts for its card."""

import contextlib
import os
import platform
import shlex
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from keras_attention.cores import available_cores
from keras_attention.flags import setting

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


class Interrupts:
    """`received` is the name of the signal received, or None."""

    def __init__(self):
        self.received = None


@contextlib.contextmanager
def deferred_interrupts():
    """Context manager: records the first SIGINT or SIGTERM; a second one interrupts immediately.

    Does nothing outside the main thread, because Python delivers signals to the main thread only.

    Yields:
        `Interrupts`.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return

    def note(number, frame):
        if interrupts.received:
            raise KeyboardInterrupt
        interrupts.received = signal.Signals(number).name

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_facts():
    """Returns the dict of "command", "commit" and "hardware" (str) of this process.

    The commit is that of the script's git checkout, with "+changes" if files were modified, or "unknown".
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
    """The argument with absolute paths shortened to their last part, because folders are private: /a/b/c -> c."""
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
