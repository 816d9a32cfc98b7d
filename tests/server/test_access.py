"""Keys, quotas and pages of other sites: who is answered, and what nobody ever reads."""

import asyncio
import json
import time
import urllib.error
import urllib.request
from hashlib import sha256
from typing import NamedTuple

import pytest
from browser import chromium, set_window
from server.tiny_zoo import server_in_this_process, server_process
from zoo.tiny_entry import ENGLISH, write_tiny_entry

from keras_attention.cli import main as cli
from keras_attention.server import ServerSettings
from keras_attention.server.access import Access, checked_origins, read_keys
from keras_attention.server.gate import Refusal
from keras_attention.server.http_server import make_app
from keras_attention.server.metrics import ServerMetrics
from keras_attention.server.server import Server
from keras_attention.support.errors import UserError

KEYS = ("first-key-0123456789", "second-key-0123456789")
DIGESTS = tuple(sha256(key.encode()).digest() for key in KEYS)
SITE = "https://site.example"


class Clock:
    """A clock that a test turns."""

    def __init__(self):
        self.seconds = 7.0

    def __call__(self):
        return self.seconds


def scope(path="/v1/translate", method="POST", key=KEYS[0], query=b""):
    headers = [] if key is None else [(b"authorization", f"Bearer {key}".encode())]
    return {"type": "http", "method": method, "path": path, "headers": headers, "query_string": query}


def status(access, **request):
    try:
        access.check(scope(**request))
    except Refusal as refusal:
        return refusal.status
    return 200


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: dict
    text: str


def ask(settings, method, path, headers=(), body=None):
    """The Answer of an application without models, called without a network."""
    app, messages = make_app(Server({}, settings, ServerMetrics([path]))), []
    given = {"host": "127.0.0.1:8000", **dict(headers)} | ({"content-type": "application/json"} if body else {})
    raw = [(name.encode(), value.encode()) for name, value in given.items()]
    request = {"type": "http", "http_version": "1.1", "scheme": "http", "method": method, "path": path}
    request |= {"raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": raw}

    async def receive():
        return {"type": "http.request", "body": json.dumps(body).encode() if body else b"", "more_body": False}

    async def send(message):
        messages.append(message)

    asyncio.run(app(request, receive, send))
    heads = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
    return Answer(messages[0]["status"], heads, b"".join(one.get("body", b"") for one in messages[1:]).decode())


@pytest.mark.parametrize("key", [None, "", KEYS[0][:-1], KEYS[0] + "0", KEYS[0].upper(), "\u00e9" * 20])
def test_other_keys_are_refused(key):
    for path, method in (("/v1/translate", "POST"), ("/v1/models", "GET"), ("/metrics", "GET"), ("/attention", "GET")):
        assert status(Access(DIGESTS), path=path, method=method, key=key) == 401


def test_known_keys_are_answered_and_without_keys_all_are():
    assert [status(Access(DIGESTS), key=key) for key in KEYS] == [200, 200]
    assert status(Access(), key=None) == 200
    twice = scope() | {"headers": scope()["headers"] * 2}
    with pytest.raises(Refusal):
        Access(DIGESTS).check(twice)


@pytest.mark.parametrize("path", ["/", "/demo/demo.js", "/health", "/ready", "/docs", "/openapi.json"])
def test_the_page_and_what_a_supervisor_polls_need_no_key(path):
    assert status(Access(DIGESTS), path=path, method="GET", key=None) == 200


def test_every_other_route_needs_a_key():
    app, access = make_app(Server({}, ServerSettings(keys=DIGESTS), ServerMetrics([]))), Access(DIGESTS)
    paths = {route.path for route in app.routes if hasattr(route, "path")}
    open_paths = {path for path in paths if status(access, path=path, method="GET", key=None) == 200}
    assert {"/v1/models", "/v1/translate", "/metrics", "/ticket", "/attention"} <= paths - open_paths
    assert not [path for path in open_paths if path.startswith("/v1")]


def test_an_error_is_one_line_of_json_and_a_key_is_nowhere_in_it():
    for key, message in ((None, "This server needs a key"), ("x" * 20, "This key is not known")):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        answer = ask(ServerSettings(keys=DIGESTS), "GET", "/v1/models", headers=headers)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert json.loads(answer.text)["error"]["message"].startswith(message)
        assert json.loads(answer.text)["error"]["code"] == "invalid_api_key"
        assert "x" * 20 not in answer.text
    answer = ask(ServerSettings(keys=DIGESTS), "GET", "/v1/models", headers={"authorization": f"bearer {KEYS[1]}"})
    assert answer.status == 200


def test_a_quota_is_used_up_and_filled_again_evenly():
    clock = Clock()
    access = Access(DIGESTS, 3, clock)
    assert [status(access) for _ in range(5)] == [200, 200, 200, 429, 429]
    assert status(access, key=KEYS[1]) == 200  # each key has its own
    assert status(access, path="/v1/models", method="GET") == 200  # nothing is computed
    clock.seconds += 19
    assert status(access) == 429
    clock.seconds += 1
    assert [status(access), status(access)] == [200, 429]
    clock.seconds += 1000
    assert [status(access, path="/attention", method="GET") for _ in range(4)] == [200, 200, 200, 429]


def test_the_answer_says_when_to_try_again():
    clock = Clock()
    access = Access(DIGESTS, 2, clock)
    access.check(scope())
    access.check(scope())
    clock.seconds += 7
    with pytest.raises(Refusal, match="This key has used its 2 requests per minute") as caught:
        access.check(scope())
    response = caught.value.response("/v1/translate")
    assert response.headers["retry-after"] == "23"
    clock.seconds += 23
    access.check(scope())


def test_a_ticket_opens_one_page_once_within_a_minute():
    clock = Clock()
    access = Access(DIGESTS, clock=clock)
    first, second, late = (access.ticket(scope("/ticket", "GET")) for _ in range(3))
    page = {"path": "/attention", "method": "GET", "key": None}
    assert status(access, **page, query=f"model=a&ticket={first}".encode()) == 200
    assert status(access, **page, query=f"model=a&ticket={first}".encode()) == 401
    assert status(access, path="/v1/models", method="GET", key=None, query=f"ticket={second}".encode()) == 401
    clock.seconds += 59
    assert status(access, **page, query=f"ticket={second}".encode()) == 200
    clock.seconds += 1
    assert status(access, **page, query=f"ticket={late}".encode()) == 401
    assert Access().ticket(scope("/ticket", "GET", None)) == ""


def test_files_of_keys(tmp_path):
    path = tmp_path / "keys"
    path.write_bytes(b"\xef\xbb\xbf# of the web site\n" + f"{KEYS[0]}\r\n\n  {KEYS[1]}  \n{KEYS[0]}".encode())
    assert read_keys(path) == DIGESTS
    for content, message in (
        (b"", "has 0 keys. Expected: 1 to 10,000"),
        (b"secret-and-short\nshort", "line 2, is not a key. Expected: at least 16 letters"),
        (b"a key with spaces in it", "line 1, is not a key"),
        (b"key-with-umlaut-\xfc", "line 1, is not a key"),
        (b"a" * (1 << 20) + b"b", "has more than 1,048,576 bytes"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=message) as caught:
            read_keys(path)
        assert not content or content[:16].decode("latin-1") not in str(caught.value)
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_keys(tmp_path / "none")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--quota", "5"], "`--quota` counts the requests of each key. Use it with --api-key-file"),
        (["--allow-origin", "*"], "opens the models to every web page. Use it with --api-key-file"),
        (["--allow-origin", "site.example"], "must be an origin such as https://site.example"),
        (["--allow-origin", "https://site.example/page"], "must be an origin such as https://site.example"),
        (["--api-key-file", "/nowhere/keys"], "/nowhere/keys cannot be read"),
    ],
)
def test_settings_that_do_not_fit_together(flags, message, capsys):
    assert cli.main(["serve", *flags]) == 2
    assert message in capsys.readouterr().err


def test_a_page_of_an_allowed_origin_reads_answers_and_errors():
    settings = ServerSettings(allow_origins=checked_origins([SITE + "/"], False), keys=DIGESTS)
    elsewhere = {"origin": SITE, "sec-fetch-site": "cross-site"}
    preflight = {**elsewhere, "access-control-request-method": "POST"}
    answer = ask(settings, "OPTIONS", "/v1/translate", headers=preflight)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (204, SITE)
    assert "authorization" in answer.headers["access-control-allow-headers"]
    headers = {**elsewhere, "authorization": f"Bearer {KEYS[0]}"}
    for sent, code in ((headers, 404), (elsewhere, 401)):
        answer = ask(settings, "POST", "/v1/translate", sent, {"texts": ["a"], "model": "none"})
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (code, SITE)
        assert answer.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(
    "origin", ["https://other.example", "http://site.example", "https://site.example.evil", "null"]
)
def test_a_page_of_another_origin_is_refused(origin):
    settings = ServerSettings(allow_origins=checked_origins([SITE], False))
    preflight = {"origin": origin, "access-control-request-method": "POST"}
    for answer in (
        ask(settings, "OPTIONS", "/v1/translate", headers=preflight),
        ask(settings, "GET", "/v1/models", headers={"origin": origin}),
        ask(settings, "POST", "/v1/translate", body={"texts": ["a"]}, headers={"origin": origin}),
    ):
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers


def test_keys_stand_in_no_setting_and_no_metric(tmp_path):
    path = tmp_path / "keys"
    path.write_text("\n".join(KEYS))
    settings = ServerSettings(keys=read_keys(path))
    assert not any(key in repr(settings) for key in KEYS)
    metrics = ServerMetrics(["/v1/models"])
    app = make_app(Server({}, settings, metrics))
    assert app is not None
    assert not any(key in json.dumps(metrics.text().decode()) for key in KEYS)


@pytest.mark.slow
def test_the_page_asks_for_an_api_key(tmp_path):
    """It refuses a wrong one, answers with the right one, and shows attention weights in a frame."""
    with chromium() as driver:
        write_tiny_entry(tmp_path / "words")
        with server_in_this_process(tmp_path, keys=DIGESTS) as (url, models):
            set_window(driver)
            driver.get(url)
            for key, reason in (("wrong-key-0123456789", "This server needs a key."), (KEYS[1], "is not known")):
                until(lambda reason=reason: reason in driver.find_element("id", "access-reason").text)
                driver.find_element("id", "key").send_keys(key + "\n")
            expected = [one.text for one in models["words"].translate(ENGLISH[0], n_best=3)]
            script = "return [...document.querySelectorAll('#answers .what')].map(e => e.textContent)"
            until(lambda: driver.execute_script(script) == expected)
            assert not driver.find_element("id", "access").is_displayed()
            driver.find_element("css selector", "#looked summary").click()
            frame = driver.find_element("id", "view")
            until(lambda: frame.is_displayed())
            assert KEYS[1] not in frame.get_attribute("src") + driver.current_url
            driver.switch_to.frame(frame)
            until(lambda: "heat" in driver.page_source.lower())
            assert "needs a key" not in driver.page_source


def until(condition):
    """Waits until `condition()` holds."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_no_log_has_a_key(zoo, tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"{KEYS[0]}\n")
    path.chmod(0o644)
    flags = ["--model", "tiny", "--api-key-file", str(path), "--quota", "2"]
    with server_process("serve", *flags, KERAS_ATTENTION_ZOO=str(zoo)) as (process, url):
        statuses = []
        for key in ("another-key-0123456789", KEYS[0], KEYS[0], KEYS[0]):
            headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
            request = urllib.request.Request(f"{url}/v1/translate", b'{"texts": ["Men sit."]}', headers)
            try:
                statuses.append(urllib.request.urlopen(request).status)
            except urllib.error.HTTPError as error:
                statuses.append(error.code)
        assert statuses == [401, 200, 200, 429]
        process.terminate()
        out, log = process.communicate()
    assert "key-0123456789" not in out + log
    assert f"other users may read {path}" in log
