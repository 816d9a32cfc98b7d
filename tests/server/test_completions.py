"""/v1/completions: the answers of the pipeline in OpenAI's shape, whole and as a stream, and what ends a stream."""

import asyncio
import contextlib
import http.client
import json
import math
import threading
import time
from urllib.parse import urlsplit

import pytest
from server.tiny_zoo import server_in_this_process
from zoo.tiny_gpt import tiny_generator

from keras_attention.runtime.batching import share_batches
from keras_attention.server import ServerSettings
from keras_attention.server.completions import CompletionsReply, CompletionsRequest
from keras_attention.server.gate import Refusal
from keras_attention.server.workers import Workers

PROMPTS = ["A dog", "Two men\nare"]
SAMPLING = {"top_p": 1.0, "temperature": 1.3, "seed": 7, "max_tokens": 11}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """(URL, TextGenerator) of a server of one tiny language model."""
    folder = tmp_path_factory.mktemp("zoo")
    tiny_generator("char").save(folder / "writer")
    with server_in_this_process(folder) as (url, models):
        yield url, models["writer"]


@contextlib.contextmanager
def asked(url, body):
    """The open response to a request."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        yield connection.getresponse()


def whole(url, **body):
    with asked(url, body) as answer:
        return answer.status, json.loads(answer.read())


def events(url, **body):
    """The objects of a stream, without [DONE]."""
    with asked(url, {**body, "stream": True}) as answer:
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        lines = answer.read().decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


@pytest.mark.slow
def test_answers_are_those_of_the_model(served):
    url, generator = served
    status, reply = whole(url, prompt=PROMPTS, n=2, **SAMPLING)
    assert status == 200
    CompletionsReply.model_validate(reply, extra="forbid", strict=True)
    expected = [one for answers in generator.generations(PROMPTS, n=2, **SAMPLING) for one in answers]
    assert [choice["text"] for choice in reply["choices"]] == [one.text for one in expected]
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2, 3]
    reasons = {"end": "stop", "length": "length"}
    assert [choice["finish_reason"] for choice in reply["choices"]] == [reasons[one.finish] for one in expected]
    assert (reply["model"], reply["object"], reply["id"][:5]) == ("writer", "text_completion", "cmpl-")
    prompt, written = sum(map(len, PROMPTS)), sum(len(one.token_ids) for one in expected)
    usage = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    assert reply["usage"] == usage


@pytest.mark.slow
def test_a_stream_has_the_same_texts_in_pieces(served):
    url, _ = served
    body = {"prompt": PROMPTS, "n": 2, "logprobs": 3, **SAMPLING}
    _, expected = whole(url, **body)
    actual = events(url, **body, stream_options={"include_usage": True})
    assert len({event["id"] for event in actual}) == 1
    assert actual[-1]["choices"] == []
    assert actual[-1]["usage"] == expected["usage"]
    for choice in expected["choices"]:
        pieces = [event["choices"][0] for event in actual[:-1] if event["choices"][0]["index"] == choice["index"]]
        assert "".join(piece["text"] for piece in pieces) == choice["text"]
        assert [piece["finish_reason"] for piece in pieces] == [None] * (len(pieces) - 1) + [choice["finish_reason"]]
        for name, values in choice["logprobs"].items():
            assert [value for piece in pieces for value in piece["logprobs"][name]] == values
    assert len(actual) > 1 + len(expected["choices"])  # more than one piece of each
    assert "usage" not in events(url, prompt="A", max_tokens=2)[-1]


@pytest.mark.slow
def test_log_probabilities_and_alternatives(served):
    url, generator = served
    _, reply = whole(url, prompt=PROMPTS[0], logprobs=5, **SAMPLING)
    (choice,), ((one,),) = reply["choices"], generator.generations(PROMPTS[:1], **SAMPLING)
    facts = choice["logprobs"]
    assert facts["tokens"] == one.tokens
    assert facts["token_logprobs"] == pytest.approx(one.log_probs, abs=1e-5)
    assert facts["text_offset"] == [len(PROMPTS[0]) + place for place in range(len(one.tokens))]  # characters
    for token, log_prob, top in zip(facts["tokens"], facts["token_logprobs"], facts["top_logprobs"], strict=True):
        assert len(top) == 5
        assert list(top.values()) == sorted(top.values(), reverse=True)
        assert top[token] == pytest.approx(log_prob, abs=1e-5) if token in top else log_prob <= min(top.values())
        assert sum(map(math.exp, top.values())) <= 1.0001
    _, reply = whole(url, prompt=PROMPTS[0], logprobs=0, **SAMPLING)
    assert reply["choices"][0]["logprobs"] == {**facts, "top_logprobs": None}


@pytest.mark.slow
def test_stop_texts_and_echo(served):
    url, _ = served
    _, reply = whole(url, prompt=PROMPTS[0], **SAMPLING)
    text = reply["choices"][0]["text"]
    stop = text[3:5]
    _, reply = whole(url, prompt=PROMPTS[0], stop=stop, echo=True, **SAMPLING)
    assert reply["choices"][0]["text"] == PROMPTS[0] + text[: text.index(stop)]
    assert reply["choices"][0]["finish_reason"] == "stop"
    pieces = events(url, prompt=PROMPTS, echo=True, stop=[stop, "?"], **SAMPLING)
    assert [event["choices"][0]["text"] for event in pieces[:2]] == PROMPTS


def test_without_a_seed_answers_differ(served):
    url, _ = served
    texts = {whole(url, prompt="A", max_tokens=11, temperature=3.0)[1]["choices"][0]["text"] for _ in range(3)}
    assert len(texts) > 1
    neutral = {"best_of": 1, "frequency_penalty": 0.0, "presence_penalty": None, "logit_bias": {}, "suffix": None}
    assert whole(url, prompt="A", user="me", **neutral)[0] == 200


def test_null_stands_for_a_default_as_in_the_api_of_openai():
    nulls = dict.fromkeys(CompletionsRequest.model_fields)
    assert CompletionsRequest.model_validate(nulls) == CompletionsRequest()
    assert CompletionsRequest.model_validate({"beam": None}).model_extra == {"beam": None}  # which `check` refuses


REFUSED = {
    "an unknown field": (400, {"beam": 3}, "'beam' is not supported. Leave it out"),
    "messages": (400, {"messages": [{"role": "user"}]}, "'messages' is not supported"),
    "a penalty": (
        400,
        {"frequency_penalty": 0.5},
        "frequency_penalty=0.5 is not supported. Leave it out, or send null",
    ),
    "a suffix": (400, {"suffix": "end"}, "suffix='end' is not supported"),
    "best of three": (400, {"best_of": 3}, "best_of=3 is not supported"),
    "echo with log probabilities": (400, {"echo": True, "logprobs": 1}, "echo with logprobs is not supported"),
    "usage of no stream": (400, {"stream_options": {"include_usage": True}}, "stream_options is for stream=true"),
    "token ids": (422, {"prompt": [1, 2]}, "prompt"),
    "no prompts": (422, {"prompt": []}, "prompt"),
    "many log probabilities": (422, {"logprobs": 6}, "less than or equal to 5"),
    "no tokens": (422, {"max_tokens": 0}, "greater than or equal to 1"),
    "a negative temperature": (422, {"temperature": -1}, "temperature"),
    "many answers": (422, {"n": 33}, "less than or equal to 32"),
    "many stop texts": (422, {"stop": list("abcdefghijklmnopq")}, "`stop` must be up to 16 texts"),
    "many stop texts and echo": (
        422,
        {"stop": list("abcdefghijklmnopq"), "echo": True},
        "`stop` must be up to 16 texts",
    ),
    "many prompts": (422, {"prompt": ["a"] * 65}, "A request has at most 64 texts. Received: 65"),
    "a long prompt": (422, {"prompt": "a" * 8193}, "A text has at most 8,192 tokens for this model. Received: 8,193"),
    "a long stop text": (422, {"stop": ["a" * 8193]}, "A text has at most 8,192 tokens"),
    "half a character": (422, {"prompt": "\ud800"}, "prompt"),
    "another model": (404, {"model": "nobody"}, "No model 'nobody' for this route"),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("case", REFUSED)
def test_wrong_requests_are_refused_before_anything_is_sent(served, case, stream):
    expected, body, message = REFUSED[case]
    if case == "usage of no stream" and stream:
        return
    status, reply = whole(served[0], **{"prompt": "A", **body, "stream": stream})
    assert (status, list(reply), list(reply["error"])) == (expected, ["error"], ["message", "type", "param", "code"])
    assert message in reply["error"]["message"]
    assert reply["error"]["type"] == "invalid_request_error"


@pytest.fixture
def endless(served, monkeypatch):
    """The model writes one piece after the other, forever; gives an event that is set when it was told to stop."""
    url, generator = served
    stopped = threading.Event()
    real = generator.pieces

    def pieces(*arguments, **options):
        (piece, *_) = real(*arguments, **{**options, "max_tokens": 1, "temperature": 1.0})
        try:
            while True:
                time.sleep(0.01)
                yield piece._replace(text="word ", finish="")
        finally:
            stopped.set()

    monkeypatch.setattr(generator, "pieces", pieces)
    return url, stopped


def test_a_disconnected_client_ends_the_generation(endless):
    url, stopped = endless
    with asked(url, {"prompt": "A", "stream": True, "max_tokens": 4096}) as answer:
        assert answer.readline().startswith(b"data: {")
        assert not stopped.is_set()
        answer.close()
    assert stopped.wait(60)
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    with contextlib.closing(connection):
        counted = b""
        while b"requests_in_progress 1.0" not in counted:  # the one that asks
            connection.request("GET", "/metrics")
            counted = connection.getresponse().read()


def test_the_programs_for_one_answer_are_compiled_before():
    assert len(share_batches(tiny_generator("char"), ServerSettings(), print)) == 2 * len((16, 29))


def slow_pieces(stopped, seconds=0.05):
    try:
        for number in range(1_000_000):
            yield number
            time.sleep(seconds)
    finally:
        stopped.set()


def test_time_and_workers_are_limited():
    async def visit():
        workers, stopped = Workers(1, seconds=0.4), threading.Event()
        stream = workers.stream(slow_pieces, stopped)
        assert await anext(stream) == 0
        with pytest.raises(Refusal, match="All 1 workers are busy"):
            await anext(workers.stream(slow_pieces, stopped))
        with pytest.raises(Refusal, match="no answer within 0.4 seconds") as late:
            [piece async for piece in stream]
        assert late.value.status == 503
        assert await asyncio.to_thread(stopped.wait, 10)
        while workers.busy:
            await asyncio.sleep(0.01)

        stopped.clear()
        stream = workers.stream(slow_pieces, stopped)
        assert await anext(stream) == 0
        await stream.aclose()  # as when the client leaves
        assert await asyncio.to_thread(stopped.wait, 10)
        while workers.busy:
            await asyncio.sleep(0.01)

        assert [piece async for piece in workers.stream(range, 3)] == [0, 1, 2]
        with pytest.raises(ZeroDivisionError):
            [piece async for piece in workers.stream(lambda: (1 / n for n in (1, 0)))]
        assert workers.busy == 0
        workers.close()

    asyncio.run(visit())
