"""Every command that writes, killed or failing at every operation that changes the disk: old files or new ones, whole.

The commands are the product's; what they compute is prepared (see `crash_scenarios.py`). The quick tests try every
seventh operation of a few, the thorough ones every seventh of all, `make test-exhaustive` all of all.
`test_whole_commands.py` kills whole commands.
"""

import json
from pathlib import Path

import pytest
from safety.faults import COMPILER, run_with_faults

pytestmark = pytest.mark.skipif(COMPILER is None, reason="faults.c needs a C compiler")
RUN = Path(__file__).with_name("crash_run.py")
QUICK = ("translate --output, old", "attention --out", "zoo entry, old", "checkpoints")
NAMES = (
    "translate --output, new",
    "translate --output, old",
    "translate --output --resume",
    "translate TEXT --output",
    "classify --output",
    "evaluate --json > file, translator",
    "evaluate --json > file, classifier",
    "evaluate --json --output",
    "attention --out",
    "export",
    "convert, new",
    "convert --overwrite",
    "finetune --overwrite",
    "zoo entry, new",
    "zoo entry, old",
    "recipes: translator",
    "recipes: masked language model",
    "checkpoints",
    "classify --table --output",
    "classify --table --output --resume",
    "classify --explain",
    "encode --output",
    "similar > file",
    "generate > file",
    "score > file",
    "translate --attention, several",
    "warm",
    "convert hf://",
    "finetune --search",
    "encoded pairs",
    "encoded stream",
    "weights trained elsewhere",
)
GROUPS = (NAMES[:8], NAMES[8:12], NAMES[12:15], NAMES[15:18], NAMES[18:27], NAMES[28:])


def held(record_property, every, *names):
    one_thread = {"OMP_NUM_THREADS": "1", "KERAS_BACKEND": "numpy"}
    reports = [json.loads(line) for line in run_with_faults(RUN, every, *names, **one_thread).splitlines()]
    assert [report["name"] for report in reports] == list(names)
    for report in reports:
        assert report["wrong"] == [], report
        assert report["tried"]
        record_property("prepared commands: points", report["tried"])
    return sum(report["tried"] for report in reports)


@pytest.mark.slow
def test_some_points_of_some_commands(record_property):
    assert held(record_property, 7, *QUICK) > 50


@pytest.mark.thorough
@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_many_points_of_every_command(record_property, names):
    assert held(record_property, 7, *names) > 40


@pytest.mark.thorough
def test_some_points_of_a_download(record_property):
    assert held(record_property, 19, "convert hf://") > 20


@pytest.mark.thorough
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_every_point(record_property, name):
    assert held(record_property, 1, name) > 0
