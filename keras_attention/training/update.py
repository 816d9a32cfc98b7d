"""What the updates of all backends share: their result, the norm of a gradient, clipping."""

import math
from typing import NamedTuple

import keras
from keras import ops

from keras_attention.errors import TrainingDivergedError


class Update(NamedTuple):
    """What one update tells; scalar tensors of the backend.

    Attributes:
        total, count, correct: of the batch, see `objective.Loss`.
        gradient_norm: global norm before clipping. Where this or the loss is not finite, nothing was updated.
        weight_norm: global norm of the weights after the update. A NaN weight can hide from the loss behind a ReLU,
            but not from this.
    """

    total: object
    count: object
    correct: object
    gradient_norm: object
    weight_norm: object

    def check_finite(self, optimizer, sync, *, epoch, step):
        """Raises unless the update was sound or is an overflow that float16 training recovers from by itself.

        Args:
            optimizer: the optimizer that made it.
            sync: callable that brings the optimizer's variables up to date; only called after an overflow.
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
    """The inputs of a batch, a dict without "labels", and its labels."""
    return {name: value for name, value in batch.items() if name != "labels"}, batch["labels"]


def global_norm(tensors):
    """The root of the summed squares of all numbers in a list of tensors, a float32 scalar."""
    squares = [ops.sum(ops.square(ops.cast(tensor, "float32"))) for tensor in tensors]
    return ops.sqrt(sum(squares[1:], squares[0]))


def clip_by_norm(gradients, norm, clip_norm):
    """Scales all gradients down together where their global norm `norm` exceeds `clip_norm` (None: never).

    Source: Pascanu et al. (2013), algorithm 1, over all weights at once.
    """
    if clip_norm is None:
        return gradients
    factor = clip_norm / ops.maximum(norm, clip_norm)
    return [gradient * ops.cast(factor, gradient.dtype) for gradient in gradients]


def _may_overflow(optimizer, sync):
    """The loss scale halves at each overflow until the gradients fit; below 1 the true gradients are infinite."""
    if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return False
    sync()
    return float(ops.convert_to_numpy(optimizer.dynamic_scale.value)) >= 1.0
