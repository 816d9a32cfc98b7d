"""Settings that all recipes share: where and how to run, not what to learn."""

from dataclasses import dataclass

from keras_attention.flags import setting

STRATEGIES = ("auto", "none", "mirrored", "multiworker")


@dataclass(frozen=True)
class AccelerationSettings:
    """How a training computes; what they leave open, `training.devices` chooses."""

    mixed_precision: bool | None = setting(None, "compute in bfloat16; default: where the device gains by it")
    jit_compile: bool | None = setting(None, "compile whole steps with XLA; default: where the device gains by it")


@dataclass(frozen=True)
class RunSettings(AccelerationSettings):
    """A base for the `Config` of a recipe; see `training.session`, which acts on them."""

    seed: int = setting(1, "weights, dropout and order of the batches")
    out: str = setting("", "folder of the trained model")
    weights: str = setting("", "take these weights, trained with --encoded, instead of training")
    strategy: str = setting(
        "auto", "devices: none (one), mirrored (all here), multiworker; or what is there", STRATEGIES
    )
    accumulate: int = setting(1, "parts in which each batch is computed, one after the other, to save memory")
    log_dir: str = setting("", "folder for TensorBoard")
    resume: bool = setting(False, "go on from the last checkpoint of the same run")
    restart: bool = setting(False, "start anew where checkpoints of an unfinished run stand")
    overwrite: bool = setting(False, "replace the trained model that stands at --out")
    smoke: bool = setting(False, "tiny and hardly trained, from end to end")
    debug: bool = setting(False, "show the traceback of an error")
