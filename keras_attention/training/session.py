"""One run of a recipe: devices, checkpoints, progress and everything else around the training loop."""

import contextlib
import dataclasses
import functools
import time
from pathlib import Path

import keras

from keras_attention.support.moved import RenamedAttribute
from keras_attention.training import checkpoints, devices, history, optim
from keras_attention.training.backends import compile_update
from keras_attention.training.history import EarlyStopping, Epoch, Progress, TrainResult
from keras_attention.training.run import Interrupts, RunSettings, deferred_interrupts

FIRST_CHECKPOINT_MINUTES = 1.0


class Session:
    """Handles everything around the training loop, so that a recipe shows only the loop:

        session = Session.start(config, "runs/mine")
        update = session.compile(model, optimizer, loss, clip_norm=1.0)
        with session:
            for epoch in session.epochs(batches, 10):
                for batch in epoch:
                    epoch.record(update(batch))
                with session.averaged_weights():
                    session.report(val_loss=validate(model))
        result = session.finish()

    - `start` chooses number format, compiler and devices, seeds the random generators and records command and commit.
    - `compile` returns the update for the backend, split over devices (strategy) and parts (accumulation).
    - Inside the `with`, the checkpoint folder is reserved for this training. After Ctrl-C or SIGTERM, the session
      finishes the update, saves a checkpoint and raises KeyboardInterrupt.
    - `epochs` continues from the newest undamaged checkpoint. Weights and history (except times) equal those of an
      uninterrupted training, provided that the batches depend only on the epoch, and that layers take random numbers
      from their own generators. `epochs` also writes checkpoints and TensorBoard logs, draws the progress bar, and
      stops early. At the end, the model has the best, the averaged or the last weights, as requested.
    - Under a strategy, every worker runs the same code. Only the chief writes and prints, and its scores count for all.
      A checkpoint can be resumed with any strategy and accumulation; with the same ones, the results are bit-identical.
    - With `--weights`, `epochs` is empty, and `finish` loads weights and history from that file.

    Args:
        config: RunSettings.
        out: path of the result, or None.
        checkpoint_dir: path, or None to save no checkpoints.
        checkpoint_every: int > 0, updates between two checkpoints, or None.
        checkpoint_minutes: float > 0, minutes between two checkpoints, or None. The first is written after a minute.
        facts: dict, see `history.run_facts`, or None.
        verbose: 0 (silent), 1 (progress bar) or 2 (one line per epoch).
        unit: str, the unit of the speed in the progress bar, such as "tokens".
        words: dict from the names of scores to the words that are printed for them; other scores are not printed. None:
            all are printed with their names.

    Raises:
        ValueError: if `config.resume` is set without `checkpoint_dir`, or `checkpoint_every` is not positive.
    """

    def __init__(
        self,
        config=None,
        *,
        out=None,
        checkpoint_dir=None,
        checkpoint_every=None,
        checkpoint_minutes=10.0,
        facts=None,
        verbose=1,
        unit="tokens",
        words=None,
    ):
        self.config = config or RunSettings()
        if self.config.resume and checkpoint_dir is None:
            raise ValueError("`resume` needs `checkpoint_dir`. Received: checkpoint_dir=None")
        if checkpoint_every is not None and checkpoint_every < 1:
            raise ValueError(f"`checkpoint_every` must be positive. Received: checkpoint_every={checkpoint_every}")
        self.out = out
        self.checkpoint_dir = checkpoint_dir
        self.checkpoint_every = checkpoint_every
        self.checkpoint_minutes = checkpoint_minutes
        self.facts = facts
        self.verbose = 0 if devices.workers().index else verbose
        self.unit = unit
        self.words = words
        self.progress = Progress()
        self.stopping = None
        self.outcome = {}
        self._open = None
        self.compiled = False  # whether an update has been made
        self._interrupts = Interrupts()
        self._best_weights = None
        self.stopped_because = None
        self._started = self._saved_at = time.perf_counter()
        self._seconds_before = 0.0
        self._saved_step = None
        self._scores = {}

    @classmethod
    def start(cls, config, out, *, large_products=False, check_out=None, **options):
        """Starts the run of a recipe. Call it before any computation. Checkpoints are written beside `out`.

        Args:
            config: RunSettings. `session.config` is a copy with number format and compiler set.
            out: path of the result.
            large_products: bool, see `devices.choose_acceleration`.
            check_out: callable(out, overwrite) that raises an error if no model may be written to `out`, or None. It
                is called unless this run writes only encoded texts or weights.
            options: further arguments of the class.

        Raises:
            UserError: see `history.claim_files`; or if there are checkpoints of another training and neither `resume`
                nor `restart` is True.
        """
        out, encodes = Path(out), bool(getattr(config, "encode_to", ""))
        folder = out.with_name(out.name + "_checkpoints")
        if check_out and not (encodes or getattr(config, "encoded", "")):
            check_out(out, config.overwrite)
        if not (encodes or config.resume or config.restart or config.weights or devices.workers().index):
            checkpoints.check_unused(folder)
        facts, config = history.run_facts(), devices.accelerate(config, large_products)
        devices.use_strategy(config.strategy)
        if not devices.workers().index:  # the chief writes
            history.claim_files(config, out)
        keras.utils.set_random_seed(config.seed)
        return cls(config, out=out, checkpoint_dir=folder, facts=facts, **options)

    def compile(self, model, optimizer, loss, clip_norm=None, average_last=None, ema_decay=None):
        """Returns `update(batch)`, see `backends.compile_update`.

        Args:
            model: built `keras.Model`.
            optimizer: `keras.Optimizer` that has not been used.
            loss: callable(model, inputs, labels) -> `losses.Loss`. The keywords of a `functools.partial` are
                settings that must not change when a training is resumed.
            clip_norm: float > 0 or None, the maximum global norm of the gradients.
            average_last: int > 0 or None. At the end, average the weights of the last `average_last` epochs.
            ema_decay: float in (0, 1) or None. At the end, use the exponential average of the weights over all updates.

        Raises:
            ValueError: if an argument is out of range, or both averages are requested.
        """
        if average_last is not None and ema_decay is not None:
            raise ValueError(
                "Only one of `average_last` and `ema_decay` can be given. "
                f"Received: average_last={average_last}, ema_decay={ema_decay}"
            )
        self.model, self.optimizer = model, optimizer
        self._last_weights = optim.LastWeights(average_last) if average_last is not None else None
        self._ema_decay = ema_decay
        if ema_decay is not None:
            optim.use_exponential_average(optimizer, ema_decay)
        options = {"clip_norm": clip_norm, "jit_compile": self.config.jit_compile is not False}
        keywords = loss.keywords if isinstance(loss, functools.partial) else {}
        averages = {"average_last": average_last, "ema_decay": ema_decay}
        self._shared = {"loss": keywords, "train": {**options, **averages}}
        self.update = compile_update(model, optimizer, loss, accumulate=self.config.accumulate, **options)
        return self.update

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self._interrupts = stack.enter_context(deferred_interrupts())
            if self.checkpoint_dir is not None and not self.config.weights and not devices.workers().index:
                folder, resume, restart = self.checkpoint_dir, self.config.resume, self.config.restart
                stack.enter_context(checkpoints.open_folder(folder, resume, restart))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *error):
        return self._open.__exit__(*error)

    def epochs(
        self,
        batches,
        epochs=None,
        *,
        max_steps=None,
        time_limit_s=None,
        monitor="val_loss",
        mode=None,
        patience=None,
        restore_best=False,
        enough=None,
    ):
        """Yields each remaining `Epoch`. The training ends when the first limit is reached.

        Args:
            batches: object with a method `epoch(e)`, e = 0, 1, ... The result has `len()` and `[i]` -> dict of arrays
                with "labels" and the inputs of the model.
            epochs: int, maximum number of epochs, or None.
            max_steps: int, maximum number of updates, or None.
            time_limit_s: float, seconds, or None. Checked after each update; includes validation, but not earlier runs.
            monitor, mode, patience: see `EarlyStopping`. The scores are those passed to `report`.
            restore_best: bool. At the end, use the weights with the best score.
            enough: callable(entry of an epoch in the history) -> bool, whether training ends after it; or None.

        Raises:
            TrainingDivergedError: if loss, gradients or weights are not finite.
            UserError: if checkpoints cannot be written, all are damaged, the newest has other settings, or the settings
                of a worker differ from the chief's.
            WorkerLostError: if another worker has stopped.
            KeyboardInterrupt: after Ctrl-C or SIGTERM, once the checkpoint is saved.
            ValueError: if an argument is out of range or there are no batches.
        """
        if self._open is None:
            raise ValueError("`epochs` must run inside `with session:`, which opens the checkpoint folder.")
        if epochs is None and max_steps is None and time_limit_s is None:
            raise ValueError("One of `epochs`, `max_steps` and `time_limit_s` must be given. Received: None for all")
        if self.config.weights:
            return
        self._started = self._saved_at = time.perf_counter()
        self.num_epochs, self.max_steps, self._time_limit_s = epochs, max_steps, time_limit_s
        self.stopping, self._restore_best, self._enough = EarlyStopping(monitor, mode, patience), restore_best, enough
        stopping_rule = {"monitor": monitor, "mode": mode, "patience": patience, "restore_best": restore_best}
        self._shared["train"] |= stopping_rule
        first = batches.epoch(0)
        if not len(first):
            raise ValueError("`batches` must not be empty. Received: an epoch of length 0")
        self._settings = checkpoints.settings_of(self.model, self.optimizer, first, self._shared)
        log = history.EpochLog(None if devices.workers().index else self.config.log_dir or None)
        if self.config.resume:
            self._resume()
        devices.check_alike(self._settings, self.progress.total_steps)
        self.stopped_because = self._nothing_left()
        unended = self.progress.epoch_step > 0  # perhaps ended by a limit, but its scores were not reported yet
        while self.stopped_because is None or unended:
            unended = False
            epoch = Epoch(self, batches.epoch(self.progress.epoch))
            yield epoch
            log.write(self._end_epoch())
            if self.stopped_because is None:
                if self.checkpoint_is_due():
                    self.save()
                self.stopped_because = self._nothing_left()
        self.save()
        weights = self._best_weights if self._best_weights is not None else self._averaged_weights()
        if weights is not None:
            optim.assign_weights(self.model, weights)
        self.notify(f"Training ended: {self.stopped_because}.")

    @contextlib.contextmanager
    def averaged_weights(self):
        """Context manager: the model has the averaged weights, as if this were the last epoch. See `compile`."""
        with optim.averaged_weights(self.model, self._averaged_weights()):
            yield

    def report(self, **scores):
        """Adds validation scores, floats by name, to the history. Every worker records the chief's scores."""
        values = devices.from_chief([float(value) for value in scores.values()])
        self._scores = dict(zip(scores, values, strict=True))
        if self.stopping.update(self._scores, self.progress.epoch + 1) and self._restore_best:
            self._best_weights = optim.copy_weights(self.model)
        shown = self.words or {name: name for name in self._scores}
        self.notify(
            "  " + "  ".join(f"{shown[name]} {value:.4f}" for name, value in self._scores.items() if name in shown)
        )

    @property
    def starts_alone(self):
        """Whether a single process trains from the beginning, without a checkpoint and without `--weights`."""
        start = self.config.weights or (self.config.resume and Path(self.checkpoint_dir).exists())
        return not start and devices.workers().count == 1

    @property
    def description(self):
        """A sentence about number format, compiler and device."""
        return devices.description(self.config)

    @property
    def result(self):
        """The `TrainResult` so far."""
        best, best_epoch = (self.stopping.best, self.stopping.best_epoch) if self.stopping else (None, None)
        progress = self.progress
        return TrainResult(
            progress.history, progress.total_steps, self._seconds(), best, best_epoch, self.stopped_because
        )

    def finish(self, weights_only=False):
        """Ends the strategy and returns the `TrainResult`, or None if this process has no more work.

        Workers other than the chief get None. With `weights_only`, writes `out`.npz, for `--weights` on another
        machine, and returns None. Otherwise sets `outcome`, the keyword arguments of the functions that write an
        entry: settings, result, facts, overwrite.
        """
        result = self.result
        if self.config.weights:
            result, self.facts = history.load_trained(self.config.weights, self.model)
        if not devices.chief_goes_on():
            return None
        if weights_only:
            history.save_trained(self.out, self.model, result, self.facts)
            self.clean_up()
            where = f"Saved the weights to {history.weights_path(self.out)}."
            self.notify(f"{where} Where the texts are, run the same command with --weights {self.out} to make a model.")
            return None
        self.outcome = {"settings": dataclasses.asdict(self.config), "result": result, "facts": self.facts}
        self.outcome["overwrite"] = self.config.overwrite
        return result

    def clean_up(self):
        """Removes the checkpoints. Call it after the result is saved."""
        checkpoints.discard_folder(self.checkpoint_dir)

    say = RenamedAttribute("notify")

    def notify(self, text):
        """Prints, unless the session is silent."""
        if self.verbose:
            print(text, flush=True)

    def rate(self):
        """The learning rate of the next update."""
        return float(keras.ops.convert_to_numpy(self.optimizer.learning_rate))

    def save(self):
        """Writes a checkpoint if there is a folder and a new update since the last checkpoint; only in the chief."""
        self._saved_at = time.perf_counter()
        nowhere = self.checkpoint_dir is None or devices.workers().index
        if nowhere or self._saved_step == self.progress.total_steps:
            return
        self._saved_step = self.progress.total_steps
        self.update.sync()
        self.progress.seconds = self._seconds()
        snapshots = self._last_weights.snapshots if self._last_weights else []
        last = [array for snapshot in snapshots for array in snapshot]
        arrays = checkpoints.capture(self.model, self.optimizer, best=self._best_weights or [], last=last)
        state = {"settings": self._settings, "progress": vars(self.progress), "stopping": self.stopping.state()}
        checkpoints.write(self.checkpoint_dir, self.progress.total_steps, arrays, state)

    def checkpoint_is_due(self):
        """Whether `checkpoint_every` updates or `checkpoint_minutes` have passed since the last checkpoint."""
        if self.checkpoint_every is not None and self.progress.total_steps % self.checkpoint_every == 0:
            return True
        minutes = self.checkpoint_minutes
        if minutes is not None and self._saved_step is None:
            minutes = min(minutes, FIRST_CHECKPOINT_MINUTES)
        return minutes is not None and time.perf_counter() - self._saved_at >= 60.0 * minutes

    def stop_if_interrupted(self):
        """Saves a checkpoint and raises KeyboardInterrupt if this or another worker has received a signal."""
        if not devices.any_worker(self._interrupts.received):
            return
        self.save()
        name, folder = self._interrupts.received or "a signal to another worker", self.checkpoint_dir
        where = f"epoch {self.progress.epoch + 1}, after step {self.progress.epoch_step}"
        saved = f"checkpoint saved in {folder}, --resume continues" if folder is not None else "nothing was saved"
        raise KeyboardInterrupt(f"Training stopped by {name} in {where}: {saved}.")

    def end_steps(self, finished):
        """Ends the updates of an epoch. `finished` is False if a limit ended it before its last batch."""
        self.update.sync()
        if not finished:  # so that a resumed training finishes this epoch
            self.save()
        if self._last_weights:
            self._last_weights.add(self.model)

    def reason_to_end(self):
        """The reason why the training must end now, or None. The workers agree on it."""
        self.stopped_because = self._nothing_left()
        return self.stopped_because

    def _nothing_left(self):
        """The limit that the training has reached, as a phrase, or None."""
        progress, limit = self.progress, self._time_limit_s
        if self.num_epochs is not None and progress.epoch >= self.num_epochs:
            return "the only epoch is done" if self.num_epochs == 1 else f"all {self.num_epochs} epochs are done"
        if self.max_steps is not None and progress.total_steps >= self.max_steps:
            return f"the limit of {self.max_steps} steps is reached"
        if limit is not None and devices.any_worker(time.perf_counter() - self._started >= limit):
            return f"the time limit of {limit:g} s is reached"
        if self._enough is not None and progress.history and self._enough(progress.history[-1]):
            return "nothing is left to learn"
        return self.stopping.reason() if self.stopping.should_stop else None

    def _end_epoch(self):
        """Adds the epoch to the history and returns its entry."""
        progress = self.progress
        count = max(progress.tokens, 1.0)
        entry = {
            "epoch": progress.epoch + 1,
            "steps": progress.total_steps,
            "loss": progress.loss_sum / count,
            "accuracy": progress.correct / count,
            "tokens": progress.tokens,
            "rate": self.rate(),
            **self._scores,
            "seconds": self._seconds(),
        }
        self._scores = {}
        progress.history.append(entry)
        progress.start_epoch()
        return entry

    def _resume(self):
        """Restores the newest undamaged checkpoint, if there is one."""
        path = checkpoints.latest_valid(self.checkpoint_dir)
        self.notify(f"Resumed from {path}." if path else "No checkpoint found: starting from the beginning.")
        if path is None:
            return
        arrays, state = checkpoints.read(path)
        checkpoints.check_same_settings(path, state["settings"], self._settings)
        checkpoints.restore(self.model, self.optimizer, arrays)
        self.progress = Progress(**state["progress"])
        self._seconds_before = self.progress.seconds
        self._saved_step = self.progress.total_steps
        self.stopping.restore(state["stopping"])
        self._best_weights = checkpoints.restore_list(arrays, "best") or None
        if self._last_weights:
            count, flat = len(self.model.trainable_variables), checkpoints.restore_list(arrays, "last")
            self._last_weights.snapshots = [flat[i : i + count] for i in range(0, len(flat), count)]

    def _averaged_weights(self):
        """The averaged weights, or None if no average is requested or nothing has been averaged yet."""
        if self._last_weights:
            return self._last_weights.average()
        return optim.exponential_average(self.model, self.optimizer) if self._ema_decay is not None else None

    def _seconds(self):
        """Wall-clock seconds of this training, including the runs that it resumes."""
        return self._seconds_before + time.perf_counter() - self._started
