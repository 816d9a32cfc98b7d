"""Bad input is one line on stderr and exit code 2; nothing is lost or half-written."""

import pytest

import keras_attention
from keras_attention.cli import translate
from keras_attention.pipelines.translator import Translator
from keras_attention.support import atomic_files


def test_unknown_model(complains, tmp_path):
    assert "no model 'tyni'" in complains("translate", "--model", "tyni", "x")
    assert "Did you mean tiny" in complains("translate", "--model", "tyni", "x")
    assert "not a saved model" in complains("translate", "--model", tmp_path, "x")
    assert "Received: ''" in complains("zoo", "show", "")


def test_bad_usage(complains):
    assert "--model" in complains("translate", "x")
    assert "unrecognized arguments: --beams" in complains("translate", "--model", "tiny", "--beams=3", "x")
    assert "invalid choice: 'translat'" in complains("translat")
    assert "invalid int value: 'five'" in complains("translate", "--model", "tiny", "--beam", "five", "x")
    assert "beam_size=0" in complains("translate", "--model", "tiny", "--beam", "0", "x")
    assert "beam size 3" in complains("translate", "--model", "tiny", "--n-best", "5", "x")
    assert "length_penalty=-1.0" in complains("translate", "--model", "tiny", "--length-penalty", "-1", "x")
    assert "not both" in complains("translate", "--model", "tiny", "--input", "f", "x")
    complains("translate", "--model", "tiny", "--be\nam", "x")


def test_input_that_cannot_be_read(complains, tmp_path):
    assert "nowhere" in complains("translate", "--model", "tiny", "--input", tmp_path / "nowhere")
    assert "folder" in complains("translate", "--model", "tiny", "--input", tmp_path)
    (tmp_path / "empty").touch()
    assert "empty" in complains("translate", "--model", "tiny", "--input", tmp_path / "empty")
    assert "empty" in complains("translate", "--model", "tiny", stdin=b"")
    (tmp_path / "latin").write_bytes(b"A dog.\n\nGr\xfc\xdfe\n")
    assert "line 3" in complains("translate", "--model", "tiny", "--input", tmp_path / "latin")
    error = complains("translate", "--model", "tiny", stdin=b"A dog.\n\nGr\xfc\xdfe\n")
    assert "line 3" in error
    assert "0xFC" in error


def test_output_that_cannot_be_written(complains, tmp_path, monkeypatch):
    def never(entry, task):
        raise AssertionError("the model was loaded before the output was checked")

    monkeypatch.setattr(translate, "load", never)
    for output in (tmp_path / "nowhere" / "out.txt", tmp_path):
        assert "cannot be written" in complains("translate", "--model", "tiny", "--output", output, "x")
    for picture in (tmp_path / "nowhere" / "map.png", tmp_path / "map.jpg"):
        assert picture.name in complains("translate", "--model", "tiny", "--attention", picture, "x")
    monkeypatch.setattr(atomic_files.os, "access", lambda path, mode: False)
    assert "not writable" in complains("translate", "--model", "tiny", "--output", tmp_path / "out.txt", "x")
    assert not list(tmp_path.iterdir())


def test_output_of_a_run_that_fails_is_the_old_one(complains, tmp_path, monkeypatch):
    def fail(self, texts, **options):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Translator, "hypotheses", fail)
    (tmp_path / "out.txt").write_text("old")
    assert "Input/output error" in complains("translate", "--model", "tiny", "--output", tmp_path / "out.txt", "x")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_files_of_different_lengths(complains, tmp_path):
    (tmp_path / "three").write_text("a\nb\nc\n")
    (tmp_path / "two").write_text("a\nb\n")
    error = complains("evaluate", "--model", "tiny", "--source", tmp_path / "three", "--target", tmp_path / "two")
    assert "3 lines" in error
    assert "2" in error


def test_damaged_model(run, zoo, tmp_path, capsys):
    for name in ("manifest.json", "config.json"):
        (tmp_path / name).write_text("{}")
    code, _, err = run("zoo", "show", tmp_path)
    assert code == 2
    assert err.count("\n") == 1


def test_debug_shows_the_traceback(run):
    with pytest.raises(keras_attention.support.errors.UserError, match="no model"):
        run("translate", "--debug", "--model", "nothing", "x")


def test_interrupt(run, monkeypatch, tmp_path):
    def interrupted(self, texts, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Translator, "hypotheses", interrupted)
    code, out, err = run("translate", "--model", "tiny", "--output", tmp_path / "out.txt", "x")
    assert (code, out, err) == (130, "", "keras-attention: interrupted\n")
    assert not list(tmp_path.iterdir())
