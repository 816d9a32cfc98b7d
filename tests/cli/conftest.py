"""A zoo of one entry, and the command run in this process."""

import io
import sys

import pytest
from cli.running import translator

from keras_attention.cli import main as cli
from keras_attention.cli import translate
from keras_attention.zoo import registry as finding


@pytest.fixture
def run(zoo, monkeypatch, capsys):
    """Runs the command in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(zoo))
    monkeypatch.setattr(finding.zoo_folders, "__defaults__", (zoo / "nowhere",))
    load = translate.load
    monkeypatch.setattr(translate, "load", lambda e, task=None: translator() if task == "translate" else load(e, task))

    def run_command(*arguments, stdin=None):
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


@pytest.fixture
def complains(run):
    """Runs a command that must end with exit code 2 and one line on stderr, which is returned."""

    def run_command(*arguments, stdin=None):
        code, out, err = run(*arguments, stdin=stdin)
        assert (code, out) == (2, "")
        assert err.endswith("\n")
        assert err.count("\n") == 1
        assert err.startswith("keras-attention")
        assert "Traceback" not in err
        return err

    return run_command
