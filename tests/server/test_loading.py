"""Models are loaded at their first request: what is known before, what a request waits for, and what goes wrong."""

import asyncio
import json
import threading

import pytest
from server.tiny_zoo import write_tiny_zoo
from zoo.tiny_bert import TEXTS

from keras_attention.pipelines.base import load_pipeline
from keras_attention.server import ServerSettings
from keras_attention.server.gate import Refusal
from keras_attention.server.http_server import make_app
from keras_attention.server.metrics import ServerMetrics
from keras_attention.server.requests import AttentionRequest
from keras_attention.server.served_models import ServedModel, about_model, known_models
from keras_attention.server.server import Server
from keras_attention.zoo import registry

SECONDS = 60


@pytest.fixture(autouse=True)
def same_priority(monkeypatch):
    monkeypatch.setattr("keras_attention.server.server.let_python_go_first", lambda: None)  # cannot be taken back


class Loading:
    """Loads a model that answers with its name, once it is let go on."""

    def __init__(self, name, error=None):
        self.name, self.error, self.times = name, error, 0
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self):
        self.times += 1
        self.begun.set()
        assert self.go_on.wait(SECONDS)
        if self.error:
            raise self.error
        return ServedModel(self.name, "classify", self.name, {"name": self.name}, [lambda: None])


def unloaded(name, error=None):
    about = {"name": name, "task": "classify", "activity": {"title": "Which label?"}}
    return ServedModel(name, "classify", None, about, load=Loading(name, error))


def serving(*models, seconds=SECONDS):
    """A server of these models, warm, and the list of its messages."""
    messages = []
    server = Server({model.name: model for model in models}, ServerSettings(seconds=seconds), None, messages.append)
    server.warm()
    return server, messages


async def ask(server, name):
    return await server.answer(lambda pipeline, request: pipeline, AttentionRequest(model=name, text="a"))


def test_the_first_request_loads_a_model_once_while_another_model_answers():
    ready, slow, quick = ServedModel("ready", "classify", "R", {}), unloaded("slow"), unloaded("quick")
    server, messages = serving(ready, slow, quick)
    assert server.state == "ready"
    assert [one["loaded"] for one in server.about()] == [True, False, False]

    async def visit():
        waiting = [asyncio.create_task(ask(server, "slow")) for _ in range(5)]
        assert await asyncio.to_thread(slow.load.begun.wait, SECONDS)
        assert await ask(server, "ready") == ("ready", "R")
        quick.load.go_on.set()
        assert await ask(server, "quick") == ("quick", "quick")
        assert not any(task.done() for task in waiting)
        slow.load.go_on.set()
        assert await asyncio.gather(*waiting) == [("slow", "slow")] * 5
        assert await ask(server, "slow") == ("slow", "slow")

    asyncio.run(visit())
    server.close()
    assert (slow.load.times, quick.load.times) == (1, 1)
    assert [one["loaded"] for one in server.about()] == [True, True, True]
    assert "quick is ready (2 of 3)" in messages


def test_a_model_that_takes_long_is_answered_with_503_and_then_it_is_ready():
    slow = unloaded("slow")
    server, _ = serving(slow, seconds=0.2)

    async def visit():
        with pytest.raises(Refusal, match="slow is being loaded: try again later") as refused:
            await ask(server, "slow")
        assert refused.value.status == 503
        slow.load.go_on.set()
        while "slow" not in server.ready:
            await asyncio.sleep(0.01)
        assert await ask(server, "slow") == ("slow", "slow")

    asyncio.run(visit())
    server.close()


@pytest.mark.parametrize(
    ("error", "status", "times"),
    [
        (registry.EntryError("It is damaged."), 500, 1),
        (OSError("The disk is away."), 500, 2),
        (Refusal(503, "no"), 503, 2),
    ],
)
def test_a_model_that_cannot_be_loaded_does_not_stop_the_server(error, status, times):
    broken, ready = unloaded("broken", error), ServedModel("ready", "classify", "R", {"name": "ready"})
    broken.load.go_on.set()
    server, messages = serving(broken, ready)

    async def visit():
        for _ in range(2):
            with pytest.raises(Refusal) as refused:
                await ask(server, "broken")
            assert refused.value.status == status
            while server._loading:
                await asyncio.sleep(0.01)
        assert await ask(server, "ready") == ("ready", "R")
        if isinstance(error, registry.EntryError):
            assert server.router.default_model("classify") is ready

    asyncio.run(visit())
    server.close()
    assert broken.load.times == times
    assert any(str(error) in line for line in messages)
    assert server.state == "stopping"


def test_a_part_of_a_name_is_enough_if_it_is_unique():
    models = [ServedModel(name, "classify", name, {}) for name in ("bert_mini_sst2", "minilm_small_pairs", "pairs_two")]
    server, _ = serving(*models)
    assert server.router.model_named("sst2").name == "bert_mini_sst2"
    assert server.router.model_named("MINILM_SMALL").name == "minilm_small_pairs"
    with pytest.raises(Refusal, match="'pairs' is a part of several names: minilm_small_pairs, pairs_two") as refused:
        server.router.model_named("pairs")
    assert refused.value.status == 404
    with pytest.raises(Refusal, match="No model 'ini'"):
        server.router.model_named("ini")


def test_the_default_of_a_task_is_the_best_model_or_the_first_that_is_named_at_the_start():
    best = registry.DEFAULT_MODELS["classify"]
    names = ("a_first", best)
    server, _ = serving(*map(unloaded, names))
    assert server.router.default_model("classify").name == best
    assert [one["default"] for one in server.about()] == [False, True]
    server, _ = serving(*(ServedModel(name, "classify", name, {"name": name}) for name in names))
    assert server.router.default_model("classify").name == "a_first"


def test_the_defaults_are_models_of_the_package_with_these_tasks():
    for task, name in registry.DEFAULT_MODELS.items():
        assert registry.open_entry(name).architecture.task.name == task


def test_models_are_described_before_they_are_loaded_as_afterwards(tmp_path, monkeypatch):
    write_tiny_zoo(tmp_path)
    (tmp_path / "gaps" / "config.json").write_text("{}")
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(tmp_path))
    monkeypatch.setattr("keras_attention.server.served_models.list_models", lambda: ["gaps", "moods", "pairs", "words"])
    messages, names = [], ["moods", "pairs", "words"]
    models = known_models(ServerSettings(max_batch=1), lambda *_: None, messages.append)
    assert list(models) == names
    assert len(messages) == 1
    assert "gaps is not served" in messages[0]
    for name in names:
        assert models[name].pipeline is None
        assert models[name].about == about_model(load_pipeline(tmp_path / name))
    loaded = models["moods"].load()
    assert loaded.pipeline.reply(texts=TEXTS[:1])[0]["label"]
    weights = tmp_path / "pairs" / "model.weights.h5"
    weights.write_bytes(weights.read_bytes()[::-1])  # found when it is loaded
    with pytest.raises(registry.EntryError, match="SHA-256"):
        models["pairs"].load()


def test_a_model_that_does_not_fit_into_memory_is_not_loaded(tmp_path, monkeypatch):
    write_tiny_zoo(tmp_path)
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(tmp_path))
    monkeypatch.setattr("keras_attention.server.served_models.list_models", lambda: ["moods"])
    monkeypatch.setattr("keras_attention.server.served_models.free_memory", lambda: 101 << 20)
    models = known_models(ServerSettings(), lambda *_: None)
    with pytest.raises(Refusal, match="no memory for moods.*free are 101 MB") as refused:
        models["moods"].load()
    assert refused.value.status == 503


def fetch(server, path, method="GET", **headers):
    """(status, JSON) of a request to the routes of a server."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"{", "more_body": False}

    async def send(message):
        sent.append(message)

    lines = [(b"host", b"localhost"), *((name.encode(), value.encode()) for name, value in headers.items())]
    scope = {"type": "http", "method": method, "path": path, "headers": lines, "query_string": b"", "root_path": ""}
    asyncio.run(make_app(server)(scope, receive, send))
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))


def test_models_and_errors_are_those_that_clients_of_openai_read():
    server = Server({"moods": unloaded("moods")}, ServerSettings(), ServerMetrics([]))
    server.warm()
    status, reply = fetch(server, "/v1/models")
    assert (status, reply["object"]) == (200, "list")
    assert [(one["id"], one["object"], type(one["created"])) for one in reply["data"]] == [("moods", "model", int)]
    assert [one["name"] for one in reply["models"]] == ["moods"]
    assert fetch(server, "/v1/models/mood")[0] == 404
    assert fetch(server, "/v1/models/moods") == (200, reply["data"][0])
    assert fetch(server, "/ready") == (200, {"status": "ready"})
    for path in ("/v1/models/nobody", "/v1/chat/completions"):
        status, reply = fetch(server, path)
        assert (status, reply["error"]["type"]) == (404, "invalid_request_error")
        assert reply["error"]["message"]
    for path in ("/v1/completions", "/v1/embeddings"):
        status, reply = fetch(server, path, "POST", **{"content-type": "application/json"})
        assert (status, list(reply["error"])) == (400, ["message", "type", "param", "code"])
    status, reply = fetch(server, "/v1/classify", "POST", **{"content-type": "application/json"})
    assert (status, type(reply["error"])) == (400, str)
