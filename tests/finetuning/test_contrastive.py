"""Contrastive fine-tuning: its loss in loops, its batches, its place in a training, and what it does to vectors."""

import signal
from dataclasses import replace
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from finetuning.test_workflow import QUIET, examples, write_csv
from zoo.tiny_bert import TEXTS, tiny_classifier, tiny_encoder, write_tiny

from keras_attention import load
from keras_attention.cli.main import main
from keras_attention.data.tables.label_task import Task
from keras_attention.finetuning.contrastive import (
    CONTRASTIVE,
    ON_LABELS,
    SHARES,
    TEXTS_PER_BATCH,
    TwinBatches,
    _best_mix,
    check_contrastive,
    contrastive_loss,
    draw_twins,
    supervised_contrastive_loss,
)
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.starting_model import starting_classifier
from keras_attention.finetuning.workflow import checkpoint_folders, finetune_classifier, fit, prepare
from keras_attention.support.errors import UserError
from keras_attention.training.history import Epoch

BOTH, FIRST, SECOND = (CONTRASTIVE, ON_LABELS), (CONTRASTIVE,), (ON_LABELS,)
SETTINGS = FinetuneSettings(max_tokens=17, jit_compile=False, contrastive=True, dropout=0.0, blend="none")


@pytest.fixture(autouse=True)
def _quick_twins(monkeypatch):
    """Few twins, for quick tests."""
    monkeypatch.setattr("keras_attention.finetuning.contrastive.LEAST_TWINS", 500)


def in_loops(labels, vectors, temperature):
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    real = [a for a in range(len(labels)) if labels[a] >= 0]
    total, count, correct = 0.0, 0, 0
    for a in real:
        others = [b for b in real if b != a]
        alike = [i for i in others if labels[i] == labels[a]]
        if not alike:
            continue
        scores = {b: vectors[a] @ vectors[b] / temperature for b in others}
        below = sum(np.exp(score) for score in scores.values())
        total -= np.mean([np.log(np.exp(scores[i]) / below) for i in alike])
        count += 1
        correct += labels[max(scores, key=scores.get)] == labels[a]
    return total, count, correct


def test_the_loss_in_loops():
    random = np.random.default_rng(3)
    labels = np.array([0, 1, -1, 0, 2, 1, 0, -1, 3], "int32")  # 2 and 3 occur once, -1 is padding
    vectors = random.normal(size=(9, 5)).astype("float32")
    for temperature in (0.1, 0.7):
        loss = supervised_contrastive_loss(labels, vectors, temperature)
        np.testing.assert_allclose(
            [loss.total, loss.count, loss.correct], in_loops(labels, vectors, temperature), rtol=1e-5
        )
    alone = supervised_contrastive_loss(np.array([0, 1, -1], "int32"), vectors[:3])
    assert (float(alone.total), float(alone.count)) == (0.0, 0.0)


def test_the_loss_is_of_the_vectors_of_the_texts():
    classifier = tiny_classifier(dropout=0.0)
    labels = np.array([0, 1, 1, 0], "int32")
    rows = classifier.single_sequences(TEXTS)
    batch = TwinBatches(rows, labels, 3, num_buckets=1).epoch(0)[0]
    batch_labels = batch.pop("labels")
    vectors = np.asarray(classifier.model.pooled(batch))
    loss_value, expected = contrastive_loss(classifier.model, batch, batch_labels), in_loops(batch_labels, vectors, 0.1)
    np.testing.assert_allclose([loss_value.total, loss_value.count, loss_value.correct], expected, rtol=1e-4)


def test_each_row_has_partners_with_its_label():
    targets = np.array([0, 0, 1, 1, 1, 2])
    twins = draw_twins(targets, 600, np.random.PCG64([3, 0]))
    assert (targets[twins[:, 0]] == targets[twins[:, 1]]).all()
    np.testing.assert_array_equal(np.bincount(twins[:, 0]), [100] * 6)
    same_row = twins[:, 0] == twins[:, 1]
    np.testing.assert_array_equal(same_row, targets[twins[:, 0]] == 2)  # only a row without others of its label
    for row in (2, 3, 4):  # each of the two others about as often
        partners = np.bincount(twins[twins[:, 0] == row, 1], minlength=6)
        assert partners.sum() == 100
        assert partners[partners > 0].min() > 30
        assert (partners > 0).sum() == 2
    np.testing.assert_array_equal(twins, draw_twins(targets, 600, np.random.PCG64([3, 0])))
    assert (twins != draw_twins(targets, 600, np.random.PCG64([3, 1]))).any()


def test_twins_share_a_batch():
    lengths = [2 + n % 7 for n in range(45)]
    rows = [SimpleNamespace(token_ids=np.arange(2, 2 + n), segment_ids=np.zeros(n, "int32")) for n in lengths]
    batches = TwinBatches(rows, np.arange(45), 3, num_buckets=3, with_segments=False)  # each is its own partner
    epoch = batches.epoch(0)
    actual = [epoch[i] for i in range(len(epoch))]
    assert batches.count == 500
    assert len(actual) == -(-2 * 500 // TEXTS_PER_BATCH)
    assert set(actual[0]) == {"labels", "token_ids"}
    for batch in actual:
        labels = batch["labels"].reshape(-1, 2)
        assert len(batch["labels"]) == TEXTS_PER_BATCH
        np.testing.assert_array_equal(labels[:, 0], labels[:, 1])
        for label, ids in zip(batch["labels"], batch["token_ids"], strict=True):
            assert (ids > 0).sum() == (0 if label < 0 else lengths[label])


@pytest.mark.parametrize(
    ("rows", "tokens", "count"),
    [(10, 8, 200), (300, 8, 500), (6_000, 8, 6_000), (30_000, 8, 10_000), (5_000, 200, 2_500)],
)
def test_the_number_of_twins(rows, tokens, count):
    sequences = [SimpleNamespace(token_ids=np.ones(tokens, "int32"))] * rows
    assert TwinBatches(sequences, np.arange(rows) % 2, 3).count == count


def likeness(prepared):
    """Mean cosine of the vectors of rows with the same label minus that of others."""
    vectors = prepared.vectors([[row] for row in prepared.sequences])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines, targets = vectors @ vectors.T, prepared.rows.targets
    same = targets[:, None] == targets[None]
    return cosines[same].mean() - cosines[~same].mean()


@pytest.mark.slow
def test_texts_of_a_label_become_alike(tmp_path, monkeypatch):
    for name, value in (("LEAST_TWINS", 2000), ("TWINS_PER_ROW", 100), ("contrastive_rate_for", lambda width: 3e-3)):
        monkeypatch.setattr(f"keras_attention.finetuning.contrastive.{name}", value)
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=1))
    messages = []
    prepared = prepare(examples("multiclass", 30), None, tmp_path / "start", SETTINGS, notify=messages.append)
    before, kernel = likeness(prepared), prepared.classifier.model.output_dense.kernel.numpy()
    result = fit(prepared, SETTINGS, verbose=0)
    assert result.steps == 2 * 2000 // TEXTS_PER_BATCH
    assert result.best_epoch == 1, "the tiny task is learned"
    assert likeness(prepared) > 3 * before > 0
    assert np.abs(prepared.classifier.model.output_dense.kernel.numpy() - kernel).max() > 0
    assert any("on 2,000 pairs" in line for line in messages)


@pytest.mark.slow
def test_then_the_training_on_labels_begins_there(tmp_path):
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=1))
    settings = replace(SETTINGS, epochs=2)
    prepared = prepare(examples("binary", 40), None, tmp_path / "start", settings, notify=lambda _: None)
    assert prepared.stages == BOTH
    both = fit(prepared, settings, verbose=0, checkpoint_dir=tmp_path / "checkpoints", log_dir=tmp_path / "logs")
    assert [len(list(folder.iterdir())) > 0 for folder in checkpoint_folders(tmp_path / "checkpoints")] == [True, True]
    assert len(list((tmp_path / "logs").rglob("events*"))) == 2
    again = prepare(examples("binary", 40), None, tmp_path / "start", settings, notify=lambda _: None)
    first = fit(again._replace(stages=FIRST), settings, verbose=0)
    second = fit(again._replace(stages=SECOND), settings, verbose=0)
    assert both.steps == first.steps + second.steps
    assert both.best == second.best


@pytest.mark.slow
@pytest.mark.parametrize("stopped_after", [5, 35], ids=BOTH)
def test_an_interrupted_training_resumes_bit_for_bit(stopped_after, tmp_path, capsys, monkeypatch):
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=1))
    write_csv(tmp_path / "table.csv", examples("binary", 60))
    command = ["finetune", str(tmp_path / "table.csv"), "--text", "review", "--label", "mood", "--json"]
    command += ["--from", str(tmp_path / "start"), "--contrastive", "--epochs", "2", "--blend", "none"]
    keras.backend.clear_session()  # numbers the names of models from the beginning, as a new process does
    assert main([*command, "--out", str(tmp_path / "whole")]) == 0
    keras.backend.clear_session()
    usual, count = Epoch.record, iter(range(1, 1000))

    def stopped(epoch, measured):
        usual(epoch, measured)
        if next(count) == stopped_after:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Epoch, "record", stopped)
        assert main([*command, "--out", str(tmp_path / "parts")]) == 130
    capsys.readouterr()
    keras.backend.clear_session()
    assert main([*command, "--out", str(tmp_path / "parts")]) == 2
    assert "--resume" in capsys.readouterr().err
    keras.backend.clear_session()
    assert main([*command, "--out", str(tmp_path / "parts"), "--resume"]) == 0
    whole, parts = (load(tmp_path / name).model.get_weights() for name in ("whole", "parts"))
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(a, b)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "start", "table.csv", "whole"]


@pytest.mark.parametrize(
    ("losses", "held", "share"),
    [
        ([2.0, 1.0, 1.0, 0.8, 0.9], 10, 0.5),
        ([2.0, 1.0, 1.0, 0.8, 0.9], 2, 1.0),  # two rows say little
        ([0.5, 1.0, 0.9, 0.8, 0.7], 10, 0.0),
        ([0.5, 0.5, 0.5, 0.5, 0.5], 900, 1.0),
    ],
)
def test_the_mix_is_chosen_by_the_loss_and_a_prior(losses, held, share):
    model = SimpleNamespace(weights=[np.array([3.0, 7.0])])
    model.get_weights, model.set_weights = lambda: model.weights, lambda weights: setattr(model, "weights", weights)
    fitted, (loss_before, *others) = [], losses
    seen = iter(others)
    validate = lambda _: {"val_loss": next(seen), "val_score": fitted[-1][0]}  # noqa: E731
    before, scores = [np.array([1.0, 1.0])], {"val_loss": loss_before, "val_score": 1.0}
    refit = lambda: fitted.append(model.weights[0])  # noqa: E731
    assert _best_mix(model, before, scores, SHARES, refit, validate, held) == (1 + 2 * share, share)
    np.testing.assert_allclose(model.weights[0], [1 + 2 * share, 1 + 6 * share])
    assert len(fitted) == 4


@pytest.mark.slow
def test_a_training_that_harms_is_undone(tmp_path, monkeypatch):
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=1))
    prepared = prepare(examples("binary", 20), None, tmp_path / "start", SETTINGS, notify=lambda _: None)
    losses, before = iter([2.0, 9.0, 8.0, 7.0, 6.0]), prepared.classifier.model.get_weights()
    monkeypatch.setattr(
        "keras_attention.finetuning.preparation.held_scores", lambda _: ("accuracy", loss := next(losses), loss)
    )
    result = fit(prepared, SETTINGS, verbose=0)
    assert (result.best, result.best_epoch) == (2.0, 0)
    for ours, theirs in zip(prepared.classifier.model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("rows", "kind", "options", "chosen"),
    [
        (30, "binary", {}, FIRST),
        (200, "binary", {}, BOTH),
        (20_000, "binary", {}, SECOND),
        (20_000, "binary", {"contrastive": True}, BOTH),
        (30, "binary", {"class_weights": True}, BOTH),
        (30, "binary", {"contrastive": False}, SECOND),
        (30, "multilabel", {}, SECOND),
        (30, "binary", {"pairs": "apart"}, SECOND),
        (30, "binary", {"lora": 2}, SECOND),
        (200, "binary", {"epochs": 2}, SECOND),
        (200, "binary", {"epochs": 2, "contrastive": True}, BOTH),
        (30, "binary", {"learning_rate": 1e-4}, SECOND),
    ],
)
def test_the_stages(rows, kind, options, chosen, tmp_path):
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=1))
    messages, data = [], examples(kind, rows)
    data = replace(data, texts_b=data.texts) if "pairs" in options else data
    settings = replace(SETTINGS, **{"contrastive": None, **options})
    separator = "|" if kind == "multilabel" else None
    prepared = prepare(data, None, tmp_path / "start", settings, notify=messages.append, separator=separator)
    assert prepared.stages == chosen
    assert any("There are few rows of each label" in line for line in messages) == (chosen == FIRST)
    assert any("Contrastive training on" in line for line in messages) == (CONTRASTIVE in chosen)
    prevented = chosen == SECOND and {"epochs", "learning_rate"} & set(options)
    assert any("--contrastive adds it" in line for line in messages) == bool(prevented)


def test_a_recipe_with_its_own_training_is_not_contrastive(tmp_path):
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=1))
    settings = replace(SETTINGS, contrastive=None)
    make_model = lambda *arguments: starting_classifier(*arguments)  # noqa: E731
    options = {"make_model": make_model, "notify": lambda _: None}
    assert prepare(examples("binary", 30), None, tmp_path / "start", settings, **options).stages == SECOND


def test_bad_usage(tmp_path):
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=1))
    for kind, start, text in (
        ("regression", tmp_path / "start", "needs one label for each row. Found: a regression task"),
        ("binary", "none", "needs a trained encoder"),
    ):
        with pytest.raises(UserError, match=text):
            finetune_classifier(examples(kind, 30), None, start, SETTINGS, **QUIET)
    with pytest.raises(UserError, match="a --teacher answers single ones"):
        check_contrastive(Task("binary", ("bad", "good"), None, ""), None, teacher="a teacher")
