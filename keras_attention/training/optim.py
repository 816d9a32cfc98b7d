"""Learning rate schedules, layer-wise learning rates, weight averaging, and the optimizer Muon."""

import contextlib
import math
import re
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.support.keras_private import check_overridden


@keras.saving.register_keras_serializable(package="keras_attention")
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """Warms up linearly to `peak`, then falls with the square root of the step.

        rate(s) = peak * min(n / warmup_steps, sqrt(warmup_steps / n)),  n = s + 1

    Args:
        peak: float > 0, the highest rate.
        warmup_steps: int > 0, updates until the peak is reached.

    Raises:
        ValueError: if an argument is out of range.

    Source: Vaswani et al. (2017), section 5.3, equation 3. The peak is an argument here; in the paper it follows from
    the width of the model. Keras counts updates from 0 and the paper from 1, hence n.
    """

    def __init__(self, peak: float, warmup_steps: int):
        _check_positive("peak", peak)
        _check_positive("warmup_steps", warmup_steps)
        self.peak = peak
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        number = ops.cast(step, "float32") + 1.0
        return self.peak * ops.minimum(number / self.warmup_steps, ops.sqrt(self.warmup_steps / number))

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}


@keras.saving.register_keras_serializable(package="keras_attention")
class CosineDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Warms up linearly to `peak`, then follows half a cosine down to `floor`.

        rate(s) = peak * n / warmup_steps                                    while n = s + 1 <= warmup_steps
        rate(s) = floor + (peak - floor) * (1 + cos(pi * progress)) / 2      afterwards

    `progress` goes from 0 at the peak to 1 at `total_steps`; after that, the rate stays at `floor`.

    Args:
        peak: float > 0, the highest rate.
        warmup_steps: int >= 0, updates until the peak is reached.
        total_steps: int > warmup_steps, updates until the floor is reached.
        floor: float in [0, peak], the last rate.

    Raises:
        ValueError: if an argument is out of range.

    Source: Loshchilov & Hutter (2017), equation 5, one cycle; the linear warm-up is not in the paper.
    """

    def __init__(self, peak, warmup_steps, total_steps, floor=0.0):
        _check_positive("peak", peak)
        _check_steps(warmup_steps, total_steps)
        if not 0.0 <= floor <= peak:
            raise ValueError(f"`floor` must be in [0, peak]. Received: floor={floor}, peak={peak}")
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps
        self.floor = floor

    def __call__(self, step):
        number = ops.cast(step, "float32") + 1.0
        warm_up = self.peak * number / max(self.warmup_steps, 1)
        progress = (number - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        cosine = ops.cos(math.pi * ops.clip(progress, 0.0, 1.0))
        decay = self.floor + (self.peak - self.floor) * 0.5 * (1.0 + cosine)
        return ops.where(number <= self.warmup_steps, warm_up, decay)

    def get_config(self):
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
            "floor": self.floor,
        }


@keras.saving.register_keras_serializable(package="keras_attention")
class LinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Warms up linearly to `peak`, then falls linearly to 0.

        rate(s) = peak * min(n / warmup_steps, (total_steps - n) / (total_steps - warmup_steps)),  n = s + 1

    Args:
        peak: float > 0, the highest rate.
        warmup_steps: int >= 0, updates until the peak is reached.
        total_steps: int > warmup_steps, updates until the rate is 0.

    Raises:
        ValueError: if an argument is out of range.

    Source: Devlin et al. (2019), appendix A.2; Keras counts updates from 0, hence n.
    """

    def __init__(self, peak: float, warmup_steps: int, total_steps: int):
        _check_positive("peak", peak)
        _check_steps(warmup_steps, total_steps)
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps

    def __call__(self, step):
        number = ops.cast(step, "float32") + 1.0
        decay = (self.total_steps - number) / (self.total_steps - self.warmup_steps)
        return self.peak * ops.maximum(ops.minimum(number / max(self.warmup_steps, 1), decay), 0.0)

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps, "total_steps": self.total_steps}


def make_schedule(name, peak, warmup_steps, total_steps):
    """Makes a schedule by name. The warm-up is limited to half of the updates.

    Args:
        name: str, "cosine", which decays to 2 % of the peak, or "inverse_square_root".
        peak: float > 0.
        warmup_steps: int >= 0.
        total_steps: int > 0.

    Raises:
        ValueError: if there is no schedule with this name, or a number is out of range.
    """
    _check_positive("total_steps", total_steps)
    _check_not_negative("warmup_steps", warmup_steps)
    warmup_steps = max(1, min(warmup_steps, total_steps // 2))
    if name == "cosine":
        return CosineDecay(peak, warmup_steps, max(total_steps, 2), floor=0.02 * peak)
    if name == "inverse_square_root":
        return InverseSquareRoot(peak, warmup_steps)
    raise ValueError(f'`name` must be "cosine" or "inverse_square_root". Received: name={name!r}')


@keras.saving.register_keras_serializable(package="keras_attention")
class LayerWiseAdamW(keras.optimizers.AdamW):
    """AdamW with a learning rate factor for each weight.

        w <- w - learning_rate (factor(w) m / (sqrt(v) + epsilon) + weight_decay w)

    The lower layers of a pre-trained network are more general than the upper ones and need smaller updates.

    Args:
        learning_rate: float or schedule.
        factors: dict from the path of a variable to a float > 0; the default factor is 1.
        weight_decay: float >= 0.
        **kwargs: further arguments of `keras.optimizers.AdamW`.

    Source: Loshchilov & Hutter (2019), algorithm 2; factors: Howard & Ruder (2018), section 3.2, "discriminative
    fine-tuning", which uses plain gradient descent.
    """

    def __init__(self, learning_rate, factors, weight_decay=0.01, **kwargs):
        super().__init__(learning_rate, weight_decay=weight_decay, **kwargs)
        self.factors = dict(factors)

    def build(self, variables):
        super().build(variables)
        self._factor_by_index = [self.factors.get(variable.path, 1.0) for variable in variables]

    def update_step(self, gradient, variable, learning_rate):
        factor = self._factor_by_index[self._get_variable_index(variable)]  # on TensorFlow, `variable` has no path
        super().update_step(gradient, variable, learning_rate * factor)

    def get_config(self):
        return {**super().get_config(), "factors": self.factors}


def layer_factors(layers, decay):
    """Learning rate factors that increase from layer to layer: decay^n for the n-th layer from the top.

    Args:
        layers: list of lists of variables, from the lowest layer to the highest. Variables above them have factor 1.
        decay: float in (0, 1]. Factor of the highest layer, and ratio of each layer's factor to that of the next layer.

    Returns:
        dict from path to factor, for `LayerWiseAdamW`.

    Raises:
        ValueError: if `decay` is out of range.
    """
    if not 0 < decay <= 1:
        raise ValueError(f"`decay` must be in (0, 1]. Received: decay={decay}")
    depth = len(layers)
    return {v.path: decay ** (depth - i) for i, variables in enumerate(layers) for v in variables}


class LastWeights:
    """Stores the weights at the end of the last `count` epochs and averages them.

    Args:
        count: int > 0, number of epochs.

    Raises:
        ValueError: if `count` is not positive.

    Source: Vaswani et al. (2017), section 6.1. The paper averages checkpoints; we average epochs.
    """

    def __init__(self, count):
        if count < 1:
            raise ValueError(f"`count` must be a positive integer. Received: count={count}")
        self.count = count
        self.snapshots = []  # oldest first; each a list of arrays in the order of the trainable variables

    def add(self, model):
        """Stores a copy of the trainable variables; keeps only the newest `count` copies."""
        self.snapshots = [*self.snapshots, copy_weights(model)][-self.count :]

    def average(self):
        """The mean of the stored weights, a list of arrays, computed in float64; None if nothing is stored yet."""
        if not self.snapshots:
            return None
        return [np.mean(arrays, axis=0, dtype="float64") for arrays in zip(*self.snapshots, strict=True)]


def use_exponential_average(optimizer, decay):
    """Makes the optimizer maintain an exponential average: `average = decay * average + (1 - decay) * weights`.

    The first update sets the average to the weights. Checkpoints contain the average, as part of `optimizer.variables`.

    Args:
        optimizer: `keras.Optimizer` that has not been built yet.
        decay: float in (0, 1).

    Raises:
        ValueError: if `decay` is out of range or the optimizer has been built.
    """
    if not 0.0 < decay < 1.0:
        raise ValueError(f"`ema_decay` must be in (0, 1). Received: ema_decay={decay}")
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    if optimizer.built:
        raise ValueError(f"`ema_decay` needs an optimizer that has not been used. Received: optimizer={optimizer.name}")
    optimizer.use_ema = True
    optimizer.ema_momentum = decay


def exponential_average(model, optimizer):
    """The exponential average of `optimizer`, a list of arrays, or None before the first update.

    See `use_exponential_average`.
    """
    if not getattr(optimizer, "inner_optimizer", optimizer).iterations.numpy():  # the average is still 0
        return None
    own = copy_weights(model)
    optimizer.finalize_variable_values(model.trainable_variables)
    average = copy_weights(model)
    assign_weights(model, own)
    return average


def copy_weights(model):
    """Copies the trainable variables into a list of arrays, in float32 or float64."""
    arrays = [v.numpy() for v in model.trainable_variables]
    return [array.astype(np.result_type(array.dtype, "float32"), copy=True) for array in arrays]


def assign_weights(model, arrays):
    """Assigns `arrays` to the trainable variables, in their order."""
    for variable, array in zip(model.trainable_variables, arrays, strict=True):
        variable.assign(array)


@contextlib.contextmanager
def averaged_weights(model, arrays):
    """Context manager: the model has the weights `arrays` inside the `with` and its own weights afterwards.

    Args:
        model: built `keras.Model`.
        arrays: list of arrays in the order of `model.trainable_variables`, or `None` to change nothing.
    """
    if arrays is None:
        yield model
        return
    own = copy_weights(model)
    assign_weights(model, arrays)
    try:
        yield model
    finally:
        assign_weights(model, own)


def _check_steps(warmup_steps, total_steps):
    _check_not_negative("warmup_steps", warmup_steps)
    if total_steps <= warmup_steps:
        raise ValueError(
            "`total_steps` must be greater than `warmup_steps`. "
            f"Received: total_steps={total_steps}, warmup_steps={warmup_steps}"
        )


def _check_not_negative(name, value):
    if value < 0:
        raise ValueError(f"`{name}` must not be negative. Received: {name}={value}")


def _check_positive(name, value):
    if value <= 0:
        raise ValueError(f"`{name}` must be positive. Received: {name}={value}")


@keras.saving.register_keras_serializable(package="keras_attention")
class Muon(keras.optimizers.Muon):
    """Orthogonalized momentum updates for kernels; AdamW for embeddings, biases and norms.

        m = beta m + g,    kernel -= rate * 0.2 sqrt(max(n, k)) * orthogonal(g + beta m)

    `orthogonal` replaces all singular values of a matrix (n, k) by about 1, with five Newton-Schulz iterations. Keras's
    optimizer supports matrices only. This optimizer also treats kernels with an axis of heads, such as (D, H, K) and
    (H, K, D), as matrices (D, H K) and (H K, D), and uses AdamW for biases with such an axis.

    Args:
        learning_rate: float > 0 or schedule, for kernels. The factor 0.2 sqrt(max(n, k)) makes their steps as large as
            AdamW's.
        weight_decay: float >= 0 or None, for all weights.
        adam_lr_ratio: float > 0. The learning rate of AdamW, as a multiple of that of the kernels.
        options: further arguments of `keras.optimizers.Muon`. AdamW updates the kernels whose path matches one of the
            regular expressions `exclude_layers`; `exclude_embeddings` has no effect.

    Source: Jordan et al. (2024), https://kellerjordan.github.io/posts/muon; factor and weight decay: Liu et al. (2025),
    https://arxiv.org/abs/2502.16982, equation 4. Difference: all heads of a kernel share one matrix.

    Example:
        optimizer = Muon(3e-3, weight_decay=0.1)
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 1e-3,
        weight_decay: float | None = 0.1,
        adam_lr_ratio: float = 0.5,
        **options: Any,
    ):
        check_overridden(keras.optimizers.Muon, "_should_use_adamw", "_muon_update_step", "_get_variable_index")
        options = {"adam_weight_decay": weight_decay, "adam_beta_2": 0.99} | options
        super().__init__(learning_rate, weight_decay=weight_decay, adam_lr_ratio=adam_lr_ratio, **options)
        self._matrices = {}

    def build(self, variables):
        def is_matrix(variable):
            return _is_kernel(variable) and not any(re.search(name, variable.path) for name in self.exclude_layers)

        self._matrices = {i: _matrix(v) for i, v in enumerate(variables) if is_matrix(v)}
        super().build(variables)

    def _should_use_adamw(self, variable):
        return self._get_variable_index(variable) not in self._matrices

    def _muon_update_step(self, gradient, variable, lr, m):
        self.assign_add(m, ops.add(gradient, m * (self.momentum - 1)))
        direction = ops.add(gradient, self.momentum * m) if self.nesterov else m
        matrix = ops.reshape(direction, self._matrices[self._get_variable_index(variable)])
        step = self.lr_adjust(lr * self.zeropower_via_newtonschulz5(matrix, self.ns_steps))
        self.assign_sub(variable, ops.reshape(step, variable.shape))


def _is_kernel(variable):
    return variable.path.endswith("kernel") and len(variable.shape) in (2, 3)


HEAD_PROJECTIONS = ("query", "key", "value")  # layers whose kernels are (D, H, K); all others are (..., outputs)


def _matrix(variable):
    """The shape (inputs, outputs) of a kernel: (D, H K) of a projection to heads, (H K, D) of one from heads."""
    *inputs, outputs = variable.shape
    layer = f"/{variable.path}".split("/")[-2]
    if layer in HEAD_PROJECTIONS and len(inputs) == 2:
        return inputs[0], inputs[1] * outputs
    return math.prod(inputs), outputs
