"""Learning rates that warm up linearly and then fall."""

import math

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_attention")
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """Warms up linearly to `peak`, then falls with the square root of the step.

        rate(s) = peak * min(n / warmup_steps, sqrt(warmup_steps / n)),  n = s + 1

    Args:
        peak: float > 0, the highest rate.
        warmup_steps: int > 0, updates until the peak is reached.

    Raises:
        ValueError: if an argument is out of range.

    Source: Vaswani et al. (2017), section 5.3, equation 3, with the peak given directly instead of through the
    model's width. Keras counts updates from 0 and the paper from 1, hence n.
    """

    def __init__(self, peak, warmup_steps):
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

    `progress` goes from 0 at the peak to 1 at `total_steps`, and the rate stays at `floor` from there on.

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

    def __init__(self, peak, warmup_steps, total_steps):
        _check_positive("peak", peak)
        _check_steps(warmup_steps, total_steps)
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps

    def __call__(self, step):
        number = ops.cast(step, "float32") + 1.0
        left = (self.total_steps - number) / (self.total_steps - self.warmup_steps)
        return self.peak * ops.maximum(ops.minimum(number / max(self.warmup_steps, 1), left), 0.0)

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps, "total_steps": self.total_steps}


def make_schedule(name, peak, warmup_steps, total_steps):
    """Returns the schedule of a training, its warm-up at most half of the updates.

    Args:
        name: str, "cosine", which falls to 2 % of the peak, or "inverse_square_root".
        peak: float > 0.
        warmup_steps: int >= 0.
        total_steps: int > 0.

    Raises:
        ValueError: if there is no schedule of that name, or a number is out of range.
    """
    warmup_steps = max(1, min(warmup_steps, total_steps // 2))
    if name == "cosine":
        return CosineDecay(peak, warmup_steps, max(total_steps, 2), floor=0.02 * peak)
    if name == "inverse_square_root":
        return InverseSquareRoot(peak, warmup_steps)
    raise ValueError(f'`name` must be "cosine" or "inverse_square_root". Received: name={name!r}')


def _check_steps(warmup_steps, total_steps):
    if warmup_steps < 0:
        raise ValueError(f"`warmup_steps` must not be negative. Received: warmup_steps={warmup_steps}")
    if total_steps <= warmup_steps:
        raise ValueError(
            "`total_steps` must be greater than `warmup_steps`. "
            f"Received: total_steps={total_steps}, warmup_steps={warmup_steps}"
        )


def _check_positive(name, value):
    if value <= 0:
        raise ValueError(f"`{name}` must be positive. Received: {name}={value}")
