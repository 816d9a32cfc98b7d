"""Every command that writes, killed or failing at every operation that changes the disk: old files or new ones, whole.

The commands are the product's; what they compute is prepared (see `crash_scenarios.py`). The quick tests try every
seventh operation of a few, the thorough ones every ninth of all, `make test-exhaustive` all of all.
`test_whole_commands.py` kills whole commands.
"""

import json
from pathlib import Path

import pytest
from safety.faults import COMPILER, run_with_faults

pytestmark = pytest.mark.skipif(COMPILER is None, reason="faults.c needs a C compiler")
RUN = Path(__file__).with_name("crash_run.py")
QUICK = ("translate --output, old", "attention --out", "zoo entry, old", "checkpoints")
# The operations that each has at the least: fewer would mean that they are no longer seen.
OPERATIONS = {
    "translate --output, new": 30,
    "translate --output, old": 30,
    "translate --output --resume": 15,
    "translate TEXT --output": 9,
    "classify --output": 30,
    "evaluate --json > file, translator": 1,
    "evaluate --json > file, classifier": 1,
    "evaluate --json --output": 9,
    "attention --out": 9,
    "export": 20,
    "convert, new": 30,
    "convert --overwrite": 30,
    "finetune --overwrite": 60,
    "zoo entry, new": 40,
    "zoo entry, old": 40,
    "recipes: translator": 40,
    "recipes: masked language model": 40,
    "checkpoints": 15,
}


def held(every, *names):
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "KERAS_BACKEND": "numpy"}
    found = [json.loads(line) for line in run_with_faults(RUN, every, *names, **one_thread).splitlines()]
    assert [report["name"] for report in found] == list(names)
    for report in found:
        assert report["wrong"] == [], report
        assert report["operations"] >= OPERATIONS[report["name"]]
        assert report["tried"]
    return sum(report["tried"] for report in found)


@pytest.mark.slow
def test_some_points_of_some_commands():
    assert held(7, *QUICK) > 50


@pytest.mark.thorough
@pytest.mark.parametrize("name", OPERATIONS)
def test_some_points_of_every_command(name):
    assert held(9, name) > 0


@pytest.mark.thorough
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_point(name):
    assert held(1, name) >= OPERATIONS[name]
