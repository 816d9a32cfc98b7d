"""`keras-attention export`: whole or not at all, and one line for what the user can mend."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from cli.running import translator

from keras_attention.export import graph_texts


@pytest.mark.slow
def test_bad_usage(complains, tmp_path):
    new = tmp_path / "new"
    assert "DIR" in complains("export", "tiny")
    assert "no model 'tyni'" in complains("export", "tyni", new)
    assert "invalid choice: 'zip'" in complains("export", "tiny", new, "--format", "zip")
    assert "invalid int value" in complains("export", "tiny", new, "--beam", "many")
    assert "beam_size=0" in complains("export", "tiny", new, "--beam", "0")
    assert "length_penalty=-1.0" in complains("export", "tiny", new, "--length-penalty", "-1")
    assert "litert contains no search" in complains("export", "tiny", new, "--format", "litert", "--beam", "3")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_places_that_cannot_be_written(complains, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    for place in ("file", "folder"):
        assert "exists already" in complains("export", "tiny", tmp_path / place)
    for place in ("nowhere/new", "file/new"):
        assert "its folder does not exist" in complains("export", "tiny", tmp_path / place)

    def forbidden(path, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", forbidden)
    assert "Permission denied" in complains("export", "tiny", tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (tf.errors.ResourceExhaustedError(None, None, "No space left on device"), 2, "No space left on device"),
        (OSError(28, "No space left on device"), 2, "No space left on device"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_nothing_is_left_of_a_run_that_fails(run, tmp_path, monkeypatch, error, code, text):
    def fail(graph, folder, **options):
        (tmp_path / folder / "half").touch()
        raise error

    monkeypatch.setattr(graph_texts.tf.saved_model, "save", fail)
    actual, out, err = run("export", "tiny", tmp_path / "new")
    assert (actual, out, err.count("\n")) == (code, "", 1)
    assert text in err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_litert_carries_the_network(run, tmp_path):
    code, out, _ = run("export", "tiny", tmp_path / "new", "--format", "litert", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["inputs"]["source_ids"]["type"] == "int32 (1, 29)"
    assert set(report["files"]) >= {"model.tflite", "CARD.md", "source_tokenizer/tokenizer.model"}
    ids = {"source_ids": np.zeros((1, 29), "int32"), "target_ids": np.zeros((1, 19), "int32")}
    ids["source_ids"][0, :5], ids["target_ids"][0, :3] = (5, 7, 11, 13, 3), (2, 5, 7)
    network = tf.lite.Interpreter(str(tmp_path / "new" / "model.tflite")).get_signature_runner("serving_default")
    (logits,) = network(**ids).values()
    np.testing.assert_allclose(logits[:, :3], np.asarray(translator().model(ids))[:, :3], atol=1e-4)


@pytest.mark.slow
def test_onnx_says_why_it_cannot(complains, tmp_path):
    error = complains("export", "tiny", tmp_path / "new", "--format", "onnx")
    reasons = ("onnx export does not support this AttentionSeq2Seq", "needs other packages: pip install onnx")
    assert any(reason in error for reason in reasons)
    assert not list(tmp_path.iterdir())
