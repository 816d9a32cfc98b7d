"""Downloads from a server in this process, which may answer wrongly, break off or be silent."""

import threading
import time
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from keras_attention.data import download
from keras_attention.data.download import RemoteFile, named_dataset
from keras_attention.support.atomic_files import locked
from keras_attention.support.errors import UserError

CONTENT = bytes(range(251)) * 2_003
NAME = "pairs.gz"


class Server(ThreadingHTTPServer):
    """Answers each request as `behaviour` says and keeps the paths that were asked for."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour = "good"
        self.paths = []
        self.closing = threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.paths.append(self.path)
        getattr(self, f"be_{self.server.behaviour}")()
        self.close_connection = True

    def start(self, **headers):
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def be_good(self):
        self.start(Content_Length=len(CONTENT))
        self.wfile.write(CONTENT)

    def be_changed(self):
        self.start(Content_Length=len(CONTENT))
        self.wfile.write(b"\x01" + CONTENT[1:])

    def be_absent(self):
        self.send_error(404)

    def be_failing(self):
        self.send_error(503)

    def be_broken(self):
        self.start(Content_Length=len(CONTENT))
        self.wfile.write(CONTENT[: len(CONTENT) // 2])

    def be_broken_chunk(self):
        self.start(Transfer_Encoding="chunked")
        self.wfile.write(b"%x\r\n" % len(CONTENT) + CONTENT[: len(CONTENT) // 2])

    def be_short(self):
        self.start(Content_Length=101)
        self.wfile.write(CONTENT[:101])

    def be_endless(self):
        self.start()
        self.wfile.write(CONTENT + CONTENT)

    def be_silent(self):
        self.server.closing.wait()

    def log_message(self, *_):
        """The tests' output stays clean."""


@pytest.fixture
def server(monkeypatch):
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/data/{NAME}"
        file = RemoteFile(url, len(CONTENT), sha256(CONTENT).hexdigest())
        monkeypatch.setitem(download.DATASETS, "tiny", (file,))
        monkeypatch.setattr(download, "TIMEOUT", 0.5)
        yield server
        server.closing.set()
        server.shutdown()
        thread.join()


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_file_is_fetched_once(server, tmp_path, capsys):
    folder = named_dataset("tiny", tmp_path / "not" / "yet")
    assert (folder / NAME).read_bytes() == CONTENT
    assert files_in(folder) == [NAME]
    assert capsys.readouterr().err.strip() == f"tiny 1/1 {NAME}: 0.5 of 0.5 MB"
    assert named_dataset("tiny", str(tmp_path / "not" / "yet")) == folder
    assert server.paths == [f"/data/{NAME}"]
    assert capsys.readouterr().err == ""


BEHAVIOURS = {
    "changed": r"sha256 [0-9a-f]{64}\. Expected: [0-9a-f]{64}",
    "absent": "404 Not Found",
    "failing": "503",
    "broken": r"an end after 251,376 bytes, expected 502,753|251,376",
    "broken_chunk": "after",
    "short": "an end after 101 bytes, expected 502,753",
    "endless": "more than 502,753 bytes",
    "silent": "timed out",
}


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_a_failure_leaves_nothing_and_a_second_try_succeeds(server, tmp_path, behaviour):
    server.behaviour = behaviour
    with pytest.raises(UserError, match=BEHAVIOURS[behaviour]) as error:
        named_dataset("tiny", tmp_path)
    assert NAME in str(error.value)
    assert "--data-dir" in str(error.value)
    assert "\n" not in str(error.value)
    assert files_in(tmp_path) == []
    server.behaviour = "good"
    assert (named_dataset("tiny", tmp_path) / NAME).read_bytes() == CONTENT


@pytest.mark.parametrize("damaged", [b"", CONTENT[:-1], b"\x01" + CONTENT[1:]])
def test_a_damaged_file_is_fetched_again(server, tmp_path, damaged):
    path = named_dataset("tiny", tmp_path) / NAME
    path.write_bytes(damaged)
    named_dataset("tiny", tmp_path)
    assert path.read_bytes() == CONTENT
    assert len(server.paths) == 2


def test_a_failed_second_try_keeps_the_old_file(server, tmp_path):
    path = named_dataset("tiny", tmp_path) / NAME
    path.write_bytes(b"mine")
    server.behaviour = "broken"
    with pytest.raises(UserError):
        named_dataset("tiny", tmp_path)
    assert path.read_bytes() == b"mine"
    assert files_in(tmp_path / "tiny") == [NAME]


def test_only_what_is_missing_is_fetched(server, tmp_path, monkeypatch):
    (file,) = download.DATASETS["tiny"]
    other = file._replace(url=file.url.replace(NAME, "other.gz"))
    monkeypatch.setitem(download.DATASETS, "tiny", (file, other))
    named_dataset("tiny", tmp_path)
    (tmp_path / "tiny" / "other.gz").unlink()
    named_dataset("tiny", tmp_path)
    assert server.paths == [f"/data/{NAME}", "/data/other.gz", "/data/other.gz"]


def test_only_the_files_that_are_needed_are_fetched(server, tmp_path, monkeypatch, capsys):
    (file,) = download.DATASETS["tiny"]
    other = file._replace(url=file.url.replace(NAME, "other.gz"))
    monkeypatch.setitem(download.DATASETS, "tiny", (other, file))
    folder = named_dataset("tiny", tmp_path, files=[NAME])
    assert files_in(folder) == [NAME]
    assert capsys.readouterr().err.strip() == f"tiny 1/1 {NAME}: 0.5 of 0.5 MB"
    named_dataset("tiny", tmp_path)
    assert server.paths == [f"/data/{NAME}", "/data/other.gz"]


def test_the_environment_names_the_folder(server, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_ATTENTION_HOME", str(tmp_path / "home"))
    assert named_dataset("tiny") == tmp_path / "home" / "tiny"
    monkeypatch.delenv("KERAS_ATTENTION_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert named_dataset("tiny") == tmp_path / ".cache" / "keras_attention" / "tiny"


def test_a_refused_connection_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setitem(download.DATASETS, "tiny", (RemoteFile(f"http://127.0.0.1:9/{NAME}", 3, "0" * 64),))
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9.*refused"):
        named_dataset("tiny", tmp_path)
    assert files_in(tmp_path) == []


def test_an_unknown_name(tmp_path):
    with pytest.raises(UserError, match="'multi40k'.*multi30k"):
        named_dataset("multi40k", tmp_path)


def test_a_folder_that_cannot_be_made(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"file.tiny: cannot be written"):
        named_dataset("tiny", tmp_path / "file")


def test_the_registry_is_complete():
    names = [file.url.rpartition("/")[2] for file in download.DATASETS["multi30k"]]
    assert names == sorted(
        f"{split}.{language}.gz"
        for split in ("train", "val", "test_2016_flickr")
        for language in ("en", "de", "fr", "cs")
    )
    for file in download.DATASETS["multi30k"]:
        assert file.url.startswith("https://")
        assert len(bytes.fromhex(file.sha256)) == 32


def test_the_second_process_waits_and_finds_the_files(server, tmp_path, capsys):
    folder = tmp_path / "tiny"
    folder.mkdir()
    began, results = threading.Event(), []

    def hold():
        with locked(folder):
            began.set()
            while not messages:
                time.sleep(0.01)
            (folder / NAME).write_bytes(CONTENT)

    messages = []
    holder = threading.Thread(target=hold)
    holder.start()
    began.wait()
    waiting = threading.Thread(target=lambda: results.append(named_dataset("tiny", tmp_path)))
    waiting.start()
    while "is in use" not in capsys.readouterr().err:
        time.sleep(0.01)
    messages.append(True)
    holder.join()
    waiting.join()
    assert results == [folder]
    assert server.paths == []


def test_files_of_a_killed_download_are_removed(server, tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / f".{NAME}-{'a' * 32}").write_bytes(CONTENT[:7])
    (tmp_path / ".tiny.lock").write_text("")
    named_dataset("tiny", tmp_path)
    assert files_in(tmp_path) == [f"tiny/{NAME}"]
    (tmp_path / ".tiny.lock").write_text("")  # killed when all was there
    named_dataset("tiny", tmp_path)
    assert files_in(tmp_path) == [f"tiny/{NAME}"]
