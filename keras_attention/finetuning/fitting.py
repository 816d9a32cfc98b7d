"""The training of a classifier on rows of ids: needs neither texts nor TensorFlow."""

from dataclasses import replace

from keras_attention.data.tables.classification_batches import ClassificationBatches
from keras_attention.finetuning.examples import class_weights
from keras_attention.finetuning.settings import (
    epochs_for,
    learning_rate_for,
    max_tokens_for,
    patience_for,
    rows_per_batch_for,
)
from keras_attention.training.class_losses import class_loss, multilabel_loss, squared_error
from keras_attention.training.layer_wise_adam import LayerWiseAdamW, layer_factors
from keras_attention.training.schedules import LinearDecay
from keras_attention.training.trainer import train

BUCKETS = 4


def fit_classifier(model, rows, targets, kind, settings, *, validate=None, **running):
    """Trains the model; where there is a validation, its best epoch is kept.

    Args:
        model: BertClassifier, built.
        rows: list of N objects with `token_ids` and `segment_ids`, int arrays.
        targets: array (N,) or (N, labels), see `label_task.encode_labels`; of a regression around 0.
        kind: str, one of `label_task.KINDS`.
        settings: FinetuneSettings.
        validate: callable(model) -> dict with `val_score`, the more the better; or None.
        running: checkpoint_dir, resume, restart, log_dir and verbose of `training.train`.

    Returns:
        TrainResult.
    """
    settings = filled_in(settings, model, len(rows))
    options = settings.rows_per_batch, BUCKETS, settings.seed, model.encoder.num_segments > 1
    batches = ClassificationBatches(rows, targets, *options)
    watched = {"monitor": "val_score", "mode": "max", "patience": settings.patience, "restore_best": True}
    return train(
        model,
        make_optimizer(model, settings, settings.epochs * len(batches.epoch(0))),
        batches,
        epochs=settings.epochs,
        loss=_loss(kind, targets, model.settings["num_labels"], settings),
        clip_norm=1.0,
        accumulate=settings.accumulate,
        validate=validate,
        jit_compile=settings.jit_compile is not False,
        unit="rows",
        **(watched if validate else {}),
        **running,
    )


def filled_in(settings, model, num_rows):
    """FinetuneSettings with the defaults that depend on the model and the number of rows."""
    epochs = settings.epochs or epochs_for(num_rows)
    rate = settings.learning_rate or learning_rate_for(model.encoder.hidden_dim)
    size = settings.rows_per_batch or rows_per_batch_for(num_rows)
    patience = settings.patience or patience_for(epochs)
    tokens = settings.max_tokens or max_tokens_for(model.settings["max_length"])
    filled = {"epochs": epochs, "learning_rate": rate, "rows_per_batch": size, "patience": patience}
    return replace(settings, **filled, max_tokens=tokens)


def make_optimizer(model, settings, total_steps):
    """AdamW with smaller steps in lower layers, warm-up and linear decay; biases and norms do not decay."""
    encoder = model.encoder
    above = {
        id(v) for layer in (*encoder.encoder_layers, encoder.final_norm) if layer for v in layer.trainable_variables
    }
    embeddings = [v for v in encoder.trainable_variables if id(v) not in above]
    layers = [embeddings, *(layer.trainable_variables for layer in encoder.encoder_layers)]
    total_steps = max(total_steps, 2)
    warmup = min(int(settings.warmup_share * total_steps), total_steps - 1)
    optimizer = LayerWiseAdamW(
        LinearDecay(settings.learning_rate, warmup, total_steps),
        layer_factors(layers, settings.layer_decay),
        settings.weight_decay,
        epsilon=1e-6,
    )
    optimizer.exclude_from_weight_decay(var_list=[v for v in model.trainable_variables if len(v.shape) < 2])
    return optimizer


def _loss(kind, targets, num_labels, settings):
    weights = class_weights(targets, kind, num_labels) if settings.class_weights else None
    if kind == "regression":
        return squared_error
    if kind == "multilabel":
        return multilabel_loss(weights)
    return class_loss(weights, settings.label_smoothing)
