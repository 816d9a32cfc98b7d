"""What the demo page offers to do, in plain words, and that its scripts know no task."""

import re
from importlib.resources import files

from keras_attention.catalog.classification import CLASSIFICATION, image_classification
from keras_attention.catalog.generation import GENERATION
from keras_attention.pipelines.base import Pipeline
from keras_attention.server import ServerSettings
from keras_attention.server.http_server import DEMO
from keras_attention.server.served_models import activities_of, known_models
from keras_attention.server.server import Server
from keras_attention.zoo.schema import ARCHITECTURES

DEMO_FOLDER = files("keras_attention.server").joinpath("demo")


def zoo_server():
    return Server(known_models(ServerSettings(), None), ServerSettings(), None)


def test_each_activity_has_its_models_best_first():
    server = zoo_server()
    actual = activities_of(server.about(), server.router.language_pairs())
    activities = {one["title"]: one for one in actual}
    assert list(activities) == [
        "Translate",
        "Which feeling?",
        "What do you hear?",
        "What does a picture show?",
        "Find similar texts",
        "Fill in missing words",
        "Continue a story",
        "Describe a picture",
        "Write down what is said",
    ]
    assert activities["Translate"]["models"][:2] == ["translator_small_en_de", "translator_small_de_en"]
    assert activities["Which feeling?"]["models"][0] == "minilm_small_sentiment"
    assert activities["Describe a picture"]["models"][0] == "captioner_digits_soft"
    assert all(re.fullmatch(r"[A-Z][^.]*\.", one["introduction"]) for one in activities.values())
    names = [name for one in activities.values() for name in one["models"]]
    assert sorted(names) == sorted(zoo_server().models)


def test_questions_of_classifiers_follow_their_labels_and_inputs():
    def title(names, kind="multiclass", pair=False):
        return CLASSIFICATION.activity_of({"task": {"kind": kind, "label_names": names, "pair": pair}}).title

    assert title(["sport", "politics"]) == "Which label fits a text?"
    assert title(["Positive", "Negative"]) == "Which feeling?"
    assert title([], kind="regression") == "Which number fits a text?"
    assert title(["positive", "negative"], pair=True) == "How do two texts fit together?"
    pictures = image_classification(lambda model: model["input_size"])
    assert pictures.activity_of({"model": {"input_size": (11, 13, 1)}, "image": None}).title == (
        "What does a picture show?"
    )


def test_music_is_no_story():
    assert GENERATION.activity_of({"language": "zxx"}).title == "Continue a piece of music"
    assert GENERATION.activity_of({"language": "en"}).title == "Continue a story"


def test_every_answer_kind_and_widget_has_a_renderer():
    answers = DEMO_FOLDER.joinpath("answers.js").read_text(encoding="utf-8")
    inputs = DEMO_FOLDER.joinpath("inputs.js").read_text(encoding="utf-8")
    known = set(re.findall(r"^  (\w+): \{", answers, re.MULTILINE))
    (table,) = re.findall(r"const INPUTS = \{(.*)\}", inputs)
    for architecture in ARCHITECTURES.values():
        assert architecture.task.pipeline_class().answer_kind in known
        for kind in architecture.task.inputs:
            assert f"{kind.widget}:" in table
            assert kind.noun
            assert kind.question
            assert kind.instruction.endswith(".")
    assert Pipeline.answer_kind in known


def test_the_scripts_know_no_task_and_no_architecture():
    tasks = {architecture.task.name for architecture in ARCHITECTURES.values()}
    for name in DEMO:
        script = DEMO_FOLDER.joinpath(name).read_text(encoding="utf-8")
        assert not re.search(r"task\s*(===|!==|in\b)|TITLES|GROUPS", script), name
        if name.endswith(".js"):
            compared = set(re.findall(r"[=!]==\s*[\"']([\w-]+)[\"']", script))
            assert not compared & (tasks | set(ARCHITECTURES)), name


def test_the_page_loads_all_its_scripts_and_nothing_else():
    page = DEMO_FOLDER.joinpath("index.html").read_text(encoding="utf-8")
    scripts = re.findall(r'<script src="/demo/([^"]+)" defer></script>', page)
    assert sorted(scripts) == sorted(name for name in DEMO if name.endswith(".js"))
    assert sorted(DEMO) == sorted(path.name for path in DEMO_FOLDER.iterdir() if path.name != "index.html")
    assert not re.search(r"https?://", page)
