"""The models of a server: loaded, readied to share their batches, found by name."""

from functools import partial
from typing import NamedTuple

from keras_attention.errors import UserError
from keras_attention.pipelines.base import load_pipeline
from keras_attention.server.batching import BatchedSearch, batch_bert
from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.registry import find_entry

TASKS = {"Translator": "translate", "Classifier": "classify", "MaskFiller": "fill-mask", "TextEncoder": "attention"}
EXAMPLES = 3


class ServedModel(NamedTuple):
    """A model that answers.

    Attributes:
        name: str.
        task: str, one of `TASKS`.
        pipeline: Translator, Classifier, MaskFiller or TextEncoder, whose rows are computed with those of others.
        about: dict of JSON types, what `GET /v1/models` tells of it.
        steps: list of callables that together compute each shape once.
    """

    name: str
    task: str
    pipeline: object
    about: dict
    steps: list


def load_models(names, settings, observe):
    """Loads models and readies them.

    Args:
        names: list of str, by name or folder.
        settings: ServerSettings.
        observe: callable (name of the model, int), told of each computed row how many were computed together.

    Returns:
        Dict from name to ServedModel, in the order of `names`.

    Raises:
        UserError: if a model is not there or damaged, or two have the same name.
    """
    models = {}
    for given in names:
        entry = read_entry(find_entry(given))
        if entry.name in models:
            raise UserError(f"Two models have the name {entry.name!r}. Expected: different names of folders.")
        pipeline = load_pipeline(entry.folder)
        task = TASKS[type(pipeline).__name__]
        tell = partial(observe, entry.name)
        ready = _ready_translator if task == "translate" else batch_bert
        steps = ready(pipeline, settings, tell)
        models[entry.name] = ServedModel(entry.name, task, pipeline, about_model(entry, pipeline, task), steps)
    return models


def about_model(entry, pipeline, task):
    """What is told of a model: dict of JSON types."""
    config, metrics = entry.config, entry.metrics
    facts = {"name": entry.name, "task": task, "architecture": config["architecture"]}
    facts |= {name: config[name] for name in ("source_language", "target_language", "language") if name in config}
    if task == "translate":
        facts["beam_size"] = pipeline.decoding["beam_size"]
    if task == "classify":
        facts |= {"kind": config["task"]["kind"], "labels": config["task"]["label_names"]}
    facts["pair"] = task == "classify" and config["task"]["pair"]
    facts["attention"] = getattr(pipeline, "has_attention", True)
    facts["description"] = metrics.get("description", "")
    facts["parameters"] = metrics.get("parameters")
    facts["examples"] = [
        {name: example[name] for name in ("source", "source_b") if name in example}
        for example in metrics.get("examples", [])[:EXAMPLES]
    ]
    return facts


def _ready_translator(translator, settings, observe):
    translator.decoding["beam_size"] = settings.beam or translator.decoding["beam_size"]
    translator.compiled = BatchedSearch(translator, settings.batch_sizes, observe)
    return translator.compiled.steps()
