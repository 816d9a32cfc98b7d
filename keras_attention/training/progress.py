"""What a training shows while it runs: a progress bar for each epoch, and TensorBoard on request."""

import time

import keras


class EpochBar:
    """Keras's progress bar over the steps of one epoch, drawn at most five times a second.

    Args:
        epoch: int, counted from 1.
        epochs: int or None, how many there will be.
        steps: int, steps in the epoch.
        first_step: int, steps done before, when a training is resumed.
        verbose: 0 draws nothing, 1 a bar, 2 one line at the end.
    """

    def __init__(self, epoch, epochs, steps, first_step, verbose):
        self.verbose = verbose
        self._started = time.perf_counter()
        self._drawn = 0.0
        self._tokens_before = None
        if verbose:
            print(f"Epoch {epoch}" + (f"/{epochs}" if epochs else ""), flush=True)
        self._bar = keras.utils.Progbar(
            steps, verbose=verbose, unit_name="step", stateful_metrics=["loss", "accuracy", "tokens/s", "rate"]
        )
        self._first_step = first_step

    def update(self, step, sums, rate, last=False):
        """Shows the state after `step` steps of the epoch.

        Args:
            step: int, steps done in this epoch.
            sums: dict with "loss_sum", "tokens" and "correct" of the epoch so far.
            rate: callable giving the learning rate; only called when something is drawn.
            last: bool, draw in any case and end the line.
        """
        now = time.perf_counter()
        if self._tokens_before is None:  # what a resumed epoch had already does not count as speed
            self._tokens_before = sums["tokens"] if step > self._first_step + 1 else 0.0
        if not self.verbose or (not last and now - self._drawn < 0.2):
            return
        self._drawn = now
        tokens = max(sums["tokens"], 1.0)
        values = [
            ("loss", sums["loss_sum"] / tokens),
            ("accuracy", sums["correct"] / tokens),
            ("tokens/s", round((sums["tokens"] - self._tokens_before) / max(now - self._started, 1e-9))),
            ("rate", rate()),
        ]
        self._bar.update(step, values, finalize=last)
