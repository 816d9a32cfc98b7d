"""The tool that trains with several seeds: nothing is trained in vain, and errors are one line."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from keras_attention.cli.main import guarded

TOOL = Path(__file__).parents[3] / "recipes" / "tools" / "seeds.py"


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    """Runs the tool for two seeds; gives the exit code, standard error and the commands that it started."""

    def run(*flags):
        started, usual = [], subprocess.run

        def start(command, **options):
            if command[0] != sys.executable:  # what the environment asks of the system
                return usual(command, **options)
            started.append(command)
            return subprocess.CompletedProcess(command, 2)

        monkeypatch.setattr(subprocess, "run", start)
        words = [tmp_path / "out", "table.csv", "--test", "test.csv", "--text", "text", "--label", "label", *flags]
        monkeypatch.setattr(sys, "argv", ["seeds.py", *map(str, words), "--seeds", "2", "3"])
        return guarded(runpy.run_path(str(TOOL))["main"], "seeds.py"), capsys.readouterr().err, started

    return run


def test_an_unwritable_folder_is_reported_before_the_training(train, tmp_path):
    (tmp_path / "out" / "average").mkdir(parents=True)
    (tmp_path / "out" / "average" / "notes").write_text("precious")
    for flags in ([], ["--overwrite"]):
        code, error, started = train(*flags)
        assert (code, error.count("\n"), started) == (2, 1, [])
        assert "average is not a trained model, so it is never replaced" in error
    assert (tmp_path / "out" / "average" / "notes").read_text() == "precious"


def test_a_training_that_fails_is_one_line(train):
    code, error, started = train()
    assert (code, len(started)) == (2, 1)
    assert started[0][started[0].index("--blend") + 1] == "none"  # bags of words cannot be averaged
    assert error == "seeds.py: The training with seed 2 ended with exit code 2.\n"
