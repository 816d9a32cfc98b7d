"""Answers of a long job: what is resumed is exactly what was written, or it is refused."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from keras_attention.cli.io.text_files import kept_answers
from keras_attention.errors import UserError

JOB = {"model": "a", "input": "b"}


def write(path, windows, error=None, resume=False):
    with kept_answers(path, JOB, resume) as answers:
        for number in range(windows):
            answers.write([f"answer {number}"], number + 1)
        if error:
            raise error


def interrupted(path, windows):
    with pytest.raises(KeyboardInterrupt):
        write(path, windows, KeyboardInterrupt())


def test_an_older_state_never_speaks_of_newer_answers(tmp_path):
    """A run without --resume that is killed before its first window is followed by one with --resume."""
    path = tmp_path / "out"
    interrupted(path, 2)
    (tmp_path / "out.partial").write_bytes(b"")  # as a killed run had left it beside the former state
    with pytest.raises(UserError, match="was changed"), kept_answers(path, JOB, resume=True):
        pass
    state = tmp_path / "out.partial.json"
    assert state.exists()
    with kept_answers(path, JOB) as answers:
        assert not state.exists()
        assert answers.done == 0
        answers.write(["x"], 1)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_run_killed_before_its_first_window_is_resumed(tmp_path):
    (tmp_path / "out.partial").write_bytes(b"half of an answ")
    with kept_answers(tmp_path / "out", JOB, resume=True) as answers:
        assert answers.done == 0
        answers.write(["whole"], 1)
    assert (tmp_path / "out").read_text() == "whole\n"


@pytest.mark.parametrize("place", [0, -1])
def test_changed_answers_are_not_continued(tmp_path, place):
    path, partial = tmp_path / "out", tmp_path / "out.partial"
    interrupted(path, 3)
    content = bytearray(partial.read_bytes())
    content[place] ^= 1
    partial.write_bytes(content)
    with pytest.raises(UserError, match="was changed"), kept_answers(path, JOB, resume=True):
        pass
    assert not path.exists()


def test_an_error_is_told_with_what_is_kept(tmp_path):
    with pytest.raises(UserError, match=r"No space left on device\. 1 answers are stored in .*partial: .*--resume"):
        write(tmp_path / "out", 1, OSError(28, "No space left on device"))
    assert json.loads((tmp_path / "out.partial.json").read_text())["done"] == 1


def test_two_runs_never_write_one_output(tmp_path):
    with kept_answers(tmp_path / "out", JOB) as answers, ThreadPoolExecutor(1) as other:
        answers.write(["x"], 1)
        with pytest.raises(UserError, match="out is in use"):
            other.submit(write, tmp_path / "out", 3).result()
    assert (tmp_path / "out").read_text() == "x\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
