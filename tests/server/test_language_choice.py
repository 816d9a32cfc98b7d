"""Requests that name languages in place of a model."""

import asyncio
import json

import pytest

from keras_attention.inputs.text import TextInput
from keras_attention.pipelines.control.alternatives import Alternative
from keras_attention.pipelines.language_pairs import Pair
from keras_attention.pipelines.translations import Translation
from keras_attention.pipelines.translator import Translator
from keras_attention.server import ServerSettings
from keras_attention.server.http_server import make_app, paths
from keras_attention.server.metrics import ServerMetrics
from keras_attention.server.served_models import ServedModel
from keras_attention.server.server import Server

TEXTS = {"en": "I would like to book a table for two.", "de": "Ich bin müde und möchte schlafen."}


class Echo:
    """A translator that writes its texts in capitals."""

    input, request_fields_for, reply_fields = TextInput(), Translator.request_fields_for, Translator.reply_fields
    tokenizers: dict = {}

    def __init__(self, source, target):
        self.source_language, self.target_language = source, target

    def alternatives(self, text, position, n, translation, terms=None, do_not_translate=None):
        translation = f"{translation} {terms} {do_not_translate}" if terms else translation
        return [Alternative(text.split()[position], 0.5, f"{translation} {n}", Translation(text, low_score=True))]

    def reply(self, texts, n_best, split, **others):
        return [{"translations": [{"text": text.upper()}], "source_tokens": [], "truncated": False} for text in texts]


ACTIVITY = {"title": "Translate", "introduction": "Type a text.", "input_title": "Text"}


def served(name, source, target, rank):
    pair = Pair(name, source, target, (rank,)) if rank is not None else None
    return ServedModel(
        name, "translate", Echo(source, target), {"name": name, "task": "translate", "activity": ACTIVITY}, pair=pair
    )


MODELS = [
    served("dates", "dates", "iso", None),
    served("tiny_en_de", "en", "de", 3),
    served("small_en_de", "en", "de", 1),
    served("small_de_en", "de", "en", 2),
    served("small_fr_en", "fr", "en", 5),
]


def send(method, path, body=None, models=MODELS):
    """(status, JSON) of a request to a server of these models."""
    server = Server({model.name: model for model in models}, ServerSettings(), ServerMetrics(paths()))
    server.state, server.ready = "ready", list(server.models)
    sent, content = [], json.dumps(body).encode() if body else b""
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": [(b"content-type", b"application/json"), (b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1)}
    scope |= {"server": ("127.0.0.1", 80), "scheme": "http", "http_version": "1.1", "root_path": ""}
    messages = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive():
        if messages:
            return messages.pop(0)
        await asyncio.sleep(60)

    async def keep(message):
        sent.append(message)

    asyncio.run(make_app(server)(scope, receive, keep))
    server.workers.close()
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))


def translate(**body):
    return send("POST", "/v1/translate", body)


@pytest.mark.parametrize(
    ("body", "model"),
    [
        ({"target_language": "de"}, "small_en_de"),
        ({"target_language": "German", "source_language": "English"}, "small_en_de"),
        ({"target_language": "en"}, "small_de_en"),
        ({"target_language": "en", "source_language": "fr"}, "small_fr_en"),
        ({"target_language": "de", "model": "tiny_en"}, "tiny_en_de"),
        ({"source_language": "en", "model": "tiny_en_de"}, "tiny_en_de"),
        ({"target_language": None, "source_language": None}, "dates"),
    ],
)
def test_the_best_model_for_the_languages_answers(body, model):
    text = TEXTS["en" if body["target_language"] in ("de", "German") else "de"] if "target_language" in body else "a"
    status, reply = translate(texts=[text], **body)
    pipeline = next(one.pipeline for one in MODELS if one.name == model)
    assert (status, reply["model"], reply["answers"][0]["translations"][0]["text"]) == (200, model, text.upper())
    assert (reply["source_language"], reply["target_language"]) == (pipeline.source_language, pipeline.target_language)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"target_language": "fi"}, "No model translates to 'fi'. Choices: de, en."),
        ({"target_language": ""}, "No model translates to ''. Choices: de, en."),
        ({"target_language": "de", "source_language": "fr"}, "No model translates from fr to de. Choices: de to en, "),
        ({"target_language": "de", "texts": ["12:45"]}, "could not be detected: they have no letters. Name it"),
        ({"source_language": "en"}, "`source_language` needs `target_language`, or name a `model`."),
        ({"target_language": "en", "model": "small_en_de"}, "small_en_de translates from en to de. Received: 'en'."),
        ({"source_language": "en", "model": "dates"}, "dates translates between no natural languages."),
        ({"target_language": 3}, "body.target_language: Input should be a valid string"),
    ],
)
def test_languages_that_no_model_fits_are_refused_in_one_line(body, message):
    status, reply = translate(**{"texts": [TEXTS["en"]], **body})
    assert (status, message in reply["error"], "\n" in reply["error"]) == (422, True, False), reply


def test_a_damaged_model_is_not_chosen():
    broken = served("best_en_de", "en", "de", 0)
    broken.error = "best_en_de cannot be loaded"
    status, reply = send(
        "POST", "/v1/translate", {"texts": ["a"], "source_language": "en", "target_language": "de"}, [broken, *MODELS]
    )
    assert (status, reply["model"]) == (200, "small_en_de")


def test_the_list_of_models_names_the_best_of_each_pair():
    status, reply = send("GET", "/v1/models")
    pairs = [tuple(one.values()) for one in reply["translations"]]
    assert status == 200
    assert pairs == [("en", "de", "small_en_de"), ("de", "en", "small_de_en"), ("fr", "en", "small_fr_en")]


def test_alternatives_choose_a_model_by_languages_too():
    body = {"text": TEXTS["en"], "position": 2, "n": 3, "translation": "Ich", "target_language": "de"}
    alternative = {"word": "like", "probability": 0.5, "prefix": "Ich 3", "translation": TEXTS["en"], "low_score": True}
    assert send("POST", "/v1/alternatives", body) == (200, {"model": "small_en_de", "alternatives": [alternative]})
    terms = {"terms": {"I": "Me"}, "do_not_translate": ["Tom"]}
    _, reply = send("POST", "/v1/alternatives", body | terms)
    assert reply["alternatives"] == [alternative | {"prefix": "Ich {'I': 'Me'} ['Tom'] 3"}]
    assert send("POST", "/v1/alternatives", body | {"terms": ["I"]})[0] == 422
    for wrong in ({"n": 21}, {"position": -1}, {"position": "2"}, {"target_language": "fi"}, {"text": None}):
        assert send("POST", "/v1/alternatives", body | wrong)[0] == 422


def test_constraints_of_a_translation_are_checked():
    for wrong in ({"prefix": 3}, {"terms": ["dog"]}, {"terms": {"dog": 1}}, {"do_not_translate": "dog"}):
        assert translate(texts=["a"], **wrong)[0] == 422
