"""`make bench` reads the figures of the benchmarks and finds what has become slower."""

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import bench

    return bench


def run(commit, **figures):
    return {"commit": commit, "figures": {name.replace("_", ": "): value for name, value in figures.items()}}


def test_a_loss_of_more_than_a_tenth_is_reported(bench):
    runs = [run("old", a_ms=1.0, b_ms=20.0), run("new", a_ms=10.0, c_sentences=1.0)]
    figures = {"a: ms": 11.5, "b: ms": 21.9, "d: ms": 5.0}
    assert bench.worse(figures, runs) == ["a: ms: 11.50, was 10.00 at new: 15 % worse"]
    assert bench.worse({"b: ms": 22.1}, runs) == ["b: ms: 22.10, was 20.00 at old: 10 % worse"]
    assert bench.worse({"a: ms": 3.0}, runs) == []
    assert bench.worse(figures, []) == []


def test_more_sentences_a_second_are_better(bench):
    runs = [{"commit": "old", "figures": {"speed: sentences/s": 110.0}}]
    assert bench.worse({"speed: sentences/s": 170.0}, runs) == []
    assert bench.worse({"speed: sentences/s": 101.0}, runs) == []
    (line,) = bench.worse({"speed: sentences/s": 88.0}, runs)
    assert line.endswith("25 % worse")


def test_a_new_baseline_keeps_the_figures_that_it_lacks(bench):
    runs = [run("old", a_ms=1.0, b_ms=2.0), run("older", a_ms=3.0)]
    assert bench.replaced(runs, run("new", a_ms=4.0)) == [run("old", b_ms=2.0), run("new", a_ms=4.0)]


PRINTED = {
    "decode_speed": ("beam 4  batch 64  threads 2  engine ours  sentences/s 113.50  tokens/s 1,589.10", [113.5]),
    "train_speed": ("keras-hub: 2,345 tokens/s, 437 ms, peak memory 1,234 MB, ours is 1.47 times as fast", [1.47]),
    "attention_memory": (
        "n 1024: ours 12.5 ms, 37 MB; Keras 25.0 ms, 74 MB: 2.00 times the time, 2 times the memory",
        [12.5, 37.0, 2.0],
    ),
    "serving": ("! latency: rnn_attention_dates p50 12.3 ms, p95 15.0 ms, 231 requests", [12.3]),
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_printed_figures_are_read(bench, name):
    line, expected = PRINTED[name]
    figures = bench.read_figures(name, ["something else: 5 ms", line])
    assert list(figures.values()) == expected
    assert all(key.startswith(f"{name}, ") for key in figures)


@pytest.fixture
def measure(bench, tmp_path, monkeypatch, capsys):
    """Runs the command with the given milliseconds, one for each run of the benchmark: (exit code, report)."""

    def run_once(*milliseconds, flags=(), seconds=0.5):
        values = iter(milliseconds)
        monkeypatch.setattr(sys, "argv", ["bench.py", "--only", "train_speed", "--results", str(tmp_path), *flags])
        monkeypatch.setattr(bench, "figures_of", lambda name: {f"{name}: ms": next(values)})
        monkeypatch.setattr(bench, "calculation_seconds", lambda: seconds)
        return bench.main(), capsys.readouterr().out

    return run_once


def test_each_run_is_compared_with_the_last_one(measure, tmp_path):
    codes, reports = zip(*(measure(milliseconds) for milliseconds in (100.0, 109.0, 130.0)), strict=True)
    assert codes == (0, 0, 1)
    assert "train_speed: ms: 130.00, was 109.00 at " in reports[-1]
    (path,) = tmp_path.iterdir()
    stored = json.loads(path.read_text())
    assert [run["figures"]["train_speed: ms"] for run in stored["runs"]] == [100.0, 109.0, 130.0]
    assert {"hardware", "python", "tensorflow", "keras"} <= set(stored["runs"][0]["machine"])


def test_the_first_run_in_a_clone_is_compared_with_the_baseline(measure, tmp_path):
    """Whose figures are medians of three runs; the report tells its commit, its age and how fast the machine was."""
    assert measure(120.0, 100.0, 90.0, flags=["--baseline"])[0] == 0
    (path,) = tmp_path.glob("baseline-*.json")
    (run,) = json.loads(path.read_text())["runs"]
    assert run["figures"] == {"train_speed: ms": 100.0}
    run["time"] = "2020-01-02T03:04:05+00:00"
    path.write_text(json.dumps({"runs": [{**run, "commit": "0123abc"}]}))
    code, report = measure(108.0, seconds=0.55)
    assert code == 0
    assert "the baseline in the repository: 0123abc, " in report
    assert " days old; the machine itself is 10 % slower now\n  no figure is more than 10 % worse" in report
    assert "your last run: none of these figures" in report
    code, report = measure(116.0)  # 7 % more than the last run, but 16 % more than the baseline
    assert code == 1
    assert "train_speed: ms: 116.00, was 100.00 at 0123abc: 16 % worse" in report
    assert "no figure is more than 10 % worse" in report


def test_a_baseline_can_be_committed_and_own_runs_cannot():
    root = BENCHMARKS.parent
    rules = (root / ".gitignore").read_text().splitlines()
    assert "benchmarks/results/quick-*.json" in rules
    assert not any("baseline" in rule or rule in ("*.json", "benchmarks/results/") for rule in rules)


def test_the_fixed_calculation_takes_time(bench):
    assert 0 < bench.calculation_seconds(repeats=1) < 60
