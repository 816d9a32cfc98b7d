"""The loop over epochs and steps, between one checkpoint and the next."""

import time

import keras

from keras_attention.training import checkpoints, distribution, train_state
from keras_attention.training.averaging import assign_weights, averaged_weights, copy_weights, exponential_average
from keras_attention.training.divergence import check_finite
from keras_attention.training.progress import EpochBar


class TrainingRun:
    """One call of `trainer.train`: its parts, made there, and the loop over them.

    Args:
        model, optimizer: built.
        step: what `make_train_step` gives.
        stopping: `EarlyStopping`.
        last_weights: `LastWeights` or None.
        log: `EpochLog`.
        settings: flat dict of what a resumed training must share.
        options: dict of the arguments of `train` that only the loop reads.
    """

    def __init__(self, model, optimizer, step, stopping, last_weights, log, settings, options):
        self.model = model
        self.optimizer = optimizer
        self.step = step
        self.stopping = stopping
        self.last_weights = last_weights
        self.log = log
        self.settings = settings
        self.options = options
        self.progress = train_state.Progress()
        self.best_weights = None
        self._started = self._saved_at = time.perf_counter()
        self._seconds_before = 0.0
        self._saved_step = None

    def train(self, batches, interrupts):
        """Trains until something ends it; returns what that was, as a sentence."""
        reason = None
        while reason is None:
            reason = self._nothing_left()
            if reason:
                break
            sequence = batches.epoch(self.progress.epoch)
            reason = self._train_steps(sequence, interrupts)
            if self.progress.epoch_step < len(sequence):
                # Saved in the middle of the epoch, so that a resumed training ends this epoch as if undisturbed.
                self.save()
                self._end_epoch()
                return reason
            self._end_epoch()
            if self._checkpoint_is_due():
                self.save()
        self.save()
        return reason

    def resume(self):
        """Goes on from the newest whole checkpoint; returns its path, or None where there is none."""
        path = checkpoints.latest_valid(self.options["checkpoint_dir"])
        if path is None:
            return None
        arrays, state = checkpoints.read(path)
        train_state.check_same_settings(path, state["settings"], self.settings)
        train_state.restore(self.model, self.optimizer, arrays)
        self.progress = train_state.Progress(**state["progress"])
        self._seconds_before = self.progress.seconds
        self._saved_step = self.progress.total_steps
        self.stopping.restore(state["stopping"])
        self.best_weights = train_state.restore_list(arrays, "best") or None
        if self.last_weights:
            count, flat = len(self.model.trainable_variables), train_state.restore_list(arrays, "last")
            self.last_weights.snapshots = [flat[i : i + count] for i in range(0, len(flat), count)]
        return path

    def save(self):
        """Writes a checkpoint, where a folder is given and a step has been made since the last one; the chief alone."""
        self._saved_at = time.perf_counter()
        nowhere = self.options["checkpoint_dir"] is None or distribution.workers().index
        if nowhere or self._saved_step == self.progress.total_steps:
            return
        self._saved_step = self.progress.total_steps
        self.step.sync()
        self.progress.seconds = self.seconds()
        snapshots = self.last_weights.snapshots if self.last_weights else []
        arrays = train_state.capture(
            self.model,
            self.optimizer,
            best=self.best_weights or [],
            last=[array for snapshot in snapshots for array in snapshot],
        )
        state = {"settings": self.settings, "progress": vars(self.progress), "stopping": self.stopping.state()}
        checkpoints.write(self.options["checkpoint_dir"], self.progress.total_steps, arrays, state)

    def keep_weights(self):
        """Leaves the weights in the model that were asked for: the best, else the average, else the last."""
        kept = self.best_weights if self.best_weights is not None else self._averaged_weights()
        if kept is not None:
            assign_weights(self.model, kept)

    def seconds(self):
        """Wall clock of this training, with the runs that it resumes."""
        return self._seconds_before + time.perf_counter() - self._started

    def _train_steps(self, sequence, interrupts):
        """Trains on the rest of the epoch; returns why the training must end before its end, or None."""
        if not len(sequence):
            raise ValueError(f"`batches` must not be empty. Received: epoch {self.progress.epoch} with no batches")
        progress = self.progress
        shown = self.options["verbose"], self.options["unit"]
        bar = EpochBar(self.options["epochs"], len(sequence), progress, self._rate, *shown)
        reason = None
        while progress.epoch_step < len(sequence) and reason is None:
            if distribution.any_worker(interrupts.received):
                self._stop_for(interrupts.received or "a signal to another worker")
            result = self.step(sequence[progress.epoch_step])
            check_finite(result, self.optimizer, self.step.sync, epoch=progress.epoch + 1, step=progress.epoch_step + 1)
            progress.epoch_step += 1
            progress.total_steps += 1
            progress.loss_sum += float(result.loss_sum)
            progress.tokens += float(result.tokens)
            progress.correct += float(result.correct)
            bar.update()
            reason = self._nothing_left()
            if progress.epoch_step < len(sequence) and reason is None and self._checkpoint_is_due():
                self.save()
        self.step.sync()
        bar.update(last=True)
        return reason

    def _nothing_left(self):
        """Why no further step may be made, or None."""
        options, progress = self.options, self.progress
        if options["epochs"] is not None and progress.epoch >= options["epochs"]:
            return f"all {options['epochs']} epochs are done"
        if options["max_steps"] is not None and progress.total_steps >= options["max_steps"]:
            return f"the limit of {options['max_steps']} steps is reached"
        limit = options["time_limit_s"]
        if limit is not None and distribution.any_worker(time.perf_counter() - self._started >= limit):
            return f"the time limit of {limit:g} s is reached"
        if self.stopping.should_stop:
            return self.stopping.reason()
        return None

    def _checkpoint_is_due(self):
        every, minutes = self.options["checkpoint_every"], self.options["checkpoint_minutes"]
        if every is not None and self.progress.total_steps % every == 0:
            return True
        return minutes is not None and time.perf_counter() - self._saved_at >= 60.0 * minutes

    def _end_epoch(self):
        progress = self.progress
        tokens = max(progress.tokens, 1.0)
        entry = {
            "epoch": progress.epoch + 1,
            "steps": progress.total_steps,
            "loss": progress.loss_sum / tokens,
            "accuracy": progress.correct / tokens,
            "tokens": progress.tokens,
            "rate": self._rate(),
        }
        if self.last_weights:
            self.last_weights.add(self.model)
        if self.options["validate"] and (progress.epoch + 1) % self.options["validate_every"] == 0:
            entry.update(self._validate())
        entry["seconds"] = self.seconds()
        progress.history.append(entry)
        self.log.write(entry)
        progress.start_epoch()

    def _validate(self):
        """The scores of the weights that would be kept, were this the last epoch."""
        with averaged_weights(self.model, self._averaged_weights()):
            metrics = self.options["validate"](self.model)
            values = distribution.from_chief([float(value) for value in metrics.values()])
            metrics = dict(zip(metrics, values, strict=True))
            if self.stopping.update(metrics, self.progress.epoch + 1) and self.options["restore_best"]:
                self.best_weights = copy_weights(self.model)
        if self.options["verbose"]:
            print("  " + "  ".join(f"{name} {value:.4f}" for name, value in metrics.items()), flush=True)
        return metrics

    def _averaged_weights(self):
        """The averaged weights, or None where no average is asked for or nothing has been averaged yet."""
        if self.last_weights:
            return self.last_weights.average()
        return exponential_average(self.model, self.optimizer) if self.options["ema_decay"] is not None else None

    def _rate(self):
        return float(keras.ops.convert_to_numpy(self.optimizer.learning_rate))

    def _stop_for(self, signal_name):
        """Saves and raises KeyboardInterrupt."""
        self.save()
        where = f"epoch {self.progress.epoch + 1}, after step {self.progress.epoch_step}"
        folder = self.options["checkpoint_dir"]
        saved = f"checkpoint saved in {folder}, resume to go on" if folder is not None else "nothing was saved"
        raise KeyboardInterrupt(f"Training stopped by {signal_name} in {where}: {saved}.")
