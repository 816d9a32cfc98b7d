"""`finetune`: rows in, a classifier out."""

from typing import NamedTuple

import keras
import numpy as np

from keras_attention.data.classification_batches import ClassificationBatches
from keras_attention.data.label_task import Task, find_task
from keras_attention.data.split import split_validation
from keras_attention.errors import UserError
from keras_attention.finetuning import measures
from keras_attention.finetuning.examples import class_weights
from keras_attention.finetuning.settings import epochs_for, learning_rate_for
from keras_attention.finetuning.start import starting_classifier
from keras_attention.training.acceleration import in_float32
from keras_attention.training.class_losses import class_loss, multilabel_loss, squared_error
from keras_attention.training.layer_wise_adam import LayerWiseAdamW, layer_factors
from keras_attention.training.schedules import LinearDecay
from keras_attention.training.trainer import TrainResult, train
from keras_attention.zoo.classifier import Classifier
from keras_attention.zoo.text_rows import text_rows

BUCKETS = 4


class Finetuned(NamedTuple):
    """What a fine-tuning gives.

    Attributes:
        classifier: Classifier.
        task: Task.
        train, validation: Examples, after the split.
        result: TrainResult.
        settings: dict, the FinetuneSettings with their defaults filled in.
    """

    classifier: Classifier
    task: Task
    train: object
    validation: object
    result: TrainResult
    settings: dict


def finetune_classifier(
    examples,
    validation,
    start,
    settings,
    *,
    test=None,
    task=None,
    separator=None,
    validation_share=0.1,
    say=print,
    **running,
):
    """Trains a classifier and keeps the weights of its best epoch.

    Args:
        examples: Examples to train on.
        validation: Examples to choose the epoch by, or None: a share of `examples` is held out.
        start: str or Path, the entry to start from, or "none".
        settings: FinetuneSettings. What they leave open is as everywhere: float32 and XLA; `start.accelerated` chooses
            for the device.
        test: Examples that will be asked later, or None; a label that none of them may have is told of at once.
        task: str or None, see `label_task.find_task`; None finds it.
        separator: str or None, between the labels of a multilabel row.
        validation_share: float in (0, 1), used where `validation` is None.
        say: callable(str), told what was found and decided.
        running: checkpoint_dir, resume, restart, log_dir and verbose of `training.train`.

    Returns:
        Finetuned.

    Raises:
        UserError: if the labels make no task, a label of `validation` or `test` is unknown, only some of them are
            pairs, or `start` cannot be used.
    """
    try:
        task = find_task(examples.labels, task=task, separator=separator)
    except UserError as error:
        raise UserError(f"{examples.where}: {error}") from error
    say(f"Task: {task.kind} ({task.because})")
    keras.utils.set_random_seed(settings.seed)
    if validation is None:
        texts = examples.texts if examples.texts_b is None else list(zip(examples.texts, examples.texts_b, strict=True))
        kept, held = split_validation(examples.labels, validation_share, settings.seed, texts=texts)
        examples, validation = examples.some(kept), examples.some(held)
        if task.kind in ("binary", "multiclass") and len(set(examples.labels)) < 2:
            raise UserError(
                f"{examples.where}: with {len(validation)} rows held out for validation, all others are "
                f"{examples.labels[0]!r}. Expected: rows of each label to train on. Add rows, or give a --validation."
            )
    _check_same_columns(examples, validation, test)
    targets, validation_targets, _ = ([] if one is None else one.targets(task) for one in (examples, validation, test))
    num_labels = max(1, len(task.label_names))
    model, tokenizer = starting_classifier(start, num_labels, settings, [*examples.texts, *(examples.texts_b or ())])
    classifier = Classifier(model, tokenizer, settings.max_tokens, task=_task_settings(task, examples))
    rows = _rows(classifier, examples, "train", say)
    validation_rows = _rows(classifier, validation, "validation", say)
    center, spread = _standard(targets, task)
    batches = ClassificationBatches(
        rows, (targets - center) / spread if task.kind == "regression" else targets,
        settings.rows_per_batch, BUCKETS, settings.seed, model.encoder.num_segments > 1,
    )  # fmt: skip
    epochs = settings.epochs or epochs_for(len(rows))
    rate = settings.learning_rate or learning_rate_for(model.encoder.hidden_dim)
    say(
        f"{len(examples):,} rows to train on, {len(validation):,} to validate with, {model.count_params():,} parameters"
    )

    result = train(
        model,
        make_optimizer(model, rate, settings, epochs * len(batches.epoch(0))),
        batches,
        epochs=epochs,
        loss=_loss(task, targets, settings),
        clip_norm=1.0,
        accumulate=settings.accumulate,
        validate=_validator(classifier, task, validation_rows, validation_targets, spread, center),
        monitor="val_score",
        mode="max",
        patience=settings.patience,
        restore_best=True,
        jit_compile=settings.jit_compile is not False,
        unit="rows",
        **running,
    )
    _rescale_output(model.output_dense, spread, center)
    if settings.mixed_precision:  # scored as it will be loaded
        classifier = Classifier(in_float32(model), tokenizer, settings.max_tokens, task=classifier.task)
    if task.kind == "multilabel":
        logits = np.stack([logits for (logits,) in classifier.compiled.run(validation_rows)])
        classifier.task["threshold"] = measures.best_threshold(validation_targets, logits, task)
    filled = {**vars(settings), "epochs": epochs, "learning_rate": rate}
    return Finetuned(classifier, task, examples, validation, result, filled)


def make_optimizer(model, rate, settings, total_steps):
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
        LinearDecay(rate, warmup, total_steps),
        layer_factors(layers, settings.layer_decay),
        settings.weight_decay,
        epsilon=1e-6,
    )
    optimizer.exclude_from_weight_decay(var_list=[v for v in model.trainable_variables if len(v.shape) < 2])
    return optimizer


def _task_settings(task, examples):
    """The task as config.json has it, see `schema.TASK`."""
    return {
        "kind": task.kind,
        "label_names": list(task.label_names),
        "separator": task.separator,
        "threshold": 0.5,
        "pair": examples.texts_b is not None,
    }


def _rows(classifier, examples, what, say):
    """The ids of the examples; says how many are cut."""
    sides = examples.texts, examples.texts_b
    rows = text_rows(classifier.tokenizer, *sides, max_tokens=classifier.max_tokens, warn=False)
    cut = sum(row.truncated for row in rows)
    if cut:
        say(f"{cut:,} of {len(rows):,} {what} rows have more than {classifier.max_tokens} tokens and lose their end")
    return rows


def _standard(targets, task):
    """Mean and spread of the numbers of a regression, which is trained on numbers around 0."""
    if task.kind != "regression":
        return 0.0, 1.0
    return float(np.mean(targets)), float(np.std(targets)) or 1.0


def _check_same_columns(examples, *others):
    """Raises UserError if some examples are pairs and others are single texts."""
    for other in others:
        if other is not None and (other.texts_b is None) != (examples.texts_b is None):
            raise UserError(f"{examples.where} and {other.where} must both hold pairs, or both single texts.")


def _validator(classifier, task, rows, targets, spread, center):
    """A callable for `train`: the main score on the rows, of a multilabel task at its best threshold."""

    def validate(_):
        logits = np.stack([logits for (logits,) in classifier.compiled.run(rows)]) * spread + center
        found = measures.predictions(logits, task, measures.best_threshold(targets, logits, task))
        name, value = next(iter(measures.scores(targets, found, task).items()))
        return {"val_score": value, f"val_{name}": value}

    return validate


def _rescale_output(dense, spread, center):
    """Lets a dense layer, trained on (number - center) / spread, give the number itself."""
    dense.kernel.assign(dense.kernel * spread)
    dense.bias.assign(dense.bias * spread + center)


def _loss(task, targets, settings):
    weights = class_weights(targets, task) if settings.class_weights else None
    if task.kind == "regression":
        return squared_error
    if task.kind == "multilabel":
        return multilabel_loss(weights)
    return class_loss(weights, settings.label_smoothing)
