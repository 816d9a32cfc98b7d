"""Malformed and hostile requests, with their correct statuses."""

import contextlib
import json
import socket
import zlib
from urllib.parse import urlsplit

JSON = "content-type: application/json"
ROUTE = "POST /v1/translate HTTP/1.1"
GOOD = json.dumps({"texts": ["A dog runs."]}).encode()
BOMB = zlib.compress(b" " * 100_000_000, 9)


def post(body, *headers, line=ROUTE):
    """The bytes of a request."""
    head = "\r\n".join([line, "host: localhost", f"content-length: {len(body)}", *(headers or [JSON])])
    return head.encode() + b"\r\n\r\n" + body


def texts(**fields):
    return post(json.dumps({"texts": ["A dog runs."], **fields}).encode())


# Name -> the bytes that are sent, and the correct statuses.
ABUSE = {
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", {400}),
    "no method": (b"/v1/translate HTTP/1.1\r\n\r\n", {400}),
    "endless headers": (ROUTE.encode() + b"\r\nx: " + b"a" * 200_000, {431}),
    "headers that never end": (ROUTE.encode() + b"\r\nhost: localhost\r\n", {408}),
    "a body that never comes": (post(GOOD).replace(b"content-length: 2", b"content-length: 9"), {408}),
    "a negative length": (post(GOOD).replace(b"content-length: ", b"content-length: -"), {400, 413}),
    "a length of 20 digits": (
        f"{ROUTE}\r\nhost: localhost\r\n{JSON}\r\ncontent-length: {'9' * 20}\r\n\r\n".encode(),
        {400, 413},
    ),
    "two lengths": (post(GOOD, JSON, "content-length: 3"), {400}),
    "length and chunks": (post(GOOD, JSON, "transfer-encoding: chunked"), {400}),
    "endless chunks": (
        f"{ROUTE}\r\nhost: localhost\r\n{JSON}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        + (b"10000\r\n" + b" " * 0x10000 + b"\r\n") * 20,
        {413},
    ),
    "a chunk that is none": (
        f"{ROUTE}\r\nhost: localhost\r\n{JSON}\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".encode(),
        {400},
    ),
    "a large body": (post(b" " * 2_000_000), {413}),
    "gzip bomb": (post(BOMB, JSON, "content-encoding: gzip"), {415}),
    "another type": (post(GOOD, "content-type: text/plain"), {415}),
    "no JSON": (post(b'{"texts": ['), {400}),
    "no UTF-8": (post(b'{"texts": ["\xff\xfe"]}'), {400}),
    "deep": (post(b"[" * 500_000), {400}),
    "deep and closed": (post(b"[" * 100_000 + b"]" * 100_000), {400, 422}),
    "a number of a million digits": (post(b'{"texts": ["a"], "n_best": ' + b"9" * 900_000 + b"}"), {400, 422}),
    "not a number": (texts(n_best=float("nan")), {422}),
    "half a character": (texts(texts=["\ud800"]), {422}),
    "half a character as field": (post(b'{"texts": ["a"], "\\ud800": 1}'), {422}),
    "150,000 texts": (texts(texts=["a"] * 150_000), {422}),
    "a long text": (texts(texts=["a " * 400_000]), {200, 422}),  # its beginning is read, or it is refused, by the model
    "a text that is a list": (texts(texts=[["a"]]), {422}),
    "../ as model": (texts(model="../../../etc/passwd"), {404}),
    "a path as model": (texts(model="/etc"), {404}),
    "NUL as model": (texts(model="\0"), {404}),
    "../ as path": (b"GET /demo/..%2f..%2f..%2fetc/passwd HTTP/1.1\r\nhost: localhost\r\n\r\n", {404}),
    "another method": (post(GOOD, line="DELETE /v1/translate HTTP/1.1"), {405}),
}


def status_of(url, sent, seconds):
    """The status of the server's answer, or 0 if there is no answer in time."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=seconds) as client:
        with contextlib.suppress(OSError):  # the server may answer before it has received everything
            client.sendall(sent)
        try:
            answer = client.recv(100)
        except OSError:
            return 0
    return int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/") else 0
