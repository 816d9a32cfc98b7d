"""Several workers on this machine, of which one dies."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keras_attention.cli import launch
from keras_attention.cli import main as cli

TESTS = Path(__file__).parents[1]
PROGRAM = TESTS / "training" / "worker_run.py"


def start(folder, *flags, launching=()):
    folder.mkdir()
    roots = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    environment = {**os.environ, "PYTHONPATH": roots, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "keras_attention", "launch", *launching, "--", str(PROGRAM), str(folder), *flags]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ends(folder):
    """What each worker wrote at its end."""
    return [json.loads((folder / f"end-{worker}.json").read_text()) for worker in range(2)]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """How both workers end undisturbed. Dropout is on."""
    folder = tmp_path_factory.mktemp("launch") / "undisturbed"
    process = start(folder)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    first, second = ends(folder)
    assert first == second
    return first


@pytest.mark.thorough
def test_after_the_death_of_the_chief_all_start_again_and_end_as_if_undisturbed(tmp_path, expected):
    process = start(tmp_path / "run", "--victim=0", launching=["--max-restarts=1"])
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "Worker 0 of 2 was killed by SIGKILL." in err
    assert "Worker 1: another worker has stopped" in err
    assert "Worker 1 of 2 ended with exit code 75." in err
    assert "Restarting all workers" in err
    assert ends(tmp_path / "run") == [expected] * 2
    assert (tmp_path / "run" / "alone.json").exists()


@pytest.mark.thorough
def test_without_restarts_the_exit_code_is_75_within_a_minute(tmp_path, expected):
    process = start(tmp_path / "run", "--victim=1")
    while process.poll() is None and not (tmp_path / "run" / "killed").exists():
        time.sleep(0.1)
    died = time.monotonic()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 75, err
    assert time.monotonic() - died < 60
    assert "Worker 0: another worker has stopped" in err
    assert not list((tmp_path / "run").glob("end-*"))


def run_script(text, tmp_path, count=2, signals=()):
    path = tmp_path / "script.py"
    path.write_text(text)
    return launch.run_workers(launch.python_command([str(path)]), count, list(signals))


NUMBER = "import json, os, sys, time; number = json.loads(os.environ['TF_CONFIG'])['task']['index']\n"


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("0", 0),
        ("number * 3", 3),
        ("75 if number else 0", 75),
        ("75 if number else 2", 2),
        ("os.kill(os.getpid(), 9)", 75),
    ],
)
def test_exit_codes(tmp_path, ending, code, capfd):
    assert run_script(f"{NUMBER}sys.exit({ending})", tmp_path, count=3) == code


def test_workers_that_do_not_end_are_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "GRACE_SECONDS", 0.5)
    begun = time.monotonic()
    assert run_script(f"{NUMBER}if number == 0: sys.exit(75)\ntime.sleep(100)", tmp_path) == 75
    assert time.monotonic() - begun < 20


def test_signals_are_passed_on(tmp_path):
    assert run_script("import time; time.sleep(100)", tmp_path, signals=[signal.SIGTERM]) == 75


def test_the_command_that_resumes():
    command = launch.python_command(["recipes/transformer.py", "--restart", "--epochs=3"])
    assert launch.resuming(command) == [sys.executable, "recipes/transformer.py", "--epochs=3", "--resume"]
    assert launch.resuming(launch.resuming(command)) == launch.resuming(command)
    assert launch.python_command(["finetune", "a.csv"])[1:] == ["-P", "-m", "keras_attention", "finetune", "a.csv"]


def test_numbers_out_of_range(capsys):
    assert cli.main(["launch", "--workers=0", "--", "a.py"]) == 2
    assert "--workers must be at least 1" in capsys.readouterr().err
