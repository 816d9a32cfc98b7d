"""Whole commands, with TensorFlow and all that they compute, killed at every operation; see `whole_commands.py`.

`test_crashes.py` gives each command again after every point, with prepared answers; here is what could differ: HDF5's
and TensorFlow's own writers, real trainings and their checkpoints. Every point is looked at, and a few are tried out.
"""

import json
from pathlib import Path

import pytest
from safety.faults import COMPILER, run_with_faults

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(COMPILER is None, reason="faults.c needs a C compiler")]
RUN = Path(__file__).with_name("whole_commands.py")
GROUPS = (
    ("translate --output", "translate --attention", "translate --attention, several", "attention --out"),
    ("translate --explain",),
    ("classify --output", "classify --table", "classify --explain", "evaluate --output", "evaluate --json > file"),
    ("encode", "similar", "generate", "score", "convert", "download"),
    ("export", "export classifier", "export mask filler", "export language model"),
    ("encode pairs", "encode prose", "encode rows", "encode stream", "weights from elsewhere"),
    ("finetune", "recipe language_model"),
)
RECIPES = (
    ("recipe rnn_attention", "recipe transformer"),
    ("recipe bert_pretrain", "recipe bert_finetune", "recipe distill"),
)


def held(record_property, samples, names):
    lines = run_with_faults(RUN, samples, *names, OMP_NUM_THREADS="1").splitlines()
    reports = [json.loads(line) for line in lines if line.startswith('{"name"')]
    assert [report["name"] for report in reports] == list(names)
    for report in reports:
        assert report["wrong"] == [], report
        assert report["tried"]["kill"] > report["operations"] > 0
        assert report["tried"]["second run"]
        for what, tried in report["tried"].items():
            record_property(f"whole commands: {what}", tried)


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_whole_commands_are_killed_and_given_again(names, record_property):
    held(record_property, 1, names)


@pytest.mark.exhaustive
@pytest.mark.parametrize("names", [*GROUPS, *RECIPES], ids=lambda names: names[0])
def test_whole_commands_are_killed_and_given_again_at_many_points(names, record_property):
    held(record_property, 20, names)
