"""Code that the updates of all backends share: the result of an update, gradient norm, clipping."""

import math
from typing import NamedTuple

import keras
from keras import ops

from keras_attention.support.errors import TrainingDivergedError


class Update(NamedTuple):
    """The result of one update; scalar tensors of the backend.

    Attributes:
        total, count, correct: sums over the batch, see `losses.Loss`.
        gradient_norm: global norm before clipping. If this or the loss is not finite, the update was not applied.
        weight_norm: global norm of the weights after the update. It detects NaN weights that a ReLU hides from the
            loss.
    """

    total: object
    count: object
    correct: object
    gradient_norm: object
    weight_norm: object

    def check_finite(self, optimizer, sync, *, epoch, step):
        """Raises if the update is not finite, unless it is an overflow from which float16 training recovers.

        Args:
            optimizer: the optimizer of the update.
            sync: callable that brings the optimizer's variables up to date; called only after an overflow.
            epoch, step: ints counted from 1, for the message.

        Raises:
            TrainingDivergedError: if loss, gradient norm or weights are not finite.
        """
        loss, weight_norm, gradient_norm = (float(x) for x in (self.total, self.weight_norm, self.gradient_norm))
        if not math.isfinite(loss):
            what = f"the loss is {loss}"
        elif not math.isfinite(weight_norm):
            what = f"the norm of the weights is {weight_norm}"
        elif not math.isfinite(gradient_norm) and not _may_overflow(optimizer, sync):
            what = f"the gradient norm is {gradient_norm}"
        else:
            return
        raise TrainingDivergedError(
            f"Training diverged in epoch {epoch}, step {step}: {what}. Nothing was saved since. "
            "Expected finite numbers: try a lower learning rate, a longer warm-up or gradient clipping."
        )


def split_labels(batch):
    """Splits a batch into its inputs, a dict without "labels", and its labels."""
    return {name: value for name, value in batch.items() if name != "labels"}, batch["labels"]


def global_norm(tensors):
    """The Euclidean norm of all numbers in a list of tensors, a float32 scalar."""
    squares = [ops.sum(ops.square(ops.cast(tensor, "float32"))) for tensor in tensors]
    return ops.sqrt(sum(squares[1:], squares[0]))


def clip_by_norm(gradients, norm, clip_norm):
    """Scales all gradients by the same factor if their global norm `norm` exceeds `clip_norm` (None: never).

    Source: Pascanu et al. (2013), algorithm 1.
    """
    if clip_norm is None:
        return gradients
    factor = clip_norm / ops.maximum(norm, clip_norm)
    return [gradient * ops.cast(factor, gradient.dtype) for gradient in gradients]


def _may_overflow(optimizer, sync):
    """Whether an overflow is harmless. Each halves the loss scale; below 1, the unscaled gradients overflow too."""
    if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return False
    sync()
    return float(ops.convert_to_numpy(optimizer.dynamic_scale.value)) >= 1.0
