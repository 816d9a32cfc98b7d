"""How a training computes, as settings: what they leave open, `training.acceleration` chooses."""

from dataclasses import dataclass

from keras_attention.training.flags import setting


@dataclass(frozen=True)
class AccelerationSettings:
    """A base for settings of a training."""

    mixed_precision: bool | None = setting(None, "compute in bfloat16; default: where the device gains by it")
    jit_compile: bool | None = setting(None, "compile whole steps with XLA; default: where the device gains by it")
