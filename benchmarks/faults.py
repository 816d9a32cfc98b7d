"""What a training survives: kill -9, a full disk, damaged checkpoints, the death of a worker; all compared bit by bit.

    python benchmarks/faults.py                                              # half an hour on two cores
    python benchmarks/faults.py --kills 5 --full-disks 2 --damages 3 --workers 1

Each training is a process of its own: a small Transformer with dropout, which writes a checkpoint after every step. It
is killed at a random moment, every second time while a checkpoint is being written. A full disk is simulated by a limit
on the size of files, at a random byte. Damage is done to a file of the newest checkpoint. Afterwards, the training is
resumed, and weights, optimizer and random states must equal those of an undisturbed training. In a training with two
workers, one of them is killed before a random step, and the launcher restarts both. Exits with 1 if any result differs.
"""

import argparse
import hashlib
import itertools
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT), str(ROOT / "tests")]

from training.damages import DAMAGES  # noqa: E402

from keras_attention.cli.main import guarded  # noqa: E402
from keras_attention.support.errors import UserError  # noqa: E402
from keras_attention.training import checkpoints  # noqa: E402

EPOCHS, STEPS, VOCABULARY, ROWS, LENGTH = 3, 7, 29, 8, 5
FORKSERVER = multiprocessing.get_context("forkserver")  # has the libraries loaded, and has computed nothing


class CopyBatches:
    """Batches of a copying task, a pure function of the epoch."""

    def __init__(self, pause):
        self.pause = pause

    def epoch(self, epoch):
        batches = self

        class Epoch:
            def __len__(self):
                return STEPS

            def __getitem__(self, step):
                time.sleep(batches.pause)
                ids = np.random.default_rng((epoch, step)).integers(4, VOCABULARY, (ROWS, LENGTH)).astype("int32")
                return {"source_ids": ids, "target_ids": np.roll(ids, 1, axis=1), "labels": ids}

        return Epoch()


def train_to_the_end(folder, answer, pause=0.0, file_limit=None):
    """Trains, or resumes the training, and sends the sha256 of all variables, or the error message for the user."""
    if file_limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that a write fails as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    warnings.simplefilter("ignore")  # about checkpoints that are skipped
    import keras

    from keras_attention.models import Transformer
    from keras_attention.training.losses import token_cross_entropy
    from keras_attention.training.run import RunSettings
    from keras_attention.training.session import Session

    keras.utils.set_random_seed(3)
    sizes = {"hidden_dim": 24, "intermediate_dim": 41, "num_heads": 3, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = Transformer(VOCABULARY, VOCABULARY, **sizes, dropout=0.3)
    model.build()
    optimizer = keras.optimizers.Adam(1e-3)

    def loss(model, inputs, labels):
        return token_cross_entropy(labels, model(inputs, training=True))

    run = RunSettings(resume=True, jit_compile=False)
    session = Session(run, checkpoint_dir=folder, checkpoint_every=1, verbose=0)
    update = session.compile(model, optimizer, loss, average_last=2)
    try:
        with session:
            for epoch in session.epochs(CopyBatches(pause), EPOCHS):
                for batch in epoch:
                    epoch.record(update(batch))
    except UserError as error:
        answer.send(str(error))
        sys.exit(2)
    arrays = [np.ascontiguousarray(v.numpy()) for v in (*model.variables, *optimizer.variables)]
    answer.send(hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest())


def start(folder, *arguments):
    """Starts a training; returns its process and the connection for its answer."""
    answer, theirs = FORKSERVER.Pipe(duplex=False)
    process = FORKSERVER.Process(target=train_to_the_end, args=(folder, theirs, *arguments))
    process.start()
    theirs.close()
    return process, answer


def finish(folder, *arguments):
    """Trains to the end; returns the exit code and the answer."""
    process, answer = start(folder, *arguments)
    message = answer.recv()
    process.join()
    return process.exitcode, message


def kill(folder, chance, while_writing):
    """Kills a training at a random instant; returns whether it was writing a checkpoint."""
    process, _ = start(folder, 0.02)
    first = chance.randrange(1, EPOCHS * STEPS - 2)
    while not any(path.name >= f"step-{first:09d}" for path in folder.glob("step-*")):
        if not process.is_alive():
            raise RuntimeError("The training ended before it could be killed.")
        time.sleep(1e-3)
    if while_writing:
        while process.is_alive() and not any(folder.glob("unfinished-step-*")):
            time.sleep(1e-4)
        time.sleep(chance.uniform(0, 0.003))
    else:
        time.sleep(chance.uniform(0, 0.05))
    process.kill()
    process.join()
    return any(folder.glob("unfinished-step-*"))


def fill_disk(folder, chance):
    """Resumes a training on a full disk; returns whether it reports this and keeps the previous checkpoint."""
    process, _ = start(folder, 0.02)
    while len(list(folder.glob("step-*"))) < 2:
        time.sleep(0.001)
    process.kill()
    process.join()
    before = checkpoints.latest_valid(folder)
    size = (before / checkpoints.ARRAYS).stat().st_size
    code, message = finish(folder, 0.0, chance.randrange(1, size))
    return code == 2 and "could not be written" in message and checkpoints.latest_valid(folder) == before


FILES = [checkpoints.ARRAYS, checkpoints.STATE, checkpoints.MANIFEST]


def damage(folder, harm, name):
    """Kills a training, and damages a file of its newest checkpoint."""
    process, _ = start(folder, 0.02)
    while len(list(folder.glob("step-*"))) < 2:
        time.sleep(0.001)
    process.kill()
    process.join()
    harm(max(folder.glob("step-*")) / name)


def train_workers(folder, *flags):
    """Trains with two workers, started by the launcher; returns its exit code and the final files of the workers."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    launcher = [sys.executable, "-P", "-m", "keras_attention", "launch", "--workers", "2", "--max-restarts", "1", "--"]
    command = [*launcher, str(ROOT / "tests" / "training" / "worker_run.py"), str(folder), *flags]
    code = subprocess.run(command, env=environment, capture_output=True, timeout=600).returncode
    return code, [path.read_bytes() for path in sorted(folder.glob("end-*.json"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--full-disks", type=int, default=20)
    parser.add_argument("--damages", type=int, default=len(DAMAGES) * len(FILES), help="number of damages, at most 24")
    parser.add_argument("--workers", type=int, default=5, help="how often a worker is killed")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    FORKSERVER.set_forkserver_preload(["keras_attention.models", "keras_attention.training.session", "tensorflow"])
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as root:
        folders = (Path(root) / str(number) for number in itertools.count())
        _, expected = finish(next(folders))

        def resumed(folder):
            return finish(folder) == (0, expected)

        killed = [(kill(folder := next(folders), chance, i % 2), resumed(folder)) for i in range(arguments.kills)]
        writing, same = sum(inside for inside, _ in killed), sum(equal for _, equal in killed)
        print(f"kill -9: {same} of {len(killed)} end with the same bits, {writing} were killed in a write", flush=True)
        full = [fill_disk(folder := next(folders), chance) and resumed(folder) for _ in range(arguments.full_disks)]
        print(
            f"full disk: {sum(full)} of {len(full)} are told, keep the checkpoint, end with the same bits", flush=True
        )
        cases = list(itertools.product(DAMAGES, FILES))[: arguments.damages]
        harmed = [damage(folder := next(folders), *case) or resumed(folder) for case in cases]
        print(f"damaged checkpoint: {sum(harmed)} of {len(harmed)} end with the same bits", flush=True)
        deaths = [(f"--victim={i % 2}", f"--fatal-step={chance.randrange(1, 28)}") for i in range(arguments.workers)]
        undisturbed = train_workers(next(folders)) if deaths else None
        lost = [train_workers(next(folders), *death) == undisturbed for death in deaths]
        print(f"worker killed: {sum(lost)} of {len(lost)} start again and end with the same bits")
    return int(same + sum(full) + sum(harmed) + sum(lost) < len(killed) + len(full) + len(harmed) + len(lost))


if __name__ == "__main__":
    sys.exit(guarded(main, "faults.py"))
