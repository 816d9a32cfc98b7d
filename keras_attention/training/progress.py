"""What a training shows while it runs: a progress bar for each epoch, and TensorBoard on request."""

import sys
import time

import keras

from keras_attention.errors import UserError


class EpochBar:
    """Keras's progress bar over the steps of one epoch, with loss, accuracy, speed, learning rate and time left.

    It is drawn at most five times a second on a terminal, and every ten seconds elsewhere.

    Args:
        epochs: int or None, how many there will be.
        steps: int, steps in the epoch.
        progress: `Progress`, which the bar reads.
        rate: callable giving the learning rate; only called when something is drawn.
        verbose: 0 draws nothing, 1 a bar, 2 one line at the end.
        unit: str, what is counted, such as "tokens".
    """

    def __init__(self, epochs, steps, progress, rate, verbose, unit="tokens"):
        self.progress = progress
        self.rate = rate
        self.verbose = verbose
        self.speed = f"{unit}/s"
        self._interval = 0.2 if sys.stdout.isatty() else 10.0
        self._started = self._drawn = time.perf_counter()
        self._tokens_before = progress.tokens  # which a resumed epoch has already, and which say nothing about speed
        if verbose:
            print(f"Epoch {progress.epoch + 1}" + (f"/{epochs}" if epochs else ""), flush=True)
        self._bar = keras.utils.Progbar(
            steps, verbose=verbose, unit_name="step", stateful_metrics=["loss", "accuracy", self.speed, "rate"]
        )

    def update(self, last=False):
        """Draws, if it is time to; with `last` in any case, and ends the line."""
        now = time.perf_counter()
        if not self.verbose or (not last and now - self._drawn < self._interval):
            return
        self._drawn = now
        tokens = max(self.progress.tokens, 1.0)
        speed = (self.progress.tokens - self._tokens_before) / max(now - self._started, 1e-9)
        values = [
            ("loss", self.progress.loss_sum / tokens),
            ("accuracy", self.progress.correct / tokens),
            (self.speed, round(speed)),
            ("rate", self.rate()),
        ]
        self._bar.update(self.progress.epoch_step, values, finalize=last)


class EpochLog:
    """Writes the numbers of each epoch for TensorBoard, which need not be installed for that.

    Args:
        folder: path, or None to write nothing.

    Raises:
        UserError: if TensorFlow is not installed, or the folder cannot be written.
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
        # What `tf.summary.scalar` would write; that function wants the package tensorboard.
        self._metadata = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"})

    def write(self, entry):
        """Writes every number of one entry of the history at its step."""
        if self._writer is None:
            return
        with self._writer.as_default(step=entry["steps"]):
            for name, value in entry.items():
                if name not in ("epoch", "steps"):
                    self._write(name, float(value), metadata=self._metadata)
        self._writer.flush()
