"""`train`: the training loop with everything around it put together."""

from typing import NamedTuple

from keras_attention.training import checkpoints, distribution
from keras_attention.training.averaging import LastWeights, use_exponential_average
from keras_attention.training.early_stopping import EarlyStopping
from keras_attention.training.interrupts import deferred_interrupts
from keras_attention.training.progress import EpochLog
from keras_attention.training.train_state import settings_of
from keras_attention.training.train_step import make_train_step
from keras_attention.training.training_run import TrainingRun


class TrainResult(NamedTuple):
    """`history` has a dict for each epoch; `best` is the best monitored score or None; `seconds` is wall clock."""

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
    loss=None,
    label_smoothing=0.0,
    r_drop=0.0,
    clip_norm=None,
    accumulate=1,
    validate=None,
    validate_every=1,
    monitor="val_loss",
    mode=None,
    patience=None,
    restore_best=False,
    average_last=None,
    ema_decay=None,
    checkpoint_dir=None,
    checkpoint_every=None,
    checkpoint_minutes=10.0,
    resume=False,
    restart=False,
    config=None,
    log_dir=None,
    jit_compile=True,
    verbose=1,
    unit="tokens",
):
    """Trains `model` and leaves the asked weights in it: the best, else the average, else the last.

    Validation sees the weights that would be kept: the average over the last epochs where `average_last` is given, the
    exponential average where `ema_decay` is given, the plain weights otherwise.

    Checkpoints are written into `checkpoint_dir` every so often, at Ctrl-C, at SIGTERM and at the end. A resumed
    training ends with exactly the weights, and the history up to its times, of one that was never stopped; for that the
    batches must depend on the epoch alone, and layers must draw random numbers from generators of their own.

    Under a strategy (see `distribution.use_strategy`), which must be there before model and optimizer are made, every
    worker calls this alike. The chief alone writes and shows; all keep the weights, and go by the chief's validation.
    A checkpoint fits any strategy and `accumulate`; the bits are the same with the same ones.

    Args:
        model: `keras.Model`, called as `model(inputs, training=True)` -> logits (B, T, V).
        optimizer: `keras.Optimizer`.
        batches: object whose `epoch(e)`, e = 0, 1, ..., has `len()` and `[i]` -> dict of int32 arrays; "labels" (B, T)
            are the targets (0 is padding; another `loss` has labels of its own) and the other entries are the inputs.
        epochs, max_steps, time_limit_s: int, int and seconds, or None; the training ends at the first one reached.
            The time limit is that of this call, counts validation and is looked at after each step.
        loss: callable, see `make_train_step`; None is the cross-entropy of tokens.
        label_smoothing: float in [0, 1), of that cross-entropy.
        r_drop: float >= 0, see `make_train_step`; each batch passes twice unless it is 0.
        clip_norm: float > 0 or None, the highest global norm of the gradients.
        accumulate: int > 0, parts in which each batch is computed, to save memory; see `make_train_step`.
        validate: callable(model) -> dict of floats, or None.
        validate_every: int > 0, epochs.
        monitor, mode, patience: see `EarlyStopping`; used where `validate` is given.
        restore_best: bool. End with the weights of the best validation.
        average_last: int > 0 or None. End with the average of the weights at the last so many epoch ends.
        ema_decay: float in (0, 1) or None. End with the exponential average of the weights over all steps.
        checkpoint_dir: path or None to save nothing.
        checkpoint_every: int > 0, steps, or None.
        checkpoint_minutes: float > 0, minutes since the last checkpoint, or None.
        resume: bool. Go on from the newest whole checkpoint; where there is none, start from the beginning and say so.
        restart: bool. Remove the checkpoints that are there, unless `resume` is given too.
        config: dict of further settings that a resumed training must share, or None.
        log_dir: path for TensorBoard, or None.
        jit_compile: bool, compile with XLA.
        verbose: 0, 1 (bar) or 2 (a line an epoch).
        unit: str, what the labels are labels of; the bar shows how many pass in a second.

    Returns:
        `TrainResult`.

    Raises:
        TrainingDivergedError: if loss, gradients or weights are not finite.
        UserError: if checkpoints cannot be written, none is whole, one was made with other settings, or a worker trains
            with others than the chief.
        WorkerLostError: if another worker is gone.
        KeyboardInterrupt: after Ctrl-C or SIGTERM, when the checkpoint is saved.
        ValueError: if an argument is out of range or there is nothing to train on.
    """
    options = dict(locals())
    if distribution.workers().index:
        options |= {"verbose": 0, "log_dir": None}
    if epochs is None and max_steps is None and time_limit_s is None:
        raise ValueError("One of `epochs`, `max_steps` and `time_limit_s` must be given. Received: None for all")
    if average_last is not None and ema_decay is not None:
        raise ValueError(
            "Only one of `average_last` and `ema_decay` can be given. "
            f"Received: average_last={average_last}, ema_decay={ema_decay}"
        )
    if resume and checkpoint_dir is None:
        raise ValueError("`resume` needs `checkpoint_dir`. Received: checkpoint_dir=None")
    if checkpoint_dir is not None and not distribution.workers().index:
        if restart and not resume:
            checkpoints.remove(checkpoint_dir)
        checkpoints.check_folder(checkpoint_dir, resume)
    shared = ("label_smoothing", "r_drop", "clip_norm", "validate_every", "monitor", "mode", "patience")
    shared = {name: options[name] for name in (*shared, "restore_best", "average_last", "ema_decay", "jit_compile")}
    stopping = EarlyStopping(monitor, mode, patience)
    last_weights = LastWeights(average_last) if average_last is not None else None
    if ema_decay is not None:
        use_exponential_average(optimizer, ema_decay)
    _build(model, batches)
    names = ("loss", "label_smoothing", "r_drop", "clip_norm", "accumulate", "jit_compile")
    step = make_train_step(model, optimizer, **{name: options[name] for name in names})
    settings = settings_of(model, optimizer, batches, {"train": shared, "config": config or {}})
    run = TrainingRun(model, optimizer, step, stopping, last_weights, EpochLog(options["log_dir"]), settings, options)
    return _train(run, batches)


def _train(run, batches):
    resume, verbose = run.options["resume"], run.options["verbose"]
    if resume:
        path = run.resume()
        if verbose:
            print(f"Resumed from {path}." if path else "No checkpoint found: starting from the beginning.", flush=True)
    distribution.check_alike(run.settings, run.progress.total_steps)
    with deferred_interrupts() as interrupts:
        reason = run.train(batches, interrupts)
    run.keep_weights()
    if verbose:
        print(f"Training ended: {reason}.", flush=True)
    return TrainResult(
        run.progress.history,
        run.progress.total_steps,
        run.seconds(),
        run.stopping.best,
        run.stopping.best_epoch,
        reason,
    )


def _build(model, batches):
    """Makes the weights by calling the model on one row."""
    sequence = batches.epoch(0)
    if not len(sequence):
        raise ValueError("`batches` must not be empty. Received: an epoch of length 0")
    if not model.built:
        model({name: value[:1] for name, value in sequence[0].items() if name != "labels"}, training=False)
