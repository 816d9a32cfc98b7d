"""Fine-tuning with LoRA: only small matrices and the head are trained, and the entry is like any other."""

import json
import signal
from dataclasses import replace

import keras
import numpy as np
import pytest
from finetuning.test_workflow import QUIET, examples, write_csv
from zoo.tiny_bert import tiny_encoder, write_tiny

from keras_attention import load
from keras_attention.cli.main import main
from keras_attention.finetuning import label_training, preparation
from keras_attention.finetuning.calibration import finish
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.workflow import finetune_classifier, fit, prepare
from keras_attention.support.errors import UserError

SETTINGS = FinetuneSettings(epochs=1, max_tokens=17, jit_compile=False, lora=2, learning_rate=1e-2, blend="none")
LAYERS = 2


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("starts") / "start"
    write_tiny(folder, tiny_encoder(num_layers=LAYERS))
    return folder


def every_epoch_is_better(monkeypatch):
    """So that the weights of the last one are kept."""
    losses = iter(range(99, 0, -1))
    monkeypatch.setattr(preparation, "held_scores", lambda _: ("accuracy", 70.0, next(losses)))


@pytest.mark.parametrize("frozen", [0, pytest.param(1, marks=pytest.mark.thorough)])
@pytest.mark.slow
def test_only_the_small_matrices_and_the_head_are_trained(start, frozen, monkeypatch):
    every_epoch_is_better(monkeypatch)
    messages, settings = [], replace(SETTINGS, freeze=frozen, epochs=1)
    prepared = prepare(examples("binary", 60), None, start, settings, notify=messages.append)
    model = prepared.classifier.model
    before = {weight.path: weight.numpy() for weight in model.weights}
    small = {path for path in before if "lora_" in path}
    assert len(small) == 2 * 2 * (
        LAYERS - frozen
    )  # two matrices for queries and values of each layer above the frozen ones
    head = {weight.path for weight in model.output_dense.weights}
    assert {weight.path for weight in model.trainable_weights} == small | head
    numbers = 2 * (LAYERS - frozen) * 2 * (14 + 14) + 14 * 2 + 2
    assert any(line.startswith(f"LoRA of rank 2: {numbers:,} weights are trained") for line in messages)
    fit(prepared, settings, verbose=0)
    moved = {weight.path for weight in model.weights if np.abs(weight.numpy() - before[weight.path]).max() > 0}
    assert moved == small | head


@pytest.mark.slow
def test_the_trained_model_has_the_usual_weights_and_the_same_answers(start, tmp_path, monkeypatch):
    prepared = prepare(examples("multiclass", 60), None, start, SETTINGS, notify=lambda _: None)
    every_epoch_is_better(monkeypatch)
    result = fit(prepared, SETTINGS, verbose=0)
    model, rows = prepared.classifier.model, prepared.validation_sequences
    inputs = {"token_ids": np.array([[2, 7, 11, 13, 3], [2, 5, 3, 0, 0]]), "segment_ids": np.zeros((2, 5), "int32")}
    plain = prepare(examples("multiclass", 60), None, start, replace(SETTINGS, lora=None), notify=lambda _: None)
    untouched = np.asarray(plain.classifier.model(inputs))
    adapted, vectors = np.asarray(model(inputs)), prepared.vectors(rows)
    assert np.abs(adapted - untouched).max() > 1e-2
    monkeypatch.setattr("keras_attention.finetuning.calibration.temperature", lambda *_: 1.0)
    monkeypatch.setattr(
        "keras_attention.finetuning.calibration.choose_network", lambda *_: (None, "bag of words")
    )  # the trained one
    classifier = finish(prepared, result, SETTINGS).classifier
    np.testing.assert_allclose(model(inputs), adapted, atol=1e-5)
    np.testing.assert_allclose(prepared.vectors(rows), vectors, atol=1e-5)  # by a program of before
    assert [w.shape for w in model.weights] == [w.shape for w in plain.classifier.model.weights]
    assert len(model.trainable_weights) == len(model.weights)
    classifier.save(tmp_path / "saved")
    np.testing.assert_allclose(load(tmp_path / "saved").model(inputs), adapted, atol=1e-5)


@pytest.mark.slow
def test_an_interrupted_training_resumes_bit_for_bit(start, tmp_path, capsys, monkeypatch):
    write_csv(tmp_path / "table.csv", examples("binary", 60))
    keras.backend.clear_session()
    command = ["finetune", str(tmp_path / "table.csv"), "--text", "review", "--label", "mood", "--from", str(start)]
    command += ["--lora", "2", "--epochs", "2", "--learning-rate", "0.01", "--blend", "none", "--json"]
    assert main([*command, "--out", str(tmp_path / "whole")]) == 0
    keras.backend.clear_session()  # numbers the names of models from the beginning, as a new process does
    usual = label_training.Session.report

    def stopped(session, **scores):
        usual(session, **scores)
        signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(label_training.Session, "report", stopped)
        assert main([*command, "--out", str(tmp_path / "parts")]) == 130
    capsys.readouterr()
    keras.backend.clear_session()
    assert main([*command, "--out", str(tmp_path / "parts"), "--resume"]) == 0
    whole, parts = (load(tmp_path / name).model.get_weights() for name in ("whole", "parts"))
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(a, b)
    settings = json.loads((tmp_path / "parts" / "metrics.json").read_text())["training"]
    assert settings["lora"] == 2


@pytest.mark.slow
def test_bad_usage(start):
    for start_from, settings, text in (
        ("none", {}, "--lora adapts a trained model"),
        (start, {"lora": 17}, "--lora may be at most 14, the width of the model. Found: 17"),
        (start, {"freeze": LAYERS}, "--lora needs a layer that is not frozen. Found: --freeze 2"),
    ):
        with pytest.raises(UserError, match=text):
            finetune_classifier(examples("binary", 30), None, start_from, replace(SETTINGS, **settings), **QUIET)
    assert main(["finetune", "x.csv", "--text", "a", "--label", "b", "--lora", "0"]) == 2
