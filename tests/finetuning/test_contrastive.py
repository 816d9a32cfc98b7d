"""Contrastive fine-tuning: its loss in loops, its pairs, and a training after which texts of a label are alike."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from finetuning.test_workflow import QUIET, examples
from zoo.tiny_bert import TEXTS, tiny_classifier, tiny_encoder, write_tiny

from keras_attention.data.tables.label_task import Task
from keras_attention.errors import UserError
from keras_attention.finetuning.contrastive import (
    PAIRS_PER_BATCH,
    PairBatches,
    _best_mix,
    check_contrastive,
    contrastive_loss,
    draw_pairs,
)
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.start import starting_classifier
from keras_attention.finetuning.workflow import finetune_classifier, fit, prepare

SETTINGS = FinetuneSettings(
    epochs=1, max_tokens=17, jit_compile=False, contrastive=True, dropout=0.0, blend="none", learning_rate=3e-3
)


def test_the_loss_in_loops():
    classifier = tiny_classifier(dropout=0.0)
    rows = classifier.single_sequences(TEXTS)
    batch = PairBatches(rows, np.array([0, 1, 1, 0]), 5, 3, with_segments=True).epoch(0)[0]
    labels = batch.pop("labels")
    labels[3] = np.nan  # a pair that only fills up the batch
    loss = contrastive_loss(classifier.model, batch, labels)
    total, right = 0.0, 0
    for pair in (0, 1, 2, 4):
        vectors = []
        for side in ("first", "second"):
            ids = batch[f"{side}_token_ids"][pair]
            length = int((ids > 0).sum())
            inputs = {"token_ids": ids[None, :length], "segment_ids": np.zeros((1, length), "int32")}
            vectors.append(np.asarray(classifier.model.pooled(inputs))[0])
        cosine = vectors[0] @ vectors[1] / np.linalg.norm(vectors[0]) / np.linalg.norm(vectors[1])
        total += (cosine - labels[pair]) ** 2
        right += (cosine > 0.5) == (labels[pair] == 1.0)
    np.testing.assert_allclose([loss.total, loss.count, loss.correct], [total, 4, right], rtol=1e-4)


def test_each_row_has_as_many_partners_of_its_label_as_of_others():
    targets = np.array([0, 0, 1, 1, 1, 2])
    pairs, same = draw_pairs(targets, per_row=7, seed=[3, 0])
    np.testing.assert_array_equal(same == 1.0, targets[pairs[:, 0]] == targets[pairs[:, 1]])
    assert (pairs[:, 0] != pairs[:, 1]).all()
    for row, label in enumerate(targets):
        mine = pairs[:, 0] == row
        assert same[mine].sum() == (7 if label < 2 else 0)  # the only row of label 2 has no partner
        assert (same[mine] == 0).sum() == 7
    again, other = draw_pairs(targets, 7, [3, 0])[0], draw_pairs(targets, 7, [3, 1])[0]
    np.testing.assert_array_equal(pairs, again)
    assert (pairs != other).any()


def test_batches_hold_every_pair_once():
    rows = [SimpleNamespace(token_ids=np.arange(2, 4 + n), segment_ids=np.zeros(2 + n, "int32")) for n in range(5)]
    batches = PairBatches(rows, np.array([0, 1, 0, 1, 1]), 7, 3, with_segments=False)
    epoch = batches.epoch(0)
    found = [epoch[i] for i in range(len(epoch))]
    labels = np.concatenate([batch["labels"] for batch in found])
    count = int((~np.isnan(labels)).sum())
    assert count == 2 * 5 * batches.per_row
    assert len(found) == -(-count // 7)
    assert set(found[0]) == {"labels", "first_token_ids", "second_token_ids"}
    lengths = np.concatenate([(batch["first_token_ids"] > 0).sum(axis=1) for batch in found])[:count]
    assert sorted(set(lengths)) == [2, 3, 4, 5, 6]
    assert PairBatches(rows * 900, np.arange(4500) % 2, 7, 3, False).per_row == 1  # many rows have few pairs each
    long = [SimpleNamespace(token_ids=np.ones(250, "int32"))] * 100
    assert (
        PairBatches(long, np.arange(100) % 2, 7, 3, False).per_row == 10
    )  # a million tokens in 1,000 pairs of each kind


def likeness(prepared):
    """Mean cosine of the vectors of rows with the same label minus that of others."""
    vectors = prepared.vectors([[row] for row in prepared.sequences])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines, targets = vectors @ vectors.T, prepared.targets
    same = targets[:, None] == targets[None]
    return cosines[same].mean() - cosines[~same].mean()


@pytest.mark.slow
def test_texts_of_a_label_become_alike(tmp_path):
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=1))
    said = []
    prepared = prepare(examples("multiclass", 30), None, tmp_path / "start", SETTINGS, say=said.append)
    before, kernel = likeness(prepared), prepared.classifier.model.output_dense.kernel.numpy()
    result = fit(prepared, SETTINGS, verbose=0)
    assert result.steps == -(-2 * len(prepared.sequences) * 20 // PAIRS_PER_BATCH)
    assert result.best_epoch == 1, "the tiny task is learned"
    assert likeness(prepared) > 3 * before > 0
    assert np.abs(prepared.classifier.model.output_dense.kernel.numpy() - kernel).max() > 0
    assert any("pairs" in line for line in said)


@pytest.mark.parametrize(
    ("losses", "held", "share"),
    [
        ([1.0, 1.0, 0.8, 0.9, 1.0], 10, 0.5),
        ([1.0, 1.0, 0.8, 0.9, 1.0], 2, 1.0),  # two rows say little
        ([1.0, 0.9, 0.8, 0.7, 0.5], 10, 0.0),
        ([0.5, 0.5, 0.5, 0.5, 0.5], 900, 1.0),
    ],
)
def test_the_mix_is_chosen_by_the_loss_and_a_prior(losses, held, share):
    model = SimpleNamespace(weights=[np.array([3.0, 7.0])])
    model.get_weights, model.set_weights = lambda: model.weights, lambda weights: setattr(model, "weights", weights)
    fitted, seen = [], iter(losses)
    validate = lambda _: {"val_loss": next(seen), "val_score": fitted[-1][0]}  # noqa: E731
    before = [np.array([1.0, 1.0])]
    assert _best_mix(model, before, lambda: fitted.append(model.weights[0]), validate, held) == (share, 1 + 2 * share)
    np.testing.assert_allclose(model.weights[0], [1 + 2 * share, 1 + 6 * share])
    assert len(fitted) == 5


@pytest.mark.slow
def test_a_training_that_harms_is_undone(tmp_path, monkeypatch):
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=1))
    prepared = prepare(examples("binary", 20), None, tmp_path / "start", SETTINGS, say=lambda _: None)
    losses, before = iter([9.0, 8.0, 7.0, 6.0, 2.0]), prepared.classifier.model.get_weights()
    monkeypatch.setattr(
        "keras_attention.finetuning.workflow._held_scores", lambda _: ("accuracy", loss := next(losses), loss)
    )
    result = fit(prepared, SETTINGS, verbose=0)
    assert (result.best, result.best_epoch) == (2.0, 0)
    for ours, theirs in zip(prepared.classifier.model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("rows", "kind", "options", "chosen"),
    [
        (30, "binary", {}, True),
        (200, "binary", {}, False),
        (200, "binary", {"contrastive": True}, True),
        (30, "binary", {"contrastive": False}, False),
        (30, "multilabel", {}, False),
        (30, "binary", {"pairs": "apart"}, False),
        (30, "binary", {"lora": 2}, False),
        (30, "binary", {"epochs": 2}, False),
    ],
)
def test_it_is_the_default_for_few_rows(rows, kind, options, chosen, tmp_path):
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=1))
    said, data = [], examples(kind, rows)
    data = replace(data, texts_b=data.texts) if "pairs" in options else data
    settings = replace(SETTINGS, **{"contrastive": None, "epochs": None, "learning_rate": None, **options})
    separator = "|" if kind == "multilabel" else None
    prepared = prepare(data, None, tmp_path / "start", settings, say=said.append, separator=separator)
    assert prepared.contrastive == chosen
    told = any("There are few rows of each label" in line for line in said)
    assert told == (chosen and not options)


def test_a_recipe_with_its_own_training_is_not_contrastive(tmp_path):
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=1))
    settings = replace(SETTINGS, contrastive=None, epochs=None, learning_rate=None)
    make_model = lambda *arguments: starting_classifier(*arguments)  # noqa: E731
    options = {"make_model": make_model, "say": lambda _: None}
    assert not prepare(examples("binary", 30), None, tmp_path / "start", settings, **options).contrastive


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
