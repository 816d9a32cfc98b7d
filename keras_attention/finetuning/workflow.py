"""Fine-tuning from a table to a classifier: each step in order, and what decides which steps there are."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import keras

from keras_attention.data.tables.label_task import Task
from keras_attention.data.tables.python_labels import named_labels
from keras_attention.evaluation.classification_scores import has_skewed_classes
from keras_attention.finetuning.calibration import finish
from keras_attention.finetuning.contrastive import (
    CONTRASTIVE,
    ON_LABELS,
    check_contrastive,
    fit_contrastive,
    stages_for,
)
from keras_attention.finetuning.examples import LISTS, given_examples
from keras_attention.finetuning.label_training import fit_classifier, learns_from_trained
from keras_attention.finetuning.linear_probe import PooledVectors
from keras_attention.finetuning.lora import add_adapters
from keras_attention.finetuning.preparation import (
    Prepared,
    classifier_for,
    encoded_rows,
    fit_head,
    planned_settings,
    report_sizes,
    report_unknown,
    soft_labels_of,
    validator,
    with_linear_start,
)
from keras_attention.finetuning.report import make_report, write_classifier
from keras_attention.finetuning.settings import FinetuneSettings, check_settings
from keras_attention.finetuning.starting_model import (
    continued_classifier,
    keeps_head,
    language_for_card,
    open_start,
    starting_classifier,
    suited_start,
)
from keras_attention.finetuning.static_start import static_classifier
from keras_attention.finetuning.teacher import load_teacher
from keras_attention.finetuning.time_plan import plan_path
from keras_attention.finetuning.training_rows import task_of, task_of_lists, training_rows
from keras_attention.support.errors import UserError
from keras_attention.support.moved import renamed_arguments
from keras_attention.training.history import TrainResult, run_facts
from keras_attention.zoo.registry import entry_reserved


@renamed_arguments(say="notify")
def finetune_classifier(examples, validation, start, settings, *, notify=print, **options):
    """Trains a classifier; the result has the best weights of all validations.

    Args:
        examples, validation, start, settings, notify: see `prepare`.
        options: test, task, separator and validation_share of `prepare`; checkpoint_dir, resume, restart, log_dir and
            verbose of `label_training.fit_classifier`.

    Returns:
        Finetuned.

    Raises:
        UserError: see `prepare`.
    """
    of_prepare = ("test", "task", "separator", "validation_share")
    preparing = {name: options.pop(name) for name in of_prepare if name in options}
    if options.get("checkpoint_dir") is not None:
        preparing |= {"plan_file": plan_path(options["checkpoint_dir"]), "resume": options.get("resume", False)}
    prepared = prepare(examples, validation, start, settings, notify=notify, **preparing)
    settings = planned_settings(prepared, settings)
    return finish(prepared, fit(prepared, settings, **options), settings)


@renamed_arguments(say="notify")
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
    make_model=None,
    notify=print,
    plan_file=None,
    resume=False,
):
    """Determines the task, holds out validation rows, builds the classifier and encodes the texts.

    Args:
        examples: Examples to train on.
        validation: Examples that determine the best weights, or None to hold out a share of `examples`.
        start: what to start from, see `starting_model.open_start`.
        settings: FinetuneSettings. Float32 and XLA by default; `starting_model.accelerated` chooses for the device.
        test: Examples for the report, or None. Their labels are checked before the training.
        task: str or None, see `label_task.find_task`; None: determined from the labels. Or a Task, for a part of a
            table.
        separator: str or None, between the labels of a multilabel row.
        validation_share: float in (0, 1), used if `validation` is None.
        make_model: callable with the arguments and results of `starting_model.starting_classifier`, for a recipe with a
            network of its own, which is trained on the labels only.
        notify: callable(str) that reports findings and decisions.
        plan_file, resume: see `preparation.with_linear_start`.

    Returns:
        Prepared.

    Raises:
        UserError: if no task fits the labels, a label of `validation` or `test` is unknown, only some of the tables
            have text pairs, `start` cannot be used, or a setting does not fit the task.
    """
    task = task if isinstance(task, Task) else task_of(examples, task, separator)
    notify(f"Task: {task.kind} ({task.because})")
    settings = _fitting_the_task(settings, task, examples.texts_b is not None)
    start = open_start(start, settings.network)
    teacher = load_teacher(settings.teacher, task, examples.texts_b is not None) if settings.teacher else None

    keras.utils.set_random_seed(settings.seed)
    rows = training_rows(examples, validation, test, task, validation_share, settings.seed)
    if has_skewed_classes(rows.task):
        notify(f"The labels are skewed, so models are compared by {rows.task.main_score}.")
    start = suited_start(start, rows.train.all_texts, notify=notify)
    continued = make_model is None and not settings.quick and keeps_head(start, task, rows.pairs, settings)
    model, tokenizer = _network(start, rows, settings, continued, make_model or starting_classifier, notify)
    classifier = classifier_for(rows, model, tokenizer, settings, start)
    sequences, validation_sequences = encoded_rows(classifier, rows, notify)

    letters = report_unknown(tokenizer, rows, notify) if tokenizer is not None and start.entry else False
    if known_words := getattr(model, "known_words", None):
        notify(str(known_words))
    report_sizes(rows, model, notify)
    if model.settings.get("pooling") == "pair":
        notify(
            "The two texts of a pair are encoded separately; their vectors are compared (--pairs joint: one sequence)."
        )
    linear = not continued and learns_from_trained(model)
    suitable = make_model is None and linear and teacher is None
    stages = _stages(rows, model, settings, suitable, teacher, notify)
    if settings.lora:  # before any program is traced, because tracing reads the kernels
        notify(add_adapters(model, settings, start))
    prepared = Prepared(
        rows,
        classifier,
        sequences,
        validation_sequences,
        stages=stages,
        soft_labels=None if teacher is None else soft_labels_of(teacher, rows, notify),
        vectors=PooledVectors(classifier) if linear else None,
        letters=letters,
    )
    return with_linear_start(prepared, settings, notify, plan_file, resume) if linear else prepared


def _fitting_the_task(settings, task, pairs):
    """The settings for a task; raises UserError for one that does not fit."""
    if settings.min_probability is not None and task.kind not in ("binary", "multiclass"):
        raise UserError(f"--min-probability needs one label for each row. Found: a {task.kind} task")
    if pairs and not settings.contrastive:  # contrastive training compares rows, not the texts of a row
        return settings
    if settings.pairs == "apart":
        raise UserError("--pairs apart needs rows with two texts (--text-b), and no --contrastive.")
    return replace(settings, pairs="joint")


def _network(start, rows, settings, continued, make_model, notify):
    """The network and its tokenizer: that of the start with its head if training continues, else with a new head."""
    if settings.quick:
        notify("The encoder computes a static vector for each piece of its vocabulary ...")
        return static_classifier(start, rows.num_labels, rows.pairs and settings.pairs != "joint")
    if continued:
        notify("The start has the same labels. Training continues with its output layer (--linear-start: a new one).")
        return continued_classifier(start, rows.task, settings)
    return make_model(start, rows.num_labels, settings, rows.train.all_texts)


def _stages(rows, model, settings, suitable, teacher, notify):
    """See `contrastive.stages_for`; reports if the user's settings leave out the contrastive training."""
    if settings.quick:
        return ()
    if settings.contrastive:
        check_contrastive(rows.task, model, teacher)
    stages = stages_for(rows.train, rows.task, settings, suitable)
    by_default = replace(settings, epochs=None, learning_rate=None)
    if CONTRASTIVE not in stages and CONTRASTIVE in stages_for(rows.train, rows.task, by_default, suitable):
        notify(
            "--epochs or --learning-rate is given, so there is no contrastive training first (--contrastive adds it)."
        )
    return stages


def fit(prepared, settings, **options):
    """Trains in one or two stages, see `contrastive.fit_contrastive` and `label_training.fit_classifier`.

    With `quick`, there is no stage: the linear start is all.

    Args:
        prepared: Prepared.
        settings: FinetuneSettings.
        options: checkpoint_dir, resume, restart, log_dir and verbose of `label_training.fit_classifier`.

    Returns:
        TrainResult of the last stage, with the updates and seconds of both.
    """
    if not prepared.stages:
        return TrainResult([], 0, 60 * prepared.minutes, prepared.linear_score, None, "logistic regression only")
    settings = planned_settings(prepared, settings)
    if prepared.class_weights:
        settings = replace(settings, class_weights=True)
    first = None
    if CONTRASTIVE in prepared.stages:
        first = fit_encoder(prepared, settings, **options)
    if ON_LABELS not in prepared.stages:
        return first
    model, rows = prepared.classifier.model, prepared.rows
    options |= {"validate": validator(prepared), "soft_labels": prepared.soft_labels}
    augmented = getattr(prepared.classifier.input, "augmented", None)
    if augmented and settings.augment != "none":
        options["change"] = partial(augmented, flip=settings.augment == "flip")
    if has_skewed_classes(rows.task):
        options["monitor"] = "val_score"
    result = fit_classifier(model, prepared.sequences, rows.targets, rows.task.kind, settings, **options)
    if first is None:
        return result
    return result._replace(steps=first.steps + result.steps, seconds=first.seconds + result.seconds)


def fit_encoder(prepared, settings, checkpoint_dir=None, log_dir=None, **options):
    """The contrastive stage of `fit`, with checkpoints and logs of its own."""
    return fit_contrastive(
        prepared.classifier.model,
        prepared.sequences,
        prepared.rows.targets,
        settings,
        refit=lambda: fit_head(prepared, settings),
        validate=validator(prepared),
        held=len(prepared.rows.validation),
        on_labels=ON_LABELS in prepared.stages,
        checkpoint_dir=checkpoint_dir and checkpoint_folders(checkpoint_dir)[0],
        log_dir=log_dir and Path(log_dir) / CONTRASTIVE,
        **options,
    )


def checkpoint_folders(folder):
    """The checkpoint folders of `fit`, one for each stage."""
    folder = Path(folder)
    return folder.with_name(f"{folder.name}_{CONTRASTIVE}"), folder


def finetune_lists(texts, labels, texts_b, start, validation, task, out, overwrite, settings, label_names=None):
    """See `keras_attention.finetune`; `start` as in `open_start`."""
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
    task = task_of_lists(examples, task, lists, columns)
    if validation is not None:
        texts, labels, *texts_b = validation
        labels, _ = named_labels(labels, columns or label_names, "validation")
        texts_b = texts_b[0] if texts_b else None
        validation = given_examples(texts, labels, texts_b, lists, "the validation examples")
    with nullcontext() if out is None else entry_reserved(out, overwrite):
        start = suited_start(open_start(start, settings.network), examples.all_texts, notify=print)
        finetuned = finetune_classifier(examples, validation, start, settings, task=task)
        if out is not None:
            given = {"start": start, "facts": facts, "overwrite": overwrite}
            given["data"] = [{"name": "lists given in Python", "terms": "as stated by its owner", "link": ""}]
            given["language"] = language_for_card(start, examples)
            write_classifier(out, finetuned, make_report(finetuned), **given)
    return finetuned.classifier
