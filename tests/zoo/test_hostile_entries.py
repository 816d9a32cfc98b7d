"""Entries and checkpoints of strangers: refused by one error, quickly, in little memory, and nothing of theirs runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from convert.hostile_checkpoints import CHECKPOINTS, write_hostile_checkpoint
from zoo import hostile_entries, hostile_weights
from zoo.tiny_bert import tiny_classifier, tiny_mask_filler, write_tiny
from zoo.tiny_entry import write_tiny_entry

MOST_SECONDS, MOST_MEGABYTES = 2.0, 300
PROGRAM = Path(__file__).with_name("watched_loading.py")


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Sound entries by name."""
    folder = tmp_path_factory.mktemp("zoo") / "sound"
    write_tiny_entry(folder / "translator")
    write_tiny(folder / "filler", tiny_mask_filler().model)
    judge = tiny_classifier()
    write_tiny(folder / "judge", judge.model, task=judge.task)
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def reports(bases, tmp_path_factory):
    """Dict from the name of each entry to what a process of its own found when it loaded it."""
    place = tmp_path_factory.mktemp("strangers")
    outside = place / "outside"
    (place / "hostile").mkdir()
    for number, name in enumerate(hostile_entries.HOSTILE):
        (outside / str(number)).mkdir(parents=True)
        os.mkfifo(outside / str(number) / "secret")
        hostile_entries.make(name, bases, place / "hostile" / name.replace("/", " "), outside / str(number))
    for name in CHECKPOINTS:
        write_hostile_checkpoint(name, place / "hostile" / name)
    before = sorted(place.rglob("*"))
    command = [sys.executable, PROGRAM, bases["filler"].parent, place / "hostile"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path]), "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=place, env=environment, timeout=600, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert sorted(place.rglob("*")) == before
    return {report["name"]: report for report in map(json.loads, done.stdout.splitlines())}


def test_sound_ones_answer_without_a_socket_and_without_code_of_theirs(bases, reports):
    for name in bases:
        assert reports[name]["kind"] is None, reports[name]
        assert [event for event in reports[name]["events"] if event.startswith(("socket", "pickle", "open"))] == []


def test_the_watch_sees(reports):
    report = reports["misbehaved"]
    assert report["kind"] is None
    seen = {event.split(" ")[0] for event in report["events"]}
    assert {"exec", "socket.__new__", "pickle.find_class", "open"} <= seen


@pytest.mark.parametrize("name", [*hostile_entries.HOSTILE, *CHECKPOINTS])
def test_refused(reports, name):
    report = reports[name.replace("/", " ")]
    assert report["kind"] == ("UserError" if name in CHECKPOINTS else "EntryError"), report
    assert report["events"] == []
    assert report["processor_seconds"] <= MOST_SECONDS
    assert report["megabytes"] <= MOST_MEGABYTES


@pytest.mark.parametrize("name", hostile_weights.NEAR_MISSES)
def test_a_near_miss_is_named(reports, name):
    told = reports[f"weights: {name}"]["told"]
    assert hostile_weights.NAME in told or "'more'" in told
