"""After training: calibrates the probabilities, and blends in a bag of words if it is as good as the network."""

from typing import Any, NamedTuple

import numpy as np

from keras_attention.data.tables.label_task import Task
from keras_attention.evaluation import classification_scores as measures
from keras_attention.evaluation.bag_of_words import Blend, best_weight, fit_bag_of_words
from keras_attention.evaluation.classification_scores import temperature
from keras_attention.finetuning.contrastive import CONTRASTIVE, ON_LABELS
from keras_attention.finetuning.label_training import filled_in
from keras_attention.finetuning.linear_probe import fit_linear
from keras_attention.finetuning.lora import merge_adapters
from keras_attention.pipelines.base import make_pipeline
from keras_attention.training.devices import in_float32
from keras_attention.training.history import TrainResult


class Finetuned(NamedTuple):
    """The result of fine-tuning.

    Attributes:
        classifier: Classifier.
        task: Task.
        train, validation: Examples, after the split.
        result: TrainResult.
        settings: dict, the FinetuneSettings with their defaults filled in.
        words: BagOfWords, trained on the same rows.
        blend_reason: str, the reason for blending with it, or None.
    """

    classifier: Any
    task: Task
    train: object
    validation: object
    result: TrainResult
    settings: dict
    words: object = None
    blend_reason: str | None = None


def finish(prepared, result, settings):
    """Calibrates a trained model, and blends it with a bag of words if that is as good.

    Args:
        prepared: Prepared, whose model is trained.
        result: TrainResult.
        settings: FinetuneSettings.

    Returns:
        Finetuned.
    """
    classifier, rows = prepared.classifier, prepared.rows
    merge_adapters(classifier.model)
    _rescale_output(classifier.model.head[-1], rows.spread, rows.center)
    if settings.mixed_precision:  # scored in float32, as it will be loaded
        model = in_float32(classifier.model)
        classifier = make_pipeline(model, classifier.tokenizers, classifier.described())
    train, task = rows.train, rows.task
    if classifier.input.is_file:
        words, rule = LinearOnArrays(prepared), None
    else:
        words = fit_bag_of_words(train.texts, train.texts_b, train.targets(task), task.kind, rows.num_labels)
        rule = where_as_good if settings.blend == "auto" else None
    logits = classifier.logits(prepared.validation_sequences)
    reason = calibrate(classifier, logits, words, rows, rule)
    filled = vars(filled_in(settings, classifier.model, len(prepared.sequences)))
    filled = {**filled, "contrastive": CONTRASTIVE in prepared.stages}
    if ON_LABELS not in prepared.stages:
        filled["epochs"] = None
    return Finetuned(classifier, task, train, rows.validation, result, filled, words, reason)


class LinearOnArrays:
    """The baseline for inputs without words: logistic or ridge regression on the arrays that the network reads.

    Args:
        prepared: Prepared.
    """

    def __init__(self, prepared):
        rows = prepared.rows
        self._classifier = prepared.classifier
        held = self._flat(row for (row,) in prepared.validation_sequences)
        held_targets = rows.standardized(rows.validation_targets)
        given = self._flat(prepared.sequences), rows.targets, rows.task.kind, rows.num_labels
        self._linear, self._rows = fit_linear(*given, held, held_targets), rows

    def logits(self, inputs, second=None):
        """Float array (N, K) for a list of N inputs."""
        logits = self._linear.logits(self._flat(self._classifier.single_sequences(inputs)))
        return logits * self._rows.spread + self._rows.center

    def _flat(self, rows):
        return np.stack([np.concatenate([array.ravel() for array in row.values()]) for row in rows])


def calibrate(classifier, logits, words, held, rule=None):
    """Determines the temperature, the bag of words and the thresholds of a classifier on held-out rows.

    Args:
        classifier: Classifier, changed.
        logits: float array (N, K), of its network for these rows.
        words: BagOfWords.
        held: TrainingRows, or another object with `task`, `validation` and `validation_targets`.
        rule: callable(logits, logits of the words, held) -> (weight of the words, reason for blending them in, or
            None); without a rule, they are not blended in.

    Returns:
        str, the reason for blending the words in, or None.
    """
    texts, reason = held.validation, None
    logits, cooled = _calibrated(logits, held)
    _rescale_output(classifier.model.head[-1], 1 / cooled)
    if rule:
        word_logits, cooled = _calibrated(words.logits(texts.texts, texts.texts_b), held)
        weight, reason = rule(logits, word_logits, held)
        if reason:
            logits, again = _calibrated((1 - weight) * logits + weight * word_logits, held)
            _rescale_output(classifier.model.head[-1], 1 / again)
            classifier.blend = Blend(words.scaled(1 / (cooled * again)).stored(), weight)
    if held.task.kind == "multilabel":
        probabilities = measures.predictions(logits, held.task).values
        classifier.task["threshold"] = measures.best_thresholds(held.validation_targets, probabilities)
    return reason


def _calibrated(logits, held):
    """Logits divided by the best temperature for the validation rows, and that temperature; 1 for a regression."""
    kind = held.task.kind
    cooled = 1.0 if kind == "regression" else temperature(logits, held.validation_targets, kind)
    return logits / cooled, cooled


def where_as_good(logits, word_logits, held):
    """The best weight of the words on the validation rows, and the reason for blending them in, or None.

    The words are blended in if their score is at most one standard error below the network's, and the blend's score is
    not below the network's. If the words alone are better than the network and the blend, their weight is 1, so that no
    model is worse than its bag of words.
    """
    targets, task = held.validation_targets, held.task
    weight = best_weight(logits, word_logits, targets, task.kind)
    (name, network), (_, alone), (_, both) = (
        score_of(found, targets, task) for found in (logits, word_logits, (1 - weight) * logits + weight * word_logits)
    )
    weight, both = (1.0, alone) if alone > max(network, both) else (weight, both)
    share = min(max(network / 100, 0.0), 1.0)
    margin = 100 * float(np.sqrt(share * (1 - share) / len(targets)))
    if weight == 0 or alone < network - margin or both < network:
        return weight, None
    return weight, (
        f"On the validation rows, a bag of words reaches {name} {alone:.1f} and the network {network:.1f}. The model "
        f"averages both, with a weight of {100 * weight:.0f} % for the bag of words, and reaches {both:.1f}."
    )


def score_of(logits, targets, task):
    """Name and value of the main score of logits; for a multilabel task, at the best thresholds."""
    found = measures.predictions(logits, task)
    if task.kind == "multilabel":
        found = measures.predictions(logits, task, measures.best_thresholds(targets, found.values))
    return next(iter(measures.scores(targets, found, task).items()))


def _rescale_output(dense, spread, center=0.0):
    """Changes a dense layer that predicts (number - center) / spread so that it predicts the number itself."""
    dense.kernel.assign(dense.kernel * spread)
    dense.bias.assign(dense.bias * spread + center)
