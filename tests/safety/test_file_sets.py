"""Files that belong together, what stands beside them, and what a command prints to."""

import subprocess
import sys

import numpy as np
import pytest
from cli.conftest import complains, run  # noqa: F401 (fixtures)
from zoo.tiny_entry import ENGLISH

from keras_attention.cli.main import main
from keras_attention.data.prose.token_stream import TokenStream
from keras_attention.support.atomic_files import release_claims, whole_file, whole_files
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import CharacterTokenizer, SentencePieceTokenizer
from keras_attention.training.history import claim_files
from keras_attention.training.run import RunSettings
from keras_attention.visualize import figures


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_several_files_appear_together_or_not_at_all(tmp_path):
    (tmp_path / "a-1").write_text("old")
    (tmp_path / "a-2").mkdir()

    def write():
        with whole_files(tmp_path / "a") as folder:
            (folder / "a-1").write_text("new")
            (folder / "a-2").write_text("new")

    with pytest.raises(UserError, match="a-2 cannot be written: it is a folder"):
        write()
    assert (tmp_path / "a-1").read_text() == "old"
    assert names(tmp_path) == ["a-1", "a-2"]
    (tmp_path / "a-2").rmdir()
    write()
    assert names(tmp_path) == ["a-1", "a-2"]
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new", "new"]


@pytest.mark.slow
def test_pictures_appear_together_or_not_at_all(run, tmp_path, monkeypatch):  # noqa: F811
    words = ("translate", "--model", "tiny", "--attention", tmp_path / "map.png", *ENGLISH[:3])
    for number in (1, 2, 3):
        (tmp_path / f"map-{number}.png").write_text("old")
    save, drawn = figures.save_figure, []

    def full_after_one(figure, path):
        drawn.append(path)
        if len(drawn) == 2:
            raise UserError("the disk is full")
        save(figure, path)

    monkeypatch.setattr(figures, "save_figure", full_after_one)
    code, _, err = run(*words)
    assert (code, err) == (2, "keras-attention: the disk is full\n")
    assert names(tmp_path) == ["map-1.png", "map-2.png", "map-3.png"]
    assert {path.read_text() for path in tmp_path.iterdir()} == {"old"}
    monkeypatch.undo()


@pytest.mark.parametrize("kind", [CharacterTokenizer, SentencePieceTokenizer])
def test_an_encoded_stream_replaces_no_users_file(tmp_path, kind):
    texts = ["a dog runs over the grass"] * 3
    tokenizer = kind.train(texts) if kind is CharacterTokenizer else kind.train(texts, 24)
    stream = TokenStream(tokenizer, np.arange(9), np.arange(5), words=3, lines=False)
    stream.save(tmp_path / "encoded")
    stream.save(tmp_path / "encoded")
    assert names(tmp_path) == ["encoded"]
    (tmp_path / "encoded" / "notes").write_text("precious")
    (tmp_path / "encoded" / "tokenizer.json").write_text("precious, too")
    with pytest.raises(UserError, match="holds 'notes', so it is not replaced"):
        stream.save(tmp_path / "encoded")
    assert (tmp_path / "encoded" / "tokenizer.json").read_text() == "precious, too"


def test_weights_trained_elsewhere_are_replaced_on_request(tmp_path):
    class Config(RunSettings):
        encoded = "pairs.npz"

    (tmp_path / "mine.npz").write_text("precious")
    with pytest.raises(UserError, match=r"mine\.npz already contains trained weights.* --overwrite"):
        claim_files(Config(), tmp_path / "mine")
    claim_files(Config(overwrite=True), tmp_path / "mine")
    claim_files(RunSettings(), tmp_path / "mine")
    assert names(tmp_path) == [".mine.npz.lock", "mine.npz"]
    release_claims()


@pytest.mark.parametrize(
    ("closed", "words", "code"),
    [(">&-", "zoo list", 0), ("2>&-", "zoo show nothing", 2), ("<&- >&- 2>&-", "zoo list", 0), (">&-", "zoo no", 2)],
)
def test_a_closed_stream_is_no_error(closed, words, code):
    command = f"'{sys.executable}' -m keras_attention {words} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_full_disk_behind_standard_output_is_an_error():
    command = f"'{sys.executable}' -m keras_attention zoo list > /dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "keras-attention: Standard output cannot be written: No space left on device\n",
    )


def test_a_full_device_is_an_error_with_its_name(capsys):
    with (
        pytest.raises(UserError, match="/dev/full cannot be written: No space left on device"),
        whole_file("/dev/full") as file,
    ):
        file.write("x")


def test_a_long_name_does_not_hide_the_reason(capsys):
    assert main(["translate", "a", "--model", "rnn_attention_dates", "--output", "x" * 5000]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("keras-attention: /")
    assert line.endswith("File name too long")
    assert len(line) < 1050
