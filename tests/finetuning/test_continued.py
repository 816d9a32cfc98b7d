"""Fine-tuning that starts from a classifier with the labels of the table."""

import numpy as np
import pytest
from finetuning.test_workflow import examples, write_csv
from zoo.tiny_bert import task, tiny_classifier, tiny_encoder, write_tiny

import keras_attention
from keras_attention.cli.main import main
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.starting_model import order_of
from keras_attention.finetuning.workflow import prepare
from keras_attention.zoo import entry, weights_file

SETTINGS = {"max_tokens": 17, "jit_compile": False, "mixed_precision": False}
TEXTS = ["A dog runs.", "Men sit near green bushes.", "A girl in a red dress sings."]


def write_start(folder, labels=("good", "bad"), **settings):
    """An entry of random weights whose labels stand in this order."""
    about = task() | {"label_names": list(labels)}
    write_tiny(folder, tiny_classifier(num_layers=1, **settings).model, task=about)
    return folder


@pytest.mark.parametrize("head", [{}, {"pooling": "mean", "pooler": False}], ids=["pooler", "no pooler"])
def test_keeps_the_head_of_a_start_with_the_same_labels(tmp_path, head):
    messages = []
    start = write_start(tmp_path / "start", **head)
    data = examples("binary", 30)
    prepared = prepare(data, None, start, FinetuneSettings(**SETTINGS), notify=messages.append)
    assert "The start has the same labels. Training continues with its output layer" in " ".join(messages)
    assert prepared.rows.task.label_names == ("bad", "good")
    source = keras_attention.load(start)
    logits = prepared.classifier.logits(prepared.classifier.sequences(TEXTS))
    expected = source.logits(source.sequences(TEXTS))
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(logits, expected[:, ::-1], atol=1e-5)


@pytest.mark.parametrize(
    ("labels", "settings"),
    [(("good", "poor"), {}), (("good", "bad"), {"linear_start": True}), (("good", "bad"), {"linear_start": False})],
    ids=["other labels", "linear start", "random head"],
)
def test_other_labels_or_settings_make_a_new_head(tmp_path, labels, settings):
    messages = []
    start = write_start(tmp_path / "start", labels)
    prepare(examples("binary", 30), None, start, FinetuneSettings(**SETTINGS, **settings), notify=messages.append)
    assert "The start has the same labels" not in " ".join(messages)
    assert ("Logistic regression" in " ".join(messages)) == (settings.get("linear_start") is not False)


def test_labels_are_the_same_in_another_order_and_another_spelling():
    composed, combining = "caf\xe9", "cafe\u0301"
    assert order_of(["a", "b", composed], ["b", combining, "a"]) == [2, 0, 1]
    assert order_of([composed, combining], [combining, composed]) == [1, 0]
    assert order_of(["a", "cafe"], ["a", composed]) is None
    assert order_of(["a"], ["a", composed]) is None
    assert order_of([], []) == []


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--folds", "2"), ("--linear-start",)])
def test_the_start_is_opened_and_verified_once(flags, tmp_path, monkeypatch, capsys):
    start = tmp_path / "start"
    write_tiny(start, tiny_encoder(num_layers=1))
    write_csv(tmp_path / "table.csv", examples("binary", 40))
    verified, loaded = [], []
    usual_verify, usual_read = entry.verify_files, weights_file.read_arrays
    count = lambda calls, usual: lambda path, *rest: calls.append(path) or usual(path, *rest)  # noqa: E731
    monkeypatch.setattr(entry, "verify_files", count(verified, usual_verify))
    monkeypatch.setattr(weights_file, "read_arrays", count(loaded, usual_read))
    words = ["finetune", str(tmp_path / "table.csv"), "--text", "review", "--label", "mood", "--from", str(start)]
    words += ["--out", str(tmp_path / "mine"), "--epochs", "1", "--max-tokens", "17", "--no-jit-compile", "--json"]
    assert main([*words, *flags]) == 0
    capsys.readouterr()
    assert verified.count(start) == 2  # the small files first, then the others: see `read_entry`
    assert len([path for path in loaded if path.parent == start]) == (3 if "--folds" in flags else 1)
