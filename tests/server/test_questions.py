"""What is asked of models beside their own task: vectors, similar texts, words that decide."""

import base64
import contextlib
import http.client
import json
from urllib.parse import urlsplit

import numpy as np
import pytest
from server.tiny_zoo import server_in_this_process, write_tiny_zoo
from zoo.tiny_bert import TEXTS, tiny_encoder, write_tiny
from zoo.tiny_entry import ENGLISH
from zoo.tiny_gpt import tiny_generator

from keras_attention.pipelines.classifier import ZeroShotClassifier
from keras_attention.server.requests import EmbeddingsReply, ExplainReply, SimilarReply, WordEffectsReply, ZeroShotReply

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """(URL, models by name) of a server in this process."""
    zoo = tmp_path_factory.mktemp("zoo")
    write_tiny_zoo(zoo)
    write_tiny(zoo / "vectors", tiny_encoder())
    tiny_generator("char").save(zoo / "stories")
    with server_in_this_process(zoo) as address:
        yield address


@pytest.fixture
def models(served):
    return served[1]


@pytest.fixture
def ask(served):
    """Posts JSON: (status, JSON)."""

    def send(path, **body):
        with contextlib.closing(http.client.HTTPConnection(urlsplit(served[0]).netloc, timeout=600)) as connection:
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    return send


def test_embeddings_as_clients_of_openai_read_them(ask, models):
    expected = models["vectors"].encode(TEXTS)
    status, reply = ask("/v1/embeddings", input=TEXTS, model="vectors")
    EmbeddingsReply.model_validate(reply, extra="forbid", strict=True)
    assert (status, reply["object"], reply["model"]) == (200, "list", "vectors")
    assert [(one["object"], one["index"]) for one in reply["data"]] == [("embedding", i) for i in range(4)]
    np.testing.assert_allclose([one["embedding"] for one in reply["data"]], expected.pooled, atol=1e-5)
    tokens = sum(map(len, expected.tokens))
    assert reply["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    status, reply = ask("/v1/embeddings", input=TEXTS[0], encoding_format="base64", user="me")
    (one,) = reply["data"]
    assert (status, reply["model"]) == (200, "vectors")  # the encoder, although others come first
    vector = np.frombuffer(base64.b64decode(one["embedding"]), "<f4")
    np.testing.assert_allclose(vector, expected.pooled[0], atol=1e-5)
    status, reply = ask("/v1/embeddings", input="a", model="gaps")
    np.testing.assert_allclose(reply["data"][0]["embedding"], models["gaps"].encode("a").pooled[0], atol=1e-5)


@pytest.mark.parametrize("name", ["gaps", "moods"])
def test_vectors_of_models_with_another_main_task(ask, models, name):
    """Their answers to /v1/encode were refused, unlike those of `keras-attention encode`."""
    status, reply = ask("/v1/encode", texts=[TEXTS[0], ""], model=name)
    (first, empty), expected = reply["answers"], models[name].encode(TEXTS[0]).pooled[0]
    assert (status, reply["model"], empty["vector"]) == (200, name, None)
    np.testing.assert_allclose(first["vector"], expected, atol=1e-5)


def test_similar_texts(ask, models):
    status, reply = ask("/v1/similar", query="Two men sit.", texts=TEXTS, top=2)
    SimilarReply.model_validate(reply, extra="forbid", strict=True)
    expected = models["vectors"].similar("Two men sit.", TEXTS, top=2)
    assert (status, reply["model"]) == (200, "vectors")
    assert [(one["index"], one["text"]) for one in reply["answers"]] == [(one.index, one.text) for one in expected]
    assert [one["score"] for one in reply["answers"]] == pytest.approx([one.score for one in expected], abs=1e-5)


def test_long_texts_are_answered_and_a_part_is_reported_as_ignored(ask):
    long = "A dog runs over green grass. " * 700
    for path, body in (
        ("/v1/classify", {"texts": [long, "a"], "model": "moods"}),
        ("/v1/encode", {"texts": [long, "a"]}),
        ("/v1/zero-shot", {"texts": [long, "a"], "labels": ["dog", "cat"]}),
    ):
        status, reply = ask(path, **body)
        assert (status, [one["truncated"] for one in reply["answers"]]) == (200, [True, False])


def test_empty_texts_have_no_answer_and_keep_their_places(ask):
    texts = ["", TEXTS[0], " \u200b\n"]
    _, reply = ask("/v1/classify", texts=texts, model="moods")
    assert [one["label"] is None for one in reply["answers"]] == [True, False, True]
    assert reply["answers"][0] == {"label": None, "probabilities": {}, "truncated": False}
    _, reply = ask("/v1/encode", texts=texts)
    assert [one["vector"] is None for one in reply["answers"]] == [True, False, True]
    for form in ("float", "base64"):
        _, reply = ask("/v1/embeddings", input=texts, encoding_format=form)
        EmbeddingsReply.model_validate(reply, extra="forbid", strict=True)
        assert [(one["index"], one["embedding"] is None) for one in reply["data"]] == [(0, True), (1, False), (2, True)]
    _, reply = ask("/v1/zero-shot", texts=texts, labels=["dog", "cat"])
    assert [one["label"] is None for one in reply["answers"]] == [True, False, True]
    _, reply = ask("/v1/fill-mask", texts=["", "A [MASK] runs.", "\ufeff"], top=2)
    assert [len(one["fillings"]) for one in reply["answers"]] == [0, 2, 0]
    _, reply = ask("/v1/similar", query="a dog", texts=texts)
    assert [one["index"] for one in reply["answers"]] == [1]
    status, reply = ask("/v1/explain", text=" ", model="moods")
    ExplainReply.model_validate(reply, extra="forbid", strict=True)
    assert (status, reply["label"], reply["words"]) == (200, None, [])


def test_shorter_vectors_begin_with_the_same_numbers_and_have_length_one(ask, models):
    status, reply = ask("/v1/embeddings", input=TEXTS, model="vectors", dimensions=5)
    expected = models["vectors"].encode(TEXTS).pooled[:, :5]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert status == 200
    np.testing.assert_allclose([one["embedding"] for one in reply["data"]], expected, atol=1e-5)
    for dimensions in (0, 10_000):
        status, reply = ask("/v1/embeddings", input=TEXTS, model="vectors", dimensions=dimensions)
        assert (status, "dimensions" in reply["error"]["message"]) == (422, True)


@pytest.mark.filterwarnings("ignore::keras_attention.inputs.token_sequences.TruncatedText")
def test_labels_without_training(ask, models):
    labels = ["red dress", "green_grass", "near many bushes"]
    expected = ZeroShotClassifier(models["vectors"], labels).classify(TEXTS, return_scores=True)
    status, reply = ask("/v1/zero-shot", texts=TEXTS, labels=labels)
    ZeroShotReply.model_validate(reply, extra="forbid", strict=True)
    assert (status, reply["model"]) == (200, "vectors")  # the encoder, although others come first
    assert [one["label"] for one in reply["answers"]] == [one.label for one in expected]
    for answer, one in zip(reply["answers"], expected, strict=True):
        assert list(answer["probabilities"]) == list(one.probabilities)
        assert answer["probabilities"] == pytest.approx(one.probabilities, abs=1e-5)
    status, reply = ask("/v1/zero-shot", texts=["dog " * 40], labels=labels, top=1, threshold=1.0)
    (answer,) = reply["answers"]
    assert (answer["label"], len(answer["probabilities"]), answer["truncated"]) == (None, 1, True)
    status, reply = ask("/v1/zero-shot", texts=TEXTS[:1], labels=labels, model="gaps")
    expected = ZeroShotClassifier(models["gaps"], labels).classify(TEXTS[0], return_scores=True)
    assert reply["answers"][0]["probabilities"] == pytest.approx(expected.probabilities, abs=1e-5)


def test_words_that_decide(ask, models):
    status, reply = ask("/v1/explain", text=TEXTS[0], model="moods")
    ExplainReply.model_validate(reply, extra="forbid", strict=True)
    expected = models["moods"].explain(TEXTS[0])
    assert (status, reply["label"]) == (200, expected.label)
    assert [(word["start"], word["end"]) for word in reply["words"]] == [(w.start, w.end) for w in expected.words]
    assert [word["effect"] for word in reply["words"]] == pytest.approx([w.effect for w in expected.words], abs=1e-5)
    status, reply = ask("/v1/explain", text=TEXTS[0], text_b=TEXTS[1], model="pairs", label="b")
    assert (status, reply["label"], reply["words"][-1]["second"]) == (200, "b", True)


def test_words_that_decide_each_word_of_a_translation(ask, models):
    status, reply = ask("/v1/word-effects", text=ENGLISH[0])
    WordEffectsReply.model_validate(reply, extra="forbid", strict=True)
    expected = models["words"].explain(ENGLISH[0]).as_json()
    assert (status, reply.pop("model"), reply["answer"]) == (200, "words", expected["answer"])
    (sentence,), (own,) = reply["sentences"], expected["sentences"]
    assert (sentence["sources"], sentence["targets"]) == (own["sources"], own["targets"])
    np.testing.assert_allclose(sentence["effects"], own["effects"], atol=1e-4)
    options = {"target": "2016-08-21", "contrast": ["2016", "2017"]}
    status, reply = ask("/v1/word-effects", text=ENGLISH[0], model="words", **options)
    WordEffectsReply.model_validate(reply, extra="forbid", strict=True)
    (own,) = models["words"].explain(ENGLISH[0], **options).as_json()["sentences"]
    assert (status, reply["answer"]) == (200, "2016-08-21")
    assert reply["sentences"][0]["contrast"]["log_ratio"] == pytest.approx(own["contrast"]["log_ratio"], abs=1e-4)


def test_words_that_decide_each_word_of_a_continuation(ask, models):
    status, reply = ask("/v1/word-effects", text="a dog", model="stories", seed=3)
    WordEffectsReply.model_validate(reply, extra="forbid", strict=True)
    expected = models["stories"].explain("a dog", seed=3).as_json()
    assert (status, reply["answer"]) == (200, expected["answer"])
    own = expected["sentences"][0]["effects"]
    for row, effects in zip(reply["sentences"][0]["effects"], own, strict=True):
        assert row == pytest.approx(effects, abs=1e-4)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/embeddings", {"input": []}, "input"),
        ("/v1/embeddings", {"input": [[1, 2]]}, "input"),
        ("/v1/embeddings", {"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ("/v1/embeddings", {"input": "a", "model": "words"}, "words does not encode"),
        ("/v1/embeddings", {"input": ["a"] * 65}, "at most 64 texts"),
        ("/v1/explain", {"text": "a" * 16_385, "model": "moods"}, "at most 16,384 characters. Received: 16,385"),
        ("/v1/similar", {"query": "a", "texts": []}, "texts"),
        ("/v1/similar", {"query": "a", "texts": ["b"], "top": 0}, "top"),
        ("/v1/zero-shot", {"texts": ["a"]}, "labels"),
        ("/v1/zero-shot", {"texts": [], "labels": ["a", "b"]}, "texts"),
        ("/v1/zero-shot", {"texts": ["a"], "labels": ["b"]}, "labels"),
        ("/v1/zero-shot", {"texts": ["a"], "labels": ["b", " b"]}, "at least two different labels"),
        ("/v1/zero-shot", {"texts": ["a"], "labels": ["b", ""]}, "at least two different labels"),
        ("/v1/zero-shot", {"texts": ["a"], "labels": "b,c"}, "labels"),
        ("/v1/zero-shot", {"texts": ["a"], "labels": [str(i) for i in range(65)]}, "at most 64 texts"),
        ("/v1/zero-shot", {"texts": ["a"], "labels": ["b", "c"], "threshold": 2}, "threshold"),
        ("/v1/zero-shot", {"texts": ["a"], "labels": ["b", "c"], "top": 0}, "top"),
        ("/v1/zero-shot", {"texts": ["a"], "labels": ["b", "c"], "model": "words"}, "words does not encode"),
        ("/v1/explain", {"text": "a", "model": "gaps"}, "gaps does not classify"),
        ("/v1/explain", {"text": "a", "model": "moods", "label": "ugly"}, "no label 'ugly'"),
        ("/v1/word-effects", {"text": "a", "model": "moods"}, "writes no text"),
        ("/v1/word-effects", {"text": "a", "model": "words", "seed": 1}, "`seed` cannot be given"),
        ("/v1/word-effects", {"text": "a", "model": "stories", "target": "b"}, "`target` cannot be given"),
        ("/v1/word-effects", {"text": "a", "contrast": ["b"]}, "contrast"),
        ("/v1/word-effects", {"text": "a", "contrast": ["b", "b"]}, "two different words"),
        ("/v1/word-effects", {"text": "a", "position": 0}, "`position` needs `contrast`"),
        ("/v1/word-effects", {"text": "a", "target_language": "fi"}, "No model translates"),
        ("/v1/encode", {"texts": ["a"], "model": "words"}, "words does not encode"),
    ],
)
def test_wrong_requests_get_422(ask, path, body, message):
    status, reply = ask(path, **body)
    assert status == 422
    assert message in (reply["error"]["message"] if path == "/v1/embeddings" else reply["error"])
