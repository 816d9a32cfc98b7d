"""A classifier of pictures is added by one registration: it is saved, verified, served and called by commands."""

import base64
import http.client
import io
import json
import pickle
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import tensorflow as tf
from inputs.pictures import damaged_exif, encoded, gray, hostile
from inputs.toy_classifier import LABELS, TASK, digits, register_digit_classifier, trained_classifier
from PIL import Image
from server.tiny_zoo import server_in_this_process
from zoo.tiny_bert import TEXTS, task, tiny_classifier, write_tiny

import keras_attention as ka
from keras_attention.cli import main as cli
from keras_attention.export.graph_inputs import GraphInputClassifier
from keras_attention.inputs.image import ImageInput
from keras_attention.models import PatchClassifier
from keras_attention.pipelines.base import failing_examples, make_pipeline
from keras_attention.pipelines.input_classifier import InputClassifier
from keras_attention.runtime.batching import share_batches
from keras_attention.server import ServerSettings
from keras_attention.server.served_models import known_models
from keras_attention.support.errors import EntryError, UserError
from keras_attention.zoo import registry
from keras_attention.zoo.entry import read_entry, write_json, write_manifest
from keras_attention.zoo.schema import ARCHITECTURES


@pytest.fixture(scope="module", autouse=True)
def registered():
    register_digit_classifier()
    yield
    del ARCHITECTURES["DigitClassifier"]


@pytest.fixture(scope="module")
def saved(registered, tmp_path_factory):
    """The folder of a zoo with the entry `digits_tiny`; tests do not change it."""
    zoo = tmp_path_factory.mktemp("zoo")
    trained_classifier().save(zoo / "digits_tiny")
    return zoo


@pytest.fixture
def zoo(saved, monkeypatch):
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(saved))
    return saved


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """PNG files of digits, larger than the network reads: paths, and their labels."""
    folder = tmp_path_factory.mktemp("pictures")
    images, labels = digits()
    paths = []
    for number in range(1300, 1307):
        picture = Image.fromarray((images[number] * 255).astype("uint8")).resize((40, 40), Image.Resampling.NEAREST)
        paths.append(folder / f"{number}.png")
        picture.convert("RGB").save(paths[-1])
    return [str(path) for path in paths], [str(label) for label in labels[1300:1307]]


def test_it_learns_and_answers_by_name(zoo, pictures):
    images, labels = digits()
    loaded = ka.load("digits_tiny")
    assert type(loaded) is InputClassifier
    right = np.mean(np.array(loaded.classify(images[1200:])) == labels[1200:].astype(str))
    assert right > 0.85
    paths, expected = pictures
    assert np.mean(np.array(loaded.classify(paths)) == expected) > 0.7
    assert loaded.classify(paths[0]) == loaded.classify(Image.open(paths[0])) == loaded.classify(paths)[0]


def test_answers_have_probabilities_and_thresholds(zoo):
    images, _ = digits()
    loaded, expected = ka.load("digits_tiny"), trained_classifier()
    logits = expected.model({"values": np.stack([expected.kind.arrays(expected.kind.read(images[3]))["values"]])})
    powers = np.exp(np.asarray(logits, "float64")[0])
    answer = loaded.classify(images[3], return_scores=True)
    assert answer.probabilities == pytest.approx(dict(zip(LABELS, powers / powers.sum(), strict=True)), abs=1e-5)
    assert list(answer.probabilities.values()) == sorted(answer.probabilities.values(), reverse=True)
    assert loaded.classify(images[3], threshold=1.0) is None
    assert loaded.classify([]) == []
    with pytest.raises(UserError, match="`threshold` must be a number from 0 to 1. Received: threshold=2"):
        loaded.classify(images[3], threshold=2)
    with pytest.raises(UserError, match="nowhere.png does not exist"):
        loaded.classify("nowhere.png")
    with pytest.raises(UserError, match="This model reads inputs of the kind image"):
        loaded.explain("a")


def test_its_entry_holds_the_pictures_of_its_examples(zoo, tmp_path):
    folder = zoo / "digits_tiny"
    entry = read_entry(folder)
    assert [name for name in entry.files if name.endswith(".png")] == [f"example_{i}.png" for i in (1, 2, 3)]
    assert [example["source"] for example in entry.metrics["examples"]] == [
        "example_1.png",
        "example_2.png",
        "example_3.png",
    ]
    assert failing_examples(folder) == (3, [])
    card = (folder / "CARD.md").read_text()
    assert "Pictures; multiclass classification with the labels 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 2,785 parameters" in card
    assert ".classify(['example_1.png', 'example_2.png', 'example_3.png'])  # files of this entry\n# [" in card
    again = ka.load(folder).save(tmp_path / "again")
    assert again.files == entry.files
    assert failing_examples(tmp_path / "again") == (3, [])


def test_a_changed_answer_or_picture_is_found(zoo, tmp_path):
    folder = shutil.copytree(zoo / "digits_tiny", tmp_path / "changed")
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["examples"][1]["output"] = "none"
    write_json(folder / "metrics.json", metrics)
    write_manifest(folder)
    count, (problem,) = failing_examples(folder)
    assert count == 3
    assert problem.startswith("example 'example_2.png' gives '")
    (folder / "example_2.png").write_bytes((folder / "example_1.png").read_bytes()[::-1])
    with pytest.raises(EntryError, match=r"example_2.png"):
        read_entry(folder)


@pytest.mark.parametrize("source", ["../config.json", "/etc/passwd", "config.json", "example_7.png", "A text.", ""])
def test_an_example_names_only_a_picture_of_the_entry(zoo, tmp_path, source):
    folder = shutil.copytree(zoo / "digits_tiny", tmp_path / "changed")
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["examples"][0]["source"] = source
    write_json(folder / "metrics.json", metrics)
    write_manifest(folder)
    with pytest.raises(EntryError, match="must be a file of the entry, such as example_1.png. Received: "):
        read_entry(folder)


def test_large_examples_are_refused(zoo, tmp_path):
    folder = shutil.copytree(zoo / "digits_tiny", tmp_path / "changed")
    (folder / "example_1.png").write_bytes(bytes(256 << 10) + b"1")
    write_manifest(folder)
    with pytest.raises(EntryError, match=r"'example_1.png' has 262145 bytes. Allowed: 262144"):
        read_entry(folder)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ({"fit": "pad", "mean": [0.0], "std": [1.0]}, "fit must be one of crop, stretch. Received: fit='pad'"),
        ({"fit": "crop", "mean": [0.0]}, "lacks the key 'std'"),
        ({"fit": "crop", "mean": "no", "std": [1.0]}, "mean must be a list of 1 to 3 numbers"),
        ({"fit": "crop", "mean": [0.0], "std": [0]}, "std must be a list of 1 to 3 numbers"),
        ({"fit": "crop", "mean": [0.1, 0.2, 0.3], "std": [1.0]}, "`mean` must have 1 or 1 numbers"),
    ],
)
def test_its_config_is_as_strict_as_any(tmp_path, image, message):
    with pytest.raises(EntryError, match=message):
        trained_classifier().save(tmp_path / "other", image=image)
    with pytest.raises(EntryError, match="a multiclass task has 3 label_names and num_labels=3. Received: 3 and"):
        trained_classifier().save(tmp_path / "other", task={**TASK, "label_names": ["a", "b", "c"]})
    with pytest.raises(EntryError, match="pair is for texts. Expected: false"):
        trained_classifier().save(tmp_path / "other", task={**TASK, "pair": True})
    assert not (tmp_path / "other").exists()


def test_it_is_made_from_its_parts_and_pickled(zoo):
    images, _ = digits()
    expected = trained_classifier()
    config = {"task": TASK, "image": {"fit": "crop", "mean": [0.3], "std": [0.4]}}
    assert make_pipeline(expected.model, {}, config).classify(images[:13]) == expected.classify(images[:13])
    other = pickle.loads(pickle.dumps(ka.load("digits_tiny")))
    assert other.classify(images[:13]) == expected.classify(images[:13])
    assert expected.agreement(other, images[:13])["same labels (%)"] == 100


@pytest.mark.parametrize("kind", ["multilabel", "regression"])
def test_other_tasks_give_other_labels(kind):
    expected = trained_classifier()
    names = {"multilabel": LABELS, "regression": []}[kind]
    task = {**TASK, "kind": kind, "label_names": names, "threshold": 0.3, "separator": "|"}
    answer = InputClassifier(expected.model, expected.kind, task)
    logits = np.asarray(expected.model({"values": expected.kind.arrays(gray_digit())["values"][None]}))[0]
    label = answer.classify(gray_digit())
    if kind == "regression":
        assert label == pytest.approx(float(logits[0]), abs=1e-4)
    else:
        chances = 1 / (1 + np.exp(-logits))
        assert set(label) == {name for name, chance in zip(LABELS, chances, strict=True) if chance >= 0.3}
        assert answer.answers([gray_digit()]) == ["|".join(label)]


@pytest.fixture
def run(zoo, monkeypatch, capsys):
    """Runs a command in this process: (exit code, stdout, stderr)."""

    def run_command(*words, stdin=None):
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = cli.main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run_command


def test_the_command_line_reads_pictures(run, zoo, pictures, tmp_path):
    paths, _ = pictures
    expected = ka.load("digits_tiny").classify(paths, return_scores=True)
    lines = [f"{answer.label} {answer.probabilities[answer.label]:.4f}" for answer in expected]
    assert run("classify", "--model", "digits_tiny", *paths) == (0, "".join(f"{line}\n" for line in lines), "")
    code, out, _ = run("classify", "--model", zoo / "digits_tiny", "--json", "--top", 2, *paths[::-1])
    assert code == 0
    for line, path, answer in zip(out.splitlines(), paths[::-1], expected[::-1], strict=True):
        printed, best = json.loads(line), list(answer.probabilities.items())[:2]
        assert printed == {
            "file": path,
            "label": answer.label,
            "labels": [label for label, _ in best],
            "probabilities": pytest.approx(dict(best), abs=1e-5),
            "truncated": False,
        }
    (tmp_path / "names.txt").write_text("".join(f"{path}\n" for path in paths))
    names = ["--input", tmp_path / "names.txt", "--output", tmp_path / "labels.txt"]
    assert run("classify", "--model", "digits_tiny", *names)[:2] == (0, "")
    assert (tmp_path / "labels.txt").read_text().splitlines() == lines
    printed = run("classify", "--model", "digits_tiny", stdin=f"{paths[2]}\n{paths[0]}\n".encode())
    assert printed == (0, f"{lines[2]}\n{lines[0]}\n", "")
    assert run("classify", "--model", "digits_tiny", "--threshold", 1, paths[0]) == (0, "-\n", "")
    (tmp_path / "damaged_exif.jpg").write_bytes(damaged_exif())
    code, _, err = run("classify", "--model", "digits_tiny", tmp_path / "damaged_exif.jpg")
    assert (code, err) == (0, "")


@pytest.mark.parametrize("name", hostile())
def test_hostile_pictures_are_one_line_on_the_command_line(run, pictures, tmp_path, name):
    content, message = hostile()[name]
    (tmp_path / "hostile.jpg").write_bytes(content)
    code, out, err = run("classify", "--model", "digits_tiny", pictures[0][0], tmp_path / "hostile.jpg")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{tmp_path / 'hostile.jpg'}" in err
    assert message in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["what a wonderful day"], "what a wonderful day does not exist. Expected: the name of a picture."),
        (["/dev/null"], "/dev/null is not a file"),
        (["--table", "rows.csv"], "--table is for texts. digits_tiny reads files"),
        (["--explain", "page.html", "a.png"], "--explain is for texts. digits_tiny reads files"),
        (["--text", "column", "a.png"], "--text is for tables"),
        (["--threshold", "2", "PICTURE"], "`threshold` must be a number from 0 to 1. Received: threshold=2.0"),
        (["--top", "0", "a.png"], "--top must be at least 1"),
    ],
)
def test_options_for_texts_are_refused(run, pictures, words, message):
    words = [pictures[0][0] if word == "PICTURE" else word for word in words]
    code, out, err = run("classify", "--model", "digits_tiny", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_an_exported_network_with_convolutions_answers_an_empty_batch():
    model = PatchClassifier(3, (8, 12, 1), (4, 4), 10, 13, num_heads=2, num_layers=1, stem="pooled")
    model.build()
    about = TASK | {"label_names": ["a", "b", "c"]}
    graph = GraphInputClassifier(InputClassifier(model, ImageInput((8, 12, 1)), about))
    answers = graph.answer(tf.zeros((0, 9, 5, 3), "uint8"))
    assert [tuple(answers[name].shape) for name in ("label", "labels", "probabilities")] == [(0,), (0, 3), (0, 3)]


def test_it_is_exported_with_the_signature_of_its_input(run, zoo, pictures, tmp_path):
    code, out, _ = run("export", "digits_tiny", tmp_path / "exported", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["inputs"]["pictures"]["type"] == "uint8 (B, height, width, C)"
    assert list(report["outputs"]) == ["label", "labels", "probabilities"]
    answer = tf.saved_model.load(str(tmp_path / "exported")).signatures["serving_default"]
    loaded = ka.load("digits_tiny")
    pixels = np.stack([loaded.input.read(path) for path in pictures[0]])
    actual = {name: tensor.numpy() for name, tensor in answer(pictures=tf.constant(pixels)).items()}
    expected = loaded.classify(pictures[0], return_scores=True)
    assert [label.decode() for label in actual["label"]] == [one.label for one in expected]
    assert [[label.decode() for label in row] for row in actual["labels"]] == [
        list(one.probabilities) for one in expected
    ]
    probabilities = [list(one.probabilities.values()) for one in expected]
    np.testing.assert_allclose(actual["probabilities"], probabilities, atol=1e-6)
    large = np.random.default_rng(0).integers(0, 256, (2, 40, 23, 3), "uint8")
    actual = answer(pictures=tf.constant(large))["label"].numpy()
    assert [label.decode() for label in actual] == loaded.classify(list(large))
    assert answer(pictures=tf.constant(large[:0]))["label"].shape == (0,)
    readme = (tmp_path / "exported" / "README.txt").read_text()
    code = readme.partition("    import")[2].partition("print")[0]
    scope = {}
    exec("import" + code.replace("\n    ", "\n").replace('"exported"', repr(str(tmp_path / "exported"))), scope)
    assert scope["answers"]["label"].shape == (1,)
    code, out, err = run("export", "digits_tiny", tmp_path / "other", "--format", "onnx")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cannot be exported as onnx. Formats for this kind of model: saved_model." in err


def test_requests_share_batches(zoo, pictures):
    shared, sizes = ka.load("digits_tiny"), []
    steps = share_batches(shared, ServerSettings(max_batch=4), sizes.append)
    for step in steps:
        step()
    assert sorted(set(sizes)) == [1, 2, 4]
    answers, expected = (one.classify(pictures[0], return_scores=True) for one in (shared, ka.load("digits_tiny")))
    for one, other in zip(answers, expected, strict=True):
        assert one.label == other.label
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)


def test_other_commands_know_it_or_refuse_it(run, zoo, tmp_path):
    assert run("zoo", "verify", "digits_tiny")[:2] == (0, "digits_tiny: files sound, 3 examples reproduced\n")
    assert "pictures, multiclass classification" in run("zoo", "list")[1]
    assert run("warm", "digits_tiny")[0] == 0
    assert "Pictures; multiclass classification with the labels 0, 1, 2" in run("zoo", "show", "digits_tiny")[1]
    (tmp_path / "rows.csv").write_text("text,label\na,b\n")
    for words, message in (
        (["evaluate", "--model", "digits_tiny", "--table", tmp_path / "rows.csv"], "reads inputs of the kind image"),
        (["attention", "--model", "digits_tiny", "a", "--out", tmp_path / "page.html"], "has no attention"),
        (["encode", "--model", "digits_tiny", "a"], "it can classify. Expected: a model that can encode"),
        (["classify", "--model", "digits_tiny", "--labels", "a,b", "c"], "Expected: a model that can encode"),
        (["translate", "--model", "digits_tiny", "a"], "Expected: a model that can translate"),
    ):
        code, out, err = run(*words)
        assert (code, out, err.count("\n")) == (2, "", 1), words
        assert message in err


@pytest.fixture(scope="module")
def server(registered, tmp_path_factory):
    """A server of the classifier of pictures and of one of texts: ask(method, path, body) -> (status, JSON)."""
    zoo = tmp_path_factory.mktemp("served")
    trained_classifier().save(zoo / "digits_tiny")
    write_tiny(zoo / "moods", tiny_classifier().model, [{"source": TEXTS[0], "output": "good"}], task=task())
    with server_in_this_process(zoo) as (url, _):

        def ask(method, path, body=None, length=None):
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
            headers = {"content-type": "application/json"} | ({"content-length": str(length)} if length else {})
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

        yield ask


def in_base64(content):
    return base64.b64encode(content).decode()


def test_the_server_answers_for_pictures_and_for_texts(server, zoo, pictures):
    paths, _ = pictures
    images = [in_base64(Path(path).read_bytes()) for path in paths]
    images[1] = f"data:image/png;base64,{images[1]}"
    status, reply = server("POST", "/v1/classify", {"images": images, "top": 3})
    assert (status, reply["model"]) == (200, "digits_tiny")
    expected = ka.load("digits_tiny").classify(paths, return_scores=True)
    for answer, one in zip(reply["answers"], expected, strict=True):
        assert set(answer) == {"label", "labels", "probabilities", "truncated"}
        assert answer["label"] == one.label
        assert answer["labels"] == list(one.probabilities)[:3]
        assert answer["probabilities"] == pytest.approx(dict(list(one.probabilities.items())[:3]), abs=1e-5)
    status, reply = server("POST", "/v1/classify", {"texts": [TEXTS[0]]})
    assert (status, reply["model"]) == (200, "moods")
    assert set(reply["answers"][0]) == {"label", "probabilities", "truncated"}
    for name in ("digits_tiny",):
        assert server("POST", "/v1/classify", {"images": images[:1], "model": name})[1]["model"] == "digits_tiny"
    status, reply = server("POST", "/v1/classify", {"images": images[:1], "threshold": 1.0})
    assert (status, reply["answers"][0]["label"]) == (200, None)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"texts": ["a"], "model": "digits_tiny"}, 422, "body.images: Field required"),
        ({"images": ["a"], "model": "moods"}, 422, "body.texts: Field required"),
        ({"texts": ["a"], "images": ["a"]}, 422, "body.images: Extra inputs are not permitted"),
        ({}, 422, "body.texts: Field required"),
        ([], 422, "body: "),
        ({"images": []}, 422, "body.images: List should have at least 1 item"),
        ({"images": [7]}, 422, "body.images.0: Input should be a valid string"),
        ({"images": ["a"] * 65}, 422, "at most 64 images. Received: 65"),
        ({"images": ["no base64!"]}, 422, "A picture must be base64 of a file. Received: 'no base64!'"),
        ({"images": [""]}, 422, "The picture is empty"),
        ({"images": ["a"], "model": "nothing"}, 404, "No model 'nothing' for this route"),
        ({"images": ["a"], "top": 0}, 422, "body.top: "),
        ({"images": ["a"], "beam": 3}, 422, "body.beam: Extra inputs are not permitted"),
    ],
)
def test_wrong_requests_get_one_line(server, body, status, message):
    reply = server("POST", "/v1/classify", body)
    assert reply[0] == status
    assert message in reply[1]["error"]


@pytest.mark.parametrize("name", hostile())
def test_hostile_pictures_get_422(server, name):
    content, message = hostile()[name]
    status, reply = server("POST", "/v1/classify", {"images": [in_base64(content)]})
    assert status == 422
    assert message in reply["error"]


def test_pictures_may_be_larger_than_texts_but_not_unlimited(server):
    noise = np.random.default_rng(11).integers(0, 256, (1009, 1013)).astype("uint8")
    large = in_base64(encoded(Image.fromarray(noise)))
    assert len(large) > 1_300_000
    assert server("POST", "/v1/classify", {"images": [large]})[0] == 200
    for path, limit in (("/v1/classify", 8_000_000), ("/v1/explain", 1_000_000)):
        status, reply = server("POST", path, length=limit + 1)
        assert (status, reply["error"]) == (413, f"A request has at most {limit:,} bytes.")


def test_models_say_what_they_read(server, zoo):
    models = {model["name"]: model for model in server("GET", "/v1/models")[1]["models"]}
    assert {name: (one["input"], one["widget"], one["default"]) for name, one in models.items()} == {
        "digits_tiny": ("image", "image", True),
        "moods": ("text", "text", True),
    }
    assert models["digits_tiny"]["labels"] == LABELS
    assert models["digits_tiny"]["body_bytes"] == 8_000_000
    sources = [example["source"] for example in models["digits_tiny"]["examples"]]
    stored = [in_base64((zoo / "digits_tiny" / f"example_{number}.png").read_bytes()) for number in (1, 2, 3)]
    assert sources == stored
    answers = server("POST", "/v1/classify", {"images": sources})[1]["answers"]
    expected = read_entry(zoo / "digits_tiny").metrics["examples"]
    assert [answer["label"] for answer in answers] == [example["output"] for example in expected]


def test_a_model_that_is_not_loaded_is_described_and_loaded(zoo, monkeypatch):
    monkeypatch.setattr(registry.zoo_folders, "__defaults__", (zoo / "nowhere",))
    (model,) = known_models(ServerSettings(), lambda name, size: None).values()
    assert (model.name, model.input_field, model.pipeline) == ("digits_tiny", "images", None)
    loaded = model.load()
    assert {**model.about, "attention": False} == loaded.about
    images = [in_base64((zoo / "digits_tiny" / "example_1.png").read_bytes())]
    assert loaded.pipeline.reply(images=images)[0]["label"] == loaded.pipeline.entry.metrics["examples"][0]["output"]


def test_routes_for_texts_do_not_ask_it(server):
    for path, body in (("/v1/explain", {"text": "a"}), ("/v1/attention", {"text": "a dog"})):
        assert server("POST", path, body)[1]["model"] == "moods"
        status, reply = server("POST", path, {**body, "model": "digits_tiny"})
        assert status == 422
        assert "\n" not in reply["error"]
    document = server("GET", "/openapi.json")[1]
    schemas = document["components"]["schemas"]
    assert {"ClassifyRequest", "ClassifyImagesRequest"} <= set(schemas)
    assert list(schemas["ClassifyImagesRequest"]["properties"]) == ["model", "images", "threshold", "top"]
    assert "texts" in schemas["ClassifyRequest"]["properties"]


def gray_digit():
    images, _ = digits()
    return ImageInput((8, 8, 1)).read(images[17])


def test_many_pictures_are_read_in_parts(monkeypatch, tmp_path):
    from keras_attention.pipelines import input_classifier

    images, _ = digits()
    classifier = trained_classifier()
    expected = classifier.classify(images[:11])
    monkeypatch.setattr(input_classifier, "NUMBERS_AT_A_TIME", 3 * 64)
    calls = []
    assert classifier.classify(images[:11], progress=lambda *done: calls.append(done)) == expected
    assert calls == [(3, 11), (6, 11), (9, 11), (11, 11)]
    (tmp_path / "one.png").write_bytes(encoded(Image.fromarray(gray())))
    assert classifier.classify([tmp_path / "one.png"]) == [classifier.classify(gray())]
