"""Which host names and which web pages the server answers."""

import asyncio
import json
import socket

import pytest

from keras_attention.server import ServerSettings
from keras_attention.server.http_server import make_app
from keras_attention.server.metrics import ServerMetrics
from keras_attention.server.origins import Origins, checked_names
from keras_attention.server.server import Server
from keras_attention.support.errors import UserError


def status_of(headers, address="127.0.0.1", more=(), method="POST", path="/v1/translate"):
    """The status with which a request with these headers is answered; 200 from the application."""
    sent = []

    async def app(scope, receive, send):
        sent.append({"status": 200})

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [(k.encode(), v.encode()) for k, v in headers]}
    asyncio.run(Origins(app, address, checked_names(more))(scope, None, send))
    return sent[0]["status"]


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8000", "localhost.:8000", "app.localhost", "127.0.0.1:8000", "127.9.1.2", "[::1]:8000"],
)
def test_local_names_are_answered(host):
    assert status_of([("host", host)]) == 200
    assert status_of([("host", host)], "0.0.0.0") == 200


FOREIGN = [
    "evil.example",
    "evil.example:8000",
    "localhost.evil.example",
    "127.0.0.1.nip.io",
    "x",
    "",
    "a b",
    "notlocalhost",
]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("host", FOREIGN)
def test_other_names_are_refused_unless_they_are_allowed(host, method):
    assert status_of([("host", host)], method=method, path="/") == 403
    assert status_of([("host", host)], "0.0.0.0", method=method) == 403
    assert status_of([("host", host)], more=["*"], method=method) == 200
    if host.startswith("evil"):
        assert status_of([("host", host)], more=["Evil.Example"], method=method) == 200


def test_addresses_are_answered_by_a_server_for_other_machines_only():
    for host in ("192.168.7.11:8000", "[fd00::7]:8000"):
        assert status_of([("host", host)]) == 403
        assert status_of([("host", host)], "0.0.0.0") == 200
        assert status_of([("host", host)], "192.168.7.11") == 200
    assert status_of([("host", socket.gethostname())], "::") == 200


def test_two_hosts_are_refused_and_none_is_the_oldest_protocol():
    assert status_of([("host", "localhost"), ("host", "localhost")]) == 403
    assert status_of([]) == 200


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:8000", 200),
        ("http://localhost:3000", 403),  # another program on this machine
        ("http://127.0.0.1:8000", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
        ("file://", 403),
        ("chrome-extension://localhost:8000", 403),
        ("https://site.example", 200),
        ("https://site.example:8443", 200),
    ],
)
def test_pages_of_other_sites_are_refused(origin, expected):
    headers = [("host", "localhost:8000"), ("origin", origin)]
    assert status_of(headers, more=["site.example"]) == expected
    assert status_of([*headers, ("sec-fetch-site", "same-origin")], more=["site.example"]) == expected


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_sites_cannot_let_a_model_compute_but_link_to_the_page(site):
    headers = [("host", "localhost:8000"), ("sec-fetch-site", site)]
    assert status_of(headers, method="GET", path="/attention") == 403
    assert status_of(headers, method="POST") == 403
    assert status_of(headers, method="GET", path="/") == 200
    for own in ("same-origin", "none"):
        assert status_of([headers[0], ("sec-fetch-site", own)], method="GET", path="/attention") == 200


def test_every_get_that_computes_is_known():
    """Only pages and facts are answered to pages of other sites."""
    app = make_app(Server({}, ServerSettings(), ServerMetrics([])))
    free = {"/", "/ticket", "/demo/{name}", "/v1/models", "/v1/models/{name}"}
    free |= {"/health", "/ready", "/metrics", "/openapi.json"}
    gets = {route.path for route in app.routes if "GET" in (getattr(route, "methods", None) or ())}
    assert {path for path in gets - free if not path.startswith(("/docs", "/redoc"))} == {"/attention"}


def test_a_refusal_is_json_in_the_form_of_its_route():
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [(b"host", b"evil.example")]}
    asyncio.run(Origins(None)(scope, None, send))
    error = json.loads(sent[1]["body"])["error"]
    assert "--allow-host" in error["message"]
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("name", ["", "http://a.example", "a.example:80", "a b", "-a", "*.example"])
def test_names_that_are_no_hosts(name):
    with pytest.raises(UserError, match="without port"):
        checked_names([name])
