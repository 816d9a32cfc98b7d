import io
import os

from keras_attention.cli.translation_demo import typed_lines


def piped(text):
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)
    return os.fdopen(reading)


def test_piped_lines_come_until_an_empty_one(monkeypatch):
    monkeypatch.setattr("sys.stdin", piped("3 May 2020\n 4 May 2020 \n\nnot reached\n"))
    assert list(typed_lines("? ")) == ["3 May 2020", "4 May 2020"]


def test_a_pipe_without_a_writer_does_not_block(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert list(typed_lines("? ")) == []
    os.close(writing)


def test_no_standard_input_is_no_lines(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert list(typed_lines("? ")) == []
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr("sys.stdin", closed)
    assert list(typed_lines("? ")) == []
