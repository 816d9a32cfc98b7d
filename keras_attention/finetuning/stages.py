"""The stages of fine-tuning: a linear start, then contrastive training, training on labels, or both."""

import time
from pathlib import Path

import numpy as np

from keras_attention.evaluation.classification_scores import calibrated_loss
from keras_attention.finetuning.calibration import score_of
from keras_attention.finetuning.contrastive import CONTRASTIVE, ON_LABELS, fit_contrastive
from keras_attention.finetuning.label_training import class_weights, fit_classifier
from keras_attention.finetuning.linear_probe import fit_linear
from keras_attention.training.devices import from_chief, workers


def fit(prepared, settings, **running):
    """Trains in one or two stages, see `contrastive.fit_contrastive` and `label_training.fit_classifier`.

    Args:
        prepared: Prepared.
        settings: FinetuneSettings.
        running: checkpoint_dir, resume, restart, log_dir and verbose of `label_training.fit_classifier`.

    Returns:
        TrainResult of the last stage, with the updates and seconds of both.
    """
    first = None
    if CONTRASTIVE in prepared.stages:
        first = fit_encoder(prepared, settings, **running)
    if ON_LABELS not in prepared.stages:
        return first
    model, rows, targets = prepared.classifier.model, prepared.sequences, prepared.targets
    running |= {"validate": validator(prepared), "soft_labels": prepared.soft_labels}
    result = fit_classifier(model, rows, targets, prepared.task.kind, settings, **running)
    if first is None:
        return result
    return result._replace(steps=first.steps + result.steps, seconds=first.seconds + result.seconds)


def fit_encoder(prepared, settings, checkpoint_dir=None, log_dir=None, **running):
    """The contrastive stage of `fit`, with checkpoints and logs of its own."""
    return fit_contrastive(
        prepared.classifier.model,
        prepared.sequences,
        prepared.targets,
        settings,
        refit=lambda: fit_head(prepared, settings),
        validate=validator(prepared),
        held=len(prepared.validation),
        on_labels=ON_LABELS in prepared.stages,
        checkpoint_dir=checkpoint_dir and checkpoint_folders(checkpoint_dir)[0],
        log_dir=log_dir and Path(log_dir) / CONTRASTIVE,
        **running,
    )


def checkpoint_folders(folder):
    """The checkpoint folders of `fit`, one for each stage."""
    folder = Path(folder)
    return folder.with_name(f"{folder.name}_{CONTRASTIVE}"), folder


def fit_head(prepared, settings):
    """Sets the head to a logistic regression on the vectors; returns the seconds spent on the training rows."""
    model, kind, vectors = prepared.classifier.model, prepared.task.kind, prepared.vectors
    held = vectors(prepared.validation_sequences)  # first, because this call compiles
    began = time.perf_counter()
    known = vectors([[sequence] for sequence in prepared.sequences])
    seconds = time.perf_counter() - began
    labels = model.settings["num_labels"]
    weights = class_weights(prepared.targets, kind, labels) if settings.class_weights else None
    held_targets = (prepared.validation_targets - prepared.center) / prepared.spread
    held_targets = held_targets if kind == "regression" else prepared.validation_targets
    linear = fit_linear(known, prepared.targets, kind, labels, held, held_targets, weights)
    for weight, values in ((model.output_dense.kernel, linear.kernel), (model.output_dense.bias, linear.bias)):
        weight.assign(np.reshape(from_chief(values.ravel().tolist()), values.shape) if workers().count > 1 else values)
    return seconds


def validator(prepared):
    """Makes the `validate` of `fit_classifier`, which computes the main score and the loss on the validation rows."""

    def validate(_):
        name, value, loss = held_scores(prepared)
        return {"val_score": value, f"val_{name}": value, "val_loss": loss}

    return validate


def held_scores(prepared):
    """Name and value of the main score on the validation rows, at the best thresholds; and the `calibrated_loss`."""
    targets, kind = prepared.validation_targets, prepared.task.kind
    logits = _held_logits(prepared) * prepared.spread + prepared.center
    return *score_of(logits, targets, prepared.task), calibrated_loss(logits, targets, kind)


def _held_logits(prepared):
    """Logits (N, K) of the validation rows, from the compiled vectors of the linear start if there are any."""
    if prepared.vectors is None:
        return prepared.classifier.logits(prepared.validation_sequences)
    kernel, bias = prepared.classifier.model.output_dense.get_weights()
    return prepared.vectors(prepared.validation_sequences) @ kernel + bias
