"""The parts that keep others out, each alone: the gate, the workers, the protocol."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import uvicorn
from fastapi import FastAPI
from zoo.tiny_bert import tiny_classifier

from keras_attention.pipelines.classifier import Classifier
from keras_attention.pipelines.text_generator import TextGenerator
from keras_attention.pipelines.translator import Translator
from keras_attention.runtime.work_budget import stop_if_unwanted
from keras_attention.server import ServerSettings, http_server
from keras_attention.server.completions import CompletionsRequest
from keras_attention.server.gate import Gate, Refusal, client_is_gone
from keras_attention.server.guarded_protocol import guarded_protocol
from keras_attention.server.http_server import _add_errors, bind
from keras_attention.server.metrics import ServerMetrics
from keras_attention.server.requests import check_limits, check_tokens
from keras_attention.server.server import Server
from keras_attention.server.task_forms import request_model
from keras_attention.server.workers import STREAM_AHEAD, Workers
from keras_attention.support.errors import UserError

HEADERS = [(b"content-type", b"application/json")]
SCOPE = {"type": "http", "method": "POST", "path": "/here", "headers": HEADERS}


def through_the_gate(messages, headers=HEADERS, seconds=0.2, busy=0):
    """(status, JSON, what the application read) of a request whose body comes as `messages`, then never."""
    sent, read = [], []
    messages = list(messages)

    async def receive():
        if messages:
            return messages.pop(0)
        await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    async def app(scope, receive, send):
        read.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    settings = ServerSettings(body_bytes=11, seconds=seconds)
    metrics = ServerMetrics(["/here"])
    workers = Workers(3, seconds)
    workers.busy = busy
    asyncio.run(Gate(app, settings, metrics, workers)({**SCOPE, "headers": headers}, receive, send))
    if not sent:
        return None, None, read
    status = sent[0]["status"]
    assert f'requests_total{{path="/here",status="{status}"}} 1.0' in metrics.text().decode()
    assert b"requests_in_progress 0.0" in metrics.text()
    return status, json.loads(b"".join(message.get("body", b"") for message in sent[1:])), read


def part(body, more=False):
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_request_body_in_several_packets_is_joined():
    assert through_the_gate([part(b"01234", True), part(b"56789a")]) == (200, {}, [b"0123456789a"])


@pytest.mark.parametrize(
    ("status", "messages", "headers"),
    [
        (413, [part(b"01234", True), part(b"56789ab", True)], HEADERS),
        (413, [], [*HEADERS, (b"content-length", b"12")]),
        (413, [], [*HEADERS, (b"content-length", b"x")]),
        (408, [part(b"01234", True)], HEADERS),
        (415, [], [(b"content-type", b"text/plain")]),
    ],
)
def test_refuses(status, messages, headers):
    actual, answer, read = through_the_gate(messages, headers)
    assert (actual, list(answer), read) == (status, ["error"], [])


def test_refuses_before_reading_while_all_workers_are_busy():
    assert through_the_gate([part(b"0")], busy=2) == (200, {}, [b"0"])
    assert through_the_gate([], busy=3)[::2] == (503, [])


def test_work_of_a_disconnected_client_is_dropped():
    assert through_the_gate([part(b"0", True), {"type": "http.disconnect"}]) == (None, None, [])


def test_busy_workers_answer_503():
    go_on = threading.Event()

    async def visit():
        workers = Workers(1, seconds=0.2)
        with pytest.raises(Refusal, match="no answer within 0.2 seconds") as late:
            await workers.run(go_on.wait)
        with pytest.raises(Refusal, match="All 1 workers are busy") as full:
            await workers.run(str)
        assert (late.value.status, full.value.status) == (503, 503)
        assert full.value.response().headers["retry-after"] == "1"
        go_on.set()
        while workers.busy:
            await asyncio.sleep(0.01)
        assert await workers.run(str, 3) == "3"
        with pytest.raises(ZeroDivisionError):
            await workers.run(lambda: 1 / 0)
        assert workers.busy == 0
        workers.close()

    asyncio.run(visit())


def computes_on(ended):
    """Computes until nobody waits for it."""
    try:
        while True:
            time.sleep(0.01)
            stop_if_unwanted()
    finally:
        ended.set()


def test_a_computation_ends_when_its_time_is_up_its_client_leaves_or_the_server_stops():
    async def visit():
        workers, ended, gone = Workers(2, seconds=0.3), threading.Event(), threading.Event()
        with pytest.raises(Refusal, match="no answer within 0.3 seconds"):
            await workers.run(computes_on, ended)
        assert await asyncio.to_thread(ended.wait, 20)
        workers.seconds, ended = 600, threading.Event()
        client_is_gone.set(gone.is_set)
        answer = asyncio.create_task(workers.run(computes_on, ended))
        await asyncio.sleep(0.05)
        gone.set()
        with pytest.raises(Refusal, match="client has left") as refused:
            await answer
        assert refused.value.status == 499
        started = []
        with pytest.raises(Refusal):
            await workers.run(started.append, 1)  # whose client has left before it begins
        assert not started
        gone.clear()
        ended = threading.Event()
        answer = asyncio.create_task(workers.run(computes_on, ended))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(workers.close)
        assert ended.is_set()
        with pytest.raises(Refusal):
            await answer

    asyncio.run(visit())


def test_a_stream_does_not_run_ahead_of_a_slow_client():
    made = []

    def pieces():
        for number in range(1_000_000):
            made.append(number)
            yield number

    async def visit():
        workers = Workers(1, seconds=600)
        stream = workers.stream(pieces)
        assert await anext(stream) == 0
        await asyncio.sleep(0.2)
        assert len(made) <= STREAM_AHEAD + 3
        assert [await anext(stream) for _ in range(3 * STREAM_AHEAD)] == list(range(1, 1 + 3 * STREAM_AHEAD))
        await stream.aclose()
        while workers.busy:
            await asyncio.sleep(0.01)

    asyncio.run(visit())


def test_new_tokens_of_a_request_are_limited():
    short = request_model("generate", TextGenerator)(prompts=[""], n=32, max_tokens=2)
    check_limits(short, ServerSettings())
    check_limits(CompletionsRequest(prompt="a", n=32, max_tokens=2), ServerSettings())
    for request in (
        request_model("generate", TextGenerator)(prompts=[""] * 3, n=32, max_tokens=4096),
        CompletionsRequest(prompt=["a", "b", "c"], n=32, max_tokens=4096),
    ):
        with pytest.raises(UserError, match=r"at most 32,768 new tokens.*3 x 32 x 4,096 = 393,216"):
            check_limits(request, ServerSettings())


@pytest.mark.slow
def test_a_computation_that_never_ends_does_not_keep_the_process():
    """In a process of its own, because it ends at the time limit without the usual steps of Python's exit."""
    code = """
import asyncio, os, signal, sys, threading, time
import uvicorn
from keras_attention.server import ServerSettings
from keras_attention.server import http_server
http_server.END_SECONDS, http_server.FREEING_SECONDS = 0.5, 0
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGTERM]).start()
        await receive()
        await asyncio.to_thread(threading.Event().wait)  # like a native computation
signal.signal(signal.SIGTERM, lambda *_: None)
config = uvicorn.Config(app, port=0, log_level="critical")
bound = http_server.bind("127.0.0.1", 0)
http_server.EndingServer(config, ServerSettings(seconds=0.2), lambda: print("told")).run(sockets=[bound])
print("never")
"""
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "told\n"), done.stderr
    assert time.monotonic() - began < 60


def test_a_process_that_is_ended_has_time_to_free_its_memory(monkeypatch):
    started = []

    class Timer:
        def __init__(self, seconds, call):
            self.start = lambda: started.append(seconds)

    monkeypatch.setattr(http_server.threading, "Timer", Timer)
    settings = ServerSettings(seconds=7)
    server = http_server.EndingServer(uvicorn.Config(None), settings, lambda: None)
    for _ in range(2):  # a second signal does not begin anew
        server.handle_exit(signal.SIGTERM, None)
    (seconds,) = started
    assert 2 * settings.seconds < seconds <= http_server.grace_seconds(settings) - 1


@pytest.fixture
def address():
    """Where a server with the guarded protocol is, whose application always says 200."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    bound = bind("127.0.0.1", 0)
    config = uvicorn.Config(app, http=guarded_protocol(0.3), lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    name = bound.getsockname()
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield name
    server.should_exit = True
    thread.join()


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        (200, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"),
        (400, b"GARBAGE\r\n\r\n"),
        (408, b"GET / HTTP/1.1\r\nhost: "),
        (408, b""),
        (408, b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\n"),
        (431, b"GET / HTTP/1.1\r\nhost: " + b"x" * 70_000),
        (431, b"GET / HTTP/1.1\r\nhost: x\r\n" + b"x: " + b"x" * 70_000 + b"\r\n\r\n"),
        (431, b"GET / HTTP/1.1\r\nhost: x\r\n" + b"x: y\r\n" * 12_000 + b"\r\n"),
        (431, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 50 + b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n"),
    ],
)
def test_the_head_of_a_request_is_short_and_in_time(address, status, sent):
    with socket.create_connection(address) as client:
        client.sendall(sent)
        client.settimeout(10)
        received = b""
        while f"HTTP/1.1 {status}".encode() not in received:
            piece = client.recv(10_000)
            assert piece, received
            received += piece
        if status != 200:
            assert b'{"error": ' in received


@pytest.mark.parametrize("pause", [False, True], ids=["in one read", "in parts"])
def test_thousands_of_pipelined_requests_are_all_answered(address, pause):
    request, number = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", 5003
    sent, received = request * number, b""
    with socket.create_connection(address) as client:
        client.settimeout(60)
        sending = threading.Thread(target=lambda: [client.sendall(sent[i : i + 997]) for i in range(0, len(sent), 997)])
        if pause:
            sending.start()
        else:
            client.sendall(sent)
        while received.count(b"HTTP/1.1 200 ") < number:
            piece = client.recv(1_000_000)
            assert piece, received[-300:]
            received += piece
        if pause:
            sending.join()


def test_a_head_just_below_the_limit_after_a_body_in_the_same_read(address):
    long = b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 60_000 + b"\r\n\r\n"
    post = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 30000\r\n\r\n" + b"z" * 30_000
    with socket.create_connection(address) as client:
        client.settimeout(20)
        client.sendall(post + long)
        received = b""
        while received.count(b"HTTP/1.1 200 ") < 2:
            piece = client.recv(100_000)
            assert piece, received
            received += piece


def test_an_address_that_is_taken():
    with bind("127.0.0.1", 0) as bound:
        bound.listen()
        with pytest.raises(UserError, match="cannot be used: .* in use. Choose others"):
            bind("127.0.0.1", bound.getsockname()[1])
    with pytest.raises(UserError, match="to 65535. Received: 70000"):
        bind("127.0.0.1", 70000)
    with pytest.raises(UserError, match=r"a\.\.b, port 8000 cannot be used"):
        bind("a..b", 8000)


def test_errors_of_routes_name_a_route_that_helps():
    with pytest.raises(Refusal, match="^No model of this server can classify. /v1/models lists") as refused:
        Server({}, ServerSettings(), ServerMetrics([])).router.by_task(None, "classify")
    assert refused.value.status == 404
    app, sent = FastAPI(), []
    app.get("/here")(lambda: {})
    _add_errors(app)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/here", "headers": [], "query_string": b""}
    asyncio.run(app(scope, None, send))
    assert sent[0]["status"] == 405
    assert (b"allow", b"GET") in sent[0]["headers"]


def test_settings_and_limits():
    assert ServerSettings(max_batch=8).checked().batch_sizes == [1, 2, 4, 8]
    with pytest.raises(UserError, match="power of two. Received: max_batch=6"):
        ServerSettings(max_batch=6).checked()
    with pytest.raises(UserError, match="seconds=0"):
        ServerSettings(seconds=0).checked()
    settings = ServerSettings(items=2, characters=5)
    TranslateRequest = request_model("translate", Translator)
    check_limits(TranslateRequest(texts=["a" * 5, "b"]), settings)
    with pytest.raises(UserError, match="at most 2 texts. Received: 3"):
        check_limits(TranslateRequest(texts=["a"] * 3), settings)
    with pytest.raises(UserError, match="at most 5 characters. Received: 6"):
        check_limits(TranslateRequest(texts=["a" * 6]), settings)


class Whole:
    """Reads texts of up to 5 tokens."""

    text_limit = 5
    tokenizers = {"text": tiny_classifier().tokenizer}


def test_the_length_of_a_text_is_limited_in_tokens_of_the_model():
    ask = request_model("classify", Classifier)
    check_tokens(Whole, ask(texts=["A dog runs.", "Men sit."]))
    check_tokens(tiny_classifier(), ask(texts=["A dog runs over green grass. " * 1000]))  # which is cut
    with pytest.raises(UserError, match="at most 5 tokens for this model. Received: "):
        check_tokens(Whole, ask(texts=["A dog runs.", "A dog runs over green grass."]))
    with pytest.raises(UserError, match="surrogate"):
        check_tokens(Whole, ask(texts=["\ud800 a"]))
    task = {**tiny_classifier().task, "long_texts": "whole"}
    whole = Classifier(tiny_classifier().model, Whole.tokenizers["text"], 23, task)
    assert whole.text_limit == 32 * 23
