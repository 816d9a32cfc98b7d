"""A Kaggle that lies: downloads end at the announced size, and stay in the cache of kagglehub."""

import json
import os
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from kagglesdk import kaggle_env

from keras_attention.convert import published
from keras_attention.convert.published_settings import MAX_JSON_BYTES
from keras_attention.support.errors import UserError

NAME = "kaggle://small/bert/keras/tiny/3"
CONFIG = json.dumps({"registered_name": "keras_hub>GemmaBackbone"}).encode()
READ = "registered_name is 'keras_hub>GemmaBackbone'"  # config.json was downloaded and read


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        kaggle = self.server.kaggle
        for name, value in kaggle["headers"].items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):
            for _ in range(kaggle["times"]):
                self.wfile.write(kaggle["content"])
                kaggle["sent"] += len(kaggle["content"])

    def log_message(self, *_):
        pass


@pytest.fixture
def kaggle(tmp_path, monkeypatch):
    """What Kaggle sends for each file."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.kaggle = {"content": CONFIG, "times": 1, "headers": {}, "sent": 0}
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KAGGLE_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("KERAS_ATTENTION_CACHE", str(tmp_path / "ours"))
    monkeypatch.delenv("KAGGLE_API_ENVIRONMENT", raising=False)
    address = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setitem(kaggle_env._env_to_endpoint, kaggle_env.KaggleEnv.PROD, address)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.kaggle
    server.shutdown()
    thread.join()
    server.server_close()


def refused(message, name=NAME):
    with pytest.raises(UserError, match=message) as caught:
        published.fetched(name)
    assert "\n" not in str(caught.value)


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("headers", [{}, {"Content-Length": str(len(CONFIG)), "Accept-Ranges": "bytes"}])
def test_an_honest_file_is_read(headers, kaggle, tmp_path):
    kaggle["headers"] = headers
    refused(READ)
    assert files_in(tmp_path / "cache") == ["config.json", "config.json.complete"]


def test_an_endless_file_is_dropped(kaggle, tmp_path):
    kaggle.update(content=b" " * 65536, times=1024)
    refused("config.json cannot be downloaded from Kaggle: the server sends more than 2,097,152 bytes")
    assert files_in(tmp_path / "cache") == []
    assert kaggle["sent"] < 32 << 20


def test_a_file_that_is_too_large_is_not_downloaded(kaggle, tmp_path):
    kaggle["headers"] = {"Content-Length": str(MAX_JSON_BYTES + 1)}
    refused("config.json cannot be downloaded from Kaggle: it has 2,097,153 bytes. Supported: up to 2,097,152")
    assert files_in(tmp_path / "cache") == []


def test_a_packed_file_is_bounded_by_its_unpacked_size(kaggle, tmp_path):
    import gzip

    kaggle.update(content=gzip.compress(b" " * (64 << 20)), headers={"Content-Encoding": "gzip"})
    refused("config.json cannot be downloaded from Kaggle: the server sends more than 2,097,152 bytes")
    assert files_in(tmp_path / "cache") == []


def test_a_link_out_of_the_cache_is_not_written_through(kaggle, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    link = tmp_path / "cache" / "models" / "small"
    link.parent.mkdir(parents=True)
    link.symlink_to(home)
    refused("config.json cannot be downloaded from Kaggle: .* leads out of the cache")
    assert not [name for _, _, names in os.walk(home) for name in names]


def test_a_version_is_a_number(kaggle, tmp_path):
    content = json.dumps({"versionNumber": "../../../../../home/x"}).encode()
    kaggle.update(content=content, headers={"Content-Type": "application/json"})
    refused("cannot be downloaded from Kaggle", name=NAME.removesuffix("/3"))
    assert files_in(tmp_path / "cache") == []


def test_kagglehub_is_as_before(kaggle):
    from kagglehub import clients, http_resolver

    refused(READ)
    assert http_resolver.download_file is clients.download_file
