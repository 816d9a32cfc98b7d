"""A model is never replaced silently, and what is no model is never replaced at all."""

import json

import pytest
from zoo.tiny_entry import write_tiny_entry

from keras_attention.cli.main import main
from keras_attention.support.errors import EntryError
from keras_attention.zoo.entry import write_manifest
from keras_attention.zoo.registry import check_free, claim_entry

FINETUNE = ("--text", "text", "--label", "label", "--from", "none", "--size", "tiny", "--epochs", "1")


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_entry(tmp_path_factory.mktemp("models") / "model").folder


@pytest.fixture
def strangers_folder(tmp_path):
    """A browser extension: it has a manifest.json too."""
    folder = tmp_path / "extension"
    (folder / "src").mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    (folder / "src" / "a.js").write_text("precious")
    return folder


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("text,label\n" + "a good film,good\na bad film,bad\n" * 20)
    return path


def complaint(capsys, *arguments):
    assert main([str(argument) for argument in arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
def test_finetune_keeps_a_foreign_folder(strangers_folder, table, capsys, overwrite):
    before = contents(strangers_folder)
    line = complaint(capsys, "finetune", table, *FINETUNE, "--out", strangers_folder, *overwrite)
    assert "is not a trained model, so it is never replaced" in line
    assert contents(strangers_folder) == before
    assert not list(strangers_folder.parent.glob("*checkpoints"))


@pytest.mark.parametrize("command", ["finetune", "convert"])
def test_a_model_is_replaced_only_on_request(model, table, capsys, command):
    before = contents(model)
    given = (table, *FINETUNE) if command == "finetune" else (table.parent,)
    assert "--overwrite" in complaint(capsys, command, *given, "--out", model)
    assert contents(model) == before
    assert [path.name for path in model.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("place", ["notes.txt", "src/notes.txt", ".git/HEAD"])
def test_a_model_with_a_users_file_is_never_replaced(tmp_path, place):
    folder = write_tiny_entry(tmp_path / "model").folder
    check_free(folder, overwrite=True)
    (folder / place).parent.mkdir(exist_ok=True)
    (folder / place).write_text("precious")
    before = contents(folder)
    for overwrite in (False, True):
        with pytest.raises(EntryError, match="never replaced"):
            check_free(folder, overwrite)
        with pytest.raises(EntryError, match="never replaced"):
            write_tiny_entry(folder, overwrite=overwrite)
    assert contents(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_changed_model_is_never_replaced(tmp_path):
    folder = write_tiny_entry(tmp_path / "model").folder
    card = (folder / "CARD.md").read_text(encoding="utf-8")
    (folder / "CARD.md").write_text(card.replace("dates", "DATES"), encoding="utf-8")  # of the same size
    with pytest.raises(EntryError, match=r"CARD\.md"):
        check_free(folder, overwrite=True)


@pytest.mark.parametrize(
    "manifest", ["{}", "[]", "", '{"format_version": 1, "files": {}}', '{"name": "app", "version": 1}']
)
def test_a_folder_with_only_a_manifest_is_not_replaced(strangers_folder, manifest):
    (strangers_folder / "manifest.json").write_text(manifest)
    with pytest.raises(EntryError, match="never replaced"):
        claim_entry(strangers_folder, overwrite=True)
    assert (strangers_folder / "src" / "a.js").read_text() == "precious"


def test_a_folder_with_a_foreign_manifest_is_not_replaced(tmp_path):
    (tmp_path / "notes").write_text("precious")
    write_manifest(tmp_path)
    with pytest.raises(EntryError, match=r"never replaced.*lacks 'config\.json'"):
        claim_entry(tmp_path, overwrite=True)


def test_a_model_with_a_users_empty_folder_is_never_replaced(tmp_path):
    folder = write_tiny_entry(tmp_path / "model").folder
    (folder / "mine").mkdir()
    with pytest.raises(EntryError, match=r"never replaced.*mine is empty"):
        check_free(folder, overwrite=True)


def test_a_model_is_never_written_to_the_root_folder(table, capsys):
    assert "never replaced" in complaint(capsys, "finetune", table, *FINETUNE, "--out", "/", "--overwrite")
    assert "exists already" in complaint(capsys, "export", "rnn_attention_dates", "/")


def test_an_empty_folder_and_a_new_one_are_free(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new"):
        check_free(tmp_path / name)
        assert write_tiny_entry(tmp_path / name).folder.is_dir()
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    (tmp_path / "file").write_text("precious")
    for name in ("nowhere", "file"):
        with pytest.raises(EntryError, match="never replaced"):
            check_free(tmp_path / name, overwrite=True)


def test_a_model_is_replaced_where_a_link_points(tmp_path):
    folder = write_tiny_entry(tmp_path / "model").folder
    (tmp_path / "link").symlink_to(folder)
    write_tiny_entry(tmp_path / "link", about={"target_language": "de"}, overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert json.loads((folder / "config.json").read_text())["target_language"] == "de"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "model"]
