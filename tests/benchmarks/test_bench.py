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


def test_what_is_more_than_a_tenth_worse_is_told(bench):
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


PRINTED = {
    "decode_speed": ("beam 4  batch 64  engine ours  sentences/s 113.50  tokens/s 1,589.10", [113.5]),
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


def test_each_run_is_compared_with_the_last_one(bench, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench.py", "--only", "train_speed", "--results", str(tmp_path)])
    for milliseconds, code in ((100.0, 0), (109.0, 0), (130.0, 1)):
        monkeypatch.setattr(bench, "figures_of", lambda name, value=milliseconds: {f"{name}: ms": value})
        assert bench.main() == code
    assert "train_speed: ms: 130.00, was 109.00 at " in capsys.readouterr().out
    (path,) = tmp_path.iterdir()
    stored = json.loads(path.read_text())
    assert [run["figures"]["train_speed: ms"] for run in stored["runs"]] == [100.0, 109.0, 130.0]
    assert {"hardware", "python", "tensorflow", "keras"} <= set(stored["runs"][0]["machine"])
