"""Stops a training whose numbers have become NaN or infinite."""

import math

import keras

from keras_attention.errors import UserError


class TrainingDivergedError(UserError):
    """The training became NaN or infinite; the message names the epoch, the step and what was not finite."""


def check_finite(result, optimizer, *, epoch, step):
    """Raises unless the update was sound or is an overflow that float16 training recovers from by itself.

    Args:
        result: `StepResult` of the step.
        optimizer: the optimizer that made it.
        epoch, step: ints counted from 1, for the message.

    Raises:
        TrainingDivergedError: if loss or gradient norm is not finite.
    """
    loss = float(result.loss_sum)
    norm = float(result.gradient_norm)
    if math.isfinite(loss) and math.isfinite(norm):
        return
    # The loss scale halves at each overflow until the gradients fit; below 1 the true gradients are infinite.
    scales_loss = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    if math.isfinite(loss) and scales_loss and float(optimizer.dynamic_scale.value) >= 1.0:
        return
    what = f"the gradient norm is {norm}" if math.isfinite(loss) else f"the loss is {loss}"
    raise TrainingDivergedError(
        f"Training diverged in epoch {epoch}, step {step}: {what}. The update was not applied and nothing was saved. "
        "Expected finite numbers: try a lower learning rate, a longer warm-up or gradient clipping."
    )
