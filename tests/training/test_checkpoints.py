import os
import shutil

import keras
import numpy as np
import pytest
from training.damages import DAMAGES, flip_a_bit, take_from_the_oldest
from training.tiny_run import run, untimed

from keras_attention.support.errors import UserError
from keras_attention.training import checkpoints
from keras_attention.training.optim import LayerWiseAdamW

STATE = {"progress": {"epoch": 3, "seconds": 0.1}, "settings": {}}


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "model.0": rng.normal(size=(13, 7)).astype("float32"),
        "model.1": np.array([17, 2**32 - 1], "uint32"),
        "optimizer.0": np.array(2**40, "int64"),
    }


@pytest.fixture
def folder(tmp_path):
    """Two checkpoints, of steps 5 and 11."""
    checkpoints.write(tmp_path, 5, arrays(5), {**STATE, "settings": {"older": True}})
    checkpoints.write(tmp_path, 11, arrays(11), STATE)
    return tmp_path


FILES = [checkpoints.ARRAYS, checkpoints.STATE, checkpoints.MANIFEST]
# A flipped bit in the manifest may hit a blank, so that case is left to the hashes inside.
CASES = [
    (d, f) for d in DAMAGES for f in FILES if d != take_from_the_oldest and (d, f) != (flip_a_bit, checkpoints.MANIFEST)
]


def test_written_arrays_are_read(folder):
    actual, state = checkpoints.read(checkpoints.latest_valid(folder))
    assert state == STATE
    expected = arrays(11)
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype
        np.testing.assert_array_equal(actual[name], array)


def test_the_last_two_are_kept(folder):
    checkpoints.write(folder, 13, arrays(), STATE)
    assert sorted(path.name for path in folder.iterdir()) == ["step-000000011", "step-000000013"]


def test_checkpoints_newer_than_the_restored_one_are_removed(folder):
    """After a damaged checkpoint the training goes on from an older one, and overtakes it later."""
    checkpoints.write(folder, 7, arrays(), STATE)
    assert sorted(path.name for path in folder.iterdir()) == ["step-000000005", "step-000000007"]


def test_the_same_step_again_replaces(folder):
    checkpoints.write(folder, 11, arrays(1), STATE)
    actual, _ = checkpoints.read(checkpoints.latest_valid(folder))
    np.testing.assert_array_equal(actual["model.0"], arrays(1)["model.0"])


@pytest.mark.parametrize(("damage", "name"), CASES)
def test_a_damaged_one_is_passed_over_and_named(folder, damage, name):
    damage(folder / "step-000000011" / name)
    with pytest.warns(UserWarning, match=f"Damaged checkpoint skipped: .*step-000000011/{name}"):
        assert checkpoints.latest_valid(folder).name == "step-000000005"


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_checkpoint_is_noticed(folder, name):
    take_from_the_oldest(folder / "step-000000011" / name)
    with pytest.warns(UserWarning, match="Damaged checkpoint skipped: .*step-000000011/"):
        assert checkpoints.latest_valid(folder).name == "step-000000005"


@pytest.mark.filterwarnings("ignore:Damaged checkpoint skipped")
@pytest.mark.parametrize(("damage", "name"), CASES)
def test_nothing_but_damaged_ones_stops(folder, damage, name):
    damage(folder / "step-000000011" / name)
    damage(folder / "step-000000005" / name)
    with pytest.raises(UserError, match="holds 2 checkpoints, but all are damaged"):
        checkpoints.latest_valid(folder)


def test_every_flipped_bit_is_noticed(folder):
    path = folder / "step-000000011" / checkpoints.ARRAYS
    good = path.read_bytes()
    for position in np.random.default_rng(3).integers(0, 8 * len(good), 101):
        bad = bytearray(good)
        bad[position // 8] ^= 1 << (position % 8)
        path.write_bytes(bad)
        with pytest.warns(UserWarning, match="sha256 differs"):
            assert checkpoints.latest_valid(folder).name == "step-000000005"


def test_no_checkpoint_at_all_is_none(tmp_path):
    assert checkpoints.latest_valid(tmp_path) is None
    assert checkpoints.latest_valid(tmp_path / "missing") is None


def test_automatic_names_are_no_settings():
    def settings(factor):
        model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(5)])  # dense and dense_1, dense_2 and ...
        model.build((None, 2))
        optimizer = LayerWiseAdamW(0.1, {model.layers[0].kernel.path: factor})
        optimizer.build(model.trainable_variables)
        return checkpoints.settings_of(model, optimizer, [{"labels": np.zeros(7)}], {})

    assert settings(0.5) == settings(0.5)
    assert settings(0.5) != settings(0.25)


def test_other_files_in_the_folder_are_left_alone(folder):
    (folder / "notes.txt").write_text("mine")
    (folder / "step-old").mkdir()
    checkpoints.write(folder, 17, arrays(), STATE)
    assert {"notes.txt", "step-old"} <= {path.name for path in folder.iterdir()}


def test_a_partial_checkpoint_is_ignored_and_removed(folder):
    shutil.copytree(folder / "step-000000011", folder / "unfinished-step-000000013")
    assert checkpoints.latest_valid(folder).name == "step-000000011"
    checkpoints.write(folder, 17, arrays(), STATE)
    assert not list(folder.glob("unfinished-*"))


def test_removing_all_leaves_other_files_alone(folder):
    (folder / "notes.txt").write_text("mine")
    (folder / "unfinished-step-000000013").mkdir()
    checkpoints.remove(folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    checkpoints.remove(folder / "missing")


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(UserError, match="Checkpoints cannot be written to .*file: "):
        run(max_steps=1, checkpoint_dir=path)
    assert path.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_named_before_training(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    with pytest.raises(UserError, match="Checkpoints cannot be written to .*locked: Permission denied"):
        run(max_steps=1, checkpoint_dir=folder)


@pytest.mark.slow
def test_training_resumes_from_an_older_checkpoint_to_equal_weights(tmp_path):
    undisturbed, *_ = run(epochs=3)
    run(max_steps=10, checkpoint_dir=tmp_path, checkpoint_every=4)
    flip_a_bit(tmp_path / "step-000000010" / checkpoints.ARRAYS)
    with pytest.warns(UserWarning, match="skipped"):
        resumed, *_ = run(epochs=3, checkpoint_dir=tmp_path, resume=True)
    assert untimed(resumed.history) == untimed(undisturbed.history)
