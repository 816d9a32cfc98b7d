"""Entries on a hub: what a push sends, what it refuses, and that a pushed entry loads like the one on this machine."""

import hashlib
import json
import re
import shutil

import pytest
import yaml
from publishing.conftest import TOKEN

import keras_attention
from keras_attention.cli import main as cli
from keras_attention.convert import published
from keras_attention.publishing.hub_upload import readme_text
from keras_attention.support.errors import EntryError, UserError
from keras_attention.zoo.entry import MANIFEST, read_entry
from keras_attention.zoo.registry import find_entry

ADDRESS = "hf://me/tiny-dates"
REPOSITORY = "me/tiny-dates"


@pytest.fixture
def entry(zoo, tmp_path):
    """A copy of the entry `tiny`, which a test may damage."""
    shutil.copytree(zoo / "tiny", tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.fixture(autouse=True)
def nothing_remembered():
    published._entry.cache_clear()


def push(capsys, *arguments):
    """Runs `push`; the exit code with what it printed, which never holds the token."""
    code = cli.main(["push", *map(str, arguments)])
    printed = capsys.readouterr()
    assert TOKEN not in printed.out + printed.err
    return code, printed.out, printed.err


def refused(capsys, expected, *arguments):
    code, printed, error = push(capsys, *arguments)
    assert (code, printed) == (2, "")
    assert re.search(expected, error), error
    assert error.count("\n") == 1


def test_a_pushed_entry_loads_like_the_one_on_this_machine(hub, entry, capsys):
    code, printed, error = push(capsys, entry, ADDRESS, "--json")
    assert code == 0, error
    facts = json.loads(printed)
    assert facts["private"] is True
    assert hub.private == {REPOSITORY}
    local = read_entry(entry)
    assert facts["files"] == len(local.files) + 2  # the manifest and README.md
    for name in (ADDRESS, facts["name"]):
        folder = find_entry(name)
        assert {file: (folder / file).read_bytes() for file in local.files} == {
            file: (entry / file).read_bytes() for file in local.files
        }
    assert not hub.asked_for("README.md")


@pytest.mark.slow
def test_a_pushed_entry_answers(hub, entry, capsys):
    assert push(capsys, entry, ADDRESS)[0] == 0
    example = read_entry(entry).metrics["examples"][0]
    assert keras_attention.load(ADDRESS).translate(example["source"]) == example["output"]


def test_the_readme_is_the_card_with_the_metadata_of_the_hub(hub, entry, capsys):
    assert push(capsys, entry, ADDRESS, "--public", "--licence", "cc-by-4.0")[0] == 0
    assert not hub.private
    readme = hub.models[REPOSITORY]["README.md"].decode()
    _, metadata, card = readme.split("---\n", 2)
    assert yaml.safe_load(metadata) == {
        "license": "cc-by-4.0",
        "language": ["en"],
        "library_name": "keras-attention",
        "pipeline_tag": "translation",
        "tags": ["keras", "attention", "AttentionSeq2Seq"],
    }
    assert card.strip().startswith("# tiny\n")
    assert f"keras_attention.load('{ADDRESS}')" in card
    assert "## Limits" in card


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("audio_digits", "audio-classification"),
        ("captioner_digits_soft", "image-to-text"),
        ("minilm_small_sentiment", "text-classification"),
        ("speech_digits", "automatic-speech-recognition"),
    ],
)
def test_the_hub_knows_the_task_and_the_kind_of_input(name, task):
    readme = readme_text(read_entry(find_entry(name)), ADDRESS)
    assert yaml.safe_load(readme.split("---\n", 2)[1])["pipeline_tag"] == task


@pytest.mark.parametrize(
    ("language", "tags"),
    [("de", ["de"]), ("German", ["de"]), ("mul", ["multilingual"]), ("pt-BR", ["pt"]), ("zxx", None), ("iso", None)],
)
def test_the_hub_gets_codes_of_languages(language, tags):
    entry = read_entry(find_entry("minilm_small_multi"))
    readme = readme_text(entry._replace(config={**entry.config, "language": language}), ADDRESS)
    assert yaml.safe_load(readme.split("---\n", 2)[1]).get("language") == tags


def test_an_interrupted_push_continues_without_sending_files_again(hub, entry, capsys):
    hub.failing_uploads = 100
    refused(capsys, "was not pushed: Error while uploading .*500.*Run the same command again", entry, ADDRESS)
    assert MANIFEST not in hub.models[REPOSITORY]  # a commit is whole or not there
    hub.failing_uploads = 0
    assert push(capsys, entry, ADDRESS)[0] == 0
    sent = len(hub.uploaded)
    assert push(capsys, entry, ADDRESS)[0] == 0
    assert len(hub.uploaded) == sent


def test_another_entry_replaces_the_files_of_the_last_one(hub, entry, capsys):
    hub.publish(entry, REPOSITORY, files={"old_tokenizer/vocab.txt": b"x", "README.md": b"old"})
    hub.private.add(REPOSITORY)
    assert push(capsys, entry, ADDRESS)[0] == 0
    assert "old_tokenizer/vocab.txt" not in hub.models[REPOSITORY]
    assert hub.models[REPOSITORY]["README.md"] != b"old"


def test_a_damaged_entry_is_not_pushed(hub, entry, capsys):
    (entry / "model.weights.h5").write_bytes((entry / "model.weights.h5").read_bytes()[:-1] + b"x")
    refused(capsys, "'model.weights.h5' does not match its SHA-256", entry, ADDRESS)
    assert hub.asked == []


def test_an_entry_that_answers_otherwise_is_not_pushed(hub, entry, capsys, monkeypatch):
    name = "keras_attention.publishing.hub_upload.failing_examples"
    monkeypatch.setattr(name, lambda entry: (1, ["example 1: 'a' instead of 'b'"]))
    refused(capsys, "is not pushed, because it does not answer as stored: example 1", entry, ADDRESS)
    assert hub.asked == []


def test_repositories_that_are_not_replaced(hub, entry, capsys):
    hub.publish("/nowhere", REPOSITORY, files={"model.safetensors": b"x", "config.json": b"{}"})
    hub.private.add(REPOSITORY)
    refused(capsys, "holds 'config.json' and is no saved model of this package", entry, ADDRESS)
    hub.publish(entry, REPOSITORY)
    refused(capsys, "exists and is private. Push without --public", entry, ADDRESS, "--public")
    hub.private.clear()
    refused(capsys, "exists and is public. Push with --public", entry, ADDRESS)
    assert not hub.uploaded


def test_without_a_token_that_may_write(hub, entry, capsys, monkeypatch):
    hub.writers.clear()
    refused(capsys, "the Hugging Face Hub refused: ", entry, ADDRESS)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    refused(capsys, "needs a token that may write: set HF_TOKEN", entry, ADDRESS)


def test_the_model_is_checked_before_the_token(hub, entry, tmp_path, capsys, monkeypatch):
    """Without a token, a user did not learn that the folder is no model."""
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    (entry / "model.weights.h5").write_bytes(b"x")
    refused(capsys, "model.weights.h5", entry, ADDRESS)
    (tmp_path / "empty").mkdir()
    refused(capsys, "empty' is not a saved model", tmp_path / "empty", ADDRESS)


def test_a_dry_run_lists_the_files_of_a_push_and_sends_nothing(hub, entry, capsys, monkeypatch):
    code, printed, error = push(capsys, entry, ADDRESS, "--json")
    assert code == 0, error
    pushed = json.loads(printed)
    sizes = {name: len(content) for name, content in hub.models.pop(REPOSITORY).items()}
    del sizes[".gitattributes"]  # the hub's own
    hub.asked.clear()
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    code, printed, error = push(capsys, entry, ADDRESS, "--dry-run", "--json")
    assert (code, json.loads(printed)) == (0, {"address": ADDRESS, "private": True, "files": sizes}), error
    assert (len(sizes), sum(sizes.values())) == (pushed["files"], pushed["bytes"])
    code, printed, error = push(capsys, entry, ADDRESS, "--dry-run", "--public")
    assert f"{sizes['CARD.md']:,}  CARD.md" in printed
    assert f"Nothing was pushed. Without --dry-run, these files go to {ADDRESS} ({len(sizes)} files, " in printed
    assert "public" in printed
    assert not hub.asked
    assert not hub.models


def test_a_dry_run_refuses_what_a_push_refuses(hub, entry, capsys):
    refused(capsys, "Expected hf://ORG/NAME", entry, "tiny", "--dry-run")
    (entry / "config.json").write_bytes(b"{}")
    refused(capsys, "config.json", entry, ADDRESS, "--dry-run")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("kaggle://me/tiny/keras/small", "Models are pushed to hf://ORG/NAME. Received: 'kaggle:"),
        ("tiny", "Expected hf://ORG/NAME"),
        ("hf://me/../x", "Expected hf://ORG/NAME"),
        ("hf://me/tiny@main", "takes no revision. Expected: hf://me/tiny"),
    ],
)
def test_addresses_that_take_no_push(address, message, hub, entry, capsys):
    refused(capsys, message, entry, address)
    assert hub.asked == []


def loading_fails(message):
    with pytest.raises(EntryError, match=message):
        keras_attention.load(ADDRESS)


@pytest.mark.parametrize("file", ["model.weights.h5", "config.json", MANIFEST])
def test_a_file_that_the_hub_has_changed(file, hub, entry, tmp_path):
    hub.publish(entry, REPOSITORY)
    content = hub.models[REPOSITORY][file]
    hub.models[REPOSITORY][file] = content[:-2] + b"\x20\x20"
    loading_fails("on the hub is not the file|does not match its SHA-256|is not valid JSON")
    assert not list((tmp_path / "ours").rglob("model.weights.h5"))


def test_a_manifest_that_lists_other_files(hub, entry):
    hub.publish(entry, REPOSITORY)
    manifest = json.loads((entry / MANIFEST).read_bytes())
    facts = manifest["files"]["CARD.md"]
    for name, message in {
        "../x": "has an invalid entry for '../x'",
        "run.py": "a saved model cannot have a file 'run.py'",
        "absent.png": "file 'absent.png' of its manifest.json is missing",
    }.items():
        files = {**manifest["files"], name: facts}
        hub.models[REPOSITORY][MANIFEST] = json.dumps(manifest | {"files": files}).encode()
        if name != "absent.png":
            hub.models[REPOSITORY][name] = (entry / "CARD.md").read_bytes()
        loading_fails(message)
        published._entry.cache_clear()
    assert not hub.asked_for(".h5")


def test_settings_that_are_not_allowed_end_before_the_weights(hub, entry):
    hub.publish(entry, REPOSITORY)
    manifest, config = (json.loads((entry / name).read_bytes()) for name in (MANIFEST, "config.json"))
    config["model"]["hidden_dim"] = 4999
    content = json.dumps(config).encode()
    manifest["files"]["config.json"] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    hub.models[REPOSITORY] |= {"config.json": content, MANIFEST: json.dumps(manifest).encode()}
    loading_fails("config.json needs about .* bytes of weights")
    assert not hub.asked_for(".h5")


def test_a_pushed_entry_is_loaded_without_a_network(hub, entry, monkeypatch):
    hub.publish(entry, REPOSITORY)
    folder = find_entry(ADDRESS)
    published._entry.cache_clear()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert find_entry(ADDRESS) == folder


def test_a_private_entry_needs_a_token(hub, entry, monkeypatch):
    hub.publish(entry, REPOSITORY)
    hub.private.add(REPOSITORY)
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(UserError, match="There is no model me/tiny-dates on the Hugging Face Hub, or it is private"):
        find_entry(ADDRESS)


def test_an_entry_needs_no_conversion(hub, entry, tmp_path, capsys):
    hub.publish(entry, REPOSITORY)
    assert cli.main(["convert", ADDRESS, "--out", str(tmp_path / "converted")]) == 2
    assert "It is a saved model of this package, which needs no conversion" in capsys.readouterr().err
