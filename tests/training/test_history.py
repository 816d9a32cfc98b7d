"""Early stopping and progress bar; weights from another machine, and the facts of a run."""

import re
import sys

import numpy as np
import pytest
from training.tiny_run import TinyBatches, TinyModel

from keras_attention.support.errors import UserError
from keras_attention.training.history import (
    EarlyStopping,
    EpochBar,
    Progress,
    TrainResult,
    load_trained,
    run_facts,
    save_trained,
)


def feed(stopping, scores):
    return [stopping.update({stopping.monitor: score}, epoch) for epoch, score in enumerate(scores, start=1)]


def test_bleu_must_rise_and_loss_must_fall():
    assert feed(EarlyStopping("val_bleu"), [1.0, 3.0, 2.0, 3.0, 5.0]) == [True, True, False, False, True]
    assert feed(EarlyStopping("val_loss"), [3.0, 1.0, 2.0, 1.0, 0.5]) == [True, True, False, False, True]
    assert feed(EarlyStopping("val_loss", mode="max"), [1.0, 2.0]) == [True, True]


def test_patience_counts_from_the_best():
    stopping = EarlyStopping("val_bleu", patience=2)
    feed(stopping, [1.0, 0.5, 2.0, 1.0])
    assert not stopping.should_stop
    stopping.update({"val_bleu": 2.0}, 5)
    assert stopping.should_stop
    assert (stopping.best, stopping.best_epoch) == (2.0, 3)


def test_nan_is_never_the_best():
    stopping = EarlyStopping("val_loss")
    assert feed(stopping, [float("nan"), 2.0, float("nan")]) == [False, True, False]
    assert stopping.best == 2.0


def test_state_survives_a_checkpoint():
    stopping = EarlyStopping("val_bleu", patience=3)
    feed(stopping, [1.0, 0.5])
    other = EarlyStopping("val_bleu", patience=3)
    other.restore(stopping.state())
    assert vars(other) == vars(stopping)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"one of \['val_bleu'\]. Received: monitor='val_blue'"):
        EarlyStopping("val_blue").update({"val_bleu": 1.0}, 1)
    with pytest.raises(ValueError, match="mode='up'"):
        EarlyStopping("val_bleu", mode="up")
    with pytest.raises(ValueError, match="patience=0"):
        EarlyStopping("val_bleu", patience=0)


def test_the_first_step_compiles(capsys, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: seconds[0])
    progress = Progress()
    bar = EpochBar(3, 5, progress, lambda: 0.1, verbose=2, unit="rows", compiling=True)
    assert capsys.readouterr().out == "Epoch 1/3: compiling ...\n"
    for step, duration in enumerate([60.0, 1.0, 1.0], start=1):
        seconds[0] += duration
        progress.epoch_step, progress.tokens = step, 7.0 * step
        bar.update()
    progress.epoch_step = 5
    bar.update(last=True)
    assert re.search(r"rows/s: 7\.0", capsys.readouterr().out)


def test_a_file_gets_a_line_a_minute_and_no_bar(capsys, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: seconds[0])
    progress = Progress()
    bar = EpochBar(3, 5, progress, lambda: 0.1, verbose=1, unit="rows")
    for step in range(1, 6):
        seconds[0] += 31.0
        progress.epoch_step, progress.tokens, progress.loss_sum = step, 7.0 * step, 3.5 * step
        bar.update(last=step == 5)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "Epoch 1/3",
        "  step 2/5, loss 0.5000, 93 s left",
        "  step 4/5, loss 0.5000, 31 s left",
    ]
    assert lines[3].startswith("5/5 - ")
    assert not any(sign in line for line in lines for sign in "\r\b\x1b\u2501")


def test_later_epochs_do_not(capsys):
    EpochBar(3, 5, Progress(epoch=1), lambda: 0.1, verbose=2)
    assert capsys.readouterr().out == "Epoch 2/3\n"


RESULT = TrainResult([{"epoch": 1, "loss": 2.5}], 7, 3.5, None, None, "the only epoch is done")


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


def test_facts_name_an_installed_command_without_its_folder(monkeypatch, tmp_path):
    command = tmp_path / "bin" / "keras-attention"
    command.parent.mkdir()
    command.touch()
    monkeypatch.setattr(sys, "argv", [str(command), "finetune", "reviews.csv"])
    assert run_facts()["command"] == "keras-attention finetune reviews.csv"
