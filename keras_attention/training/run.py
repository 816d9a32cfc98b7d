"""The settings of a training run other than hyperparameters, and the signals that interrupt it."""

import contextlib
import signal
import threading
from dataclasses import dataclass

from keras_attention.support.flags import setting

STRATEGIES = ("auto", "none", "mirrored", "multiworker")


@dataclass(frozen=True)
class AccelerationSettings:
    """Number format and compiler; `training.devices` replaces None by a choice for the device."""

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

    def folder(self, name: str) -> str:
        """The folder of the trained model: `out`, or runs/`name`, after a smoke run runs/`name`_smoke."""
        return self.out or f"runs/{name}{'_smoke' * self.smoke}"


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
