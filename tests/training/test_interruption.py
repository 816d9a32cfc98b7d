"""Trainings in processes of their own, killed, stopped or out of disk space, and then resumed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from training.tiny_run import TinyBatches, resumable, run

from keras_attention.training import checkpoints

PROGRAM = Path(__file__).parent / "tiny_run.py"
ROOT = Path(__file__).parents[2]


def start(folder, *flags):
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [sys.executable, str(PROGRAM), str(folder), *flags]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish_in_a_new_process(folder):
    out, err = start(folder).communicate(timeout=120)
    assert out, err
    return json.loads(out.splitlines()[-1])


def wait_for_step(process, folder, step):
    """Returns as soon as a checkpoint of at least that step is in its place."""
    while process.poll() is None:
        names = [path.name for path in folder.glob("step-*")]
        if any(name >= f"step-{step:09d}" for name in names):
            return
    raise AssertionError(process.communicate()[1])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return resumable(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.slow
@pytest.mark.parametrize("step", [11, *(pytest.param(step, marks=pytest.mark.thorough) for step in (2, 23))])
def test_a_killed_training_resumes_to_the_same_bits(tmp_path, undisturbed, step):
    process = start(tmp_path, "--pause", "0.01")
    wait_for_step(process, tmp_path, step)
    process.kill()  # at whatever instant that is: in a step, or in the middle of a checkpoint
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert checkpoints.latest_valid(tmp_path).name >= f"step-{step:09d}"
    resume = finish_in_a_new_process if step == 2 else resumable
    assert resume(tmp_path) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)])
def test_a_stopped_training_saves_and_prints_a_message(tmp_path, undisturbed, number):
    process = start(tmp_path, "--pause", "0.01", "--checkpoint_every", "3")
    wait_for_step(process, tmp_path, 3)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert f"KeyboardInterrupt: Training stopped by {number.name} in epoch" in err
    assert "checkpoint saved in" in err
    stopped_after = int(checkpoints.latest_valid(tmp_path).name.removeprefix("step-"))
    assert 3 <= stopped_after < 35
    assert resumable(tmp_path) == undisturbed


@pytest.mark.thorough
def test_a_full_disk_leaves_the_last_checkpoint_whole(tmp_path, undisturbed):
    run(batches=TinyBatches(), max_steps=11, checkpoint_dir=tmp_path, checkpoint_every=5, average_last=2)
    before = checkpoints.latest_valid(tmp_path)
    size = (before / checkpoints.ARRAYS).stat().st_size
    process = start(tmp_path, "--file_limit", str(size // 2))
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "UserError: The checkpoint" in err
    assert "could not be written: File too large. Earlier checkpoints are unchanged" in err
    assert checkpoints.latest_valid(tmp_path) == before
    assert not list(tmp_path.glob("unfinished-*"))
    assert resumable(tmp_path) == undisturbed
