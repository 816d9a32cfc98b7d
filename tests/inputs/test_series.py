"""Series as inputs: equations, one label a row, saved and loaded, over HTTP, exported, learned from a table."""

import json
import urllib.error
import urllib.request

import keras
import numpy as np
import pytest
from server.tiny_zoo import server_in_this_process

from keras_attention import finetune, load
from keras_attention.cli.main import main
from keras_attention.inputs.series import SeriesInput, normalised, stretched
from keras_attention.models import PatchClassifier
from keras_attention.pipelines.input_classifier import InputClassifier
from keras_attention.support.errors import UserError

TASK = {"kind": "multiclass", "label_names": ["up", "down", "flat"], "separator": None, "threshold": 0.5, "pair": False}
STEPS, LENGTH = 24, 19


def series(count=5, channels=1, length=LENGTH):
    values = np.random.default_rng(7).normal(size=(count, length, channels)).cumsum(axis=1)
    return 1000 + 50 * (values[..., 0] if channels == 1 else values)


def classifier(channels=1):
    keras.utils.set_random_seed(5)
    model = PatchClassifier(3, (STEPS, channels), (4,), hidden_dim=14, intermediate_dim=11, num_heads=2, num_layers=1)
    model.build()
    model.output_dense.kernel.assign(np.random.default_rng(7).normal(size=(14, 3)))
    return InputClassifier(model, SeriesInput((STEPS, channels), LENGTH), TASK, samples=list(series(3, channels)))


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    zoo = tmp_path_factory.mktemp("zoo")
    classifier().save(zoo / "lines")
    classifier(channels=3).save(zoo / "sensors")
    rows = "\n".join(",".join(map(repr, row)) for row in series().tolist())
    (zoo.parent / "rows.csv").write_text(rows)
    (zoo.parent / "labelled.csv").write_text("\n".join(["label,value", *(f"up,{row}" for row in rows.split("\n"))][1:]))
    np.savetxt(zoo.parent / "column.csv", series(1)[0])
    np.savetxt(zoo.parent / "recording.csv", series(1, 3)[0], delimiter=",", header="x,y,z", comments="")
    return zoo


def test_each_series_is_normalised_on_its_own():
    values = series(1, channels=3)[0]
    actual = normalised(values)
    for channel in range(3):
        mean = sum(values[:, channel]) / LENGTH
        deviation = (sum((value - mean) ** 2 for value in values[:, channel]) / LENGTH) ** 0.5
        for step in range(LENGTH):
            assert actual[step, channel] == pytest.approx((values[step, channel] - mean) / deviation)
    np.testing.assert_allclose(normalised(3 * values - 5e6), actual, atol=1e-7)
    np.testing.assert_allclose(normalised(1e300 * values), actual, atol=1e-9)
    assert not normalised(np.full((7, 1), 0.1)).any()


def test_stretched_series():
    line = np.arange(7.0)[:, None]
    np.testing.assert_allclose(stretched(line, 13)[:, 0], np.arange(13) / 2)
    halves = stretched(np.arange(22.0)[:, None], 11)[:, 0]
    np.testing.assert_allclose(halves, [(2 * k + 2 * k + 1) / 2 for k in range(11)])
    long = series(1, length=101)[0][:, None]
    for length in (3, 17, 101):  # the mean of a longer series stays
        assert stretched(long, length).mean() == pytest.approx(long.mean())


def test_forms_of_one_series(zoo):
    kind, row = classifier().kind, series()[0]
    expected = kind.read(row)
    forms = [list(row), row[:, None], row.astype("float32"), ", ".join(map(repr, row.tolist()))]
    forms += [str(zoo.parent / "rows.csv:1"), zoo.parent / "column.csv", np.append(row, [np.nan, np.nan])]
    for form in forms:
        np.testing.assert_allclose(kind.read(form), expected, atol=1e-4)
    many = classifier(channels=3).kind
    np.testing.assert_allclose(many.read(zoo.parent / "recording.csv"), many.read(series(1, 3)[0]), atol=1e-4)
    made = classifier()
    assert made.classify(row) == made.classify([row])[0] == made.classify(series())[0] == made.classify(row.tolist())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("rows.csv", "has 5 series. Name one of them"),
        ("rows.csv:6", "has 5 series"),
        ("none.csv", "No such file"),
        ("recording.csv", "has 19 series"),
        ("hello", "must be the name of a file, or numbers"),
        ([1.0], "has one step"),
        ([[1, 2, 3], [4, 5, 6]], "has 3 channels. This model reads 1"),
        ([1, float("inf")], "step 2: found inf"),
        (None, "must be numbers"),
    ],
)
def test_values_other_than_series_are_refused(zoo, source, message):
    source = str(zoo.parent / source) if isinstance(source, str) and ".csv" in source else source
    with pytest.raises(UserError, match=message) as refused:
        classifier().kind.read(source)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("channels", [1, 3])
def test_saved_and_loaded(zoo, channels):
    name, sources = {1: "lines", 3: "sensors"}[channels], list(series(4, channels))
    loaded, made = load(zoo / name), classifier(channels)
    assert loaded.input.config_keys() == {"length": LENGTH}
    for one, other in zip(*(each.classify(sources, return_scores=True) for each in (loaded, made)), strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
    assert main(["zoo", "verify", str(zoo / name)]) == 0


def test_one_line_a_series(zoo, tmp_path, capsys):
    rows, model = str(zoo.parent / "rows.csv"), str(zoo / "lines")
    expected = load(model).classify(series())
    assert main(["classify", "--model", model, rows, "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["label"] for answer in answers] == expected
    assert [answer["file"] for answer in answers] == [f"{rows}:{number}" for number in range(1, 6)]
    assert main(["classify", "--model", model, str(zoo.parent / "labelled.csv")]) == 0
    assert [line.split("\t")[0].split()[0] for line in capsys.readouterr().out.splitlines()] == expected
    assert main(["classify", "--model", model, f"{rows}:2", "--attention", str(tmp_path / "a.html")]) == 0
    assert "<polyline" in (tmp_path / "a.html").read_text()
    capsys.readouterr()
    assert main(["classify", "--model", model, "1,2,x"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_server_answers_for_series(zoo):
    def ask(url, **body):
        request = urllib.request.Request(f"{url}/v1/classify", json.dumps(body).encode())
        request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    with server_in_this_process(zoo) as (url, _):
        for name, channels in (("lines", 1), ("sensors", 3)):
            status, reply = ask(url, model=name, series=series(2, channels).tolist())
            assert status == 200
            expected = load(zoo / name).classify(list(series(2, channels)))
            assert [answer["label"] for answer in reply["answers"]] == expected
        about = {one["name"]: one for one in json.load(urllib.request.urlopen(f"{url}/v1/models"))["models"]}
        assert about["lines"]["widget"] == "series"
        np.testing.assert_allclose(about["lines"]["examples"][0]["source"], classifier().samples[0][:, 0], atol=1e-5)
        hostile = [[[]], [], [["a", 1]], [[1, None]], [[[1, 2], [3]]], [[[1, 2], [3, 4]]], "rows.csv", [["rows.csv"]]]
        hostile += [[[1, float("nan")]], [[1, 10**400]], [[True, False]], [{"a": 1}], [[1]], [[[[1]]]]]
        for given in hostile:
            status, reply = ask(url, model="lines", series=given)
            assert status in (400, 422), (given, reply)
            assert "Traceback" not in str(reply)


def test_exported_with_raw_numbers_in(zoo, tmp_path):
    import tensorflow as tf

    for name, channels in (("lines", 1), ("sensors", 3)):
        assert main(["export", str(zoo / name), str(tmp_path / name)]) == 0
        answer = tf.saved_model.load(str(tmp_path / name)).signatures["serving_default"]
        actual = answer(series=tf.constant(series(3, channels), "float32"))
        expected = load(zoo / name).classify(list(series(3, channels)), return_scores=True)
        assert [label.decode() for label in actual["label"].numpy()] == [one.label for one in expected]
        probabilities = [list(one.probabilities.values()) for one in expected]
        np.testing.assert_allclose(actual["probabilities"], probabilities, atol=1e-3)
        assert answer(series=tf.constant(series(3, channels)[:0], "float32"))["label"].shape == (0,)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Expected: finite numbers"):
            answer(series=tf.constant(np.full_like(series(3, channels), np.nan), "float32"))
    assert main(["export", str(zoo / "lines"), str(tmp_path / "onnx"), "--format", "onnx"]) == 2


def waves(count, seed):
    """Series (N, 37) of two kinds: one bump early or late, and their labels."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    centers = np.where(labels == 1, 26, 10) + random.normal(size=count)
    values = np.exp(-((np.arange(37) - centers[:, None]) ** 2) / 20) + 0.05 * random.normal(size=(count, 37))
    return values * random.uniform(1, 9, (count, 1)), [("early", "late")[label] for label in labels]


@pytest.mark.slow
def test_it_learns_from_a_table(tmp_path, capsys):
    for name, seed in (("train", 3), ("test", 5)):
        rows, labels = waves(60, seed)
        lines = [f"{label},{','.join(map(repr, row))}" for row, label in zip(rows.tolist(), labels, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    table = str(tmp_path / "train.csv")
    command = ["finetune", table, "--kind", "series", "--size", "tiny", "--epochs", "20", "--json", "--seed", "3"]
    assert main([*command, "--test", str(tmp_path / "test.csv"), "--out", str(tmp_path / "waves")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["scores"]["accuracy"] > 95
    assert load(tmp_path / "waves").input.size == (38, 1)
    assert main(["zoo", "verify", str(tmp_path / "waves")]) == 0
    rows, labels = waves(13, 11)
    again = finetune(rows, labels, kind="series", epochs=1, start=tmp_path / "waves")
    assert again.kind.config_keys() == {"length": 37}
    assert set(again.classify(rows)) <= {"early", "late"}


def test_flags_that_do_not_fit(tmp_path, capsys):
    (tmp_path / "rows.csv").write_text("up,1,2\ndown,2,1\n")
    rows = str(tmp_path / "rows.csv")
    for flags, message in [
        (["--kind", "series", "--text", "a"], "--text is for tables of texts"),
        (["--kind", "images", "--text", "1", "--label", "up"], "of the kind images. Expected: the name of a file"),
        (["--kind", "series", "--from", "minilm_small_en"], "reads texts"),
        (["--kind", "series", "--label", "mood"], "no column 'mood'"),
    ]:
        assert main(["finetune", rows, *flags]) == 2
        assert message in capsys.readouterr().err
