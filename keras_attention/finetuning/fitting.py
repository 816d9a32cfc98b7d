"""The training of a classifier on rows of ids: needs neither texts nor TensorFlow."""

import functools
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
from keras_attention.training.objective import class_cross_entropy, multilabel_cross_entropy, squared_error
from keras_attention.training.optim import LayerWiseAdamW, LinearDecay, layer_factors
from keras_attention.training.run_settings import RunSettings
from keras_attention.training.session import Session

BUCKETS = 4


def fit_classifier(
    model,
    rows,
    targets,
    kind,
    settings,
    *,
    validate=None,
    checkpoint_dir=None,
    resume=False,
    restart=False,
    log_dir=None,
    verbose=1,
):
    """Trains the model; where there is a validation, its best epoch is kept.

    Args:
        model: BertClassifier, built.
        rows: list of N objects with `token_ids` and `segment_ids`, int arrays.
        targets: array (N,) or (N, labels), see `label_task.encode_labels`; of a regression around 0.
        kind: str, one of `label_task.KINDS`.
        settings: FinetuneSettings.
        validate: callable(model) -> dict with `val_score`, the more the better; or None.
        checkpoint_dir, verbose: see `training.session.Session`.
        resume, restart, log_dir: see `training.run_settings.RunSettings`.

    Returns:
        TrainResult.
    """
    settings = filled_in(settings, model, len(rows))
    options = settings.rows_per_batch, BUCKETS, settings.seed, model.encoder.num_segments > 1
    batches = ClassificationBatches(rows, targets, *options)
    run = RunSettings(
        accumulate=settings.accumulate,
        jit_compile=settings.jit_compile,
        resume=resume,
        restart=restart,
        log_dir=log_dir or "",
    )
    session = Session(run, checkpoint_dir=checkpoint_dir, verbose=verbose, unit="rows")
    optimizer = make_optimizer(model, settings, settings.epochs * len(batches.epoch(0)))
    weights = class_weights(targets, kind, model.settings["num_labels"]) if settings.class_weights else None
    loss = functools.partial(classification_loss, kind=kind, weights=weights, label_smoothing=settings.label_smoothing)
    update = session.compile(model, optimizer, loss, clip_norm=1.0)
    watched = {"monitor": "val_score", "patience": settings.patience, "restore_best": True}
    with session:
        for epoch in session.epochs(batches, settings.epochs, **watched):
            for batch in epoch:
                epoch.record(update(batch))
            if validate:
                session.report(**validate(model))
    return session.result


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
    total_steps = max(total_steps, 2)
    warmup = min(int(settings.warmup_share * total_steps), total_steps - 1)
    optimizer = LayerWiseAdamW(
        LinearDecay(settings.learning_rate, warmup, total_steps),
        layer_factors(layers_of(model.encoder), settings.layer_decay),
        settings.weight_decay,
        epsilon=1e-6,
    )
    optimizer.exclude_from_weight_decay(var_list=[v for v in model.trainable_variables if len(v.shape) < 2])
    return optimizer


def layers_of(encoder):
    """The variables of a BertEncoder, a list of lists: those of the embeddings, then those of each layer upwards."""
    above = {
        id(v) for layer in (*encoder.encoder_layers, encoder.final_norm) if layer for v in layer.trainable_variables
    }
    embeddings = [v for v in encoder.trainable_variables if id(v) not in above]
    return [embeddings, *(layer.trainable_variables for layer in encoder.encoder_layers)]


def classification_loss(model, inputs, labels, kind, weights=None, label_smoothing=0.0):
    """The `Loss` of a task of the given kind, see `label_task.KINDS`."""
    logits = model(inputs, training=True)  # (B, K)
    if kind == "regression":
        return squared_error(labels, logits)
    if kind == "multilabel":
        return multilabel_cross_entropy(labels, logits, weights)
    return class_cross_entropy(labels, logits, weights, label_smoothing)
