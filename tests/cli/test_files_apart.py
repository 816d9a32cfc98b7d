"""No command writes to a file that it reads, or two things to one file."""

import argparse
import os

import pytest

from keras_attention.cli.io.text_files import check_files_apart
from keras_attention.cli.main import main

CONTENT = b"text,label\na dog,good\n"
DATES, MOODS = ("--model", "rnn_attention_dates"), ("--model", "sst2")
COMMANDS = {
    "translate": ("translate", *DATES, "--input", "in", "--output", "out"),
    "translate --attention": ("translate", *DATES, "--input", "in", "--attention", "out"),
    "translate --explain": ("translate", *DATES, "--input", "in", "--explain", "out"),
    "translate --stream": ("translate", *DATES, "--stream", "--input", "in", "--output", "out"),
    "classify": ("classify", *MOODS, "--input", "in", "--output", "out"),
    "classify --table": ("classify", *MOODS, "--table", "in", "--output", "out", "--delimiter", ","),
    "classify --explain": ("classify", *MOODS, "--table", "in", "--explain", "out", "--delimiter", ","),
    "translate --terms": ("translate", *DATES, "a", "--terms", "in", "--output", "out"),
    "translate --do-not-translate": ("translate", *DATES, "a", "--do-not-translate", "in", "--output", "out"),
    "classify --attention": ("classify", *MOODS, "in", "--attention", "out"),
    "caption": ("caption", *DATES, "other", "in", "--output", "out"),
    "caption --attention": ("caption", *DATES, "in", "--attention", "out"),
    "transcribe --attention": ("transcribe", *DATES, "in", "--attention", "out"),
    "generate --out": ("generate", *DATES, "in", "--out", "out"),
    "generate --attention": ("generate", *DATES, "in", "--attention", "out"),
    "generate --explain": ("generate", *DATES, "in", "--explain", "out"),
    "encode": ("encode", "--input", "in", "--output", "out"),
    "evaluate --source": ("evaluate", *DATES, "--source", "in", "--target", "other", "--output", "out"),
    "evaluate --target": ("evaluate", *DATES, "--source", "other", "--target", "in", "--output", "out"),
    "evaluate --table": ("evaluate", *MOODS, "--table", "in", "--output", "out", "--delimiter", ","),
    "finetune": ("finetune", "in", "--text", "text", "--label", "label", "--delimiter", ",", "--out", "out"),
}


@pytest.fixture
def complaint(tmp_path, monkeypatch, capsys):
    """Runs a command that must be refused in one line, and must change no file; returns the line."""
    monkeypatch.chdir(tmp_path)
    for name in ("file", "other"):
        (tmp_path / name).write_bytes(CONTENT)

    def run(words, **names):
        before = {name: os.lstat(name).st_mtime_ns for name in os.listdir()}
        assert main([names.get(word, word) for word in words]) == 2
        assert {name: os.lstat(name).st_mtime_ns for name in os.listdir()} == before
        assert (tmp_path / "file").read_bytes() == CONTENT
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_no_output_replaces_the_input(complaint, command):
    assert "are the same file" in complaint(COMMANDS[command], **{"in": "file", "out": "./file"})


@pytest.mark.parametrize("link", ["symlink", "hard link"])
@pytest.mark.parametrize("command", ["translate", "classify --table", "evaluate --target"])
def test_no_output_replaces_the_input_by_a_link(complaint, tmp_path, command, link):
    if link == "symlink":
        (tmp_path / "link").symlink_to("file")
    else:
        (tmp_path / "link").hardlink_to(tmp_path / "file")
    for names in ({"in": "file", "out": "link"}, {"in": "link", "out": "file"}):
        assert "are the same file" in complaint(COMMANDS[command], **names)


@pytest.mark.parametrize("name", ["out.partial", "out.partial.json"])
@pytest.mark.parametrize("command", ["translate", "classify", "classify --table"])
def test_no_partial_answers_replace_the_input(complaint, tmp_path, command, name):
    (tmp_path / name).hardlink_to(tmp_path / "file")
    for path in ("file", name):
        assert f"{name} for partial answers" in complaint(COMMANDS[command], **{"in": path})


@pytest.mark.parametrize("command", ["classify", "caption", "transcribe"])
def test_no_numbered_picture_replaces_an_input(complaint, tmp_path, command):
    (tmp_path / "view-2.png").hardlink_to(tmp_path / "file")
    message = complaint((command, *MOODS, "other", "view-2.png", "--attention", "view.png"))
    assert "the input and --attention are the same file, view-2.png" in message


def test_answers_and_page_have_files_of_their_own(complaint):
    words = ("classify", *MOODS, "a dog", "--output", "same.html", "--explain", "same.html")
    assert "--explain and --output are the same file" in complaint(words) or "--output and --explain" in complaint(
        words
    )


def test_two_readings_of_one_file_and_one_device_are_fine(tmp_path):
    same = str(tmp_path / "file")
    for named in (
        {"source": same, "target": same, "output": str(tmp_path / "new")},
        {"input": "/dev/null", "output": "/dev/null"},
        {"input": same, "output": None},
    ):
        check_files_apart(argparse.Namespace(function="evaluate", **named))
    check_files_apart(argparse.Namespace(function="translate", texts=[same], output=same))  # this text is no name
    (tmp_path / "one-1.png").touch()
    check_files_apart(
        argparse.Namespace(function="caption", texts=[f"{tmp_path}/one-1.png"], attention=f"{tmp_path}/one.png")
    )
    check_files_apart(argparse.Namespace(function="attention", target=same, out=same))  # this target is a text
