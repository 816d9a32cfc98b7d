"""One training in a folder of checkpoints, and nothing of dead ones in its way."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from keras_attention.support.errors import UserError
from keras_attention.training import checkpoints


def train(folder, resume=False, restart=False, steps=(1, 2, 3)):
    with checkpoints.open_folder(folder, resume, restart):
        for step in steps:
            checkpoints.write(folder, step, {}, {"step": step})


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_second_training_names_the_first(tmp_path):
    with checkpoints.open_folder(tmp_path / "steps", resume=False, restart=False), ThreadPoolExecutor(1) as other:
        for flags in ({}, {"resume": True}, {"restart": True}):
            with pytest.raises(UserError, match="steps is in use"):
                other.submit(train, tmp_path / "steps", **flags).result()
    assert names(tmp_path) == []


def test_a_restart_removes_nothing_of_a_running_training(tmp_path):
    train(tmp_path / "steps")
    with checkpoints.open_folder(tmp_path / "steps", resume=True, restart=False), ThreadPoolExecutor(1) as other:
        with pytest.raises(UserError, match="in use"):
            other.submit(train, tmp_path / "steps", restart=True).result()
        assert names(tmp_path / "steps") == [".lock", "step-000000002", "step-000000003"]


@pytest.mark.parametrize("left", ["unfinished-probe-1", "unfinished-step-000000004", ".lock"])
def test_remains_of_a_killed_training_do_not_block(tmp_path, left):
    """A probe that was killed before it was removed let every later checkpoint fail: "Not a directory"."""
    train(tmp_path / "steps")
    if "step" in left:
        (tmp_path / "steps" / left).mkdir()
    else:
        (tmp_path / "steps" / left).write_text("" if left == ".lock" else "probe")
    train(tmp_path / "steps", resume=True, steps=(4,))
    assert names(tmp_path / "steps") == ["step-000000003", "step-000000004"]


def test_the_next_training_removes_a_partly_removed_folder(tmp_path, monkeypatch):
    train(tmp_path / "steps")
    monkeypatch.setattr(checkpoints.shutil, "rmtree", lambda path: os.rename(path / "step-000000002", path / "half"))
    checkpoints.discard_folder(tmp_path / "steps")
    assert not (tmp_path / "steps").exists()
    assert len(names(tmp_path)) == 1
    monkeypatch.undo()
    train(tmp_path / "steps", steps=(1,))
    assert names(tmp_path) == ["steps"]


def test_a_users_file_among_checkpoints_is_kept(tmp_path):
    """After the training, the folder is removed only if nothing but checkpoints is in it."""
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / "notes").write_text("precious")
    train(tmp_path / "steps")
    checkpoints.discard_folder(tmp_path / "steps")
    assert names(tmp_path / "steps") == ["notes"]
    assert (tmp_path / "steps" / "notes").read_text() == "precious"


def test_the_checkpoints_of_the_next_training_are_not_discarded(tmp_path):
    train(tmp_path / "steps")
    with checkpoints.open_folder(tmp_path / "steps", resume=True, restart=False), ThreadPoolExecutor(1) as other:
        other.submit(checkpoints.discard_folder, tmp_path / "steps").result()
        checkpoints.write(tmp_path / "steps", 4, {}, {"step": 4})
    assert names(tmp_path / "steps") == ["step-000000003", "step-000000004"]
    checkpoints.discard_folder(tmp_path / "steps")
    assert names(tmp_path) == []
