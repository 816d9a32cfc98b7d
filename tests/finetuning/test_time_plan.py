"""The ceiling of time: a plan from one measured time, stored with the training."""

import json

import keras
import numpy as np
import pytest
from finetuning.test_workflow import SAY, examples, write_csv
from zoo.tiny_bert import tiny_encoder, write_tiny

from keras_attention import load
from keras_attention.cli.main import main
from keras_attention.finetuning import preparation
from keras_attention.finetuning.settings import FinetuneSettings, check_settings
from keras_attention.finetuning.time_plan import (
    Plan,
    Stopwatch,
    plan_path,
    plan_within,
    seconds_of,
    store_plan,
    stored_plan,
)
from keras_attention.finetuning.workflow import prepare
from keras_attention.support.errors import UserError
from keras_attention.training.history import Epoch


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("starts") / "start"
    write_tiny(folder, tiny_encoder(num_layers=1))
    return folder


def cost(plan):
    return 100 * plan.epochs + 0.01 * plan.pairs


@pytest.mark.parametrize(
    ("usual", "seconds", "fixed", "expected"),
    [
        (Plan(5, 7000), 600, False, Plan(5, 7000)),
        (Plan(5, 7000), 390, False, Plan(3, 7000)),
        (Plan(5, 7000), 131, False, Plan(1, 3100)),
        (Plan(5, 7000), 105, False, Plan(1, 0)),  # too few pairs to help
        (Plan(5, 0), 7, False, Plan(1, 0)),  # one epoch is the least
        (Plan(5, 7000), 530, True, Plan(5, 3000)),
        (Plan(0, 7000), 31, False, Plan(0, 3100)),
        (Plan(0, 7000), 1, False, Plan(0, 1000)),
        (Plan(0, 500), 1, False, Plan(0, 500)),
    ],
)
def test_epochs_are_cut_before_pairs(usual, seconds, fixed, expected):
    assert plan_within(usual, seconds, cost, fixed) == expected


def test_every_text_that_is_read_counts():
    assert seconds_of(Plan(3, 0), 0.5, 70, 11) == 0.5 * 3 * (4 * 70 + 4 * 11)
    assert seconds_of(Plan(0, 13), 0.5, 70, 11) == 0.5 * (4 * 2 * 13 + 4 * 81)
    assert seconds_of(Plan(1, 13), 0.5, 70, 11, compiled=True) == 0.5 * (4 * 2 * 13 + 81 + 4 * 81) + 20


def test_the_stopwatch_counts_work():
    watch = Stopwatch()
    sum(number * number for number in range(200_000))
    first = watch.seconds
    assert 0 < first <= watch.seconds


def test_a_plan_is_stored_only_if_it_is_unusual(tmp_path):
    path, usual = plan_path(tmp_path / "mine_checkpoints"), Plan(5, 7000)
    assert path == tmp_path / "mine_checkpoints_plan.json"
    assert stored_plan(path, usual) == usual
    store_plan(path, Plan(3, 0), usual)
    assert stored_plan(path, usual) == Plan(3, 0)
    store_plan(path, usual, usual)
    assert not path.exists()


@pytest.mark.parametrize(
    "content", ["", "[]", '{"epochs": 3}', '{"epochs": 3, "pairs": -1}', '{"epochs": 9, "pairs": 1}']
)
def test_a_damaged_plan_is_an_error(tmp_path, content):
    path = tmp_path / "plan.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="plan.json is damaged or of another training. Begin anew with --restart"):
        stored_plan(path, Plan(5, 7))


def test_time_and_limit_are_printed(start, monkeypatch):
    messages = []
    settings = FinetuneSettings(max_tokens=17, jit_compile=False, minutes=0.001)
    monkeypatch.setattr(Stopwatch, "seconds", 10.0)
    prepared = prepare(examples("binary", 150), None, start, settings, notify=messages.append)
    assert prepared.plan.epochs == 1
    assert prepared.stages == ("on labels",)
    assert any(line.startswith("One epoch on the labels, in about 1 min.") for line in messages)
    assert "The ceiling is 0.001 min, so there are fewer (--minutes sets another one)." in messages[-1]
    monkeypatch.setattr(Stopwatch, "seconds", 1e-4)
    assert prepare(examples("binary", 150), None, start, settings, **SAY).plan is None


@pytest.mark.parametrize("value", [0, -1.0, float("inf")])
def test_minutes_are_positive(value):
    with pytest.raises(UserError, match="--minutes must be greater than 0"):
        check_settings(FinetuneSettings(minutes=value))


@pytest.mark.slow
def test_a_resumed_training_keeps_its_plan(start, tmp_path, capsys, monkeypatch):
    table = write_csv(tmp_path / "train.csv", examples("binary", 150))
    command = ["finetune", table, "--text", "review", "--label", "mood", "--from", str(start), "--max-tokens", "17"]
    command += ["--no-jit-compile", "--json", "--no-contrastive", "--blend", "none"]
    slow = monkeypatch.context
    usual, steps = Epoch.record, iter(range(1, 100))

    def interrupted(epoch, measured):
        usual(epoch, measured)
        if next(steps) == 5:
            raise KeyboardInterrupt

    keras.backend.clear_session()
    with slow() as patch:  # 30 seconds for a pass over 135 rows: fewer epochs in 10 minutes
        patch.setattr(Stopwatch, "seconds", 30.0)
        assert main([*command, "--out", str(tmp_path / "whole")]) == 0
    keras.backend.clear_session()
    with slow() as patch:
        patch.setattr(Stopwatch, "seconds", 30.0)
        patch.setattr(Epoch, "record", interrupted)
        assert main([*command, "--out", str(tmp_path / "parts")]) == 130
    plan = json.loads((tmp_path / "parts_checkpoints_plan.json").read_text(encoding="utf-8"))
    assert 1 <= plan["epochs"] < 12
    keras.backend.clear_session()
    assert main([*command, "--out", str(tmp_path / "parts"), "--resume"]) == 0  # on a quicker machine
    assert not (tmp_path / "parts_checkpoints_plan.json").exists()
    whole, parts = (load(tmp_path / name) for name in ("whole", "parts"))
    assert whole.entry.metrics["training"]["epochs"] == plan["epochs"]
    for one, other in zip(whole.model.get_weights(), parts.model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert preparation.USUAL_MINUTES == 10
