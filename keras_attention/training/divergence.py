"""Stops a training whose numbers have become NaN or infinite."""

import math

import keras

from keras_attention.errors import UserError


class TrainingDivergedError(UserError):
    """The training became NaN or infinite; the message names the epoch, the step and what was not finite."""


def check_finite(result, optimizer, sync, *, epoch, step):
    """Raises unless the update was sound or is an overflow that float16 training recovers from by itself.

    Args:
        result: `StepResult` of the step.
        optimizer: the optimizer that made it.
        sync: callable that brings the optimizer's variables up to date; only called after an overflow.
        epoch, step: ints counted from 1, for the message.

    Raises:
        TrainingDivergedError: if loss, gradient norm or weights are not finite.
    """
    loss = float(result.loss_sum)
    gradient_norm = float(result.gradient_norm)
    if not math.isfinite(loss):
        what = f"the loss is {loss}"
    elif not math.isfinite(float(result.weight_norm)):
        what = f"the norm of the weights is {float(result.weight_norm)}"
    elif not math.isfinite(gradient_norm) and not _may_overflow(optimizer, sync):
        what = f"the gradient norm is {gradient_norm}"
    else:
        return
    raise TrainingDivergedError(
        f"Training diverged in epoch {epoch}, step {step}: {what}. Nothing was saved since. "
        "Expected finite numbers: try a lower learning rate, a longer warm-up or gradient clipping."
    )


def _may_overflow(optimizer, sync):
    """The loss scale halves at each overflow until the gradients fit; below 1 the true gradients are infinite."""
    if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return False
    sync()
    return float(keras.ops.convert_to_numpy(optimizer.dynamic_scale.value)) >= 1.0
