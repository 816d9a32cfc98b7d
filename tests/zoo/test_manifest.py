"""The manifest: exactly these files, with these sizes and hashes."""

import json
import os

import pytest

from keras_attention.support.errors import EntryError
from keras_attention.zoo import entry as manifest
from keras_attention.zoo.entry import verify_files, write_manifest


@pytest.fixture
def folder(tmp_path):
    """Three files, one of them in a folder, and their manifest."""
    entry = tmp_path / "entry"
    (entry / "tokenizer").mkdir(parents=True)
    (entry / "config.json").write_bytes(b"{}" * 11)
    (entry / "model.weights.h5").write_bytes(bytes(range(97)))
    (entry / "tokenizer" / "tokenizer.json").write_bytes(b"[1]")
    write_manifest(entry)
    return entry


NAMES = ["config.json", "model.weights.h5", "tokenizer/tokenizer.json"]


def test_sound_folder(folder):
    assert verify_files(folder) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_one_flipped_bit(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 4
    (folder / name).write_bytes(content)
    with pytest.raises(EntryError, match=f"{name}.*SHA-256"):
        verify_files(folder)
    assert verify_files(folder, hashed=set(NAMES) - {name}) == NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", [lambda content: content[:-1], lambda content: content + b" "])
def test_another_size(folder, name, change):
    (folder / name).write_bytes(change((folder / name).read_bytes()))
    with pytest.raises(EntryError, match=f"{name}.*bytes. Expected"):
        verify_files(folder, hashed=())


@pytest.mark.parametrize("name", NAMES)
def test_missing_file(folder, name):
    (folder / name).unlink()
    with pytest.raises(EntryError, match=f"{name}.* is missing"):
        verify_files(folder)


@pytest.mark.parametrize("name", ["code.py", "tokenizer/more.json", "Thumbs.db"])
def test_extra_file(folder, name):
    (folder / name).write_text("x")
    with pytest.raises(EntryError, match=f"{name}.* does not belong"):
        verify_files(folder)


def test_nothing_but_plain_files(folder):
    (folder / "link").symlink_to(folder / "config.json")
    with pytest.raises(EntryError, match="link.*plain files"):
        verify_files(folder)
    (folder / "link").unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(EntryError, match="pipe.*plain files"):
        verify_files(folder)
    (folder / "pipe").unlink()
    (folder / ".hidden").write_text("x")
    with pytest.raises(EntryError, match="hidden.*plain names"):
        verify_files(folder)


def change_manifest(folder, change):
    """Rewrites the manifest after `change` worked on its content."""
    content = json.loads((folder / "manifest.json").read_text())
    change(content)
    (folder / "manifest.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(format_version=2), "format_version=2"),
        (lambda content: content.pop("files"), "must hold"),
        (lambda content: content.update(more=1), "must hold"),
        (lambda content: content.update(files=[]), "must hold"),
        (
            lambda content: content["files"].update({"../x": {"size": 1, "sha256": "0" * 64}}),
            "invalid entry for '../x'",
        ),
        (lambda content: content["files"].update({"/etc/x": {"size": 1, "sha256": "0" * 64}}), "invalid entry"),
        (lambda content: content["files"]["config.json"].update(sha256="0"), "invalid entry for 'config.json'"),
        (lambda content: content["files"]["config.json"].update(size=True), "invalid entry for 'config.json'"),
        (lambda content: content["files"]["config.json"].pop("size"), "invalid entry for 'config.json'"),
    ],
)
def test_unsound_manifest(folder, change, message):
    change_manifest(folder, change)
    with pytest.raises(EntryError, match=message):
        verify_files(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not valid JSON"),
        (b"[]", "must hold a JSON object"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
        (b"\xff{}", "not valid JSON"),
        (b"[" * 50_000, "not valid JSON"),
        (b" " * 70_000, "larger than"),
    ],
)
def test_manifest_that_is_no_small_json(folder, content, message):
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(EntryError, match=message):
        verify_files(folder)


def test_no_entry(tmp_path):
    with pytest.raises(EntryError, match=r"no manifest\.json"):
        verify_files(tmp_path)
    with pytest.raises(EntryError, match="not a folder"):
        verify_files(tmp_path / "nowhere")


def test_too_many_or_too_large(folder, monkeypatch):
    monkeypatch.setattr(manifest, "MAX_ENTRY_BYTES", 100)
    with pytest.raises(EntryError, match="Allowed: 100"):
        verify_files(folder)
    monkeypatch.setattr(manifest, "MAX_FILES", 2)
    with pytest.raises(EntryError, match="more than the 2 files"):
        verify_files(folder)
