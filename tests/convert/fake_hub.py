"""A small server that speaks the protocol of the Hugging Face Hub: models, commits, large files, uploads."""

import base64
import hashlib
import json
import re
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from huggingface_hub import constants

LARGE = (".safetensors", ".bin", ".h5")  # stored with Git LFS, behind a redirect
PUBLISHED = "small/Tiny-BERT.v1"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """What the hub has, and what it was asked.

    Attributes:
        models: dict from "ORG/NAME" to a dict of files, name to bytes.
        commits: dict from "ORG/NAME" to a dict from branch or tag to commit.
        gated: set of names that need a grant.
        sent: dict from the name of a file to what is sent in place of its content.
        other_fields: dict of fields that stand in the answers of the API in place of the true ones.
        cut: set of names of files of which only the first half arrives.
        etags: dict from the name of a file to an ETag in place of the true one.
        headers: dict from the name of a file to further headers.
        redirects: dict from the name of a file to the address that its request is sent to.
        endless: set of names of files, and "api", whose answers never end; `received_bytes` counts what is taken.
        tokens: list of (Host, Authorization) of all requests.
        writers: set of tokens that may write, and read private models.
        private: set of names of models.
        large: dict from SHA-256 to the content of an uploaded large file.
        failing_uploads: int, how many uploads of large files fail from now on.
        uploaded: list of str, "lfs NAME-OF-HASH" and the paths of the files of each commit, in order.
        asked: list of "METHOD PATH".
        endpoint, other_host: str, addresses of the server; large files are at the second.
    """

    def __init__(self):
        self.models, self.commits, self.gated = {}, {}, set()
        self.sent, self.other_fields, self.cut, self.asked = {}, {}, set(), []
        self.etags, self.headers, self.redirects, self.endless = {}, {}, {}, set()
        self.tokens, self.received_bytes = [], 0
        self.writers, self.private, self.large, self.uploaded, self.failing_uploads = set(), set(), {}, [], 0
        self.endpoint = self.other_host = ""

    def publish(self, folder, name=PUBLISHED, commit=COMMIT, **more):
        """Publishes all files of a folder, and others by name, as the branch main and the tag v1."""
        folder = Path(folder)
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        self.models[name] = files | more.pop("files", {})
        self.commits[name] = {"main": commit, "v1": commit, commit: commit}

    def asked_for(self, ending):
        """How many requests had a path that ends so."""
        return sum(path.endswith(ending) for path in self.asked)

    def facts_of(self, name, revision):
        """The answer of the API about a model."""
        siblings = [
            {"rfilename": file, "size": len(content), **ids(file, content)}
            for file, content in self.models[name].items()
        ]
        facts = {"id": name, "sha": self.commits[name][revision], "siblings": siblings}
        facts["private"] = name in self.private
        return {**facts, "cardData": {"license": "apache-2.0", "language": "en"}, **self.other_fields}

    def commit(self, name, lines):
        """Applies the operations of a commit, a list of dicts, to a model; returns the commit."""
        files = dict(self.models[name])
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.large[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
            if line["key"] != "header":
                self.uploaded.append(value["path"])
        commit = hashlib.sha1(
            repr(sorted((file, ids(file, files[file])["blobId"]) for file in files)).encode()
        ).hexdigest()
        self.models[name] = files
        self.commits[name] |= {"main": commit, commit: commit}
        return commit


def ids(file, content):
    """The names that git and Git LFS give to a content."""
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    if not file.endswith(LARGE):
        return {"blobId": blob}
    digest = hashlib.sha256(content).hexdigest()
    return {"blobId": blob, "lfs": {"sha256": digest, "size": len(content), "pointerSize": 130}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self._answer()

    def do_HEAD(self):
        self._answer()

    def do_POST(self):
        self._change()

    def do_PUT(self):
        self._change()

    def log_message(self, *_):
        pass

    def _answer(self):
        hub, path = self.server.hub, unquote(urlsplit(self.path).path)
        hub.asked.append(f"{self.command} {path}")
        hub.tokens.append((self.headers["Host"], self.headers["Authorization"]))
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            return self._model(hub, match[1], match[2] or "main")
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._file(hub, *match.groups())
        if match := re.fullmatch(r"/cdn/([^/]+/[^/]+)/(.+)", path):
            return self._content(hub, match[1], match[2])
        return self._send(404, b"")

    def _change(self):
        """The requests of an upload; see `HfApi.create_commit`."""
        hub, path = self.server.hub, unquote(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        hub.asked.append(f"{self.command} {path}")
        hub.tokens.append((self.headers["Host"], self.headers["Authorization"]))
        if match := re.fullmatch("/large/([0-9a-f]{64})", path):  # its address is the permission
            return self._receive(hub, match[1], body)
        if not self._may_write(hub):
            return self._send(403, b'{"error": "the token may only read"}')
        if path == "/api/validate-yaml":
            return self._send_json({"errors": [], "warnings": []})
        if path == "/api/repos/create":
            return self._create(hub, json.loads(body))
        if match := re.fullmatch("/api/models/([^/]+/[^/]+)/preupload/main", path):
            return self._send_json({"files": [self._mode(hub, match[1], one) for one in json.loads(body)["files"]]})
        if match := re.fullmatch(r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", path):
            return self._send_json({"objects": [self._place(hub, one) for one in json.loads(body)["objects"]]})
        if match := re.fullmatch("/api/models/([^/]+/[^/]+)/commit/main", path):
            commit = hub.commit(match[1], [json.loads(line) for line in body.splitlines()])
            return self._send_json({"commitOid": commit, "commitUrl": f"{hub.endpoint}/{match[1]}/commit/{commit}"})
        return self._send(404, b"")

    def _may_write(self, hub):
        return (self.headers["Authorization"] or "").removeprefix("Bearer ") in hub.writers

    def _create(self, hub, wanted):
        name = f"{wanted['organization']}/{wanted['name']}"
        assert name not in hub.models
        hub.publish("/nowhere", name, files={".gitattributes": b"*.h5 filter=lfs"})
        hub.private |= {name} if wanted.get("visibility") == "private" else set()
        return self._send_json({"url": f"{hub.endpoint}/{name}"})

    def _mode(self, hub, name, file):
        present, path = hub.models[name].get(file["path"]), file["path"]
        names = ids(path, present) if present is not None else {}
        oid = names["lfs"]["sha256"] if "lfs" in names else names.get("blobId")
        mode = "lfs" if path.endswith(LARGE) else "regular"
        return {"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid}

    def _place(self, hub, one):
        if one["oid"] in hub.large:
            return one
        return one | {"actions": {"upload": {"href": f"{hub.other_host}/large/{one['oid']}"}}}

    def _receive(self, hub, digest, body):
        if hub.failing_uploads:
            hub.failing_uploads -= 1
            return self._send(500, b"")
        assert hashlib.sha256(body).hexdigest() == digest
        hub.large[digest] = body
        hub.uploaded.append(f"lfs {digest}")
        return self._send(200, b"")

    def _send_json(self, value):
        return self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _model(self, hub, name, revision):
        if name not in hub.models or (name in hub.private and not self._may_write(hub)):
            return self._error(401, "RepoNotFound")
        if revision not in hub.commits[name]:
            return self._error(404, "RevisionNotFound")
        if "api" in hub.endless:
            return self._send_endlessly({"Content-Type": "application/json"})
        return self._send(200, json.dumps(hub.facts_of(name, revision)).encode(), {"Content-Type": "application/json"})

    def _file(self, hub, name, revision, file):
        if name in hub.gated:
            return self._error(403, "GatedRepo")
        content = hub.models.get(name, {}).get(file)
        if content is None:
            return self._error(404, "EntryNotFound")
        headers = {"X-Repo-Commit": hub.commits[name][revision]}
        if file in hub.redirects:
            return self._send(302, b"", headers | {"Location": hub.redirects[file]})
        names = ids(file, content)
        etag = hub.etags.get(file, names["lfs"]["sha256"] if "lfs" in names else names["blobId"])
        if "lfs" not in names:
            return self._content(hub, name, file, headers | {"ETag": f'"{etag}"'})
        headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(content))}
        return self._send(302, b"", headers | {"Location": f"{hub.other_host}/cdn/{name}/{file}"})

    def _content(self, hub, name, file, headers=()):
        content = hub.sent.get(file, hub.models[name][file])
        headers = {**dict(headers), **hub.headers.get(file, {})}
        if file in hub.endless:
            return self._send_endlessly(headers)
        if file in hub.cut and self.command == "GET":
            if "Range" in self.headers:  # the rest does not come either
                return self._send(500, b"")
            self.close_connection = True
            return self._send(200, content[: len(content) // 2], dict(headers), length=len(content))
        return self._send(200, content, dict(headers))

    def _error(self, status, code):
        return self._send(status, b"", {"X-Error-Code": code, "X-Error-Message": code})

    def _send_endlessly(self, headers):
        """At most 64 MB, which is more than any answer that is taken to its end."""
        self.close_connection = True
        self.send_response(200)
        for name, value in {**headers, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            with suppress(OSError):
                for _ in range(1024):
                    self.wfile.write(b" " * 65536)
                    self.server.hub.received_bytes += 65536

    def _send(self, status, content, headers=(), length=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(length or len(content)), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            with suppress(OSError):  # who asked may have left
                self.wfile.write(content)


@contextmanager
def running_hub():
    """A FakeHub that answers at its `endpoint` on this machine."""
    hub = FakeHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.hub = hub
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    hub.other_host = f"http://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def use(endpoint, monkeypatch):
    """What HF_ENDPOINT does before huggingface_hub is imported."""
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    template = f"{endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
