"""The steps of fine-tuning, from a table to a classifier."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

import keras
import numpy as np

from keras_attention.data.tables.label_task import Task, find_task, split_validation
from keras_attention.data.tables.python_labels import named_labels
from keras_attention.data.tables.raw_rows import listed
from keras_attention.finetuning.calibration import finish, score_of
from keras_attention.finetuning.contrastive import (
    CONTRASTIVE,
    ON_LABELS,
    check_contrastive,
    stages_for,
    twin_batches,
)
from keras_attention.finetuning.examples import LISTS, SEPARATOR, given_examples
from keras_attention.finetuning.label_training import filled_in
from keras_attention.finetuning.linear_probe import PooledVectors, TracedOnce
from keras_attention.finetuning.lora import add_adapters
from keras_attention.finetuning.report import make_report, write_classifier
from keras_attention.finetuning.settings import FinetuneSettings, check_settings
from keras_attention.finetuning.stages import fit, fit_head, held_scores
from keras_attention.finetuning.starting_model import (
    check_label_names,
    check_saveable,
    continued_classifier,
    keeps_head,
    starting_classifier,
)
from keras_attention.finetuning.teacher import load_teacher
from keras_attention.pipelines.classifier import Classifier
from keras_attention.pipelines.texts import LOST
from keras_attention.support.errors import UserError, counted
from keras_attention.training.history import run_facts
from keras_attention.zoo.registry import entry_reserved

COMPILE_SECONDS = 10.0
FEW_ROWS = 20  # validation rows; with 20, the standard error of an accuracy of 80 % is 9 points
UPDATE_TO_READ = 4.0  # ratio of the time of an update to that of a forward pass


class Prepared(NamedTuple):
    """Everything prepared for training: model, token sequences and targets.

    Attributes:
        classifier: Classifier, untrained.
        task: Task.
        train, validation: Examples, after the split.
        sequences: list of TokenSequence.
        validation_sequences: list of lists of TokenSequence, see `Classifier.sequences`.
        targets, validation_targets: arrays, see `label_task.encode_labels`; `targets` of a regression are standardized.
        center, spread: floats, mean and standard deviation of the numbers in a regression, else 0 and 1.
        stages: tuple of str, see `contrastive.stages_for`.
        vectors: PooledVectors, or None for a model with a pooler.
        linear_score: float, the main validation score of logistic regression on the vectors, or None.
        soft_labels: float array, the teacher's logits for the training rows (standardized for a regression), or None.
        minutes: float, estimate of the maximum training time, or None.
    """

    classifier: Classifier
    task: Task
    train: object
    validation: object
    sequences: list
    validation_sequences: list
    targets: np.ndarray
    validation_targets: np.ndarray
    center: float
    spread: float
    stages: tuple = (ON_LABELS,)
    vectors: object = None
    linear_score: float | None = None
    soft_labels: np.ndarray | None = None
    minutes: float | None = None


def finetune_classifier(examples, validation, start, settings, *, say=print, **options):
    """Trains a classifier; the result has the best weights of all validations.

    Args:
        examples, validation, start, settings, say: see `prepare`.
        options: test, task, separator and validation_share of `prepare`; checkpoint_dir, resume, restart, log_dir and
            verbose of `label_training.fit_classifier`.

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
    """Determines the task, holds out validation rows, builds the classifier and encodes the texts.

    Args:
        examples: Examples to train on.
        validation: Examples that determine the best weights, or None to hold out a share of `examples`.
        start: str or Path, the entry to start from, or "none".
        settings: FinetuneSettings. Float32 and XLA by default; `starting_model.accelerated` chooses for the device.
        test: Examples for the report, or None. Their labels are checked before the training.
        task: str or None, see `label_task.find_task`; None: determined from the labels. Or a Task, for a part of a
            table.
        separator: str or None, between the labels of a multilabel row.
        validation_share: float in (0, 1), used if `validation` is None.
        make_model: callable with the arguments and results of `starting_model.starting_classifier`.
        say: callable(str) that reports findings and decisions.

    Returns:
        Prepared.

    Raises:
        UserError: if no task fits the labels, a label of `validation` or `test` is unknown, only some of the tables
            have text pairs, `start` cannot be used, or a setting does not fit the task.
    """
    task = task if isinstance(task, Task) else task_of(examples, task, separator)
    examples = examples.respelled(task)
    say(f"Task: {task.kind} ({task.because})")
    if settings.min_probability is not None and task.kind not in ("binary", "multiclass"):
        raise UserError(f"--min-probability needs one label for each row. Found: a {task.kind} task")
    teacher = load_teacher(settings.teacher, task, examples.texts_b is not None) if settings.teacher else None
    keras.utils.set_random_seed(settings.seed)
    if validation is None:
        examples, validation = _held_out(examples, task, validation_share, settings.seed)
    _check_same_columns(examples, validation, test)
    targets, validation_targets, _ = ([] if one is None else one.targets(task) for one in (examples, validation, test))
    num_labels = max(1, len(task.label_names))
    if examples.texts_b is None or settings.contrastive:  # contrastive training compares rows, not the texts of a row
        if settings.pairs == "apart":
            raise UserError("--pairs apart needs rows with two texts (--text-b), and no --contrastive.")
        settings = replace(settings, pairs="joint")
    continued = make_model is starting_classifier and keeps_head(start, task, examples.texts_b is not None, settings)
    if continued:
        say("The start has the same labels. Training continues with its output layer (--linear-start: a new one).")
        model, tokenizer = continued_classifier(start, task, settings)
    else:
        model, tokenizer = make_model(start, num_labels, settings, [*examples.texts, *(examples.texts_b or ())])
    max_tokens = filled_in(settings, model, len(examples.texts)).max_tokens
    classifier = Classifier(model, tokenizer, max_tokens, task=_task_settings(task, examples, settings))
    classifier.compiled.trace = TracedOnce()
    check_saveable(classifier)
    sequences = _train_sequences(classifier, examples, say)
    validation_sequences = classifier.sequences(validation.texts, validation.texts_b)
    center, spread = _standard(targets, task)
    targets = (targets - center) / spread if task.kind == "regression" else targets
    rows, held = counted(len(examples), "row"), counted(len(validation), "validation row")
    say(f"{rows} to train on, {len(validation):,} to validate with, {model.count_params():,} parameters")
    if len(validation) < FEW_ROWS:
        say(f"Scores on {held} mean little. Add rows, or give a table with --validation.")
    if model.pooling == "pair":
        say("The two texts of a pair are encoded separately; their vectors are compared (--pairs joint: one sequence).")
    if settings.contrastive:
        check_contrastive(task, model, teacher)
    suitable = make_model is starting_classifier and not continued and model.pooler_dense is None and teacher is None
    stages = stages_for(examples, task, settings, suitable)
    by_default = replace(settings, epochs=None, learning_rate=None)
    if CONTRASTIVE not in stages and CONTRASTIVE in stages_for(examples, task, by_default, suitable):
        say("--epochs or --learning-rate is given, so there is no contrastive training first (--contrastive adds it).")
    if settings.lora:  # before any program is traced, because tracing reads the kernels
        say(add_adapters(model, settings, start))
    prepared = Prepared(
        classifier,
        task,
        examples,
        validation,
        sequences,
        validation_sequences,
        targets,
        validation_targets,
        center,
        spread,
        stages,
    )
    prepared = prepared if teacher is None else _with_teacher(prepared, teacher, say)
    if continued or model.pooler_dense is not None:
        return prepared
    return _with_linear_start(prepared, settings, say)


def task_of(examples, task=None, separator=None, lists=False):
    """The Task of Examples; raises UserError if no task fits the labels, or a model cannot have one of them."""
    try:
        found = find_task(examples.labels, task=task, separator=separator, lists=lists)
    except UserError as error:
        raise UserError(f"{examples.where}: {error}") from error
    check_label_names(found, examples)
    return found


def _held_out(examples, task, share, seed):
    """Holds out a share of the Examples; returns the remaining and the held-out Examples."""
    texts = examples.texts if examples.texts_b is None else list(zip(examples.texts, examples.texts_b, strict=True))
    classes = task.kind in ("binary", "multiclass")
    labels = examples.labels if classes else examples.targets(task)  # numbers and sets of labels are no strata
    kept, held = split_validation(labels, share, seed, texts=texts)
    kept, held = examples.some(kept), examples.some(held)
    if classes and len(set(kept.labels)) < 2:
        raise UserError(
            f"{kept.where}: with {counted(len(held), 'row')} held out for validation, all others are "
            f"{kept.labels[0]!r}. "
            "Rows with the same text stay on one side. Expected: two different texts of each label. Add rows, or give "
            "a --validation."
        )
    return kept, held


def _with_teacher(prepared, teacher, say):
    """Adds the logits of a Teacher for the training rows, and reports its validation score."""
    name, score = score_of(teacher.logits(prepared.validation), prepared.validation_targets, prepared.task)
    say(f"Teacher: {teacher.name}, {name} {score:.1f} on the validation. It answers the training rows first.")
    return prepared._replace(soft_labels=(teacher.logits(prepared.train) - prepared.center) / prepared.spread)


def _with_linear_start(prepared, settings, say):
    """Sets the head to a logistic regression on the vectors, and reports its score."""
    model, rows = prepared.classifier.model, prepared.sequences
    prepared = prepared._replace(vectors=PooledVectors(model, prepared.classifier.max_tokens))
    say("Computing the encoder's vectors of all rows, then logistic regression on them ...")
    seconds = fit_head(prepared, settings)
    name, score, _ = held_scores(prepared)
    say(
        f"Logistic regression on the encoder's vectors: {name} {score:.1f} on the validation. Fine-tuning starts there."
    )
    texts, epochs = 0, 0
    if CONTRASTIVE in prepared.stages:
        twins = twin_batches(model, rows, prepared.targets, settings).count
        say(f"Contrastive training on {twins:,} pairs of texts with the same label, then logistic regression again.")
        texts += 2 * twins
    if ON_LABELS in prepared.stages:
        epochs = filled_in(settings, model, len(rows)).epochs
        texts += epochs * len(rows)
    elif settings.contrastive is None:
        say("There are few rows of each label, so that is all (--no-contrastive: training on labels instead).")
    compiling = COMPILE_SECONDS * len(prepared.stages) * (settings.jit_compile is not False)
    minutes = (UPDATE_TO_READ * texts * seconds / len(rows) + compiling) / 60
    most = "one epoch" if epochs == 1 else f"at most {epochs} epochs"
    training = f"{most} on the labels" if epochs else "training"
    say(f"{training.capitalize()}, in about {max(1, round(minutes))} min.")
    return prepared._replace(linear_score=score, minutes=minutes)


def _task_settings(task, examples, settings):
    """The task as config.json has it, see `schema.TASK`."""
    return {
        "kind": task.kind,
        "label_names": list(task.label_names),
        "separator": task.separator,
        "threshold": 0.5,
        "pair": examples.texts_b is not None,
        "long_texts": settings.long_texts,
        "min_probability": settings.min_probability,
    }


def _train_sequences(classifier, examples, say):
    """One sequence for each example; reports how many are cut."""
    sequences = classifier.single_sequences(examples.texts, examples.texts_b)
    cut = sum(sequence.truncated for sequence in sequences)
    if cut:
        lost = LOST[classifier.long_texts]
        say(
            f"{cut:,} of {len(sequences):,} train rows have more than {classifier.max_tokens} tokens and lose "
            f"their {lost}"
        )
    return sequences


def _standard(targets, task):
    """Mean and standard deviation of the numbers of a regression, for standardization."""
    if task.kind != "regression":
        return 0.0, 1.0
    return float(np.mean(targets, dtype="float64")), float(np.std(targets, dtype="float64")) or 1.0


def _check_same_columns(examples, *others):
    """Raises UserError if some tables have text pairs and others have single texts."""
    for other in others:
        if other is not None and (other.texts_b is None) != (examples.texts_b is None):
            raise UserError(f"{examples.where} and {other.where} must both hold pairs, or both single texts.")


def finetune_lists(texts, labels, texts_b, start, validation, task, out, overwrite, settings, label_names=None):
    """See `keras_attention.finetune`."""
    facts = run_facts()
    unknown = sorted(set(settings) - set(FinetuneSettings.__dataclass_fields__))
    if unknown:
        known = ", ".join(FinetuneSettings.__dataclass_fields__)
        raise UserError(f"There is no setting {unknown[0]!r}. Known: {known}")
    settings = FinetuneSettings(**settings)
    check_settings(settings)
    labels, columns = named_labels(labels, label_names)
    lists = any(isinstance(label, LISTS) for label in labels)
    examples = given_examples(texts, labels, texts_b, lists)
    task = _task_of_lists(examples, task, lists, columns)
    if validation is not None:
        texts, labels, *texts_b = validation
        labels, _ = named_labels(labels, columns or label_names, "validation")
        texts_b = texts_b[0] if texts_b else None
        validation = given_examples(texts, labels, texts_b, lists, "the validation examples")
    with nullcontext() if out is None else entry_reserved(out, overwrite):
        finetuned = finetune_classifier(examples, validation, start, settings, task=task)
        if out is not None:
            told = {"start": str(start), "facts": facts, "overwrite": overwrite}
            told["data"] = [{"name": "lists given in Python", "terms": "as stated by its owner", "link": ""}]
            write_classifier(out, finetuned, make_report(finetuned), **told)
    return finetuned.classifier


def _task_of_lists(examples, kind, lists, columns):
    """The Task of Examples from Python; `columns` are the names of columns of 0 and 1, or None."""
    if columns is None:
        return task_of(examples, kind, SEPARATOR if lists else None, lists)
    counts = Counter(name for label in examples.labels for name in label.split(SEPARATOR) if name)
    if not counts:
        raise UserError(f"The {len(columns)} columns of labels hold no 1: there is nothing to learn.")
    never = [name for name in columns if not counts[name]]
    because = f"{len(columns):,} columns of 0 and 1, {counts.total() / len(examples):.2f} labels for each text"
    because += ": multi-label classification" + (f"; no text has {listed(never, 3)}" if never else "")
    if kind not in (None, "multilabel"):
        raise UserError(f"Columns of 0 and 1 are for the task multilabel. Received: {kind}")
    task = Task("multilabel", tuple(columns), SEPARATOR, because)
    check_label_names(task, examples)
    return task
