"""A model answers as soon as its own shapes are compiled, while those of the next one are not."""

import asyncio
import threading
import time

import pytest

from keras_attention.server import ServerSettings
from keras_attention.server.gate import RETRY_SECONDS, Refusal
from keras_attention.server.requests import AttentionRequest
from keras_attention.server.served_models import ServedModel
from keras_attention.server.server import WARM_SECONDS, Server

SECONDS = 20


class Compiling:
    """A step that lasts until it is let go on."""

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self):
        self.begun.set()
        assert self.go_on.wait(SECONDS)


@pytest.fixture
def messages():
    return []


@pytest.fixture
def slow():
    return Compiling()


@pytest.fixture
def server(messages, slow, monkeypatch):
    monkeypatch.setattr("keras_attention.server.server.let_python_go_first", lambda: None)  # cannot be taken back
    about = {"examples": [], "attention": False}
    models = [
        ServedModel("first", "classify", "A", about, [lambda: None]),
        ServedModel("second", "encode", "B", about, [slow]),
    ]
    server = Server({model.name: model for model in models}, ServerSettings(), None, messages.append)
    warming = threading.Thread(target=server.warm)
    warming.start()
    assert slow.begun.wait(SECONDS)
    yield server
    slow.go_on.set()
    warming.join()
    server.workers.close()


def ask(server, name):
    request = AttentionRequest(model=name, text="a")
    return asyncio.run(server.answer(lambda pipeline, request: pipeline, request))


def wait_for(messages, line):
    for _ in range(SECONDS * 100):
        if line in messages:
            return
        time.sleep(0.01)
    raise AssertionError(f"{line!r} is no message of {messages}")


def test_the_first_answers_while_the_second_compiles(server, slow, messages):
    wait_for(messages, "first is ready (1 of 2)")
    assert ask(server, "first") == ("first", "A")
    message = r"second is being warmed up, which takes about a minute after the start \(1 of 2 models are ready\)"
    with pytest.raises(Refusal, match=message) as refused:
        ask(server, "second")
    assert int(refused.value.response().headers["retry-after"]) == WARM_SECONDS > RETRY_SECONDS
    assert server.state == "warming"
    slow.go_on.set()
    wait_for(messages, "second is ready (2 of 2)")
    assert ask(server, "second") == ("second", "B")


def test_a_stopping_server_refuses_requests(server, messages):
    wait_for(messages, "first is ready (1 of 2)")
    server.state = "stopping"
    with pytest.raises(Refusal, match="stopping"):
        ask(server, "first")
