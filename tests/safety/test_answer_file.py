"""Answers of a long job: what is resumed is exactly what was written, or it is refused."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from keras_attention.cli.io.text_files import kept_answers
from keras_attention.support.errors import UserError

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


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(path, match, resume=False):
    before = contents(path.parent)
    with pytest.raises(UserError, match=match):
        write(path, 3, resume=resume)
    assert contents(path.parent) == before


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["out.partial", "out.partial.json"])
def test_a_foreign_file_with_the_name_of_partial_answers_is_kept(tmp_path, name, resume):
    (tmp_path / name).write_text("precious")
    refused(tmp_path / "out", f"{name} is not what an interrupted run has left", resume)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["out.partial", "out.partial.json"])
@pytest.mark.parametrize("link", ["symlink", "hard link", "dangling symlink"])
def test_a_link_with_the_name_of_partial_answers_is_never_followed(tmp_path, name, resume, link):
    path = tmp_path / "folder" / "out"
    path.parent.mkdir()
    interrupted(path, 2)
    target = tmp_path / "target"
    (path.parent / name).rename(target)
    if link == "hard link":
        (path.parent / name).hardlink_to(target)
    else:
        (path.parent / name).symlink_to(target)
    before = target.read_bytes()
    if link == "dangling symlink":
        target.unlink()
    with pytest.raises(UserError, match="it is a link"):
        write(path, 3, resume=resume)
    assert not path.exists()
    assert target.exists() == (link != "dangling symlink")
    assert link == "dangling symlink" or target.read_bytes() == before


@pytest.mark.parametrize(
    "state",
    [
        "{}",
        "[]",
        "3",
        "[" * 100_000,
        '{"job": {}, "done": 0, "bytes": 0, "sha256": ""}',
        '{"job": 1, "done": 2, "bytes": 18, "sha256": ""}',
        '{"job": {}, "done": 2, "bytes": -1, "sha256": ""}',
        '{"job": {}, "done": ' + "9" * 5000 + ', "bytes": 1, "sha256": ""}',
    ],
)
def test_a_state_that_describes_no_answers_is_never_replaced(tmp_path, state):
    interrupted(tmp_path / "out", 2)
    (tmp_path / "out.partial.json").write_text(state)
    refused(tmp_path / "out", "it does not describe answers")


@pytest.mark.parametrize("resume", [False, True])
def test_changed_answers_are_not_replaced(tmp_path, resume):
    interrupted(tmp_path / "out", 2)
    (tmp_path / "out.partial").write_bytes(b"")
    refused(tmp_path / "out", "was changed", resume)


def test_a_new_run_replaces_the_answers_of_an_interrupted_one(tmp_path):
    path = tmp_path / "out"
    interrupted(path, 2)
    with kept_answers(path, JOB) as answers:
        assert not (tmp_path / "out.partial").exists()
        assert not (tmp_path / "out.partial.json").exists()
        answers.write(["x"], 1)
        assert (tmp_path / "out.partial").read_bytes() == b"x\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_file_that_appears_during_the_run_is_not_replaced(tmp_path):
    path = tmp_path / "out"

    def disturbed():
        with kept_answers(path, JOB) as answers:
            (tmp_path / "out.partial").write_text("precious")
            answers.write(["x"], 1)

    with pytest.raises(UserError, match=r"out\.partial has appeared during the run"):
        disturbed()
    assert (tmp_path / "out.partial").read_text() == "precious"
    assert not path.exists()


def test_a_run_killed_before_its_first_window_leaves_nothing_in_the_way(tmp_path):
    (tmp_path / f".out-{'a' * 32}").write_bytes(b"half of an answ")
    with kept_answers(tmp_path / "out", JOB, resume=True) as answers:
        assert answers.done == 0
        answers.write(["whole"], 1)
    assert contents(tmp_path) == {"out": b"whole\n"}


def test_a_run_killed_between_its_state_and_its_answers_leaves_nothing_in_the_way(tmp_path):
    interrupted(tmp_path / "out", 2)
    (tmp_path / "out.partial").unlink()
    write(tmp_path / "out", 1, resume=True)
    assert contents(tmp_path) == {"out": b"answer 0\n"}


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


def test_an_error_names_the_kept_answers(tmp_path):
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
