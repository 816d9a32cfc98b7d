"""How a classifier is trained: which weights move how far, which decay, and which weights are kept."""

import numpy as np
import pytest
from keras import ops
from zoo.tiny_bert import TEXTS, tiny_classifier

from keras_attention.data.tables.label_task import Task
from keras_attention.finetuning import label_training
from keras_attention.finetuning.calibration import score_of
from keras_attention.finetuning.label_training import ONLY_TRAINED, SHARES, best_mix, fit_classifier, make_optimizer
from keras_attention.finetuning.settings import FinetuneSettings

SETTINGS = {"learning_rate": 1e-3, "layer_decay": 0.5, "warmup_share": 0.0, "jit_compile": False}


def changes(model, settings, gradient):
    """How far one update with this gradient everywhere moves each trainable variable, relative to the rate."""
    optimizer = make_optimizer(model, settings, total_steps=1_000_003)  # the rate hardly falls in one step
    optimizer.build(model.trainable_variables)
    before = [variable.numpy() for variable in model.trainable_variables]
    optimizer.apply([ops.full(v.shape, gradient) for v in model.trainable_variables], model.trainable_variables)
    return {
        variable.path: (old - variable.numpy()) / settings.learning_rate
        for variable, old in zip(model.trainable_variables, before, strict=True)
    }


def test_each_layer_moves_half_as_far_as_the_one_above():
    model = tiny_classifier().model
    moved = changes(model, FinetuneSettings(**SETTINGS, weight_decay=0.0), gradient=1.0)
    encoder = model.encoder
    expected = {variable.path: 0.5**4 for variable in encoder.trainable_variables}  # embeddings, below three layers
    for i, layer in enumerate(encoder.encoder_layers):
        expected |= {variable.path: 0.5 ** (3 - i) for variable in layer.trainable_variables}
    for path, change in moved.items():
        np.testing.assert_allclose(change, expected.get(path, 1.0), rtol=0.01, err_msg=path)
    assert set(expected) < set(moved)  # the rest is the head


def test_kernels_and_embeddings_decay_but_no_biases_and_norms():
    model = tiny_classifier().model
    for variable in model.trainable_variables:
        variable.assign(ops.ones(variable.shape))
    moved = changes(model, FinetuneSettings(**SETTINGS | {"layer_decay": 1.0}, weight_decay=0.25), gradient=0.0)
    shapes = {variable.path: variable.shape for variable in model.trainable_variables}
    for path, change in moved.items():
        np.testing.assert_allclose(change, 0.25 if len(shapes[path]) > 1 else 0.0, rtol=0.01, err_msg=path)


@pytest.mark.parametrize(("best", "kind"), [(0, "binary"), (2, "binary"), (0, "multilabel"), (2, "multilabel")])
@pytest.mark.slow
def test_the_weights_of_the_best_epoch_are_kept(best, kind):
    """Epoch 0 is the start, before any update."""
    classifier, seen = tiny_classifier(kind, num_layers=1), []
    losses = iter(1.0 if epoch == best else 3.0 for epoch in range(5))

    def validate(model):
        seen.append(model.output_dense.kernel.numpy())
        loss = next(losses)
        return {"val_loss": loss} if kind == "binary" else {"val_loss": 7.0, "val_score": 10 - loss}

    rows = classifier.single_sequences(TEXTS)
    settings = FinetuneSettings(epochs=4, rows_per_batch=4, learning_rate=1e-2, jit_compile=False)
    targets = np.array([0, 1, 1, 0], "int32") if kind == "binary" else np.eye(4, 3, dtype="float32")
    result = fit_classifier(classifier.model, rows, targets, kind, settings, validate=validate, verbose=0)
    assert (result.best, result.best_epoch) == (1.0 if kind == "binary" else 9.0, best)
    np.testing.assert_array_equal(classifier.model.output_dense.kernel.numpy(), seen[best])
    assert np.abs(seen[best] - seen[best + 1]).max() > 1e-4


@pytest.mark.parametrize("monitor", ["val_loss", "val_score"])
@pytest.mark.parametrize(("nearest", "share"), [(0.4, 0.5), (0.6, 0.5), (0.1, 0.25), (1.7, 1.0)])
def test_the_best_mix_of_initial_and_trained_weights_is_found(nearest, share, monitor):
    """The loss, or the negative score, is the distance from a point on the line between both."""
    model = tiny_classifier(num_layers=1).model
    before = [np.ones(v.shape, "float32") for v in model.trainable_variables]
    for variable in model.trainable_variables:
        variable.assign(ops.full(variable.shape, 3.0))

    def validate(model):
        distance = abs(float(model.output_dense.bias.numpy()[0]) - (1 + 2 * nearest))
        return {"val_loss": distance, "val_score": 9.0} if monitor == "val_loss" else {"val_score": -distance}

    weights, scores = best_mix(model, before, SHARES, validate, monitor)
    assert scores["val_share"] == share
    assert abs(scores[monitor]) == pytest.approx(2 * abs(share - nearest))
    for mixed, variable in zip(weights, model.trainable_variables, strict=True):
        np.testing.assert_allclose(mixed, np.full(variable.shape, 1 + 2 * share), atol=1e-6)
        np.testing.assert_array_equal(variable.numpy(), 3.0)  # the training goes on from its own weights


@pytest.mark.slow
@pytest.mark.parametrize("ema_decay", [0.0, 0.5])
def test_the_model_is_the_best_mix_and_mixing_does_not_disturb_the_training(ema_decay, monkeypatch):
    settings = FinetuneSettings(
        epochs=2, rows_per_batch=4, learning_rate=1e-2, jit_compile=False, ema_decay=ema_decay, dropout=0.0
    )
    results = {}
    for shares in (ONLY_TRAINED, SHARES):
        monkeypatch.setattr("keras_attention.finetuning.label_training.SHARES", shares)
        classifier = tiny_classifier(num_layers=1, pooler=False)
        kernel = classifier.model.output_dense.kernel
        start, seen = kernel.numpy(), []

        def validate(_, kernel=kernel, seen=seen):
            seen.append(kernel.numpy())
            return {"val_loss": [9.0, 8.0, 4.0, 6.0, 7.0, 8.0, 3.0, 6.0, 7.0][len(seen) - 1]}

        rows, targets = classifier.single_sequences(TEXTS), np.array([0, 1, 1, 0], "int32")
        result = fit_classifier(classifier.model, rows, targets, "binary", settings, validate=validate, verbose=0)
        results[shares] = [epoch["loss"] for epoch in result.history], seen, start, kernel.numpy()
    assert results[SHARES][0] == results[ONLY_TRAINED][0]
    seen, start = results[SHARES][1:3]
    np.testing.assert_array_equal(results[SHARES][3], seen[6])  # half of the way to the weights of the second epoch
    np.testing.assert_allclose(seen[6], (start + seen[8]) / 2, atol=1e-6)
    assert (result.best, result.best_epoch, result.history[1]["val_share"]) == (3.0, 2, 0.5)
    np.testing.assert_array_equal(results[ONLY_TRAINED][1][1], seen[4])


@pytest.mark.slow
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_class_weights_and_smoothing_reach_the_loss(label_smoothing):
    """The loss of the first epoch, of one batch, is that of the weights before it."""
    classifier = tiny_classifier("multiclass", dropout=0.0, num_layers=1)
    rows, targets = classifier.single_sequences(TEXTS), np.array([0, 0, 0, 2], "int32")
    logits = classifier.logits([[row] for row in rows]).astype("float64")
    options = {"class_weights": True, "label_smoothing": label_smoothing, "rows_per_batch": 4}
    settings = FinetuneSettings(epochs=1, jit_compile=False, **options)
    result = fit_classifier(classifier.model, rows, targets, "multiclass", settings, verbose=0)
    log_p = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    weights = np.array([4 / 9, 4 / 9, 4 / 9, 4 / 3])  # 4 rows / (3 classes * count)
    losses = -(1 - label_smoothing) * log_p[np.arange(4), targets] - label_smoothing * log_p.mean(axis=1)
    assert result.history[0]["loss"] == pytest.approx((weights * losses).sum() / weights.sum(), rel=1e-4)


@pytest.mark.slow
def test_dropout_changes_the_loss_of_the_first_update():
    losses = []
    for dropout in (0.0, 0.5):
        classifier = tiny_classifier(dropout=dropout, num_layers=1)
        settings = FinetuneSettings(epochs=1, rows_per_batch=4, jit_compile=False)
        rows, targets = classifier.single_sequences(TEXTS), np.array([0, 1, 1, 0], "int32")
        losses.append(fit_classifier(classifier.model, rows, targets, "binary", settings, verbose=0).history[0]["loss"])
    assert abs(losses[0] - losses[1]) > 1e-3


@pytest.mark.parametrize("kind", ["multiclass", "multilabel", "regression"])
def test_the_main_score_of_each_task_has_words(kind):
    task = Task(kind, ("a", "b", "c"), None, "")
    targets = {"multiclass": np.array([0, 1, 2]), "multilabel": np.eye(3), "regression": np.array([1.0, 2.0, 5.0])}[
        kind
    ]
    name, _ = score_of(np.eye(3), targets, task)
    assert label_training.WORDS[f"val_{name}"].startswith(f"validation {name}")
