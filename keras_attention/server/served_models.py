"""The models that the server offers: loaded at its start, or known from their JSON files until a request needs them."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from keras_attention.inputs.text import TextInput
from keras_attention.pipelines.base import load_pipeline
from keras_attention.pipelines.language_pairs import pair_of
from keras_attention.runtime.batching import share_batches
from keras_attention.server.gate import Refusal
from keras_attention.support.errors import EntryError, UserError
from keras_attention.zoo.entry import JSON_FILES, read_entry
from keras_attention.zoo.registry import DEFAULT_MODELS, find_entry, list_models, open_entry

EXAMPLES = 3  # of each model, in its description
MEGABYTE = 1 << 20
BYTES_PER_WEIGHT, BYTES_PER_MODEL = 8, 200 * MEGABYTE  # of a loaded model with its compiled programs


@dataclass(eq=False)
class ServedModel:
    """A model with its task and description, which may not be loaded yet.

    Attributes:
        name: str.
        task: str, the pipeline's own task.
        pipeline: Pipeline that batches across requests, if it can; None before it is loaded.
        about: dict of JSON types, the description of the model in `GET /v1/models`.
        steps: sequence of callables that compute each shape once.
        tasks: tuple of str, all tasks of the pipeline.
        load: callable() -> ServedModel with a pipeline; None for a model that was loaded at the start.
        error: str, why the model cannot be loaded, or "".
        input: the kind of its input, see `keras_attention.inputs`.
        pair: `language_pairs.Pair` of a translator between natural languages, else None.
    """

    name: str
    task: str
    pipeline: Any
    about: dict
    steps: Sequence[Callable] = ()
    tasks: tuple = ()
    load: Callable | None = None
    error: str = ""
    input: Any = field(default_factory=TextInput)
    pair: Any = None

    @property
    def input_field(self):
        """The first field of a request to the model, such as "texts"."""
        return next(iter(self.input.fields))


def load_models(names, settings, observe):
    """Loads models and prepares them for batches across requests.

    Args:
        names: list of str, by name or folder.
        settings: ServerSettings.
        observe: callable (model name, int), called for each sequence with the number of sequences in its batch.

    Returns:
        Dict from name to ServedModel, in the order of `names`.

    Raises:
        UserError: if a model is missing or damaged, or two models have the same name.
    """
    models = {}
    for requested in names:
        entry = open_entry(requested)
        if entry.name in models:
            raise UserError(f"Two models have the name {entry.name!r}. Rename one of the folders.")
        models[entry.name] = _loaded_model(entry, settings, observe)
    return models


def known_models(settings, observe, notify=lambda text: None):
    """All models of `list_models`, each to be loaded at its first request; calls `notify` for each damaged one.

    Args and returns: see `load_models`. Only the JSON files of each entry are read.
    """
    models = {}
    for name in list_models():
        try:
            entry = read_entry(find_entry(name), hashed=JSON_FILES)
        except EntryError as error:
            notify(f"{name} is not served: {error}")
            continue
        task = entry.architecture.task
        known = {"input": entry.input, "pair": pair_of(name, entry)}
        models[name] = ServedModel(name, task.name, None, about_entry(entry), (), task.tasks, **known)
        models[name].load = partial(_load_entry, entry, settings, observe)
    return models


def _load_entry(entry, settings, observe):
    needed, free = BYTES_PER_WEIGHT * entry.metrics.get("parameters", 0) + BYTES_PER_MODEL, free_memory()
    if needed > free:
        raise Refusal(
            503,
            f"There is no memory for {entry.name}: it needs about {needed // MEGABYTE:,} MB, free are "
            f"{free // MEGABYTE:,} MB. Start the server with --model for each model that you need.",
        )
    return _loaded_model(open_entry(entry.folder), settings, observe)


def _loaded_model(entry, settings, observe):
    pipeline = load_pipeline(entry)
    if settings.engine in pipeline.engines:
        pipeline.use_engine(settings.engine, compute_type=settings.compute_type)
    return served_model(pipeline, share_batches(pipeline, settings, partial(observe, entry.name)))


def served_model(pipeline, steps=()):
    """The ServedModel of a pipeline that was loaded from an entry."""
    entry = pipeline.entry
    task = entry.architecture.task
    known = {"input": entry.input, "pair": pair_of(entry.name, entry)}
    return ServedModel(entry.name, task.name, pipeline, about_model(pipeline), list(steps), task.tasks, **known)


def about_model(pipeline):
    """The description of a model in `GET /v1/models`: dict of JSON types."""
    return about_entry(pipeline.entry, pipeline.facts, pipeline.has_attention)


def about_entry(entry, facts=None, has_attention=None):
    """The description of the model of an Entry, which need not be loaded.

    Args:
        entry: Entry.
        facts: dict, `Pipeline.facts`; None takes it from the entry.
        has_attention: bool, `Pipeline.has_attention`; None takes it from the classes, True if it depends on settings.
    """
    config, metrics, task = entry.config, entry.metrics, entry.architecture.task
    if has_attention is None:
        classes = task.pipeline_class(), entry.architecture.model_class()
        known = [getattr(kind, "has_attention", None) for kind in classes]
        has_attention = next((value for value in known if isinstance(value, bool)), True)
    about = {"name": entry.name, "task": task.name, "architecture": config["architecture"]}
    about |= {name: config[name] for name in ("source_language", "target_language", "language") if name in config}
    facts = task.pipeline_class().facts_of(config) if facts is None else facts
    kind = entry.input
    shown = has_attention and not kind.is_file  # the routes for attention take texts
    about |= {"input": kind.name, "widget": kind.widget, "answer": task.pipeline_class().answer_kind}
    about |= {"pair": False, **facts, "attention": shown}
    about["activity"] = task.activity_of(config)._asdict()
    about["description"] = metrics.get("description", "")
    about["parameters"] = metrics.get("parameters")
    examples = [{name: one[name] for name in ("source", "source_b") if name in one} for one in metrics["examples"]]
    examples = [one for at, one in enumerate(examples) if one not in examples[:at]][:EXAMPLES]
    if kind.is_file:
        about["body_bytes"] = kind.body_bytes
        examples = [{"source": kind.file_as_json(entry.folder / one["source"])} for one in examples]
    about["examples"] = examples
    return about


def activities_of(models, translations):
    """What a visitor of the page can do, for `GET /v1/models`: list of dicts, each with its models, the best first.

    Tasks are in the order of `DEFAULT_MODELS`. The default model of an activity is its first.

    Args:
        models: list of dict, see `Server.about`.
        translations: list of dict, see `ModelRouter.language_pairs`, whose order translators have.
    """
    tasks, best = list(DEFAULT_MODELS), [one["model"] for one in translations]

    def place(about):
        task, name = about["task"], about["name"]
        place_of_task = tasks.index(task) if task in tasks else len(tasks)
        rank = best.index(name) if name in best else len(best)
        return place_of_task, not about["default"], name != DEFAULT_MODELS.get(task), rank

    activities: dict = {}
    for about in sorted(models, key=place):
        activity = activities.setdefault(about["activity"]["title"], {**about["activity"], "models": []})
        activity["models"].append(about["name"])
    return list(activities.values())


def free_memory():
    """The bytes that this process can still take, also within the limit of its container; infinity if unknown."""
    free = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free.append(1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")))
    with contextlib.suppress(OSError, ValueError, StopIteration):
        group = Path("/sys/fs/cgroup")
        most, used = int((group / "memory.max").read_text()), int((group / "memory.current").read_text())
        lines = (group / "memory.stat").read_text().splitlines()
        files = next(
            int(line.split()[1]) for line in lines if line.startswith("inactive_file ")
        )  # given back on demand
        free.append(most - used + files)
    return min(free, default=float("inf"))
