"""The models of the server: loading, and preparing them for batches across requests."""

from functools import partial
from typing import NamedTuple

from keras_attention.errors import UserError
from keras_attention.pipelines.base import load_pipeline
from keras_attention.server.batching import share_batches
from keras_attention.zoo.registry import open_entry

EXAMPLES = 3


class ServedModel(NamedTuple):
    """A loaded model with its task and description.

    Attributes:
        name: str.
        task: str, the pipeline's own task.
        pipeline: Pipeline that batches across requests, if it can.
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
        entry = open_entry(given)
        if entry.name in models:
            raise UserError(f"Two models have the name {entry.name!r}. Rename one of the folders.")
        pipeline = load_pipeline(entry)
        steps = share_batches(pipeline, settings, partial(observe, entry.name))
        models[entry.name] = served_model(pipeline, steps)
    return models


def served_model(pipeline, steps=()):
    """The ServedModel of a pipeline that was loaded from an entry."""
    entry = pipeline.entry
    return ServedModel(entry.name, entry.architecture.use.task, pipeline, about_model(pipeline), list(steps))


def about_model(pipeline):
    """The entry of a model in `GET /v1/models`: dict of JSON types."""
    config, metrics, task = pipeline.entry.config, pipeline.entry.metrics, pipeline.entry.architecture.use.task
    facts = {"name": pipeline.entry.name, "task": task, "architecture": config["architecture"]}
    facts |= {name: config[name] for name in ("source_language", "target_language", "language") if name in config}
    facts |= {"pair": False, **pipeline.facts, "attention": pipeline.has_attention}
    facts["description"] = metrics.get("description", "")
    facts["parameters"] = metrics.get("parameters")
    facts["examples"] = [
        {name: example[name] for name in ("source", "source_b") if name in example}
        for example in metrics.get("examples", [])[:EXAMPLES]
    ]
    return facts
