"""Entries and checkpoints of strangers: refused by one error, quickly, in little memory, and nothing of theirs runs."""

import pytest
from convert.hostile_checkpoints import CHECKPOINTS
from zoo.hostile_run import NAMES, watched_reports, write_bases
from zoo.hostile_weights import NAME, NEAR_MISSES

pytestmark = pytest.mark.slow

MOST_SECONDS, MOST_MEGABYTES = 2.0, 300


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Sound entries by name."""
    return write_bases(tmp_path_factory.mktemp("zoo") / "sound")


@pytest.fixture(scope="module")
def reports(bases, tmp_path_factory):
    """What a process of its own found."""
    return watched_reports(bases, tmp_path_factory.mktemp("strangers"))


def test_sound_ones_answer_without_a_socket_and_without_code_of_theirs(bases, reports):
    for name in bases:
        assert reports[name]["kind"] is None, reports[name]
        assert [event for event in reports[name]["events"] if event.startswith(("socket", "pickle", "open"))] == []


def test_the_watch_sees(reports):
    report = reports["misbehaved"]
    assert report["kind"] is None
    seen = {event.split(" ")[0] for event in report["events"]}
    assert {"exec", "socket.__new__", "pickle.find_class", "open"} <= seen


@pytest.mark.parametrize("name", NAMES)
def test_refused(reports, name):
    report = reports[name.replace("/", " ")]
    assert report["kind"] == ("UserError" if name in CHECKPOINTS else "EntryError"), report
    assert report["events"] == []
    assert report["processor_seconds"] <= MOST_SECONDS
    assert report["megabytes"] <= MOST_MEGABYTES


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_is_named(reports, name):
    message = reports[f"weights: {name}"]["told"]
    assert NAME in message or "'more'" in message
