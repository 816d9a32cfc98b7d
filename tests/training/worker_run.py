"""A training of a few seconds as one of several workers, one of which may be killed: `worker_run.py FOLDER [flags]`."""

import argparse
import hashlib
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
from training.tiny_run import TinyBatches, arrays_of, run, untimed

from keras_attention.cli.main import guarded
from keras_attention.training import devices


class FatalBatches(TinyBatches):
    """Kills its process before a step, counted from 0 over all epochs, once for a folder."""

    def __init__(self, fatal_step, once):
        super().__init__()
        self.fatal_step = fatal_step
        self.once = once

    def epoch(self, epoch):
        batches, sequence = self, super().epoch(epoch)

        class Epoch(type(sequence)):
            def __getitem__(self, step):
                if epoch * batches.steps + step == batches.fatal_step and not batches.once.exists():
                    batches.once.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().__getitem__(step)

        return Epoch(self, epoch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--victim", type=int, help="number of the worker that is killed")
    parser.add_argument("--fatal-step", type=int, default=18, help="of the 28")
    parser.add_argument("--resume", action="store_true")
    flags = parser.parse_args()
    devices.use_strategy("auto")
    worker = devices.workers().index
    fatal = FatalBatches(flags.fatal_step, flags.folder / "killed")
    batches = fatal if worker == flags.victim else TinyBatches()
    given = {"epochs": 4, "checkpoint_dir": flags.folder / "checkpoints", "checkpoint_every": 3, "resume": flags.resume}
    result, model, optimizer = run(batches=batches, average_last=2, **given)
    weights = b"".join(np.ascontiguousarray(v.numpy()).tobytes() for v in model.trainable_variables)
    end = {"sha256": hashlib.sha256(weights).hexdigest(), "history": untimed(result.history)}
    (flags.folder / f"end-{worker}.json").write_text(json.dumps(end))
    if devices.chief_goes_on():
        (flags.folder / "alone.json").write_text(json.dumps([array.shape for array in arrays_of(model, optimizer)]))


if __name__ == "__main__":
    sys.exit(guarded(main, "worker_run.py", "--debug" in sys.argv))
