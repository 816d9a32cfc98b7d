"""How tests compute, which are quick, in which order they run, and a zoo of one entry.

Tests compile many small programs and run each a few times, so little is spent on optimizing them. Where several
processes share the cores (`make test`), each has one thread.
"""

import os
import sys
from collections import Counter

import pytest
from plain_graphs import GraphsOfThisProcess, run_graphs_as_traced
from thorough_parts import chosen_part, thorough_parts

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ["KERAS_ATTENTION_CACHE"] = ""  # tests leave nothing in the home folder, and find nothing there
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # else the import of TensorFlow sets 1
os.environ.setdefault("PYTHONFAULTHANDLER", "1")  # a process that a test starts and that crashes tells where
os.environ.setdefault("TF_SET_ONEDNN_FPMATH_MODE", "")  # what a test accelerates changes no product of another


def pytest_addoption(parser):
    parser.addoption("--part", metavar="K/N", default="1/1", help="run the K-th of N parts of the thorough tests")


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by markers
def pytest_collection_modifyitems(config, items):
    """Of a sampled test, every n-th point is quick and the rest thorough; `--part` chooses some of the thorough tests.

    Files with long tests come first, so that none is left at last.
    """
    points, sampled_points = Counter(), set()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled and not item.get_closest_marker("thorough"):
            test = item.nodeid.partition("[")[0]
            if points[test] % sampled.args[0]:
                item.add_marker(pytest.mark.thorough)
                sampled_points.add(item.nodeid)
            points[test] += 1
    part, parts = chosen_part(config.getoption("part"))
    thorough = {item.nodeid for item in items if item.get_closest_marker("thorough")}
    exhaustive = {item.nodeid for item in items if item.get_closest_marker("exhaustive")}
    number_of = thorough_parts(thorough - sampled_points - exhaustive, sampled_points, parts)
    config.hook.pytest_deselected(items=[item for item in items if number_of.get(item.nodeid, part) != part])
    items[:] = [item for item in items if number_of.get(item.nodeid, part) == part]
    long = Counter(item.path for item in items if {"slow", "thorough"} & {mark.name for mark in item.iter_markers()})
    items.sort(key=lambda item: -long[item.path])


def pytest_terminal_summary(terminalreporter):
    """What tests have counted with `record_property`, such as the points at which commands were killed, in sum."""
    counted = Counter()
    for report in terminalreporter.getreports("passed"):
        for name, number in report.user_properties if report.when == "call" else ():
            counted[name] += number
    for name, number in sorted(counted.items()):
        terminalreporter.write_line(f"{name}: {number:,} tried, all held")


def pytest_runtest_setup():
    run_graphs_as_traced()


@pytest.fixture(autouse=True, scope="session")
def graphs():
    """Pipelines of equal models trace and compile once in a process."""
    from keras_attention.support import compile_cache

    compile_cache._in_use.append(GraphsOfThisProcess())


@pytest.fixture(autouse=True)
def environment():
    """What a test sets is gone when it ends: variables, and the policy of Keras, which recipes choose for a device."""
    before = dict(os.environ)
    yield
    if "keras" in sys.modules:
        sys.modules["keras"].config.set_dtype_policy("float32")
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """A folder with one entry, `tiny`."""
    from zoo.tiny_entry import write_tiny_entry  # here, for it loads TensorFlow

    folder = tmp_path_factory.mktemp("zoo")
    write_tiny_entry(folder / "tiny")
    return folder
