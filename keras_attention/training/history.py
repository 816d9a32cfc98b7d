"""The history of a training: counters, early stopping, progress bar, TensorBoard; its result, and facts about it."""

import dataclasses
import json
import math
import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.support.atomic_files import locked, until_the_command_ends, whole_file
from keras_attention.support.cores import available_cores
from keras_attention.support.errors import UNREADABLE, UserError


@dataclasses.dataclass
class Progress:
    """Counters, sums and history of a training.

    `epoch` counts finished epochs, `epoch_step` the finished steps of the current epoch, to which the sums belong too.
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
        """Counts the finished epoch and resets the sums."""
        self.epoch, self.epoch_step = self.epoch + 1, 0
        self.loss_sum = self.tokens = self.correct = 0.0


class EarlyStopping:
    """Stores the best validation score and counts the validations since then.

    Args:
        monitor: str, the name of a validation score, such as "val_bleu" or "val_loss".
        mode: "max" if higher scores are better, or "min". None: "min" if the name ends with "loss", else "max".
        patience: int > 0, number of validations without a better score after which training stops; None: never stop.

    Raises:
        ValueError: if an argument is out of range, or `update` does not find the score.
    """

    def __init__(self, monitor, mode=None, patience=None):
        mode = mode or ("min" if monitor.endswith("loss") else "max")
        if mode not in ("min", "max"):
            raise ValueError(f'`mode` must be "min", "max" or None. Received: mode={mode!r}')
        if patience is not None and patience < 1:
            raise ValueError(f"`patience` must be a positive integer or None. Received: patience={patience}")
        self.monitor = monitor
        self.mode = mode
        self.patience = patience
        self.best = None
        self.best_epoch = None
        self.waited = 0  # validations since the best

    def update(self, metrics, epoch):
        """Adds the scores of one validation; returns whether it is the best so far. A NaN is never the best."""
        if self.monitor not in metrics:
            raise ValueError(f"`monitor` must be one of {sorted(metrics)}. Received: monitor={self.monitor!r}")
        score = float(metrics[self.monitor])
        better = self.best is None or (score > self.best if self.mode == "max" else score < self.best)
        if better and not math.isnan(score):
            self.best, self.best_epoch, self.waited = score, epoch, 0
            return True
        self.waited += 1
        return False

    @property
    def should_stop(self):
        """Whether `patience` validations have passed without a better score."""
        return self.patience is not None and self.waited >= self.patience

    def reason(self):
        """The reason for stopping, as a sentence for the user."""
        return (
            f"{self.monitor} has not improved for {self.waited} validations "
            f"(best {self.best if self.best is None else round(self.best, 4)} in epoch {self.best_epoch})"
        )

    def state(self):
        """The state for a checkpoint, a dict of JSON types."""
        return {"best": self.best, "best_epoch": self.best_epoch, "waited": self.waited}

    def restore(self, state):
        """Restores the result of `state`."""
        self.best, self.best_epoch, self.waited = state["best"], state["best_epoch"], state["waited"]


class Epoch:
    """Iterates over the remaining batches of one epoch, in order; created by `Session.epochs`.

    Attributes:
        number: int, counted from 1.
    """

    def __init__(self, session, sequence):
        if not len(sequence):
            raise ValueError(f"`batches` must not be empty. Received: epoch {session.progress.epoch} with no batches")
        self.session = session
        self.sequence = sequence
        self.number = session.progress.epoch + 1

    def __iter__(self):
        session, progress, steps = self.session, self.session.progress, len(self.sequence)
        remaining_steps = math.inf if session.max_steps is None else max(1, session.max_steps - progress.total_steps)
        bar_steps = min(steps, progress.epoch_step + remaining_steps)  # the bar tells the time that these take
        bar_options = session.num_epochs, bar_steps, progress, session.rate, session.verbose, session.unit
        reason = session.stopped_because  # not None if a resumed training has no updates left
        bar = EpochBar(*bar_options, compiling=reason is None and not session.compiled)
        while progress.epoch_step < steps and reason is None:
            session.stop_if_interrupted()
            step = progress.epoch_step
            yield self.sequence[step]
            if progress.epoch_step != step + 1:
                raise ValueError("Each batch of an epoch needs one `epoch.record(update(batch))`.")
            bar.update()
            reason = session.reason_to_end()
            if progress.epoch_step < steps and reason is None and session.checkpoint_is_due():
                session.save()
        session.end_steps(finished=progress.epoch_step == steps)
        bar.update(last=True)

    def record(self, update):
        """Adds the results of an update to the sums of the epoch.

        Args:
            update: Update.

        Raises:
            TrainingDivergedError: if loss, gradient or weights are not finite.
        """
        session, progress = self.session, self.session.progress
        step = progress.epoch_step + 1
        session.compiled = True
        update.check_finite(session.optimizer, session.update.sync, epoch=self.number, step=step)
        progress.epoch_step = step
        progress.total_steps += 1
        progress.loss_sum += float(update.total)
        progress.tokens += float(update.count)
        progress.correct += float(update.correct)


class EpochBar:
    """Keras's progress bar over the steps of one epoch, with loss, accuracy, speed, learning rate and time left.

    It is drawn at most five times a second on a terminal. Elsewhere, such as in a file, a line a minute says how far
    the epoch is, and one at its end has all values.

    Args:
        epochs: int or None, number of epochs.
        steps: int, steps in the epoch.
        progress: `Progress` to show.
        rate: callable that returns the learning rate; called only when the bar is drawn.
        verbose: 0 draws nothing, 1 a bar, 2 one line at the end.
        unit: str, the unit of the speed, such as "tokens".
        compiling: bool. Whether the first step compiles. If so, prints a note and measures the speed after that step.
    """

    def __init__(self, epochs, steps, progress, rate, verbose, unit="tokens", compiling=False):
        self.progress = progress
        self.rate = rate
        self._terminal = sys.stdout.isatty()
        self.verbose = verbose if self._terminal or not verbose else 2  # no bars in a file
        self.speed = f"{unit}/s"
        self._interval = 0.2 if self._terminal else 60.0
        self._compiling = compiling
        if verbose:
            epoch = f"Epoch {progress.epoch + 1}" + (f"/{epochs}" if epochs else "")
            print(f"{epoch}: compiling ..." if compiling else epoch, flush=True)
        self._steps = steps
        self._start()

    def _start(self):
        """Starts to measure the speed."""
        self._started = self._drawn = time.perf_counter()
        self._tokens_before = self.progress.tokens  # excludes the steps before a resume and the compiling step
        self._steps_before = self.progress.epoch_step
        metrics = ["loss", "accuracy", self.speed, "rate"]
        import keras  # here: the facts about a run need no Keras

        self._bar = keras.utils.Progbar(self._steps, verbose=self.verbose, unit_name="step", stateful_metrics=metrics)

    def update(self, last=False):
        """Draws the bar if it is due. With `last`, draws it in any case and ends the line."""
        if self._compiling and not last:
            self._compiling = False
            self._start()
            return
        now = time.perf_counter()
        if not self.verbose or (not last and now - self._drawn < self._interval):
            return
        self._drawn = now
        tokens = max(self.progress.tokens, 1.0)
        speed = (self.progress.tokens - self._tokens_before) / max(now - self._started, 1e-9)
        if not last and not self._terminal:
            done, loss = self.progress.epoch_step, self.progress.loss_sum / tokens
            left = (now - self._started) / max(done - self._steps_before, 1) * (self._steps - done)
            print(f"  step {done}/{self._steps}, loss {loss:.4f}, {left:.0f} s left", flush=True)
            return
        values = [
            ("loss", self.progress.loss_sum / tokens),
            ("accuracy", self.progress.correct / tokens),
            (self.speed, round(speed)),
            ("rate", self.rate()),
        ]
        values = [(name, value) for name, value in values if not math.isnan(value)]  # nobody counted what is correct
        self._bar.update(self.progress.epoch_step, values, finalize=last)


class EpochLog:
    """Writes the history of a training for TensorBoard. The package `tensorboard` is not needed.

    Args:
        folder: path, or None to write nothing.

    Raises:
        UserError: if TensorFlow is not installed, or the folder is not writable.
    """

    def __init__(self, folder):
        self._writer = None
        if folder is None:
            return
        try:
            import tensorflow as tf
        except ImportError as error:
            raise UserError(f"`log_dir` needs TensorFlow, which is not installed. Received: {folder}") from error
        try:
            self._writer = tf.summary.create_file_writer(str(folder))
        except tf.errors.OpError as error:
            raise UserError(f"`log_dir` must be a writable folder. Received: {folder} ({error.message})") from error
        self._write = tf.summary.write
        # Equals `tf.summary.scalar`, which needs the package tensorboard.
        self._metadata = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"})

    def write(self, entry):
        """Writes all numbers of one epoch's history dict at its step."""
        if self._writer is None:
            return
        with self._writer.as_default(step=entry["steps"]):
            for name, value in entry.items():
                if name not in ("epoch", "steps"):
                    self._write(name, float(value), metadata=self._metadata)
        self._writer.flush()


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
            record = json.loads(file["told"].item())
            model.set_weights([file[f"weights.{number}"] for number in range(len(file.files) - 1)])
        return TrainResult(**record["result"]), record["facts"]
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
    program = ["python", os.path.relpath(script) if script.exists() else script.name]
    if script.suffix != ".py":  # a command on the PATH; where it is installed is of no use to others
        program = [script.name]
    cores = available_cores()
    return {
        "command": shlex.join([*program, *map(without_folders, sys.argv[1:])]),
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
