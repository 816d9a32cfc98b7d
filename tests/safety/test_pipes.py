"""What cannot be read twice is read once: pipes, named pipes, `<(...)` and /dev/stdin."""

import gzip
import os
import threading

import pytest
from cli.conftest import complains, run  # noqa: F401 (fixtures)
from cli.running import translator
from zoo.tiny_bert import task, tiny_classifier, write_tiny
from zoo.tiny_entry import ENGLISH

from keras_attention.cli.io import many_texts
from keras_attention.cli.io.text_files import input_lines

pytestmark = pytest.mark.slow

TEXTS = ENGLISH * 3


@pytest.fixture
def pipe(tmp_path):
    """Makes a named pipe with a content that a writer gives away once."""
    writers = []

    def make(name, content):
        path = tmp_path / name
        os.mkfifo(path)
        writers.append(threading.Thread(target=path.write_bytes, args=(content,), daemon=True))
        writers[-1].start()
        return path

    yield make
    for writer in writers:
        writer.join(timeout=10)
        assert not writer.is_alive()


@pytest.mark.parametrize("name", ["pipe", "pipe.gz"])
def test_a_named_pipe_is_read_as_often_as_needed(pipe, name):
    content = "\r\n".join(TEXTS).encode()
    path = pipe(name, gzip.compress(content) if name.endswith(".gz") else content)
    with input_lines(str(path)) as lines:
        assert list(lines()) == list(lines()) == TEXTS


def test_a_file_descriptor_of_a_shell():
    read, write = os.pipe()
    os.write(write, b"one\ntwo\n")
    os.close(write)
    with input_lines(f"/dev/fd/{read}") as lines:
        os.close(read)
        assert [list(lines()) for _ in range(3)] == [["one", "two"]] * 3


def test_translate_reads_a_pipe_and_resumes_one(run, pipe, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(many_texts, "WINDOW", 5)
    content = "".join(f"{text}\n" for text in TEXTS).encode()
    for number, flags in enumerate([(), ("--resume",)]):
        out = tmp_path / "answers"
        command = ("translate", "--model", "tiny", "--input", pipe(f"pipe{number}", content), "--output", out, *flags)
        assert run(*command)[:2] == (0, "")
        assert out.read_text().splitlines() == translator().translate(TEXTS)


def test_errors_name_the_pipe(complains, pipe):  # noqa: F811
    path = pipe("pipe", b"fine\nGr\xfc\xdfe\n")
    assert f"{path}, line 2, column 3" in complains("translate", "--model", "tiny", "--input", path)
    assert "the file is empty" in complains("translate", "--model", "tiny", "--input", pipe("empty", b""))


def test_evaluate_reads_the_table_of_a_pipe(run, pipe, tmp_path):  # noqa: F811
    write_tiny(tmp_path / "moods", tiny_classifier().model, task=task())
    labels = task()["label_names"]
    content = "text;label\n" + "".join(f"{text};{labels[number % 2]}\n" for number, text in enumerate(TEXTS))
    (tmp_path / "table.csv").write_text(content.replace(";", ","))
    command = ("evaluate", "--model", tmp_path / "moods", "--json", "--table")
    code, expected, _ = run(*command, tmp_path / "table.csv")
    assert code == 0
    assert run(*command, pipe("pipe", content.encode()), "--delimiter", ";")[:2] == (0, expected)
