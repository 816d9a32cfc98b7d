"""Checkpoints from a hub: what is asked for and kept, and the errors when it cannot be downloaded."""

import json

import pytest
from convert.fake_hub import COMMIT, PUBLISHED, use
from convert.tiny_checkpoints import TINY_BERT, write_checkpoint
from huggingface_hub import constants

from keras_attention.convert import hub, load_checkpoint, published
from keras_attention.support.errors import UserError

NAME = f"hf://{PUBLISHED}"
PINNED = f"{NAME}@{COMMIT}"
NEWER = "f" * 40


def refused(name, message):
    with pytest.raises(UserError, match=message) as caught:
        hub.fetch(name)
    assert "\n" not in str(caught.value)


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.name != ".lock")


def test_only_what_is_read_is_asked_for(server):
    fetched = hub.fetch(NAME)
    assert fetched.name == PINNED
    assert fetched.link == f"https://huggingface.co/{PUBLISHED}/tree/{COMMIT}"
    assert (fetched.licence, fetched.language) == ("apache-2.0", "en")
    assert sorted(path.name for path in fetched.folder.iterdir()) == [
        "config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt"
    ]  # fmt: skip
    assert load_checkpoint(fetched.folder).vocabulary == load_checkpoint(TINY_BERT).vocabulary
    assert not any(path.endswith((".bin", ".py", ".md")) for path in server.asked)


def test_all_that_describes_the_vectors_is_downloaded(server):
    names = ("tokenizer.json", "special_tokens_map.json", "modules.json", "1_Pooling/config.json", "added_tokens.json")
    names += ("2_Normalize/config.json", "sentence_bert_config.json", "config_sentence_transformers.json")
    server.models[PUBLISHED] |= {name: b"{}" for name in names}
    folder = hub.fetch(NAME).folder
    assert all((folder / name).read_bytes() == b"{}" for name in names)


@pytest.mark.parametrize("also", [(), ("tokenizer.json",)])
def test_the_pieces_of_xlm_roberta_are_downloaded(also, server, tmp_path):
    from convert.tiny_xlm_roberta import tensors_like, write_xlm_roberta

    files = ("sentencepiece.bpe.model", *also)
    sizes = {"type_vocab_size": 2, "max_position_embeddings": 16}
    folder = write_xlm_roberta(tmp_path, tensors_like("", 2, 16), files, **sizes)
    server.models[PUBLISHED] = {path.name: path.read_bytes() for path in folder.iterdir()}
    fetched = hub.fetch(NAME)
    assert {path.name for path in fetched.folder.iterdir()} == set(server.models[PUBLISHED])
    assert load_checkpoint(fetched.folder).tokenizer.kind == "unigram"


@pytest.mark.parametrize("revision", ["main", "v1", COMMIT])
def test_revisions_become_commits(revision, server):
    assert hub.fetch(f"{NAME}@{revision}").name == PINNED


def test_a_branch_that_moved_is_a_new_commit(server):
    first = hub.fetch(NAME)
    server.commits[PUBLISHED] |= {"main": NEWER, NEWER: NEWER}
    second = hub.fetch(NAME)
    assert (first.name, second.name) == (PINNED, f"{NAME}@{NEWER}")
    assert hub.fetch(PINNED).folder == first.folder


def test_afterwards_it_works_without_network(server, monkeypatch):
    first = hub.fetch(NAME)
    before = len(server.asked)
    assert hub.fetch(PINNED) == first
    assert len(server.asked) == before  # a commit never changes
    use("http://127.0.0.1:9", monkeypatch)
    assert hub.fetch(NAME) == first
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert hub.fetch(f"{NAME}") == first
    refused(f"{NAME}@v1", "not in the cache, and the Hugging Face Hub cannot be reached: ")


def test_no_network_at_first(caches, monkeypatch):
    use("http://127.0.0.1:9", monkeypatch)
    refused(NAME, f"^{NAME} is not in the cache, and the Hugging Face Hub cannot be reached: ")
    assert files_in(caches) == []


def test_a_name_that_is_missing_private_or_gated(server, caches):
    refused(
        "hf://small/none", "There is no model small/none on the Hugging Face Hub, or it is private. .* set HF_TOKEN"
    )
    refused(f"{NAME}@v2", "has no branch, tag or commit 'v2'")
    server.gated.add(PUBLISHED)
    refused(NAME, "is gated: its publisher grants access at https://huggingface.co/")
    assert not [name for name in files_in(caches / "theirs") if name != "CACHEDIR.TAG"]


@pytest.mark.parametrize(
    "name",
    [
        "hf://", "hf://name", "hf://a/b/c", "hf://../b", "hf://a/..", "hf://a/b@", "hf://a/b@../../x", "hf://a/b@-x",
        "hf://a/b@x/", "hf://a--b/c", "hf://a/b?x=1", "hf://a/b#x", "hf://a/b\n", "hf://a b/c", "hf://.a/b", "hf://a/b@/x",
    ],
)  # fmt: skip
def test_names_that_could_be_paths_are_refused(name, server):
    refused(name, "Expected hf://ORG/NAME or hf://ORG/NAME@REVISION. Received: ")
    assert server.asked == []


def test_a_download_that_breaks_off(server, caches, monkeypatch):
    server.cut.add("model.safetensors")
    refused(NAME, "model.safetensors could not be downloaded, try again later: ")
    assert not [name for name in files_in(caches) if "safetensors" in name or "incomplete" in name]
    assert not (caches / "ours" / "published" / "entries").exists()
    server.cut.clear()
    assert hub.fetch(NAME).name == PINNED


@pytest.mark.parametrize("file", ["config.json", "vocab.txt", "model.safetensors"])
def test_a_file_with_another_content_is_removed(file, server):
    server.sent[file] = server.models[PUBLISHED][file][:-1] + b"\n "[:1]
    server.sent[file] = server.sent[file][:-1] + (b"x" if server.sent[file][-1:] != b"x" else b"y")
    refused(NAME, f"{file} is not the file that the hub describes. It was removed: try again")
    server.sent.clear()
    assert hub.fetch(NAME).name == PINNED


def test_a_model_that_is_not_supported_is_not_downloaded(server, tmp_path):
    write_checkpoint(tmp_path / "other", model_type="roberta")
    server.publish(tmp_path / "other", "small/other")
    refused(
        "hf://small/other",
        "config.json: model_type is 'roberta'. Supported: one of bert, distilbert, xlm-roberta, gpt2",
    )
    assert not server.asked_for("model.safetensors")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("pytorch_model.bin", "has no model.safetensors. Its weights are in a format that can run code"),
        ("model.safetensors.index.json", "has no model.safetensors. Its tensors are in several files"),
        ("README.md", "has no model.safetensors. Supported: BERT, DistilBERT, GPT-2 and Marian"),
    ],
)
def test_weights_in_other_files(file, message, server):
    server.models[PUBLISHED] = {file: b"", "config.json": b"{}", "vocab.txt": b""}
    refused(NAME, message)
    assert server.asked_for("bin") == 0


def test_a_file_that_is_too_large_is_not_downloaded(server):
    server.models[PUBLISHED]["config.json"] = b" " * (hub.SETTINGS["config.json"] + 1)
    refused(NAME, r"config.json has 2,097,153 bytes. Supported: up to 2,097,152")
    assert not server.asked_for("config.json")


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"sha": "../../../../tmp"}, "names the commit '../../../../tmp'. Expected: 40 hex"),
        ({"sha": None}, "names the commit None"),
        ({"siblings": [{"rfilename": "../x", "size": 1, "blobId": "0"}]}, "has no model.safetensors"),
        ({"siblings": [{"rfilename": "config.json", "size": -1, "blobId": "0"}]}, "has no model.safetensors"),
        ({"siblings": "config.json"}, "the answer is not that of a Hugging Face Hub"),
    ],
)
def test_answers_that_are_not_sound(facts, message, server, caches):
    server.other_fields = facts
    refused(NAME, message)
    assert not (caches / "theirs").exists()


def test_a_licence_that_is_no_word(server):
    server.other_fields = {"cardData": {"license": ["a"], "language": "e" * 50}}
    fetched = hub.fetch(NAME)
    assert (fetched.licence, fetched.language) == ("", "")


def test_a_damaged_record(server, caches):
    hub.fetch(NAME)
    record = next((caches / "ours" / "published" / "hub").rglob(f"{COMMIT}.json"))
    record.write_text(json.dumps({"commit": COMMIT}))
    refused(PINNED, "is damaged: remove it, and try again")


def test_without_a_cache(server, monkeypatch):
    monkeypatch.setenv("KERAS_ATTENTION_CACHE", "")
    refused(NAME, "need a cache: set KERAS_ATTENTION_CACHE")


@pytest.mark.parametrize("name", ["http://a/b", "s3://a/b", "://", "hf:/a/b://"])
def test_other_schemes(name):
    with pytest.raises(UserError, match="There is no model .*Published models have names such as hf://ORG/NAME"):
        published.published_entry(name)
