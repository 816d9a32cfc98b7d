"""What the comparison of decoding speeds computes beside the times."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from zoo.tiny_entry import ENGLISH, tiny_parts

from keras_attention.support.errors import UserError

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TABLES = BENCHMARKS.parent / ".ci" / "readme_tables.py"


@pytest.fixture
def decode_speed(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import decode_speed

    return decode_speed


def test_a_step_reads_the_weights_of_the_decoder(decode_speed):
    """Not those of the encoder, nor those that project the keys of the source once for all steps."""
    model = tiny_parts()[0]
    read = decode_speed.weight_bytes(model)
    sizes = {weight.path: np.asarray(weight).nbytes for weight in model.weights}
    encoder = sum(size for path, size in sizes.items() if "encoder" in path or "source" in path)
    assert encoder
    assert 0.3 * sum(sizes.values()) < read <= sum(sizes.values()) - encoder


def test_the_limit_reads_the_weights_once_for_each_step_of_a_batch(decode_speed):
    setting = {"beam": 4, "threads": 2, "lengths": [3, 5, 2, 7, 4], "size": 1000, "speed": 1e6}
    assert decode_speed.limit_row(batch=1, **setting)["sentences/s"] == pytest.approx(5 / (21 * 0.001))
    assert decode_speed.limit_row(batch=2, **setting)["sentences/s"] == pytest.approx(5 / ((5 + 7 + 4) * 0.001))


def test_reading_has_a_speed(decode_speed):
    assert 1e8 < decode_speed.read_speed(2_000_000, seconds=0.01) < 1e13


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_a_process_keeps_to_its_cores():
    code = "import os, decode_speed; decode_speed.use_cores(1); print(len(os.sched_getaffinity(0)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(BENCHMARKS), str(BENCHMARKS.parent)])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "1\n", done.stderr


def test_more_threads_than_cores_are_refused(decode_speed, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["decode_speed.py", "--input", "no file", "--threads", "1", "100000"])
    with pytest.raises(UserError, match="--threads must be between 1 and"):
        decode_speed.main()


def test_the_table_names_threads_and_leaves_out_what_was_not_measured():
    table = runpy.run_path(str(TABLES))["speed_table"]
    rows = [
        {"beam": 1, "batch": 1, "threads": threads, "engine": engine, "sentences/s": 7.0 * threads, "p50 ms": 3.0}
        for threads in (1, 2)
        for engine in ("ours", "limit")
    ]
    lines = table({"model": "tiny", "sentences": 5, "hardware": "2 cores", "rows": rows}).splitlines()
    assert lines[2].strip("| ").split(" | ")[-1] == "limit by memory, sentences/s"
    assert not any("CTranslate2" in line for line in lines)
    assert [line.split(" | ")[0] for line in lines[4:]] == [
        "| greedy, batch 1, 1 thread",
        "| greedy, batch 1, 2 threads",
    ]


@pytest.mark.thorough
def test_both_engines_translate_with_one_thread(tmp_path):
    pytest.importorskip("ctranslate2")
    (tmp_path / "texts").write_text("\n".join(ENGLISH * 50) + "\n")
    arguments = ["--untrained", "--input", tmp_path / "texts", "--sentences", 3, "--rounds", 1, "--threads", 1]
    arguments += ["--engines", "ours", "ctranslate2", "ctranslate2_int8"]
    command = [sys.executable, BENCHMARKS / "decode_speed.py", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    actual = re.findall(r"^beam (\d)  batch (\d+)  threads 1  engine (\w+)", done.stdout, re.MULTILINE)
    engines = ("ours", "ctranslate2", "ctranslate2_int8", "limit")
    assert actual == [(beam, batch, engine) for beam in "14" for batch in ("1", "64") for engine in engines]
