"""`finetune --quick`: static vectors of an encoder, logistic regression and words, as an entry like any other."""

import json
import shlex
import urllib.request

import numpy as np
import pytest
from finetuning.test_workflow import QUIET, examples, write_csv
from server.tiny_zoo import server_in_this_process
from zoo.tiny_bert import TEXTS, task, tiny_encoder, tokenizer, write_tiny

from keras_attention import load
from keras_attention.cli.main import main
from keras_attention.finetuning.examples import Examples
from keras_attention.finetuning.settings import FinetuneSettings, check_settings
from keras_attention.finetuning.starting_model import open_start
from keras_attention.finetuning.static_start import specials_of, static_classifier, static_vectors, vectors_of_pieces
from keras_attention.finetuning.workflow import finetune_classifier, prepare
from keras_attention.models import StaticVectorClassifier
from keras_attention.support.errors import UserError

SETTINGS = FinetuneSettings(quick=True, max_tokens=17, jit_compile=False)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("starts") / "start"
    write_tiny(folder, tiny_encoder(num_layers=1))
    return folder


def test_each_piece_is_read_alone():
    encoder = tiny_encoder(num_layers=1)
    vectors = vectors_of_pieces(encoder, tokenizer())
    assert vectors.shape == (tokenizer().vocabulary_size, 14)
    for piece in (5, 23, 41):
        ids = np.array([[tokenizer().start_id, piece, tokenizer().end_id]], "int32")
        np.testing.assert_allclose(vectors[piece], np.asarray(encoder(ids))[0].mean(axis=0), atol=1e-5)


def test_the_vectors_are_principal_components_weighted_by_rank():
    vectors = np.random.default_rng(2).normal(size=(31, 7)) * np.array([1, 1, 9, 1, 1, 3, 1])
    table = static_vectors(vectors, [0, 4], 2)
    assert table.shape == (31, 2)
    np.testing.assert_array_equal(table[[0, 4]], 0.0)
    plain = table / np.log(1.0 + np.arange(1, 32))[:, None]
    centered = vectors - vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(centered)
    for column, direction in enumerate(directions[:2]):
        expected = centered @ direction
        expected *= np.sign(expected[7] * plain[7, column])
        np.testing.assert_allclose(np.delete(plain[:, column], [0, 4]), np.delete(expected, [0, 4]), atol=1e-4)


def test_special_tokens_count_nothing(start):
    model, its_tokenizer = static_classifier(open_start(start), 3)
    table = model.token_embedding.get_weights()[0]
    assert not table[specials_of(its_tokenizer)].any()
    assert np.count_nonzero(table.any(axis=1)) == len(table) - len(specials_of(its_tokenizer))


@pytest.mark.parametrize("kind", ["binary", pytest.param("regression", marks=pytest.mark.slow)])
def test_learns_in_seconds_from_python(start, kind):
    messages = []
    finetuned = finetune_classifier(examples(kind, 90), None, start, SETTINGS, **{**QUIET, "notify": messages.append})
    assert isinstance(finetuned.classifier.model, StaticVectorClassifier)
    assert finetuned.result.steps == 0
    assert any("computes a static vector for each piece" in line for line in messages)
    told = [line for line in messages if "logistic regression on" in line.lower()]
    assert told[0].startswith("Computing static vectors of all rows, then logistic regression")
    assert told[1].startswith("Logistic regression on static vectors: ")
    assert not any("Fine-tuning" in line or "min." in line for line in messages)
    assert [name for name, *_ in finetuned.candidates][0] == "logistic regression on static vectors"
    test = examples(kind, 31)
    answers = finetuned.classifier.classify(test.texts)
    if kind == "binary":
        assert answers == test.labels
    else:
        assert np.corrcoef(answers, [float(label) for label in test.labels])[0, 1] > 0.9


@pytest.mark.slow
def test_the_command_that_is_proposed_can_be_copied(start, tmp_path, capsys):
    table = write_csv(tmp_path / "train.csv", examples("binary", 31))
    out = str(tmp_path / "my model")
    flags = ["--text", "review", "--label", "mood", "--from", str(start), "--quick", "--out", out]
    assert main(["finetune", table, *flags]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    words = shlex.split(last.partition("Try: ")[2])
    assert words == ["keras-attention", "classify", "--model", out, "some text"]


@pytest.mark.slow
def test_the_result_is_an_entry_like_any_other(start, tmp_path, capsys):
    table = write_csv(tmp_path / "train.csv", examples("binary", 160))
    out, exported = str(tmp_path / "mine"), str(tmp_path / "exported")
    flags = ["--text", "review", "--label", "mood", "--from", str(start), "--quick", "--out", out, "--json"]
    assert main(["finetune", table, *flags]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["scores"]["accuracy"] == 100
    assert main(["zoo", "verify", out]) == 0
    config = json.loads((tmp_path / "mine" / "config.json").read_text(encoding="utf-8"))
    assert config["architecture"] == "StaticVectorClassifier"
    classifier = load(out)
    expected = classifier.classify(TEXTS, return_scores=True)
    explained = classifier.explain("a fine day the film")
    assert max(explained.words, key=lambda word: word.effect).text == "fine"
    with pytest.raises(UserError, match="no attention"):
        classifier.attention_view(TEXTS[0])
    assert main(["export", out, exported]) == 0
    import tensorflow as tf

    answers = tf.saved_model.load(exported).signatures["serving_default"](texts=tf.constant(TEXTS))
    for label, probability, answer in zip(answers["label"], answers["probabilities"], expected, strict=True):
        assert label.numpy().decode() == answer.label
        assert probability.numpy()[0] == pytest.approx(answer.probabilities[answer.label], abs=1e-5)


@pytest.mark.slow
def test_two_texts_are_compared(start):
    random = np.random.default_rng(7)
    words = ["dog", "grass", "men", "bushes", "girl", "red", "dress", "sings"]
    first = [" ".join(random.choice(words, 3)) for _ in range(130)]
    same = random.random(130) < 0.5
    second = [text if alike else " ".join(random.choice(words, 3)) for text, alike in zip(first, same, strict=True)]
    pairs = Examples(first, ["yes" if alike else "no" for alike in same], second)
    prepared = prepare(pairs, None, start, SETTINGS, notify=QUIET["notify"])
    assert prepared.classifier.model.settings["pooling"] == "pair"
    assert prepared.linear_score > 85


def test_a_quick_model_is_a_start(start, tmp_path):
    model, _ = static_classifier(open_start(start), 2)
    write_tiny(tmp_path / "quick", model, task=task())
    prepared = prepare(
        examples("multiclass", 60),
        None,
        tmp_path / "quick",
        FinetuneSettings(jit_compile=False),
        notify=QUIET["notify"],
    )
    table = prepared.classifier.model.token_embedding.get_weights()[0]
    np.testing.assert_array_equal(table, model.token_embedding.get_weights()[0])


def test_the_server_answers_for_static_vectors(start, tmp_path):
    write_tiny(tmp_path / "mine", static_classifier(open_start(start), 2)[0], task=task())
    expected = load(tmp_path / "mine").classify(TEXTS)
    with server_in_this_process(tmp_path) as (url, _):
        request = urllib.request.Request(f"{url}/v1/classify", json.dumps({"texts": TEXTS}).encode())
        request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert [one["label"] for one in json.load(answer)["answers"]] == expected


@pytest.mark.parametrize(
    ("settings", "flag"),
    [({"epochs": 3}, "--epochs"), ({"freeze": 1}, "--freeze"), ({"linear_start": False}, "--linear-start")],
)
def test_settings_without_effect_are_refused(settings, flag):
    with pytest.raises(UserError, match=f"--quick trains no network, so {flag} has no effect"):
        check_settings(FinetuneSettings(quick=True, **settings))


def test_a_start_without_vectors_is_refused(start, tmp_path):
    with pytest.raises(UserError, match="--quick needs a BERT to start from.*Found: none"):
        static_classifier(open_start("none"), 2)
    write_tiny(tmp_path / "static", static_classifier(open_start(start), 2)[0], task=task())
    with pytest.raises(UserError, match="Found: .*static, a StaticVectorClassifier"):
        static_classifier(open_start(tmp_path / "static"), 2)
