"""Before fine-tuning: an encoder with a new head, LoRA, a teacher, and checks that the result can be saved."""

from dataclasses import replace
from typing import NamedTuple

import keras

from keras_attention.catalog.encoding import ENCODER
from keras_attention.data.tables.label_task import spelling_key
from keras_attention.data.tables.raw_rows import listed
from keras_attention.finetuning.settings import MOST_TOKENS
from keras_attention.models import BertClassifier
from keras_attention.models.bert_encoder import BERT_PRESETS
from keras_attention.models.distiller import student_of
from keras_attention.models.shared import check_pattern
from keras_attention.pipelines.base import load_pipeline
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import WordPieceTokenizer
from keras_attention.training import devices
from keras_attention.training.devices import CPU, choose_acceleration, dtype_policy
from keras_attention.zoo.entry import Entry, as_json
from keras_attention.zoo.entry_io import config_of
from keras_attention.zoo.registry import open_entry

THRESHOLD = 0.1234567890123456  # a placeholder with the maximum number of digits


def check_saveable(classifier, language="en"):
    """Raises UserError if the config.json of the classifier would be invalid: separator, language, size."""
    task = dict(classifier.task)
    if task["separator"] is not None:
        task["threshold"] = [THRESHOLD] * len(task["label_names"])
    about = {"language": language, "max_tokens": classifier.max_tokens, "task": task}
    as_json("config.json", config_of(classifier.model, {"text": "tokenizer"}, about))


FROM_NOTHING = "none"


def open_start(start):
    """Opens the entry from which a training starts, and verifies its files: the only time in a run.

    Args:
        start: str or Path, an entry by name or folder; "none" for random weights; or what this function returned.

    Returns:
        Entry, or "none".

    Raises:
        UserError: if there is no such entry, or it is not a BERT.
        EntryError: if the entry is damaged.
    """
    if start == FROM_NOTHING or isinstance(start, Entry):
        return start
    entry = open_entry(start)
    if "encode" not in entry.architecture.use.tasks:
        raise UserError(f"{entry.folder} is a {entry.architecture.name}. Expected: a BERT, or none.")
    return entry


def accelerated(start, settings):
    """Chooses number format and compiler for `starting_classifier`. Call it before TensorFlow runs its first function.

    Args:
        start: see `open_start`.
        settings: FinetuneSettings.

    Returns:
        FinetuneSettings with `mixed_precision` and `jit_compile` set.
    """
    start = open_start(start)
    sizes = BERT_PRESETS[settings.size] if start == FROM_NOTHING else start.config["model"]
    if settings.jit_compile is None and devices.find_device() == CPU and keras.backend.backend() == "tensorflow":
        settings = replace(settings, jit_compile=False)  # compiling takes longer than it saves
    return choose_acceleration(settings, large_products=sizes.get("hidden_dim", 0) >= 256)


def starting_classifier(start, num_labels, settings, texts):
    """Builds the classifier; arguments and errors as in `starting_encoder`.

    Returns:
        BertClassifier with `num_labels` (int > 0) logits, built, and its WordPieceTokenizer. With a linear start, the
        head of a trained encoder is the output layer only, without pooler.
    """
    start = open_start(start)
    described, tokenizer, encoder, _ = starting_encoder(start, settings, texts)
    head = {}
    if settings.pairs == "apart" and (encoder is None or settings.linear_start is False):
        raise UserError("--pairs apart needs a trained start and its linear start. Found: one without")
    if encoder is not None and settings.linear_start is not False:
        head = {"pooling": _pooling(start, settings.pairs), "pooler": False}
    return _classifier(described | head, num_labels, settings, encoder), tokenizer


def _classifier(sizes, num_labels, settings, encoder):
    model = BertClassifier(**sizes, num_labels=num_labels, dtype=dtype_policy(settings))
    model.build()
    if encoder is not None:
        model.encoder.set_weights(encoder.get_weights())
    return model


def keeps_head(start, task, pairs, settings):
    """Whether training continues with the head of the start: it is a classifier with the labels of the task.

    Args:
        start: Entry or "none".
        task: Task.
        pairs: bool, whether the rows have two texts.
        settings: FinetuneSettings; its `linear_start`, if True or False, requires a new head.
    """
    if start == FROM_NOTHING or settings.linear_start is not None or settings.contrastive:
        return False
    if pairs and settings.pairs != "auto":
        return False
    known = start.config.get("task")
    if known is None or task.kind not in ("binary", "multiclass", "multilabel"):
        return False
    if (known["kind"], known["pair"]) != (task.kind, pairs):
        return False
    return order_of(task.label_names, known["label_names"]) is not None


def order_of(labels, known):
    """The place of each label in another list of the same labels: list of int; None if the lists differ.

    Spellings that look the same are one label, see `label_task.spelling_key`.
    """
    for key in (str, spelling_key):
        places = {key(label): place for place, label in enumerate(known)}
        if len(labels) == len(places) == len(known) and {key(label) for label in labels} == places.keys():
            return [places[key(label)] for label in labels]
    return None


def continued_classifier(start, task, settings):
    """Builds a classifier with the encoder and the head of the start, see `keeps_head`.

    Returns:
        BertClassifier, whose logits are in the order of the labels of `task`, and its WordPieceTokenizer.
    """
    described, tokenizer, encoder, source = starting_encoder(start, settings, [])
    head = {name: source.model.settings[name] for name in ("pooling", "pooler", "pooler_activation")}
    model = _classifier(described | head, len(task.label_names), settings, encoder)
    if model.pooler_dense is not None:
        model.pooler_dense.set_weights(source.model.pooler_dense.get_weights())
    order = order_of(task.label_names, source.task["label_names"])
    model.output_dense.set_weights([weight[..., order] for weight in source.model.output_dense.get_weights()])
    return model, tokenizer


class Start(NamedTuple):
    """The model from which a training starts.

    Attributes:
        sizes: dict, the settings of its BertEncoder.
        tokenizer: WordPieceTokenizer.
        encoder: BertEncoder with trained weights, or None for random ones.
        pipeline: Pipeline of the entry, or None.
    """

    sizes: dict
    tokenizer: WordPieceTokenizer
    encoder: object = None
    pipeline: object = None


def starting_encoder(start, settings, texts):
    """Finds the encoder from which a classifier starts.

    Args:
        start: see `open_start`; with "none", the vocabulary is made from the texts.
        settings: FinetuneSettings.
        texts: list of str, the training texts.

    Returns:
        Start.

    Raises:
        UserError: see `open_start`; or if the entry has a lower limit of tokens than requested, or there is no such
            attention pattern.
    """
    try:
        check_pattern({"attention_pattern": settings.attention_pattern})
    except ValueError as error:
        raise UserError(str(error)) from error
    if start == FROM_NOTHING:
        tokenizer = WordPieceTokenizer.train(texts, settings.vocabulary_size)
        sizes = {"vocabulary_size": tokenizer.vocabulary_size, "max_length": settings.max_tokens or MOST_TOKENS}
        described = {**BERT_PRESETS[settings.size], **sizes, "normalize_first": True}
        described["num_layers"] = settings.layers or described["num_layers"]
        described["attention_pattern"] = settings.attention_pattern
        encoder = source = None
    else:
        entry = open_start(start)
        source = load_pipeline(entry)
        described, tokenizer, encoder = entry.config["model"], source.tokenizer, source.encoder
        longer = settings.max_tokens and settings.max_tokens > described["max_length"]
        if longer and not settings.attention_pattern:
            raise UserError(
                f"{entry.folder} reads at most {described['max_length']} tokens. Received: "
                f"max_tokens={settings.max_tokens}. With --attention-pattern bigbird, it reads longer texts."
            )
        if settings.layers and settings.layers > encoder.num_layers:
            raise UserError(f"{entry.folder} has {encoder.num_layers} layers. Received: --layers {settings.layers}")
        if settings.layers or settings.attention_pattern:
            changes = {"attention_pattern": settings.attention_pattern or described["attention_pattern"]}
            changes["max_length"] = settings.max_tokens if longer else described["max_length"]
            encoder = student_of(encoder, range(settings.layers or encoder.num_layers), **changes)
            described = described | changes | {"num_layers": encoder.num_layers}
    described = {name: described[name] for name in ENCODER if name in described} | {"dropout": settings.dropout}
    return Start(described, tokenizer, encoder, source)


def _pooling(entry, pairs):
    """The pooling of the classifier: that of the entry, else the mean; "pair" if two texts are encoded separately.

    Raises:
        UserError: if `pairs` is "apart" and the model has no segments to tell the texts of a pair.
    """
    config = entry.config
    found, segments = config["model"].get("pooling") or config.get("pooling") or "mean", config["model"]["num_segments"]
    if pairs == "apart" and segments < 2:
        raise UserError(f"{entry.folder} has no second segment, so it cannot tell two texts apart. Use --pairs joint.")
    of_sentences = segments > 1 and (entry.architecture.name == "BertEncoder" or found == "pair")
    if pairs == "apart" or (pairs == "auto" and of_sentences):
        return "pair"
    return "mean" if found == "pair" else found


def _described(kind, labels):
    return f"{kind} ({listed(labels)})" if labels else kind
