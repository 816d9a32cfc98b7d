"""Damage is found before a parser opens the file, and no size is believed before it is compared with the limit."""

import hashlib
import shutil
import time
import tracemalloc

import pytest
from zoo.damage import CUTS, FLIPS, damages
from zoo.hostile_entries import HOSTILE, SIZES, make
from zoo.tiny_entry import write_tiny_entry

from keras_attention.support.errors import EntryError
from keras_attention.zoo import entry as entries
from keras_attention.zoo.entry import MANIFEST, read_entry

MOST_SECONDS, MOST_BYTES = 0.05, 50_000_000


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return write_tiny_entry(tmp_path_factory.mktemp("zoo") / "sound").folder


@pytest.mark.slow
def test_every_flipped_bit_and_every_lost_end_is_found_before_a_parser_sees_it(sound, tmp_path, monkeypatch):
    parsed = []
    monkeypatch.setattr(entries, "read_json", lambda path, read=entries.read_json: parsed.append(path) or read(path))
    shutil.copytree(sound, tmp_path / "entry")
    refused = 0
    for name in damages(tmp_path / "entry"):
        parsed.clear()
        with pytest.raises(EntryError, match="SHA-256|Expected: [0-9]+$|invalid entry|is missing|manifest.json"):
            read_entry(tmp_path / "entry")
        assert name == MANIFEST or tmp_path / "entry" / name not in parsed
        refused += 1
    assert refused == FLIPS + CUTS
    read_entry(tmp_path / "entry")


def _seconds_of_a_refusal(folder):
    begun = time.process_time()
    with pytest.raises(EntryError):
        read_entry(folder)
    return time.process_time() - begun


@pytest.mark.parametrize("name", SIZES)
def test_oversized_entries_are_refused_at_once(sound, tmp_path, monkeypatch, name):
    assert HOSTILE[name][0] == "translator"
    make(name, {"translator": sound}, tmp_path / "entry", tmp_path)
    with pytest.raises(EntryError):  # once before, so that nothing is measured but the refusal
        read_entry(tmp_path / "entry")
    hashed = []
    digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda file, name: hashed.append(file.name) or digest(file, name))
    seconds = min(_seconds_of_a_refusal(tmp_path / "entry") for _ in range(3))  # other work on the machine adds to it
    tracemalloc.start()
    with pytest.raises(EntryError):
        read_entry(tmp_path / "entry")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds <= MOST_SECONDS
    assert most <= MOST_BYTES
    assert not any(str(path).endswith((".h5", ".model", ".png")) for path in hashed)


def test_control_characters_of_a_card_are_removed(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "entry")
    entry = read_entry(tmp_path / "entry")
    with (tmp_path / "entry" / "CARD.md").open("a") as card:
        card.write("\x1b[2Jgone\r\x07\u202e\n")
    assert entry.card.endswith(" [2Jgone\n  \n")
