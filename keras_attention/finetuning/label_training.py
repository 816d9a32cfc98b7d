"""The training of a classifier on token ids, and its losses; needs neither texts nor TensorFlow."""

import functools
from dataclasses import replace

import numpy as np
from keras import ops
from keras.layers import LayerNormalization

from keras_attention.data.batches import ClassificationBatches, length_of
from keras_attention.finetuning.settings import (
    MANY_ROWS,
    MOST_TOKENS,
    ema_decay_for,
    epochs_for,
    learning_rate_for,
    parts_for,
    patience_for,
    rows_per_batch_for,
)
from keras_attention.support.errors import UserError
from keras_attention.training.devices import from_chief
from keras_attention.training.losses import (
    NO_CLASS,
    class_cross_entropy,
    multilabel_cross_entropy,
    soft_label_loss,
    squared_error,
)
from keras_attention.training.optim import (
    LayerWiseAdamW,
    LinearDecay,
    assign_weights,
    averaged_weights,
    copy_weights,
    layer_factors,
)
from keras_attention.training.run import RunSettings
from keras_attention.training.session import Session


def classification_loss(model, inputs, labels, kind, weights=None, label_smoothing=0.0):
    """The `Loss` of a task of the given kind, see `loss_of_logits`."""
    return loss_of_logits(labels, model(inputs, training=True), kind, weights, label_smoothing)


def loss_of_logits(labels, logits, kind, weights=None, label_smoothing=0.0):
    """The `Loss` of logits (B, K) by the kind of the task, see `label_task.KINDS`."""
    if kind == "regression":
        return squared_error(labels, logits)
    if kind == "multilabel":
        return multilabel_cross_entropy(labels, logits, weights)
    return class_cross_entropy(labels, logits, weights, label_smoothing)


def class_weights(targets, kind, num_labels):
    """A weight for each label, larger for rare ones: N / (K count); in a multilabel task sqrt(no / yes), at least 1.

    Args:
        targets: array by `encode_labels`.
        kind: str, one of `label_task.KINDS`.
        num_labels: int > 0, K.

    Returns:
        List of K floats, or None for a regression.
    """
    if kind == "regression":
        return None
    if kind == "multilabel":
        yes = np.maximum(targets.sum(axis=0), 1)
        return np.sqrt((len(targets) - yes) / yes).clip(1.0).tolist()
    counts = np.bincount(targets, minlength=num_labels)
    return (len(targets) / (len(counts) * np.maximum(counts, 1))).tolist()


def with_soft_labels(targets, soft):
    """The targets of each row, followed by the teacher's logits.

    Args:
        targets: array (N,) or (N, K), see `label_task.encode_labels`.
        soft: float array (N, K), logits or standardized numbers.

    Returns:
        float32 array (N, 1 + K) or (N, 2 K).
    """
    return np.concatenate([targets.reshape(len(targets), -1), soft], axis=1).astype("float32")


def distillation_loss(model, inputs, labels, kind, temperature, alpha, weights=None, label_smoothing=0.0):
    """The `Loss` of a student: a weighted sum of the loss of the labels and the divergence from the teacher.

        loss = (1 - alpha) loss of the labels + alpha temperature^2 KL(teacher / temperature || student / temperature)

    In a multilabel task, KL is summed over the labels, each a binary decision; in a regression, the squared distance
    replaces KL.

    Args:
        model: FinetunableNetwork, see `models.shared`.
        inputs: dict of tensors, the inputs of the network.
        labels: float tensor from `with_soft_labels`; NaN for padding rows.
        kind: str, one of `label_task.KINDS`.
        temperature: float > 0.
        alpha: float in [0, 1].
        weights, label_smoothing: see `loss_of_logits`.

    Source: Hinton et al. (2015), section 2, https://arxiv.org/abs/1503.02531. Unlike DistilBERT (Sanh et al. 2019), the
    hidden states are not compared: teacher and student may have different vocabularies.
    """
    logits = ops.cast(model(inputs, training=True), "float32")  # (B, K)
    count = model.settings["num_labels"]
    given, soft = labels[:, :-count], labels[:, -count:]
    real = ops.logical_not(ops.isnan(soft[:, 0]))  # (B,)
    soft = ops.where(real[:, None], soft, 0.0)  # (B, K)
    if kind == "regression":
        given, apart = given[:, 0], ops.square(logits[:, 0] - soft[:, 0])  # (B,)
    elif kind == "multilabel":
        no_and_yes = (ops.stack([ops.zeros_like(each), each], axis=-1) for each in (logits, soft))  # (B, K, 2)
        apart = ops.sum(soft_label_loss(*no_and_yes, temperature), axis=-1)
    else:
        given = ops.cast(ops.where(real, given[:, 0], NO_CLASS), "int32")
        apart = soft_label_loss(logits, soft, temperature)
    hard = loss_of_logits(given, logits, kind, weights, label_smoothing)
    return hard._replace(total=(1.0 - alpha) * hard.total + alpha * ops.sum(ops.where(real, apart, 0.0)))


BUCKETS = 4  # shapes that XLA compiles, one program each
MANY_BUCKETS = 16  # shapes without XLA, where one graph takes any length


def fit_classifier(
    model,
    rows,
    targets,
    kind,
    settings,
    *,
    soft_labels=None,
    change=None,
    validate=None,
    monitor=None,
    checkpoint_dir=None,
    resume=False,
    restart=False,
    log_dir=None,
    verbose=1,
):
    """Trains the model. With `validate`, the model has the best weights of all validations afterwards, see `best_mix`.

    Args:
        model: FinetunableNetwork, built.
        rows: list of N rows, see `ClassificationBatches`.
        targets: array (N,) or (N, labels), see `label_task.encode_labels`; standardized for a regression.
        kind: str, one of `label_task.KINDS`.
        settings: FinetuneSettings.
        soft_labels: float array (N, K), the logits of a teacher (standardized for a regression), or None.
        change: callable that augments a row, see `ClassificationBatches`, or None.
        validate: callable(model) -> dict of floats with `val_loss` and, in a multilabel task, `val_score`; or None.
        monitor: str, the result of `validate` that determines the best weights; None: see `MONITORS`.
        checkpoint_dir, verbose: see `training.session.Session`.
        resume, restart, log_dir: see `training.run.RunSettings`.

    Returns:
        TrainResult; its best epoch is 0 if the initial model was best.

    Raises:
        UserError: if more layers should be frozen than the model has.
    """
    if verbose and (settings.rows_per_batch or 0) > len(rows):
        print(f"There are only {len(rows):,} rows to train on: each batch has all of them.")
    settings = filled_in(settings, model, len(rows))
    longest = max(map(length_of, rows), default=0) if len(rows) and not isinstance(rows[0], dict) else None
    run = RunSettings(
        accumulate=settings.accumulate or parts_for(settings.rows_per_batch, longest),
        jit_compile=settings.jit_compile,
        resume=resume,
        restart=restart,
        log_dir=log_dir or "",
    )
    session = Session(run, checkpoint_dir=checkpoint_dir, verbose=verbose, unit="rows", words=WORDS)
    frozen = freeze(model, settings)
    try:
        return _fit(model, rows, targets, kind, settings, soft_labels, validate, session, monitor, change)
    finally:
        for layer in frozen:
            layer.trainable = True


# `val_score` is one of these measures again.
WORDS = {"val_accuracy": "validation accuracy", "val_macro-F1": "validation macro-F1", "val_loss": "validation loss"}
WORDS |= {"val_Pearson": "validation Pearson correlation", "val_share": "share of the trained weights"}


def _fit(model, rows, targets, kind, settings, soft_labels, validate, session, monitor=None, change=None):
    buckets = BUCKETS if settings.jit_compile is not False else MANY_BUCKETS
    options = settings.rows_per_batch, buckets, settings.seed, reads_segments(model)
    labels, loss = targets, classification_loss
    if soft_labels is not None:
        labels = with_soft_labels(targets, soft_labels)
        loss = functools.partial(distillation_loss, temperature=settings.temperature, alpha=settings.alpha)
    batches = ClassificationBatches(rows, labels, *options, change=change)
    optimizer = make_optimizer(model, settings, settings.epochs * len(batches.epoch(0)))
    weights = class_weights(targets, kind, model.settings["num_labels"]) if settings.class_weights else None
    loss = functools.partial(loss, kind=kind, weights=weights, label_smoothing=settings.label_smoothing)
    update = session.compile(model, optimizer, loss, clip_norm=1.0, ema_decay=settings.ema_decay or None)
    update.any_length = settings.jit_compile is False and not isinstance(rows[0], dict)  # whose shapes are fixed
    monitor = monitor or MONITORS.get(kind, "val_loss")
    watched = {"monitor": monitor, "patience": settings.patience, "restore_best": True}
    if kind != "regression":
        watched["enough"] = nothing_left_to_learn
    before, found_before = copy_weights(model), None if validate is None else from_chief([validate(model)[monitor]])[0]
    shares = SHARES if learns_from_trained(model) else ONLY_TRAINED
    with session:
        for epoch in session.epochs(batches, settings.epochs, **watched):
            for batch in epoch:
                epoch.record(update(batch))
            if validate:
                with session.averaged_weights():
                    mixed, scores = best_mix(model, before, shares, validate, monitor)
                    with averaged_weights(model, mixed):
                        session.report(**scores)
    result = session.result
    if validate is None or (result.best is not None and _cost(result.best, monitor) < _cost(found_before, monitor)):
        return result
    assign_weights(model, before)
    return result._replace(best=found_before, best_epoch=0)


# On few validation rows, the loss is less noisy than the accuracy. A multilabel task has thresholds, which it ignores.
MONITORS = {"multilabel": "val_score"}


def _cost(value, monitor):
    """A validation result such that lower is better."""
    return value if monitor.endswith("loss") else -value


def nothing_left_to_learn(epoch):
    """Whether the entry of an epoch in the history has a perfect validation score and hardly any loss."""
    return epoch.get("val_score") == 100.0 and epoch["loss"] < NO_LOSS


NO_LOSS = 0.02
SHARES, ONLY_TRAINED = (0.25, 0.5, 0.75, 1.0), (1.0,)


def best_mix(model, before, shares, validate, monitor="val_loss"):
    """Finds the best weights on the line from the initial to the trained weights, by the validation rows.

        weights = before + share (trained - before)

    With few rows of each class, weights in between are often better than both ends.

    Args:
        model: `keras.Model`, trained; its weights are unchanged afterwards.
        before: list of arrays in the order of `model.trainable_variables`.
        shares: list of floats in (0, 1].
        validate: callable(model) -> dict of floats with `monitor`.
        monitor: str. Lower is better if it ends with "loss", otherwise higher.

    Returns:
        The best weights, a list of arrays; and their scores from `validate`, with `val_share` if there are several
        `shares`.

    Source: Wortsman et al. (2022), "Robust fine-tuning of zero-shot models", section 3,
    https://arxiv.org/abs/2109.01903 (WiSE-FT). Difference: validation rows determine the share.
    """
    trained, mixed_scores = copy_weights(model), []

    def mix(share):
        return [start + np.float32(share) * (end - start) for start, end in zip(before, trained, strict=True)]

    for share in shares:
        with averaged_weights(model, mix(share)):
            mixed_scores.append(validate(model) | ({"val_share": share} if len(shares) > 1 else {}))
    costs = [_cost(scores[monitor], monitor) for scores in mixed_scores]
    costs = from_chief(costs)  # so that all workers choose the same
    best = int(np.argmin(costs))
    return mix(shares[best]), mixed_scores[best]


def freeze(model, settings):
    """Freezes the lowest layers, as many as the settings require; returns the frozen layers."""
    groups = model.layer_groups()
    if not groups:
        if settings.freeze:
            raise UserError(f"--freeze needs a network with layers in order. Found: a {type(model).__name__}")
        return []
    embeddings, *layers = groups
    if settings.freeze > len(layers):
        raise UserError(f"--freeze may be at most {len(layers)}, the number of layers. Found: {settings.freeze}")
    layers = [layer for group in layers[: settings.freeze] for layer in group]
    if settings.freeze or settings.freeze_embeddings:  # but not their norm
        layers += [layer for layer in embeddings if not isinstance(layer, LayerNormalization)]
    for layer in layers:
        layer.trainable = False
    return layers


def filled_in(settings, model, num_rows):
    """FinetuneSettings with the defaults that depend on the model and the number of rows."""
    asked = settings.rows_per_batch
    size = min(asked, max(num_rows, 1)) if asked else rows_per_batch_for(num_rows)
    trained = learns_from_trained(model)
    decay = settings.ema_decay
    usual_epochs = getattr(model, "usual_epochs", None) if not trained else None
    if decay is None:
        decay = ema_decay_for(num_rows, size) if trained or usual_epochs else 0.0
    epochs = settings.epochs or (usual_epochs and usual_epochs(num_rows))
    epochs = epochs or epochs_for(num_rows, model.settings["num_labels"], averaged=decay > 0)
    rate = settings.learning_rate or model.usual_learning_rate
    if rate is None:
        sizes = model.settings.get("hidden_dim", 256), model.settings.get("num_layers", 1)
        rate = learning_rate_for(*sizes, averaged=decay > 0, lora=settings.lora is not None)
    patience = settings.patience or patience_for(epochs)
    usual = getattr(model, "usual_tokens", MOST_TOKENS)
    tokens = settings.max_tokens or min(usual, model.settings.get("max_length", usual))
    filled = {"epochs": epochs, "learning_rate": rate, "rows_per_batch": size, "patience": patience, "ema_decay": decay}
    if settings.freeze_embeddings is None:  # random embeddings must be trained
        filled["freeze_embeddings"] = num_rows <= MANY_ROWS and trained
    return replace(settings, **filled, max_tokens=tokens)


def make_optimizer(model, settings, total_steps, learning_rate=None):
    """AdamW with lower rates in lower layers, warm-up and linear decay; no weight decay for biases and norms.

    Args:
        model: FinetunableNetwork.
        settings: FinetuneSettings with its defaults filled in.
        total_steps: int, number of updates.
        learning_rate: float, the peak; default: that of the settings.
    """
    total_steps = max(total_steps, 2)
    warmup = min(int(settings.warmup_share * total_steps), total_steps - 1)
    optimizer = LayerWiseAdamW(
        LinearDecay(learning_rate or settings.learning_rate, warmup, total_steps),
        layer_factors(layers_of(model), settings.layer_decay),
        settings.weight_decay,
        epsilon=1e-6,
    )
    optimizer.exclude_from_weight_decay(var_list=[v for v in model.trainable_variables if len(v.shape) < 2])
    return optimizer


def layers_of(network):
    """The variables of a network in groups from bottom to top: those of the embeddings, then of each layer."""
    return [[v for layer in group for v in layer.trainable_variables] for group in network.layer_groups()]


def learns_from_trained(model):
    """Whether a network has trained weights below a linear head, so that small steps and mixtures of weights suffice.

    Otherwise its head is a larger one, such as BERT's pooler, or fine-tuning has made all of it from random weights.
    """
    return len(model.head) == 1 and not getattr(model, "has_random_weights", False)


def reads_segments(model):
    """Whether the two texts of a pair have different segments for the network."""
    return model.settings.get("num_segments", 0) > 1
