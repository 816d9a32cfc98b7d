"""A ceiling of time: fewer epochs and fewer pairs of texts where the usual ones would take longer."""

import json
import os
import time
from pathlib import Path
from typing import NamedTuple

from keras_attention.finetuning.contrastive import CONTRASTIVE, ON_LABELS
from keras_attention.support.atomic_files import whole_file
from keras_attention.support.cores import available_cores
from keras_attention.support.errors import UserError
from keras_attention.training.devices import CPU, find_device

USUAL_MINUTES = 10.0
COMPILE_SECONDS = 10.0
UPDATE_TO_READ = 4.0  # ratio of the time of an update to that of a forward pass
LEAST_PAIRS = 1_000  # with fewer, the contrastive training is left out
MIXES = 4  # of weights, each of which reads the validation rows or, in contrastive training alone, all rows


class Plan(NamedTuple):
    """The sizes of a training; a function of the rows, the settings and one measured time.

    Attributes:
        epochs: int, of the training on labels; 0 if there is none.
        pairs: int, of the contrastive training; 0 if there is none.
    """

    epochs: int
    pairs: int

    @property
    def stages(self):
        """tuple of str, see `contrastive.stages_for`."""
        return (CONTRASTIVE,) * (self.pairs > 0) + (ON_LABELS,) * (self.epochs > 0)


class Stopwatch:
    """Measures seconds as two quiet cores would need them: on a CPU, the CPU seconds of this process for each core.

    Other processes on the same cores do not count, so that they do not shorten the training.
    """

    def __init__(self):
        self._cpu = find_device() == CPU
        self._began = self._now()

    def _now(self):
        return time.process_time() / available_cores() if self._cpu else time.perf_counter()

    @property
    def seconds(self):
        """float, since the start."""
        return self._now() - self._began


def seconds_of(plan, seconds_per_text, rows, held, compiled=False):
    """The estimated seconds of a training at most: float.

    Args:
        plan: Plan.
        seconds_per_text: float, of a forward pass.
        rows, held: int, numbers of training and validation rows.
        compiled: bool. Whether XLA compiles each stage.
    """
    texts = plan.epochs * (UPDATE_TO_READ * rows + MIXES * held) + UPDATE_TO_READ * 2 * plan.pairs
    if plan.pairs:
        texts += (rows + held) * (1 if plan.epochs else MIXES)
    return texts * seconds_per_text + COMPILE_SECONDS * len(plan.stages) * compiled


def plan_within(usual, seconds, seconds_of_plan, fixed_epochs=False):
    """The Plan for a ceiling: first fewer epochs, but one at least, then fewer pairs, then no pairs.

    Args:
        usual: Plan.
        seconds: float, the ceiling.
        seconds_of_plan: callable(Plan) -> float, see `seconds_of`.
        fixed_epochs: bool. Whether the user chose the number of epochs.

    Returns:
        Plan. It may exceed the ceiling if one epoch does.
    """
    plan = usual
    while plan.epochs > 1 and not fixed_epochs and seconds_of_plan(plan) > seconds:
        plan = plan._replace(epochs=plan.epochs - 1)
    if not plan.pairs or seconds_of_plan(plan) <= seconds:
        return plan
    without, each = seconds_of_plan(plan._replace(pairs=1)), seconds_of_plan(plan._replace(pairs=2))
    pairs = int(1 + (seconds - without) / max(each - without, 1e-12))
    if pairs < min(LEAST_PAIRS, plan.pairs):
        return plan._replace(pairs=0) if plan.epochs else plan._replace(pairs=min(LEAST_PAIRS, plan.pairs))
    return plan._replace(pairs=min(pairs, plan.pairs))


def plan_path(checkpoint_dir):
    """The file beside a folder of checkpoints in which the Plan of a training is stored: Path."""
    folder = Path(checkpoint_dir)
    return folder.with_name(f"{folder.name}_plan.json")


def stored_plan(path, usual):
    """The Plan of the training that is resumed; `usual` if none is stored.

    Raises:
        UserError: if the file is damaged.
    """
    if not path.exists():
        return usual
    try:
        with open(path, encoding="utf-8") as file:
            content = json.loads(file.read(1000))
        plan = Plan(content["epochs"], content["pairs"])
        if not all(type(now) is int and 0 <= now <= most for now, most in zip(plan, usual, strict=True)):
            raise ValueError
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged or of another training. Begin anew with --restart.") from error
    return plan


def store_plan(path, plan, usual):
    """Writes the Plan of a new training if it differs from the usual one, and removes that of an earlier training."""
    if plan != usual:
        with whole_file(path) as file:
            json.dump(plan._asdict(), file)
    elif path.exists():
        os.remove(path)
