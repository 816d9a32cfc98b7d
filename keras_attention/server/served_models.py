"""The models of the server: loading, and preparing them for batches across requests."""

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
    """A loaded model with its task and description.

    Attributes:
        name: str.
        task: str, one of `TASKS`.
        pipeline: Translator, Classifier, MaskFiller or TextEncoder that batches across requests.
        about: dict of JSON types, the entry of the model in `GET /v1/models`.
        steps: list of callables that compute each shape once.
    """

    name: str
    task: str
    pipeline: object
    about: dict
    steps: list


def load_models(names, settings, observe):
    """Loads models and prepares them for batches across requests.

    Args:
        names: list of str, by name or folder.
        settings: ServerSettings.
        observe: callable (model name, int), called for each row with the number of rows in its batch.

    Returns:
        Dict from name to ServedModel, in the order of `names`.

    Raises:
        UserError: if a model is missing or damaged, or two models have the same name.
    """
    models = {}
    for given in names:
        entry = read_entry(find_entry(given))
        if entry.name in models:
            raise UserError(f"Two models have the name {entry.name!r}. Rename one of the folders.")
        pipeline = load_pipeline(entry.folder)
        task = TASKS[type(pipeline).__name__]
        tell = partial(observe, entry.name)
        ready = _ready_translator if task == "translate" else batch_bert
        steps = ready(pipeline, settings, tell)
        models[entry.name] = ServedModel(entry.name, task, pipeline, about_model(entry, pipeline, task), steps)
    return models


def about_model(entry, pipeline, task):
    """The entry of a model in `GET /v1/models`: dict of JSON types."""
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
