"""A model of another kind is added by one registration: loading, saving, zoo, cards and server know it then."""

import http.client
import json
import re
from urllib.parse import urlsplit

import pytest
from pipelines.toy_model import CountingPipeline, WordCounter, register_word_counter
from server.tiny_zoo import server_in_this_process

import keras_attention as ka
from keras_attention.cli import main as cli
from keras_attention.pipelines.base import failing_examples, load_pipeline, make_pipeline
from keras_attention.support.errors import EntryError, UserError
from keras_attention.zoo.entry_io import write_entry
from keras_attention.zoo.schema import ARCHITECTURES

TEXTS = ["A dog runs.", "", "Two men are near many bushes."]


@pytest.fixture(autouse=True)
def registered():
    register_word_counter()
    yield
    del ARCHITECTURES["WordCounter"]


@pytest.fixture
def counter():
    model = WordCounter(5)
    model.build()
    return CountingPipeline(model)


@pytest.fixture
def zoo(counter, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(tmp_path / "zoo"))
    counter.save(tmp_path / "zoo" / "words_tiny")
    return tmp_path / "zoo"


@pytest.fixture
def run(zoo, capsys):
    def run_command(*words):
        code = cli.main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run_command


def test_it_is_saved_and_loaded(zoo):
    loaded = ka.load("words_tiny")
    assert type(loaded) is CountingPipeline
    assert loaded.count(TEXTS) == [3.0, 0.0, 5.0]
    assert loaded.count(TEXTS[0]) == 3.0
    assert failing_examples(zoo / "words_tiny") == (1, [])
    assert type(make_pipeline(loaded.model, {}, {"unit": "words"})) is CountingPipeline


def test_its_config_is_as_strict_as_any(counter, tmp_path):
    with pytest.raises(EntryError, match="unit must be one of words, Wörter. Received: unit='letters'"):
        counter.save(tmp_path / "other", unit="letters")
    with pytest.raises(EntryError, match="unknown key 'language'"):
        counter.save(tmp_path / "other", language="en")
    counter.model.max_words = 1001
    with pytest.raises(EntryError, match="max_words must be an integer from 1 to 1000"):
        counter.save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_commands_know_it(run, tmp_path):
    code, out, err = run("zoo", "list")
    assert (code, err) == (0, "")
    assert re.search(r"^words_tiny +number of words, ", out, re.MULTILINE)
    code, out, _ = run("zoo", "show", "words_tiny")
    assert out.startswith("words_tiny: A WordCounter.\n\nCounts words. 1 parameters")
    assert run("zoo", "verify", "words_tiny")[:2] == (0, "words_tiny: files sound, 1 examples reproduced\n")
    for command in ("translate", "classify", "fill-mask"):
        code, out, err = run(command, "--model", "words_tiny", "some text")
        assert (code, out) == (2, "")
        assert f"it can count. Expected: a model that can {command}" in err
    code, _, err = run("evaluate", "--model", "words_tiny")
    assert "words_tiny can count" in err
    code, _, err = run("attention", "--model", "words_tiny", "a", "--out", tmp_path / "page.html")
    assert (code, "no attention" in err) == (2, True)
    code, _, err = run("export", "words_tiny", tmp_path / "exported")
    assert (code, "cannot be exported as saved_model" in err) == (2, True)


def test_its_card_shows_how_to_use_it(zoo):
    card = (zoo / "words_tiny" / "CARD.md").read_text()
    assert "Counts words, 1 parameters, `WordCounter`." in card
    assert "keras_attention.load('words_tiny').count(['A dog runs.'])\n# ['3 words']" in card


def test_the_server_answers_for_it(zoo):
    with server_in_this_process(zoo) as (url, _):
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)

        def ask(method, path, body=None):
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

        (model,) = ask("GET", "/v1/models")[1]["models"]
        assert (model["name"], model["task"], model["attention"]) == ("words_tiny", "count", False)
        expected = [{"count": 3, "unit": "words"}, {"count": 0, "unit": "words"}, {"count": 5, "unit": "words"}]
        answer = ask("POST", "/v1/count", {"texts": TEXTS, "round": True})
        assert answer == (200, {"model": "words_tiny", "answers": expected})
        assert ask("POST", "/v1/count", {"texts": TEXTS, "beam": 3})[0] == 422
        assert ask("POST", "/v1/count", {"texts": []})[0] == 422
        assert ask("POST", "/v1/count", {"texts": ["a"] * 65})[0] == 422
        assert ask("POST", "/v1/classify", {"texts": ["a"], "model": "words_tiny"})[0] == 422
        assert ask("POST", "/v1/attention", {"text": "a"})[0] == 422
        document = ask("GET", "/openapi.json")[1]
        assert document["paths"]["/v1/count"]["post"]["description"] == "Counts the words of texts."
        assert "round" in document["components"]["schemas"]["CountRequest"]["properties"]


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="`name` must be new. Received: name='WordCounter'"):
        register_word_counter()


def test_unregistered_architectures_are_refused(counter, zoo, tmp_path):
    del ARCHITECTURES["WordCounter"]
    try:
        with pytest.raises(UserError, match="has architecture='WordCounter'. Expected: one of "):
            load_pipeline(zoo / "words_tiny")
        with pytest.raises(EntryError, match="architecture='WordCounter'"):
            write_entry(tmp_path / "other", counter.model, {}, about={}, metrics={})
    finally:
        register_word_counter()


def test_each_architecture_of_the_package_is_registered_with_what_its_model_takes():
    for name, architecture in ARCHITECTURES.items():
        model = architecture.model_class()
        assert model.__name__ == name
        assert set(architecture.defaults) <= set(architecture.settings)
        pipeline = architecture.task.pipeline_class()
        assert callable(getattr(pipeline, architecture.task.method))
        assert not pipeline.__abstractmethods__
