import os

from keras_attention.runtime.compiled_search import map_in_threads
from keras_attention.support.cores import available_cores
from keras_attention.training.history import run_facts


def test_only_the_cores_of_this_process_count():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert available_cores() == 1
        assert run_facts()["hardware"].startswith("1 core of ")
    finally:
        os.sched_setaffinity(0, before)
    assert available_cores() == len(before)


def test_systems_that_do_not_report_cores_use_all(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS and Windows
    assert available_cores() == os.cpu_count()
    assert list(map_in_threads(str, [1, 2])) == ["1", "2"]
    assert run_facts()["hardware"].startswith(f"{os.cpu_count()} cores of ")
