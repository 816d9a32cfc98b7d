"""Settings that all recipes share: where and how to run, not what to learn."""

from dataclasses import dataclass

from keras_attention.flags import setting

STRATEGIES = ("auto", "none", "mirrored", "multiworker")


@dataclass(frozen=True)
class AccelerationSettings:
    """Number format and compiler; `training.devices` chooses for settings that are None."""

    mixed_precision: bool | None = setting(None, "compute in bfloat16; default: if that is faster on the device")
    jit_compile: bool | None = setting(None, "compile whole steps with XLA; default: if that is faster on the device")


@dataclass(frozen=True)
class RunSettings(AccelerationSettings):
    """Base class for the `Config` of a recipe: the settings that `training.session` uses."""

    seed: int = setting(1, "random seed of weights, dropout and order of the batches")
    out: str = setting("", "folder of the trained model")
    weights: str = setting("", "use these weights, trained with --encoded, instead of training")
    strategy: str = setting(
        "auto",
        "none: one device; mirrored: all devices of this machine; multiworker: several processes; auto: by the devices",
        STRATEGIES,
    )
    accumulate: int = setting(1, "number of parts in which each batch is computed, to save memory")
    log_dir: str = setting("", "folder for TensorBoard")
    resume: bool = setting(False, "continue from the last checkpoint of the same run")
    restart: bool = setting(False, "start from the beginning although checkpoints exist")
    overwrite: bool = setting(False, "replace the trained model in --out")
    smoke: bool = setting(False, "run the whole recipe in seconds with a tiny model")
    debug: bool = setting(False, "show the traceback of an error")
