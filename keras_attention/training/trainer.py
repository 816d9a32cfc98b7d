"""The training loop: epochs, progress, validation, averaging, stopping."""

import time
from typing import NamedTuple

import keras

from keras_attention.training.averaging import (
    LastWeights,
    assign_weights,
    averaged_weights,
    exponential_average,
    use_exponential_average,
)
from keras_attention.training.divergence import check_finite
from keras_attention.training.early_stopping import EarlyStopping
from keras_attention.training.progress import EpochBar
from keras_attention.training.train_step import make_train_step


class TrainResult(NamedTuple):
    """`history` has one dict per epoch, `best` is the best monitored score or None, `seconds` is wall clock."""

    history: list
    steps: int
    seconds: float
    best: float | None
    best_epoch: int | None
    stopped_because: str


def train(
    model,
    optimizer,
    batches,
    *,
    epochs=None,
    max_steps=None,
    time_limit_s=None,
    label_smoothing=0.0,
    clip_norm=None,
    validate=None,
    validate_every=1,
    monitor="val_loss",
    mode=None,
    patience=None,
    restore_best=False,
    average_last=None,
    ema_decay=None,
    jit_compile=True,
    verbose=1,
):
    """Trains `model` and leaves the asked weights in it: the best, else the average, else the last.

    Validation sees the weights that would be kept: the average over the last epochs where `average_last` is given, the
    exponential average where `ema_decay` is given, the plain weights otherwise.

    Args:
        model: `keras.Model`, called as `model(inputs, training=True)` -> logits (B, T, V).
        optimizer: `keras.Optimizer`.
        batches: object whose `epoch(e)`, e = 0, 1, ..., has `len()` and `[i]` -> dict of int32 arrays; "labels" (B, T)
            are the targets (0 is padding) and the other entries are the inputs.
        epochs, max_steps, time_limit_s: int, int and seconds, or None; the training ends at the first one reached.
        label_smoothing: float in [0, 1).
        clip_norm: float > 0 or None, the highest global norm of the gradients.
        validate: callable(model) -> dict of floats, or None.
        validate_every: int > 0, epochs.
        monitor, mode, patience: see `EarlyStopping`; used where `validate` is given.
        restore_best: bool. End with the weights of the best validation.
        average_last: int > 0 or None. End with the average of the weights at the last so many epoch ends.
        ema_decay: float in (0, 1) or None. End with the exponential average of the weights over all steps.
        jit_compile: bool, compile with XLA.
        verbose: 0, 1 (bar) or 2 (a line an epoch).

    Returns:
        `TrainResult`.

    Raises:
        TrainingDivergedError: if loss or gradients are not finite.
        ValueError: if an argument is out of range or there is nothing to train on.
    """
    if epochs is None and max_steps is None and time_limit_s is None:
        raise ValueError("One of `epochs`, `max_steps` and `time_limit_s` must be given. Received: None for all.")
    if average_last is not None and ema_decay is not None:
        raise ValueError(
            "Only one of `average_last` and `ema_decay` can be given. "
            f"Received: average_last={average_last}, ema_decay={ema_decay}"
        )
    run = _Run(model, optimizer, verbose, epochs, max_steps, time_limit_s)
    run.last_weights = LastWeights(average_last) if average_last else None
    run.uses_ema = ema_decay is not None
    run.stopping = EarlyStopping(monitor, mode, patience)
    run.validate, run.validate_every, run.restore_best = validate, validate_every, restore_best
    if run.uses_ema:
        use_exponential_average(optimizer, ema_decay)
    _build(model, batches)
    run.step = make_train_step(
        model, optimizer, label_smoothing=label_smoothing, clip_norm=clip_norm, jit_compile=jit_compile
    )
    return run.train(batches)


class _Run:
    """One call of `train`: its settings and its counters."""

    def __init__(self, model, optimizer, verbose, epochs, max_steps, time_limit_s):
        self.model = model
        self.optimizer = optimizer
        self.verbose = verbose
        self.epochs = epochs
        self.max_steps = max_steps
        self.time_limit_s = time_limit_s
        self.started = time.perf_counter()
        self.epoch = 0
        self.epoch_step = 0
        self.total_steps = 0
        self.sums = dict.fromkeys(("loss_sum", "tokens", "correct"), 0.0)
        self.history = []
        self.best_weights = None

    def train(self, batches):
        reason = None
        while reason is None:
            if self.epochs is not None and self.epoch >= self.epochs:
                reason = f"all {self.epochs} epochs are done"
                break
            reason = self._train_epoch(batches.epoch(self.epoch))
            self._end_epoch()
            if reason is None and self.stopping.should_stop:
                reason = (
                    f"{self.stopping.monitor} has not improved for {self.stopping.waited} validations "
                    f"(best {self.stopping.best:.4g} in epoch {self.stopping.best_epoch})"
                )
        kept = self.best_weights if self.restore_best and self.best_weights is not None else self._kept_weights()
        if kept is not None:
            assign_weights(self.model, kept)
        if self.verbose:
            print(f"Training ended: {reason}.", flush=True)
        return TrainResult(
            self.history,
            self.total_steps,
            time.perf_counter() - self.started,
            self.stopping.best,
            self.stopping.best_epoch,
            reason,
        )

    def _train_epoch(self, sequence):
        """Runs the rest of the epoch; returns why the training must stop, or None."""
        if not len(sequence):
            raise ValueError(f"`batches` must hold something to train on. Received: epoch {self.epoch} of length 0")
        bar = EpochBar(self.epoch + 1, self.epochs, len(sequence), self.epoch_step, self.verbose)
        reason = None
        while self.epoch_step < len(sequence) and reason is None:
            result = self.step(sequence[self.epoch_step])
            check_finite(result, self.optimizer, epoch=self.epoch + 1, step=self.epoch_step + 1)
            self.epoch_step += 1
            self.total_steps += 1
            for name in self.sums:
                self.sums[name] += float(getattr(result, name))
            bar.update(self.epoch_step, self.sums, self._rate)
            reason = self._budget_spent()
        self.step.sync()
        bar.update(self.epoch_step, self.sums, self._rate, last=True)
        return reason

    def _budget_spent(self):
        if self.max_steps is not None and self.total_steps >= self.max_steps:
            return f"the limit of {self.max_steps} steps is reached"
        if self.time_limit_s is not None and time.perf_counter() - self.started >= self.time_limit_s:
            return f"the time limit of {self.time_limit_s:g} s is reached"
        return None

    def _end_epoch(self):
        tokens = max(self.sums["tokens"], 1.0)
        entry = {
            "epoch": self.epoch + 1,
            "steps": self.total_steps,
            "loss": self.sums["loss_sum"] / tokens,
            "accuracy": self.sums["correct"] / tokens,
            "tokens": self.sums["tokens"],
            "rate": self._rate(),
        }
        if self.last_weights:
            self.last_weights.add(self.model)
        if self.validate and (self.epoch + 1) % self.validate_every == 0:
            kept = self._kept_weights()
            with averaged_weights(self.model, kept):
                metrics = {name: float(value) for name, value in self.validate(self.model).items()}
                if self.stopping.update(metrics, self.epoch + 1) and self.restore_best:
                    self.best_weights = [keras.ops.convert_to_numpy(v.value).copy() for v in _trainable(self.model)]
            entry.update(metrics)
            if self.verbose:
                print("  " + "  ".join(f"{name} {value:.4f}" for name, value in metrics.items()), flush=True)
        entry["seconds"] = time.perf_counter() - self.started
        self.history.append(entry)
        self.epoch, self.epoch_step = self.epoch + 1, 0
        self.sums = dict.fromkeys(self.sums, 0.0)

    def _kept_weights(self):
        """The averaged weights, or None where the plain ones are kept."""
        if self.last_weights:
            return self.last_weights.average()
        return exponential_average(self.model, self.optimizer) if self.uses_ema else None

    def _rate(self):
        return float(keras.ops.convert_to_numpy(self.optimizer.learning_rate))


def _trainable(model):
    return model.trainable_variables


def _build(model, batches):
    """Makes the weights by calling the model on one row."""
    if not model.built:
        batch = batches.epoch(0)[0]
        model({name: value[:1] for name, value in batch.items() if name != "labels"}, training=False)
