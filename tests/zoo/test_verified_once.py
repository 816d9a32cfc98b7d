"""Each file of an entry is hashed once per load, whoever loads it."""

import hashlib
from collections import Counter
from pathlib import Path

import pytest
from zoo.tiny_bert import TEXTS, task, tiny_classifier, write_tiny
from zoo.tiny_entry import ENGLISH, write_tiny_entry

import keras_attention as ka
from keras_attention.cli import main as cli
from keras_attention.models import AttentionSeq2Seq
from keras_attention.pipelines.base import failing_examples

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoo")
    write_tiny_entry(folder / "words")
    write_tiny(folder / "moods", tiny_classifier().model, task=task())
    return folder


@pytest.fixture
def hashed(monkeypatch):
    """Counts how often each file is hashed."""
    counts, digest = Counter(), hashlib.file_digest

    def counted(file, name):
        counts[Path(file.name)] += 1
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    return counts


def of_the_entry(counts, folder):
    """Dict from the name of each file but the manifest, which has no hash, to the number of times it was hashed."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json"]
    return {str(path.relative_to(folder)): counts[path] for path in files}


WAYS = {
    "load": ("words", lambda folder: ka.load(folder)),
    "load a classifier": ("moods", lambda folder: ka.load(folder)),
    "from_preset": ("words", lambda folder: AttentionSeq2Seq.from_preset(folder)),
    "translate": ("words", lambda folder: cli.main(["translate", "--model", str(folder), ENGLISH[0]])),
    "classify": ("moods", lambda folder: cli.main(["classify", "--model", str(folder), TEXTS[0]])),
    "zoo show": ("moods", lambda folder: cli.main(["zoo", "show", str(folder)])),
    "zoo verify": ("moods", lambda folder: cli.main(["zoo", "verify", str(folder)])),
    "failing examples": ("moods", failing_examples),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_file_is_hashed_once(zoo, hashed, way, capsys):
    name, load = WAYS[way]
    load(zoo / name)
    counts = of_the_entry(hashed, zoo / name)
    assert len(counts) > 4
    assert set(counts.values()) == {1}, counts


def test_a_server_hashes_each_file_once(zoo, hashed):
    from keras_attention.server import ServerSettings
    from keras_attention.server.served_models import load_models

    models = load_models([str(zoo / "words"), str(zoo / "moods")], ServerSettings(), lambda *_: None)
    assert list(models) == ["words", "moods"]
    for name in models:
        assert set(of_the_entry(hashed, zoo / name).values()) == {1}


def test_a_list_of_models_hashes_no_weights(zoo, hashed, monkeypatch, capsys):
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(zoo))
    assert cli.main(["zoo", "list"]) == 0
    assert of_the_entry(hashed, zoo / "words")["model.weights.h5"] == 0
