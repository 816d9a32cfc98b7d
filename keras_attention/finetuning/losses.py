"""The losses of fine-tuning: by the kind of the task, from the labels alone or with the answers of a teacher."""

import numpy as np
from keras import ops

from keras_attention.training.objective import (
    NO_CLASS,
    class_cross_entropy,
    multilabel_cross_entropy,
    soft_label_loss,
    squared_error,
)


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


def with_soft_labels(targets, soft):
    """The targets of each row, and behind them what the teacher answers.

    Args:
        targets: array (N,) or (N, K), see `label_task.encode_labels`.
        soft: float array (N, K), logits or standardized numbers.

    Returns:
        float32 array (N, 1 + K) or (N, 2 K).
    """
    return np.concatenate([targets.reshape(len(targets), -1), soft], axis=1).astype("float32")


def distillation_loss(model, inputs, labels, kind, temperature, alpha, weights=None, label_smoothing=0.0):
    """The `Loss` of a student: that of the labels, and that of the teacher's answers.

        loss = (1 - alpha) loss of the labels + alpha temperature^2 KL(teacher / temperature || student / temperature)

    Each of several labels is a question of its own; of a number, the squared distance takes the place of KL.

    Args:
        model: BertClassifier.
        inputs: dict, see `BertEncoder`.
        labels: float tensor by `with_soft_labels`; rows that only fill up a batch are NaN.
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
