"""Random sequences of commands by two users of one folder; see `two_users.py`."""

import json
from pathlib import Path

import pytest
from safety.faults import COMPILER, run_with_faults

RUN = Path(__file__).with_name("two_users.py")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="faults.c needs a C compiler")


@pytest.mark.parametrize(
    "sequences",
    [
        pytest.param(20, marks=pytest.mark.slow),
        pytest.param(500, marks=pytest.mark.thorough),
    ],
)
def test_two_users_of_one_folder(sequences, record_property):
    report = json.loads(run_with_faults(RUN, sequences, KERAS_BACKEND="numpy"))
    assert report["sequences"] >= sequences
    assert {"write_output -9", "write_output 2", "write_model -9", "write_model 2", "other -9"} <= set(
        report["outcomes"]
    )
    record_property("sequences of two users", report["sequences"])
