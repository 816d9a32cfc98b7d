"""Weights from another machine, and the facts of a run."""

import re
import sys

import numpy as np
import pytest
from training.tiny_run import TinyBatches, TinyModel

from keras_attention.errors import UserError
from keras_attention.training.history import TrainResult, load_trained, run_facts, save_trained

RESULT = TrainResult([{"epoch": 1, "loss": 2.5}], 7, 3.5, None, None, "all 1 epochs are done")


def built():
    model = TinyModel()
    model(TinyBatches().epoch(0)[0])
    return model


def test_weights_and_story_come_back(tmp_path):
    model, other = built(), built()
    save_trained(tmp_path / "a" / "trained", model, RESULT, {"hardware": "elsewhere"})
    result, facts = load_trained(tmp_path / "a" / "trained", other)
    assert (result, facts) == (RESULT, {"hardware": "elsewhere"})
    for before, after in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("content", [None, b"", b"no archive"])
def test_missing_weights_are_one_line(tmp_path, content):
    if content is not None:
        (tmp_path / "trained.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"trained.npz: no weights for this model \(.*\)\.$"):
        load_trained(tmp_path / "trained", built())


def test_a_failure_leaves_the_old_weights(tmp_path):
    save_trained(tmp_path / "trained", built(), RESULT, {})
    old = (tmp_path / "trained.npz").read_bytes()
    with pytest.raises(TypeError):
        save_trained(tmp_path / "trained", built(), RESULT, {"not JSON": {1}})
    assert (tmp_path / "trained.npz").read_bytes() == old
    assert [path.name for path in tmp_path.iterdir()] == ["trained.npz"]


def test_facts_name_command_commit_and_machine(monkeypatch, tmp_path):
    script = tmp_path / "train.py"
    script.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script), "--epochs", "3", "--data_dir=/home/me/pairs", "/a/b.tsv"])
    facts = run_facts()
    assert facts["command"] == "python train.py --epochs 3 --data_dir=pairs b.tsv"
    assert facts["commit"] == "unknown"
    assert re.match(r"1 core of |\d+ cores of ", facts["hardware"])
