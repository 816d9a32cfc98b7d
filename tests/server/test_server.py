"""The server as a process: what it answers, what it refuses, and how it ends."""

import concurrent.futures
import contextlib
import http.client
import json
import runpy
import signal
import socket
import time
from urllib.parse import quote, urlsplit

import pytest
from server.tiny_zoo import ROOT, running_server, write_tiny_zoo
from zoo.tiny_bert import TEXTS
from zoo.tiny_entry import ENGLISH

import keras_attention
from keras_attention.server.http_server import tasks
from keras_attention.server.requests import AttentionReply
from keras_attention.server.task_forms import reply_model

pytestmark = pytest.mark.slow
JSON = {"content-type": "application/json"}
ABUSE = runpy.run_path(str(ROOT / "benchmarks" / "serving_abuse.py"))
MASKED = "A [MASK] runs over green grass."


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoo")
    write_tiny_zoo(folder)
    return folder


@pytest.fixture(scope="module")
def server(zoo):
    """(process, URL) of a server that all tests but one ask."""
    with running_server(
        zoo, "--max-batch", "2", "--items", "7", "--characters", "200", "--seconds", "60"
    ) as process_and_url:
        yield process_and_url


@pytest.fixture
def ask(server):
    """Sends one request: (status, headers, what the JSON says or the text)."""
    address = urlsplit(server[1])

    def send(method, path, body=None, headers=JSON):
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        with contextlib.closing(connection):
            content = body if body is None or isinstance(body, bytes) else json.dumps(body)
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            content = answer.read().decode()
            is_json = answer.headers["content-type"] == "application/json"
            return answer.status, answer.headers, json.loads(content) if is_json else content

    return send


def test_answers_are_those_of_the_models(zoo, ask):
    translator = keras_attention.load(zoo / "words")
    status, _, reply = ask("POST", "/v1/translate", {"texts": [*ENGLISH, ""], "n_best": 2})
    assert (status, reply["model"]) == (200, "words")
    for answer, expected in zip(reply["answers"], translator.hypotheses([*ENGLISH, ""], n_best=2), strict=True):
        assert [one["text"] for one in answer["translations"]] == [one.text for one in expected]
        assert answer["translations"][0]["score"] == pytest.approx(expected[0].score, abs=1e-4)

    moods = keras_attention.load(zoo / "moods")
    _, _, reply = ask("POST", "/v1/classify", {"texts": TEXTS})
    for answer, expected in zip(reply["answers"], moods.classify(TEXTS, return_scores=True), strict=True):
        assert answer["label"] == expected.label
        assert answer["probabilities"] == pytest.approx(expected.probabilities, abs=1e-5)
    _, _, reply = ask("POST", "/v1/classify", {"texts": TEXTS, "texts_b": TEXTS[::-1], "model": "pairs", "top": 1})
    labels = keras_attention.load(zoo / "pairs").classify(TEXTS, TEXTS[::-1])
    assert [list(answer["probabilities"]) for answer in reply["answers"]] == [[label] for label in labels]

    gaps = keras_attention.load(zoo / "gaps")
    _, _, reply = ask("POST", "/v1/fill-mask", {"texts": [MASKED], "top": 3})
    expected = gaps.fill_mask(MASKED, top_k=3)
    assert [one["text"] for one in reply["answers"][0]["fillings"]] == [one.text for one in expected]

    for model, text in (("words", ENGLISH[0]), ("moods", TEXTS[0]), ("gaps", MASKED)):
        status, _, reply = ask("POST", "/v1/attention", {"model": model, "text": text})
        view = keras_attention.load(zoo / model).attention_view(text)
        assert (status, reply["title"]) == (200, text)
        assert reply["answers"][0]["maps"] == view.data["answers"][0]["maps"]
        status, _, page = ask("GET", f"/attention?model={model}&text={quote(text)}")
        assert (status, page.startswith("<!doctype html>")) == (200, True)


MODELS = {"translate": "words", "classify": "moods", "fill-mask": "gaps"}


@pytest.mark.parametrize("task", MODELS)
def test_replies_match_their_schema_and_report_truncation(ask, task):
    reply_type, model = reply_model(task, tasks()[task][0]), MODELS[task]
    long = f"[MASK] {'dog ' * 48}"
    status, _, actual = ask("POST", f"/v1/{task}", {"model": model, "texts": ["A [MASK] runs.", long]})
    assert status == 200
    reply = reply_type.model_validate(actual, extra="forbid", strict=True)
    assert [answer.truncated for answer in reply.answers] == [False, True]
    status, _, actual = ask("POST", "/v1/attention", {"model": model, "text": long})
    checked = AttentionReply.model_validate(actual, extra="forbid")
    assert (status, checked.note.endswith("left out")) == (200, True)


def test_many_at_a_time_are_answered_as_if_alone_and_share_batches(ask):
    texts = [*ENGLISH, *TEXTS]
    alone = {text: ask("POST", "/v1/translate", {"texts": [text]})[2] for text in texts}
    with concurrent.futures.ThreadPoolExecutor(16) as clients:
        answers = clients.map(lambda text: (text, ask("POST", "/v1/translate", {"texts": [text]})), texts * 8)
        for text, (status, _, reply) in answers:
            assert status == 200
            best, expected = reply["answers"][0]["translations"][0], alone[text]["answers"][0]["translations"][0]
            assert best["text"] == expected["text"]
            assert best["score"] == pytest.approx(expected["score"], abs=1e-4)
    counted = ask("GET", "/metrics")[2]
    rows = {}
    for line in counted.splitlines():
        if line.startswith('rows_together_bucket{le="1.0"') or line.startswith('rows_together_bucket{le="2.0"'):
            name, value = line.rsplit(" ", 1)
            rows[name] = float(value)
    one, two = (
        rows['rows_together_bucket{le="1.0",model="words"}'],
        rows['rows_together_bucket{le="2.0",model="words"}'],
    )
    assert two > one
    assert 'requests_total{path="/v1/translate",status="200"}' in counted


def test_pages_and_facts(ask):
    assert ask("GET", "/health")[2] == {"status": "ok"}
    assert ask("GET", "/ready")[2] == {"status": "ready"}
    models = {model["name"]: model for model in ask("GET", "/v1/models")[2]["models"]}
    assert {name: model["task"] for name, model in models.items()} == {
        "gaps": "fill-mask",
        "moods": "classify",
        "pairs": "classify",
        "words": "translate",
    }
    assert models["moods"]["examples"] == [{"source": TEXTS[0]}]
    assert (models["pairs"]["pair"], models["pairs"]["labels"]) == (True, ["a", "b", "c"])
    assert set(ask("GET", "/openapi.json")[2]["paths"]) >= {"/v1/translate", "/v1/fill-mask", "/health"}
    status, _, docs = ask("GET", "/docs")
    assert status == 200
    assert "https://" not in docs  # nothing from elsewhere
    status, headers, page = ask("GET", "/")
    assert (status, "default-src 'none'" in headers["content-security-policy"]) == (200, True)
    assert "https://" not in page


REFUSED = {
    "no object": (422, "/v1/translate", b"[]"),
    "a text instead of a list": (422, "/v1/translate", {"texts": "a"}),
    "a number": (422, "/v1/translate", {"texts": [1]}),
    "no texts": (422, "/v1/translate", {"texts": []}),
    "too many texts": (422, "/v1/translate", {"texts": ["a"] * 8}),
    "too long a text": (422, "/v1/translate", {"texts": ["a" * 201]}),
    "unknown field": (422, "/v1/translate", {"texts": ["a"], "beam": 5}),
    "too many answers": (422, "/v1/translate", {"texts": ["a"], "n_best": 4}),
    "another task": (422, "/v1/translate", {"texts": ["a"], "model": "moods"}),
    "no gap": (422, "/v1/fill-mask", {"texts": ["a dog"]}),
    "no second texts": (422, "/v1/classify", {"texts": ["a"], "model": "pairs"}),
    "a threshold that is none": (422, "/v1/classify", {"texts": ["a"], "threshold": 2}),
    "no text to look at": (422, "/v1/attention", {"text": "", "model": "words"}),
    "no such route": (404, "/v1/nothing", {}),
    "no such file": (404, "/demo/app.py", None),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_requests_are_refused_as_json(server, ask, case):
    expected, path, body = REFUSED[case]
    status, _, reply = ask("POST" if path.startswith("/v1") else "GET", path, body)
    assert (status, list(reply)) == (expected, ["error"])
    assert "Traceback" not in reply["error"]
    assert server[0].poll() is None


def test_other_types_are_refused(ask):
    assert ask("POST", "/v1/translate", b"{}", {"content-type": "text/plain"})[0] == 415
    assert ask("POST", "/v1/translate", b"{}", {**JSON, "content-encoding": "gzip"})[0] == 415
    assert ask("GET", "/v1/translate")[0] == 405


@pytest.mark.parametrize("case", [name for name, (_, right) in ABUSE["ABUSE"].items() if right != {408}])
def test_abuse_is_refused_and_the_server_lives(server, case):
    """Those that wait until the server's time is up are in test_gate.py."""
    sent, right = ABUSE["ABUSE"][case]
    assert ABUSE["status_of"](server[1], sent, 60) in right
    assert server[0].poll() is None


@pytest.mark.thorough
def test_ends_after_what_it_accepted(zoo, tmp_path):
    """Requests whose head is there when the signal comes are answered, and the process ends with 0."""
    (tmp_path / "moods").symlink_to(zoo / "moods")
    body = json.dumps({"texts": [TEXTS[0]]}).encode()
    head = "POST /v1/classify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += f"content-length: {len(body)}\r\n\r\n"
    with running_server(tmp_path, "--seconds", "120") as (process, url):
        address = urlsplit(url)
        clients = [socket.create_connection((address.hostname, address.port)) for _ in range(5)]
        for client in clients:
            client.sendall(head.encode())
        while b"requests_in_progress 6.0" not in fetch(url, "/metrics"):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)  # it no longer listens by now
        with pytest.raises(ConnectionError):
            socket.create_connection((address.hostname, address.port))
        for client in clients:
            client.sendall(body)
        for client in clients:
            assert client.recv(12) == b"HTTP/1.1 200"
            client.close()
        assert json.loads(process.stdout.readline())["answered"]["/v1/classify"] == 5
        assert process.wait(timeout=60) == 0


def fetch(url, path):
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().read()
