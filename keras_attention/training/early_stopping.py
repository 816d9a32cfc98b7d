"""Follows one validation score and says when it has stopped getting better."""

import math


class EarlyStopping:
    """Remembers the best score and counts the validations since.

    Args:
        monitor: str, the name of the score among the validation's results, such as "val_bleu" or "val_loss".
        mode: "max" or "min", which scores are better; `None` takes "min" where the name ends with "loss".
        patience: int > 0, validations without a better score after which to stop; `None` never stops.

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
        """Takes the results of one validation; returns whether it is the best so far. A NaN is never the best."""
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
        """Why the training stops, for people."""
        return (
            f"{self.monitor} has not improved for {self.waited} validations "
            f"(best {self.best if self.best is None else round(self.best, 4)} in epoch {self.best_epoch})"
        )

    def state(self):
        """What a checkpoint keeps, a dict that fits into JSON."""
        return {"best": self.best, "best_epoch": self.best_epoch, "waited": self.waited}

    def restore(self, state):
        """Puts back what `state` gave."""
        self.best, self.best_epoch, self.waited = state["best"], state["best_epoch"], state["waited"]
