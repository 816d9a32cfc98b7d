"""The settings that all recipes share: where and how to run, not what to train."""

from dataclasses import dataclass

from keras_attention.training.distribution import STRATEGIES
from keras_attention.training.flags import setting


@dataclass(frozen=True)
class RunSettings:
    """A base for the `Config` of a recipe."""

    strategy: str = setting(
        "auto", "devices: none (one), mirrored (all here), multiworker; or what is there", STRATEGIES
    )
    accumulate: int = setting(1, "parts in which each batch is computed, one after the other, to save memory")
    resume: bool = setting(False, "go on from the last checkpoint of the same run")
    restart: bool = setting(False, "start anew where checkpoints of an unfinished run stand")
    overwrite: bool = setting(False, "replace the trained model that stands at --out")
    smoke: bool = setting(False, "tiny and hardly trained, from end to end")
    debug: bool = setting(False, "show the traceback of an error")

    @property
    def running(self):
        """Those that are arguments of `trainer.train`, as a dict."""
        return {name: getattr(self, name) for name in ("accumulate", "resume", "restart")}
