"""The thorough tests in parts: each is in exactly one, and the parts are about as long as each other."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from thorough_parts import chosen_part, thorough_parts

ROOT = Path(__file__).parents[1]
LONG = [f"tests/test_{file}.py::test_{number}" for file in "abc" for number in range(11)]
POINTS = {"tests/test_d.py": 31, "tests/test_e.py": 17, "tests/test_f.py": 13, "tests/test_g.py": 2}
SAMPLED = [f"{file}::test_x[{number}]" for file, count in POINTS.items() for number in range(count)]


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_each_test_is_in_one_part_whatever_the_order(parts):
    part_of = thorough_parts(LONG, SAMPLED, parts)
    assert part_of.keys() == {*LONG, *SAMPLED}
    assert {*part_of.values()} == set(range(1, parts + 1))
    assert thorough_parts(LONG[::-1], SAMPLED[::-1], parts) == part_of


def test_the_long_tests_of_a_file_are_spread_and_sampled_points_stay_together():
    part_of = thorough_parts(LONG, SAMPLED, 3)
    for file in "abc":
        assert {*Counter(part_of[name] for name in LONG if f"_{file}." in name).values()} <= {3, 4}
    by_file = {file: {part_of[name] for name in SAMPLED if name.startswith(file)} for file in POINTS}
    assert all(len(numbers) == 1 for numbers in by_file.values())
    assert sorted(Counter(part_of[name] for name in SAMPLED).values()) == [15, 17, 31]


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0"])
def test_a_part_that_is_none_is_an_error(text):
    with pytest.raises(ValueError, match="K from 1 to N|values to unpack|invalid literal"):
        chosen_part(text)


@pytest.mark.slow
def test_pytest_runs_the_chosen_part():
    """The parts of a folder together are its thorough tests; other tests are in every part."""

    command = [sys.executable, "-m", "pytest", "-o", "addopts=--import-mode=importlib -q", "-p", "no:cacheprovider"]
    command += ["tests/safety", "--collect-only", "-m", "thorough and not exhaustive"]

    def collected(part):
        finished = subprocess.run([*command, "--part", part], **run)
        return {line for line in finished.stdout.splitlines() if "::" in line}

    run = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": 300}
    whole, *parts = map(collected, ("1/1", "1/2", "2/2"))
    assert len(whole) > 17
    assert set.union(*parts) == whole
    assert sum(map(len, parts)) == len(whole)
    assert min(map(len, parts)) > 7
