"""Has a process of its own load every hostile entry and checkpoint, and reads what it found."""

import json
import os
import subprocess
import sys
from pathlib import Path

from convert.hostile_checkpoints import CHECKPOINTS, write_hostile_checkpoint
from zoo.hostile_entries import HOSTILE, make
from zoo.tiny_bert import tiny_classifier, tiny_mask_filler, write_tiny
from zoo.tiny_entry import write_tiny_entry
from zoo.tiny_gpt import write_byte_level

NAMES = (*HOSTILE, *CHECKPOINTS)
PROGRAM = Path(__file__).with_name("watched_loading.py")
ROOT = Path(__file__).parents[2]
LONGEST = 600  # seconds for all of them together


def write_bases(folder):
    """Writes sound entries below a folder: dict from name to folder."""
    write_tiny_entry(folder / "translator")
    write_tiny(folder / "filler", tiny_mask_filler().model)
    judge = tiny_classifier()
    write_tiny(folder / "judge", judge.model, task=judge.task)
    write_byte_level(folder / "writer")
    return {path.name: path for path in folder.iterdir()}


def watched_reports(bases, place):
    """Writes all hostile entries and checkpoints below the folder `place` and has them loaded.

    Returns:
        Dict from the name of each to its report, see `watched_loading`; of the sound ones too.

    Raises:
        AssertionError: if the process failed or hung, or left or took a file.
    """
    (place / "hostile").mkdir()
    for number, name in enumerate(HOSTILE):
        outside = place / "outside" / str(number)
        outside.mkdir(parents=True)
        os.mkfifo(outside / "secret")
        make(name, bases, place / "hostile" / name.replace("/", " "), outside)
    for name in CHECKPOINTS:
        write_hostile_checkpoint(name, place / "hostile" / name)
    before = sorted(place.rglob("*"))
    command = [sys.executable, PROGRAM, bases["filler"].parent, place / "hostile"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "cwd": place, "env": environment}
    done = subprocess.run(command, timeout=LONGEST, **options)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert sorted(place.rglob("*")) == before
    return {report["name"]: report for report in map(json.loads, done.stdout.splitlines())}
