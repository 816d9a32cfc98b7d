"""A hub that lies: nothing outside the cache is written or removed, and no answer is larger than announced."""

import gzip
import os

import pytest
from convert.fake_hub import COMMIT, PUBLISHED, ids
from convert.test_hub import NAME, files_in, refused

from keras_attention.convert import hub, hub_files

CONFIG, WEIGHTS = "config.json", "model.safetensors"


@pytest.fixture
def precious(tmp_path):
    """A file of the user beside the cache, which is the same at the end."""
    path = tmp_path / "home" / "precious.txt"
    path.parent.mkdir()
    path.write_text("keep me")
    yield path
    assert path.read_text() == "keep me"
    assert os.listdir(path.parent) == ["precious.txt"]


def snapshot(caches):
    return caches / "theirs" / f"models--{PUBLISHED.replace('/', '--')}" / "snapshots" / COMMIT


@pytest.mark.parametrize("file", [CONFIG, "vocab.txt", WEIGHTS])
@pytest.mark.parametrize(
    "etag",
    ["../../../../home/precious.txt", "../../../../home/new.txt", "{}/home/precious.txt", "0" * 40, "", "x" * 300],
)
def test_an_etag_that_is_not_the_announced_hash_is_refused(etag, file, server, caches, precious):
    server.etags[file] = etag.format(caches)
    refused(NAME, f"{file} was not downloaded from this hub: its ETag is .*, and its announced hash is ")
    assert not (snapshot(caches) / file).exists()
    assert not [name for name in files_in(caches) if "incomplete" in name]


@pytest.mark.parametrize("digest", ["../../../../home/precious.txt", "0" * 41, "G" * 40, "A" * 64, ""])
def test_announced_hashes_are_hexadecimal(digest, server, caches, precious):
    facts = server.facts_of(PUBLISHED, "main")["siblings"]
    server.other_fields = {
        "siblings": [{**one, "blobId": digest} if one["rfilename"] == CONFIG else one for one in facts]
    }
    refused(NAME, "the hub announces the hash .* for config.json. Expected: 40 or 64 hexadecimal digits")
    assert not server.asked_for(CONFIG)
    assert not (caches / "theirs").exists()


@pytest.mark.parametrize("file", [CONFIG, WEIGHTS])
def test_a_download_stops_at_the_announced_size(file, server, caches):
    server.endless.add(file)
    refused(NAME, f"{file} was not downloaded from this hub: it sends more than the announced .* bytes")
    assert not [path for path in caches.rglob("*incomplete*")]
    assert not (snapshot(caches) / file).exists()
    assert server.received_bytes < 16 << 20  # what the sockets hold


def test_a_longer_file_is_refused(server, caches):
    server.sent[CONFIG] = server.models[PUBLISHED][CONFIG] + b" "
    refused(NAME, "config.json was not downloaded from this hub: it sends more than the announced .* bytes")
    assert files_in(caches / "theirs") == []


def test_a_shorter_file_is_refused(server, caches):
    server.sent[CONFIG] = server.models[PUBLISHED][CONFIG][:-1]
    refused(NAME, "config.json could not be downloaded, try again later: it ends after")
    assert files_in(caches / "theirs") == []


def test_packed_answers_are_never_unpacked(server, caches):
    server.sent[CONFIG] = gzip.compress(b" " * (64 << 20))
    server.headers[CONFIG] = {"Content-Encoding": "gzip"}
    refused(NAME, "config.json was not downloaded from this hub: it sends the encoding 'gzip'")
    assert files_in(caches / "theirs") == []


def test_an_endless_answer_about_a_model_is_refused(server, caches):
    server.endless.add("api")
    refused(NAME, r"is not the address of a Hugging Face Hub: its answer has more than 16,777,216 bytes")
    assert files_in(caches) == []


def test_an_answer_that_drips_is_refused(server, monkeypatch):
    monkeypatch.setattr(hub_files, "LONGEST_ANSWER", -1)
    refused(NAME, "cannot be reached: its answer takes longer than -1 seconds")


def test_a_file_that_drips_is_given_up(server, caches, monkeypatch):
    monkeypatch.setattr(hub_files, "PATIENCE", -1)
    monkeypatch.setattr(hub_files, "SLOWEST", 10**12)
    refused(NAME, "config.json could not be downloaded, try again later: it sends less than 1,000,000,000,000 bytes")
    assert files_in(caches / "theirs") == []


@pytest.mark.parametrize(
    "facts",
    [
        {"siblings": [{"rfilename": ["x"], "size": 1, "blobId": "0"}]},
        {"siblings": [{"rfilename": "config.json", "size": 1, "blobId": "0", "lfs": "x"}]},
        {"siblings": {"config.json": 3}},
        {"siblings": [None]},
        {"cardData": "apache"},
    ],
)
def test_answers_of_other_types_are_refused(facts, server):
    server.other_fields = facts
    refused(NAME, "the answer is not that of a Hugging Face Hub: ")


def test_a_pinned_commit_is_the_answered_commit(server):
    server.other_fields = {"sha": "f" * 40}
    refused(f"{NAME}@{COMMIT}", "the hub's answer is about another commit, f{40}")


def test_an_endless_redirect_is_refused(server):
    server.redirects[CONFIG] = f"{server.endpoint}/{PUBLISHED}/resolve/{COMMIT}/{CONFIG}"
    refused(NAME, "config.json was not downloaded from this hub: it redirects more than 10 times")
    assert server.asked_for(CONFIG) == 10


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://localhost/x", "gopher://localhost", "http://[", "\t"])
def test_redirects_to_other_schemes_are_refused(address, server, caches):
    server.redirects[CONFIG] = address
    refused(NAME, "config.json (could not|was not)|not downloaded|refused")
    assert files_in(caches / "theirs") == []


def test_tokens_stay_with_the_hub(server, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.fetch(NAME)
    hosts = {host.partition(":")[0]: token for host, token in server.tokens}
    assert hosts == {"127.0.0.1": "Bearer hf_secret", "localhost": None}


@pytest.mark.parametrize("place", ["blobs", "snapshots", "snapshots/{}", ""])
def test_links_out_of_the_cache_are_not_followed(place, server, caches, precious):
    link = snapshot(caches).parents[1] / place.format(COMMIT)
    link.parent.mkdir(parents=True)
    link.symlink_to(precious.parent)
    refused(NAME, "leads to .*, out of the cache .*. Remove this link, and try again")


@pytest.mark.parametrize("place", ["snapshots/{}/config.json", "blobs/{}"])
def test_a_link_in_place_of_a_file_is_replaced(place, server, caches, precious):
    digest = ids(CONFIG, server.models[PUBLISHED][CONFIG])["blobId"]
    link = snapshot(caches).parents[1] / place.format(COMMIT if "snapshots" in place else digest)
    link.parent.mkdir(parents=True)
    link.symlink_to(precious)
    folder = hub.fetch(NAME).folder
    assert (folder / CONFIG).read_bytes() == server.models[PUBLISHED][CONFIG]


def test_a_damaged_file_in_the_cache_is_downloaded_anew(server):
    folder = hub.fetch(NAME).folder
    (folder / CONFIG).write_text("{}")
    assert (hub.fetch(NAME).folder / CONFIG).read_bytes() == server.models[PUBLISHED][CONFIG]


def test_a_file_that_the_hub_does_not_announce_is_not_read(server):
    folder = hub.fetch(NAME).folder
    (folder / "modules.json").write_text("[]")
    refused(NAME, f"modules.json is not a file of {NAME}. Remove it, and try again")


def test_a_second_commit_downloads_only_what_changed(server, caches):
    first = hub.fetch(NAME).folder
    server.commits[PUBLISHED] |= {"main": "f" * 40, "f" * 40: "f" * 40}
    before = server.asked_for(WEIGHTS)
    second = hub.fetch(NAME).folder
    assert server.asked_for(WEIGHTS) == before
    assert (first / WEIGHTS).resolve() == (second / WEIGHTS).resolve()
    assert (second / WEIGHTS).resolve().is_relative_to((caches / "theirs").resolve())


def test_huggingface_hub_finds_the_files(server, caches):
    from huggingface_hub import try_to_load_from_cache

    folder = hub.fetch(NAME).folder
    actual = try_to_load_from_cache(PUBLISHED, WEIGHTS, revision=COMMIT, cache_dir=caches / "theirs")
    assert actual == str(folder / WEIGHTS)


def test_a_licence_is_a_word(server):
    server.other_fields = {"cardData": {"license": "mit\n\x1b[2J<script>", "language": "en"}}
    fetched = hub.fetch(NAME)
    assert (fetched.licence, fetched.language) == ("", "en")
