"""Fine-tuning step by step: rows in, a classifier out."""

from contextlib import nullcontext
from typing import NamedTuple

import keras
import numpy as np

from keras_attention.data.tables.label_task import Task, find_task
from keras_attention.data.tables.split import split_validation
from keras_attention.errors import UserError
from keras_attention.evaluation import classification_scores as measures
from keras_attention.finetuning.before_training import check_label_names, check_saveable
from keras_attention.finetuning.examples import Examples
from keras_attention.finetuning.fitting import filled_in, fit_classifier
from keras_attention.finetuning.report import make_report, write_classifier
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.start import starting_classifier
from keras_attention.pipelines.classifier import Classifier
from keras_attention.pipelines.text_rows import LOST
from keras_attention.training.devices import in_float32
from keras_attention.training.result import TrainResult
from keras_attention.training.run_facts import run_facts
from keras_attention.zoo.place import entry_reserved


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


class Prepared(NamedTuple):
    """What is trained on, and what the result is made of.

    Attributes:
        classifier: Classifier, untrained.
        task: Task.
        train, validation: Examples, after the split.
        rows: list of Row.
        validation_rows: list of lists of Row, see `Classifier.rows`.
        targets, validation_targets: arrays, see `label_task.encode_labels`; `targets` of a regression are standardized.
        center, spread: floats, mean and standard deviation of the numbers of a regression, else 0 and 1.
    """

    classifier: Classifier
    task: Task
    train: object
    validation: object
    rows: list
    validation_rows: list
    targets: np.ndarray
    validation_targets: np.ndarray
    center: float
    spread: float


def finetune_classifier(examples, validation, start, settings, *, say=print, **options):
    """Trains a classifier and keeps the weights of its best epoch.

    Args:
        examples, validation, start, settings, say: see `prepare`.
        options: test, task, separator and validation_share of `prepare`; checkpoint_dir, resume, restart, log_dir and
            verbose of `fitting.fit_classifier`.

    Returns:
        Finetuned.

    Raises:
        UserError: see `prepare`.
    """
    preparing = {
        name: options.pop(name) for name in ("test", "task", "separator", "validation_share") if name in options
    }
    prepared = prepare(examples, validation, start, settings, say=say, **preparing)
    return finish(prepared, fit(prepared, settings, **options), settings)


def prepare(
    examples,
    validation,
    start,
    settings,
    *,
    test=None,
    task=None,
    separator=None,
    validation_share=0.1,
    make_model=starting_classifier,
    say=print,
):
    """Finds the task, sets rows for validation aside, builds the classifier and encodes the texts.

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
        make_model: callable with the arguments and results of `start.starting_classifier`.
        say: callable(str), told what was found and decided.

    Returns:
        Prepared.

    Raises:
        UserError: if the labels make no task, a label of `validation` or `test` is unknown, only some of them are
            pairs, or `start` cannot be used.
    """
    try:
        task = find_task(examples.labels, task=task, separator=separator)
    except UserError as error:
        raise UserError(f"{examples.where}: {error}") from error
    check_label_names(task, examples)
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
    model, tokenizer = make_model(start, num_labels, settings, [*examples.texts, *(examples.texts_b or ())])
    max_tokens = filled_in(settings, model, len(examples.texts)).max_tokens
    classifier = Classifier(model, tokenizer, max_tokens, task=_task_settings(task, examples, settings))
    check_saveable(classifier)
    rows = _train_rows(classifier, examples, say)
    validation_rows = classifier.rows(validation.texts, validation.texts_b)
    center, spread = _standard(targets, task)
    targets = (targets - center) / spread if task.kind == "regression" else targets
    say(
        f"{len(examples):,} rows to train on, {len(validation):,} to validate with, {model.count_params():,} parameters"
    )
    return Prepared(
        classifier, task, examples, validation, rows, validation_rows, targets, validation_targets, center, spread
    )


def fit(prepared, settings, **running):
    """Trains, and validates after each epoch; see `fitting.fit_classifier`."""
    model, task = prepared.classifier.model, prepared.task
    return fit_classifier(
        model, prepared.rows, prepared.targets, task.kind, settings, validate=validator(prepared), **running
    )


def finish(prepared, result, settings):
    """Makes of a trained model what is reported, written and used.

    Args:
        prepared: Prepared, whose model is trained.
        result: TrainResult.
        settings: FinetuneSettings.

    Returns:
        Finetuned.
    """
    classifier, task = prepared.classifier, prepared.task
    _rescale_output(classifier.model.output_dense, prepared.spread, prepared.center)
    if settings.mixed_precision:  # scored as it will be loaded
        model = in_float32(classifier.model)
        classifier = Classifier(model, classifier.tokenizer, classifier.max_tokens, task=classifier.task)
    if task.kind == "multilabel":
        logits = classifier.logits(prepared.validation_rows)
        probabilities = measures.predictions(logits, task).values
        classifier.task["threshold"] = measures.best_thresholds(prepared.validation_targets, probabilities)
    filled = vars(filled_in(settings, classifier.model, len(prepared.rows)))
    return Finetuned(classifier, task, prepared.train, prepared.validation, result, filled)


def _task_settings(task, examples, settings):
    """The task as config.json has it, see `schema.TASK`."""
    return {
        "kind": task.kind,
        "label_names": list(task.label_names),
        "separator": task.separator,
        "threshold": 0.5,
        "pair": examples.texts_b is not None,
        "long_texts": settings.long_texts,
    }


def _train_rows(classifier, examples, say):
    """One row of ids for each example; says how many are cut."""
    rows = classifier.single_rows(examples.texts, examples.texts_b)
    cut = sum(row.truncated for row in rows)
    if cut:
        lost = LOST[classifier.long_texts]
        say(f"{cut:,} of {len(rows):,} train rows have more than {classifier.max_tokens} tokens and lose their {lost}")
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


def validator(prepared):
    """A callable for `fit_classifier`: the main score on the rows, of a multilabel task at its best thresholds."""
    rows, targets, task = prepared.validation_rows, prepared.validation_targets, prepared.task

    def validate(_):
        logits = prepared.classifier.logits(rows) * prepared.spread + prepared.center
        found = measures.predictions(logits, task)
        if task.kind == "multilabel":
            found = measures.predictions(logits, task, measures.best_thresholds(targets, found.values))
        name, value = next(iter(measures.scores(targets, found, task).items()))
        return {"val_score": value, f"val_{name}": value}

    return validate


def _rescale_output(dense, spread, center):
    """Lets a dense layer, trained on (number - center) / spread, give the number itself."""
    dense.kernel.assign(dense.kernel * spread)
    dense.bias.assign(dense.bias * spread + center)


SEPARATOR = "|"  # joins the labels of a text that has several


def finetune_lists(texts, labels, texts_b, start, validation, task, out, overwrite, settings):
    """See `keras_attention.finetune`."""
    facts = run_facts()
    unknown = sorted(set(settings) - set(FinetuneSettings.__dataclass_fields__))
    if unknown:
        known = ", ".join(FinetuneSettings.__dataclass_fields__)
        raise UserError(f"There is no setting {unknown[0]!r}. Known: {known}")
    lists = any(isinstance(label, (list, tuple, set)) for label in labels)
    examples = given_examples(texts, labels, texts_b, lists)
    if validation is not None:
        validation = given_examples(*validation, *[None] * (3 - len(validation)), lists, "the validation examples")
    with nullcontext() if out is None else entry_reserved(out, overwrite):
        options = {"task": task, "separator": SEPARATOR if lists else None}
        finetuned = finetune_classifier(examples, validation, start, FinetuneSettings(**settings), **options)
        if out is not None:
            told = {"start": str(start), "facts": facts, "overwrite": overwrite}
            told["data"] = [{"name": "lists given in Python", "terms": "as their owner says", "link": ""}]
            write_classifier(out, finetuned, make_report(finetuned), **told)
    return finetuned.classifier


def given_examples(texts, labels, texts_b, lists, where="the examples"):
    """Examples out of Python lists.

    Args:
        texts, labels, texts_b: see `keras_attention.finetune`.
        lists: bool, whether each label is a list of labels.
        where: str, for messages.

    Returns:
        Examples; the labels of lists are joined by `SEPARATOR`.

    Raises:
        UserError: if the numbers of texts and labels differ, or a label of a list holds the separator.
    """
    if len(texts) != len(labels) or (texts_b is not None and len(texts) != len(texts_b)):
        found = [len(part) for part in (texts, labels, texts_b) if part is not None]
        raise UserError(f"There must be one label for each text. Received: {' and '.join(map(str, found))}")
    for name in (name for label in labels if lists for name in label):
        if SEPARATOR in str(name):
            raise UserError(f"A label may not hold {SEPARATOR!r}. Received: {name!r}")
    labels = [SEPARATOR.join(map(str, label)) if lists else str(label) for label in labels]
    return Examples(list(texts), labels, None if texts_b is None else list(texts_b), None, where)
