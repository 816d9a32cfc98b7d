"""What a training needs: the network as a pipeline, the encoded rows, and a head fitted to the encoder's vectors."""

import time
from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from keras_attention.evaluation.bag_of_words import words_of
from keras_attention.evaluation.classification_scores import calibrated_loss, has_skewed_classes, score_of
from keras_attention.finetuning.contrastive import CONTRASTIVE, ON_LABELS, twin_batches
from keras_attention.finetuning.label_training import class_weights, filled_in
from keras_attention.finetuning.linear_probe import TracedOnce, fit_linear
from keras_attention.finetuning.settings import AUTO, MULTILINGUAL_START
from keras_attention.finetuning.starting_model import check_saveable
from keras_attention.finetuning.time_plan import (
    USUAL_MINUTES,
    Plan,
    Stopwatch,
    plan_within,
    seconds_of,
    store_plan,
    stored_plan,
)
from keras_attention.finetuning.training_rows import FEW_ROWS, TrainingRows
from keras_attention.inputs.token_sequences import DROPPED_PART
from keras_attention.pipelines.base import make_pipeline
from keras_attention.support.errors import counted
from keras_attention.support.normalization import normalized
from keras_attention.tokenizers import UnigramTokenizer
from keras_attention.training import devices
from keras_attention.training.devices import from_chief, workers


class Prepared(NamedTuple):
    """A training that can begin.

    Attributes:
        rows: TrainingRows.
        classifier: Classifier, or another pipeline with the same methods, untrained.
        sequences: list of TokenSequence, or of dicts of arrays; one for each training row.
        validation_sequences: list of lists of such, see `Classifier.sequences`.
        stages: tuple of str, see `contrastive.stages_for`.
        soft_labels: float array, the teacher's logits for the training rows (standardized for a regression), or None.
        vectors: PooledVectors of a linear start, else None.
        linear_score: float, the main validation score of the linear start, or None.
        linear_weights: list of arrays, the weights of the network after the linear start, or None.
        class_weights: bool. Whether to give rare labels more weight, because that is better for the linear start.
        minutes: float, estimate of the maximum training time after a linear start, or None.
        plan: Plan of a training after a linear start that has fewer epochs or pairs than usual, or None.
        letters: bool. Whether a bag of letters is a candidate beside the bag of words.
    """

    rows: TrainingRows
    classifier: Any
    sequences: list
    validation_sequences: list
    stages: tuple = (ON_LABELS,)
    soft_labels: np.ndarray | None = None
    vectors: object = None
    linear_score: float | None = None
    linear_weights: list | None = None
    class_weights: bool = False
    minutes: float | None = None
    plan: Plan | None = None
    letters: bool = False


def classifier_for(rows, model, tokenizer, settings, start):
    """The pipeline of a network and a tokenizer (or None) for TrainingRows.

    Raises:
        UserError: if its config.json would be invalid.
    """
    max_tokens = filled_in(settings, model, len(rows.train)).max_tokens
    task = {
        "kind": rows.task.kind,
        "label_names": list(rows.task.label_names),
        "separator": rows.task.separator,
        "threshold": 0.5,
        "pair": rows.pairs,
        "long_texts": settings.long_texts,
        "min_probability": None if settings.min_probability == AUTO else settings.min_probability,
    }
    known = start.entry.config if start.entry else {}
    inputs = start.architecture.task.inputs  # kinds, see `inputs/`
    kinds = start.inputs or {kind.name: known.get(kind.name, {}) for kind in inputs}
    tokenizers = {} if tokenizer is None else {"text": tokenizer}
    classifier = make_pipeline(model, tokenizers, {**kinds, "max_tokens": max_tokens, "task": task})
    classifier.compiled.trace = TracedOnce(classifier.compiled.padding)
    check_saveable(classifier)
    return classifier


def encoded_rows(classifier, rows, notify):
    """The token sequences of the training rows, one for each, and of the validation rows; reports how many are cut."""
    sequences = classifier.single_sequences(rows.train.texts, rows.train.texts_b)
    cut = sum(getattr(sequence, "truncated", False) for sequence in sequences)
    if cut:
        lost = DROPPED_PART[classifier.long_texts]
        notify(
            f"{cut:,} of {len(sequences):,} train rows have more than {classifier.max_tokens} tokens and lose "
            f"their {lost}"
        )
    return sequences, classifier.sequences(rows.validation.texts, rows.validation.texts_b)


def unknown_characters(tokenizer, texts, of_letters=False):
    """The share of the characters of texts, without blanks, that a tokenizer knows only as unknown: float in [0, 1].

    Args:
        tokenizer: WordPieceTokenizer or UnigramTokenizer.
        texts: list of str; some hundred of them, equally spaced, are read.
        of_letters: bool. Whether other characters, such as emoji, are left out.
    """
    some = " ".join(texts[:: max(1, len(texts) // TEXTS_TO_READ)])
    counts = Counter(normalized("NFC", some))  # an accent alone may be unknown, but not on its letter
    signs = [sign for sign in counts if (sign.isalpha() if of_letters else not sign.isspace())]
    unknown = [sign for sign, ids in zip(signs, tokenizer.encode(signs), strict=True) if tokenizer.unknown_id in ids]
    return sum(counts[sign] for sign in unknown) / max(1, sum(counts[sign] for sign in signs))


def pieces_per_word(tokenizer, texts):
    """The mean number of pieces into which a tokenizer splits the words of texts: float >= 1, or 1 without words.

    Args:
        tokenizer, texts: see `unknown_characters`.
    """
    some = texts[:: max(1, len(texts) // TEXTS_TO_READ)]
    words = [word for text in some for word in words_of(text) if word.isalpha()]
    return max(1.0, float(np.mean([len(ids) for ids in tokenizer.encode(words)]))) if words else 1.0


TEXTS_TO_READ = 500
MANY_UNKNOWN = 0.05  # share of the characters
# Pieces for each word. `minilm_small_en`: English 1.0 to 1.4 (tweets), French 1.6 to 1.8, Spanish 1.8, German 2.0 up.
MANY_PIECES = 1.5
BETTER_START = "A start that knows the language would help: --from hf://ORG/NAME."


def report_unknown(tokenizer, rows, notify):
    """Says whether the texts are in another script or language than those that the start has read.

    Returns:
        bool. Whether they are, or many of their words are cut by a multilingual start: then letters are counted, too.
    """
    texts = rows.train.all_texts
    share, pieces = unknown_characters(tokenizer, texts), pieces_per_word(tokenizer, texts)
    if share >= MANY_UNKNOWN:
        is_script = unknown_characters(tokenizer, texts, of_letters=True) >= MANY_UNKNOWN
        which, why, advice = ", such as emoji,", "", ""
        if is_script:
            which, why, advice = "", ", which has not learned this script", f" {BETTER_START}"
        notify(
            f"{100 * share:.0f} % of the characters{which} are unknown to this encoder{why}. Bags of words and of "
            f"letters count them all.{advice}"
        )
    elif pieces >= MANY_PIECES and tokenizer.kind != UnigramTokenizer.kind:  # which has read many languages
        notify(
            f"This encoder splits a word into {pieces:.1f} pieces on average, so it has hardly read this language. "
            f"A bag of letters is tried, too. {BETTER_START} German, French or Spanish: --from {MULTILINGUAL_START}."
        )
    return share >= MANY_UNKNOWN or pieces >= MANY_PIECES


def report_sizes(rows, model, notify):
    """Reports the numbers of rows and of weights."""
    train, held = counted(len(rows.train), "row"), counted(len(rows.validation), "validation row")
    notify(f"{train} to train on, {len(rows.validation):,} to validate with, {model.count_params():,} parameters")
    if len(rows.validation) < FEW_ROWS:
        notify(f"Scores on {held} mean little. Add rows, give a --validation table, or measure on all rows: --folds 5.")


def soft_labels_of(teacher, rows, notify):
    """The logits of a Teacher for the training rows, standardized for a regression; reports its validation score."""
    name, score = score_of(teacher.logits(rows.validation), rows.validation_targets, rows.task)
    notify(f"Teacher: {teacher.name}, {name} {score:.1f} on the validation. It answers the training rows first.")
    return (teacher.logits(rows.train) - rows.center) / rows.spread


def with_linear_start(prepared, settings, notify, plan_file=None, resume=False):
    """Sets the head to a logistic regression on the vectors; reports its score and the time of the training.

    Args:
        prepared: Prepared with `vectors`.
        settings: FinetuneSettings.
        notify: callable(str).
        plan_file: Path, see `time_plan.plan_path`, or None to store no plan.
        resume: bool. Whether to take the plan of an interrupted training from there.

    Returns:
        Prepared.
    """
    began = time.perf_counter()
    vectors_name = "static vectors" if settings.quick else "the encoder's vectors"
    notify(f"Computing {vectors_name} of all rows, then logistic regression on them ...")
    vectors, seconds = vectors_of_rows(prepared)
    name, score, weighted = _fit_starting_head(prepared, settings, vectors, notify)
    message = f"Logistic regression on {vectors_name}: {name} {score:.1f} on the validation."
    notify(message if settings.quick else f"{message} Fine-tuning starts there.")
    if settings.quick:
        minutes = (time.perf_counter() - began) / 60
        return prepared._replace(linear_score=score, class_weights=weighted, minutes=minutes)
    plan, usual, minutes = _time_plan(prepared, settings, seconds, notify, plan_file, resume)
    return prepared._replace(
        linear_score=score,
        linear_weights=prepared.classifier.model.get_weights(),
        class_weights=weighted,
        minutes=minutes,
        stages=plan.stages,
        plan=None if plan == usual else plan,
    )


def _fit_starting_head(prepared, settings, vectors, notify):
    """Fits the head, for skewed labels also with class weights, and keeps the better one.

    Returns:
        Name and value of the main validation score, and whether the class weights are better than none.
    """
    output = prepared.classifier.model.head[-1]
    fit_head(prepared, settings, vectors)
    name, score, _ = held_scores(prepared)
    if not has_skewed_classes(prepared.rows.task) or settings.class_weights:
        return name, score, False
    unweighted = output.get_weights()
    fit_head(prepared, replace(settings, class_weights=True), vectors)
    _, score_with_weights, _ = held_scores(prepared)
    if score_with_weights > score:
        notify(f"Rare labels get more weight: {name} {score_with_weights:.1f} instead of {score:.1f}.")
        return name, score_with_weights, True
    output.set_weights(unweighted)
    return name, score, False


def _time_plan(prepared, settings, seconds, notify, plan_file, resume):
    """The Plan of a training, which is reported and stored.

    Args:
        seconds: float, the time of a forward pass of the training rows. The others: see `with_linear_start`.

    Returns:
        The Plan, the usual Plan without a limit of time, and the estimated minutes of the training at most.
    """
    model, rows = prepared.classifier.model, len(prepared.sequences)
    epochs = filled_in(settings, model, rows).epochs if ON_LABELS in prepared.stages else 0
    pairs = 0
    if CONTRASTIVE in prepared.stages:
        pairs = twin_batches(model, prepared.sequences, prepared.rows.targets, settings).count
    usual, held = Plan(epochs, pairs), len(prepared.rows.validation)

    def estimate(plan):
        return seconds_of(plan, seconds / rows, rows, held, settings.jit_compile is not False)

    plan = usual
    if resume:
        plan = usual if plan_file is None else stored_plan(plan_file, usual)
    elif settings.minutes is not None or devices.find_device() == devices.CPU:
        plan = plan_within(usual, 60 * (settings.minutes or USUAL_MINUTES), estimate, settings.epochs is not None)
    plan = Plan(*map(int, from_chief([float(size) for size in plan])))
    if plan_file is not None and not resume and not workers().index:
        store_plan(plan_file, plan, usual)
    if plan.pairs:
        pairs = f"{plan.pairs:,} pairs of texts with the same label"
        notify(f"Contrastive training on {pairs}, then logistic regression again.")
    if not plan.epochs and settings.contrastive is None:
        notify("There are few rows of each label, so that is all (--no-contrastive: training on labels instead).")
    minutes = estimate(plan) / 60
    training = ("one epoch" if plan.epochs == 1 else f"at most {plan.epochs} epochs") + " on the labels"
    notify(f"{training if plan.epochs else 'training'}, in about {max(1, round(minutes))} min.".capitalize())
    if plan != usual:
        ceiling = settings.minutes or USUAL_MINUTES
        notify(
            f"With {_sizes(usual)}, it would take about {round(estimate(usual) / 60)} min. The ceiling is "
            f"{ceiling:g} min, so there are fewer (--minutes sets another one)."
        )
    return plan, usual, minutes


def _sizes(plan):
    """The sizes of a Plan in words."""
    sizes = [f"{plan.pairs:,} pairs"] * (plan.pairs > 0) + [counted(plan.epochs, "epoch")] * (plan.epochs > 0)
    return " and ".join(sizes)


def planned_settings(prepared, settings):
    """The settings of the training of Prepared: with the sizes of its Plan, if it has one."""
    if prepared.plan is None:
        return settings
    return replace(
        settings, epochs=prepared.plan.epochs or settings.epochs, contrastive_pairs=prepared.plan.pairs or None
    )


def vectors_of_rows(prepared):
    """The vectors of the training and of the validation rows, and the seconds spent on the training rows."""
    vectors = prepared.vectors
    held = vectors(prepared.validation_sequences)  # first, because this call compiles
    watch = Stopwatch()
    return (vectors([[sequence] for sequence in prepared.sequences]), held), watch.seconds


def fit_head(prepared, settings, vectors=None):
    """Sets the head to a logistic regression on the vectors, which are those of `vectors_of_rows`."""
    model, rows = prepared.classifier.model, prepared.rows
    known, held = vectors_of_rows(prepared)[0] if vectors is None else vectors
    kind, labels = rows.task.kind, model.settings["num_labels"]
    weights = class_weights(rows.targets, kind, labels) if settings.class_weights else None
    held_targets = rows.standardized(rows.validation_targets)
    linear = fit_linear(known, rows.targets, kind, labels, held, held_targets, weights, settings.quick)
    output = model.head[-1]
    for weight, values in ((output.kernel, linear.kernel), (output.bias, linear.bias)):
        weight.assign(np.reshape(from_chief(values.ravel().tolist()), values.shape) if workers().count > 1 else values)


def validator(prepared):
    """Makes the `validate` of `fit_classifier`, which computes the main score and the loss on the validation rows."""

    def validate(_):
        name, value, loss = held_scores(prepared)
        return {"val_score": value, f"val_{name}": value, "val_loss": loss}

    return validate


def held_scores(prepared):
    """Name and value of the main score on the validation rows, at the best thresholds; and the `calibrated_loss`."""
    rows = prepared.rows
    logits = _held_logits(prepared) * rows.spread + rows.center
    return (
        *score_of(logits, rows.validation_targets, rows.task),
        calibrated_loss(logits, rows.validation_targets, rows.task.kind),
    )


def _held_logits(prepared):
    """Logits (N, K) of the validation rows, from the compiled vectors of the linear start if there are any."""
    if prepared.vectors is None:
        return prepared.classifier.logits(prepared.validation_sequences)
    kernel, bias = prepared.classifier.model.head[-1].get_weights()
    return prepared.vectors(prepared.validation_sequences) @ kernel + bias
