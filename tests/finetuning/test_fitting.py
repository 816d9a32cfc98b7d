"""How a classifier is trained: which weights move how far, which decay, and which epoch is kept."""

import numpy as np
import pytest
from keras import ops
from zoo.tiny_bert import TEXTS, tiny_classifier

from keras_attention.finetuning.fitting import fit_classifier, make_optimizer
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


@pytest.mark.parametrize("best", [pytest.param(0, marks=pytest.mark.slow), 2])
@pytest.mark.slow
def test_the_weights_of_the_best_epoch_are_kept(best):
    """Epoch 0 is the start, before any update."""
    classifier, seen = tiny_classifier(num_layers=1), []
    scores = iter(3.0 if epoch == best else 1.0 for epoch in range(5))

    def validate(model):
        seen.append(model.output_dense.kernel.numpy())
        return {"val_score": next(scores)}

    rows = classifier.single_sequences(TEXTS)
    settings = FinetuneSettings(epochs=4, rows_per_batch=4, learning_rate=1e-2, jit_compile=False)
    targets = np.array([0, 1, 1, 0], "int32")
    result = fit_classifier(classifier.model, rows, targets, "binary", settings, validate=validate, verbose=0)
    assert (result.best, result.best_epoch) == (3.0, best)
    np.testing.assert_array_equal(classifier.model.output_dense.kernel.numpy(), seen[best])
    assert np.abs(seen[best] - seen[best + 1]).max() > 1e-4


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
