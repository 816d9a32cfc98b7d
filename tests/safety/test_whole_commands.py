"""Whole commands, with TensorFlow and all that they compute, killed at some of their operations and given again.

`test_crashes.py` tries every operation, with prepared answers; here is what could differ: HDF5's and TensorFlow's own
writers, real trainings and their checkpoints.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from safety.faults import COMPILER, COUNT, KILL, library
from zoo.tiny_entry import write_tiny_entry

from keras_attention.zoo.entry import read_entry

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(COMPILER is None, reason="faults.c needs a C compiler")]
ROOT = Path(__file__).parents[2]
RECIPES = {name: [f"{ROOT}/recipes/{name}.py", "--smoke", "--out=mine", "--overwrite"] for name in
           ("rnn_attention", "transformer", "bert_pretrain", "bert_finetune")}  # fmt: skip
COMMANDS = {
    **RECIPES,
    "finetune": ["-m", "keras_attention", "finetune", "table.csv", "--text", "text", "--label", "label", "--from",
                 "none", "--size", "tiny", "--epochs", "2", "--out", "mine", "--overwrite"],
    "export": ["-m", "keras_attention", "export", "model", "mine"],
}  # fmt: skip
TRAINS = [*RECIPES, "finetune"]
KILLED = -9


def run(folder, name, *flags, at=None):
    """Runs a command below a folder; returns its exit code, the number of its operations, and what it told."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "LD_PRELOAD": str(library())}
    count = folder.with_name("count")
    faults = {"FOLDER": folder, "MODE": KILL if at else COUNT, "AT": at or 0, "ERROR": 0, "COUNT": count}
    environment |= {f"FAULT_{key}": str(value) for key, value in faults.items()}
    command = [sys.executable, *COMMANDS[name], *flags]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, stdin=subprocess.DEVNULL
    )
    return done.returncode, int(count.read_text()) if count.exists() else 0, done.stderr


def new_folder(path):
    path.mkdir(parents=True)
    path = path.resolve()
    rows = "".join(f"a fine day {i},good\na poor day {i},bad\n" for i in range(20))
    (path / "table.csv").write_text("text,label\n" + rows)
    write_tiny_entry(path / "model")
    return path


def written(folder):
    """The folders that a command has written; an entry must be whole."""
    found = [path for path in folder.iterdir() if path.is_dir() and path.name != "model"]
    for path in found:
        if (path / "manifest.json").exists():
            read_entry(path)
    return sorted(path.name for path in found)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_whole_command_is_killed_and_given_again(tmp_path, name):
    whole = new_folder(tmp_path / "whole" / "here")
    code, operations, told = run(whole, name)
    assert code == 0, told[-2000:]
    assert operations > 50
    for share in (0.2, 0.6, 0.97):
        folder = new_folder(tmp_path / f"killed at {share}" / "here")
        code, *_ = run(folder, name, at=int(share * operations))
        assert code == KILLED
        written(folder)
        flags = ("--resume",) if name in TRAINS else ()
        code, _, told = run(folder, name, *flags)
        assert code == 0 or (name == "export" and "exists already" in told), told[-2000:]
        assert written(folder) == written(whole)
        names = [sorted(path.name for path in place.iterdir()) for place in (folder, whole)]
        assert names[0] == names[1]
