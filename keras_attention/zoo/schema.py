"""The allowed content of `config.json`: registered architectures with their keys and values."""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from keras_attention.inputs.text import TextInput
from keras_attention.support.errors import EntryError, is_a_name, quoted
from keras_attention.support.moved import RenamedAttribute, moved_name, renamed_arguments


def whole(low, high):
    """An int from `low` to `high`."""
    return (f"an integer from {low} to {high}", lambda value: type(value) is int and low <= value <= high)


def number(low, high):
    """An int or float from `low` to `high`."""
    return (f"a number from {low} to {high}", lambda value: type(value) in (int, float) and low <= value <= high)


def number_or_list(low, high):
    """A number as in `number`, or a list of such numbers."""
    what, holds = number(low, high)

    def all_hold(value):
        return all(map(holds, value)) if isinstance(value, list) else holds(value)

    return (f"{what}, or a list of such", all_hold)


def list_of(fewest, most, field):
    """A list of `fewest` to `most` numbers, each of which holds as in `field`, such as `whole(1, 9)`."""
    what, holds = field

    def all_hold(values):
        return isinstance(values, list) and fewest <= len(values) <= most and all(map(holds, values))

    return (f"a list of {fewest} to {most} numbers, each {what}", all_hold)


def choice(*names):
    """One of the names."""
    return (f"one of {', '.join(names)}", lambda value: isinstance(value, str) and value in names)


def text(pattern, what):
    """A str that matches the regular expression."""
    return (what, lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None)


def different_texts(most, longest):
    """A list of at most `most` different str, each of 1 to `longest` characters without control characters."""

    def holds(value):
        if not isinstance(value, list) or len(value) > most or len({*map(repr, value)}) < len(value):
            return False
        return all(isinstance(name, str) and 1 <= len(name) <= longest and is_a_name(name) for name in value)

    return (f"a list of at most {most} different names of up to {longest} characters", holds)


def sized(kinds):
    """A str such as "kind:name=1,other=2"; `kinds` is a dict from kind to a dict from name to the bounds of an int."""

    def holds(value):
        if not isinstance(value, str) or len(value) > 200:
            return False
        kind, _, sizes = value.partition(":")
        numbers = dict(re.findall(r"([a-z]+)=(0|[1-9][0-9]{0,9})(?:,|$)", sizes))
        as_text = f"{kind}:" + ",".join(f"{name}={size}" for name, size in numbers.items()) if numbers else kind
        if kind not in kinds or value != as_text:
            return False
        bounds = {name: kinds[kind].get(name, (1, 0)) for name in numbers}
        return all(low <= int(numbers[name]) <= high for name, (low, high) in bounds.items())

    return (f"one of {', '.join(kinds)}, with sizes such as {next(iter(kinds))}:width=256", holds)


def optional(field):
    """A value that `field` allows, or null."""
    what, holds = field
    return (f"{what}, or null", lambda value: value is None or holds(value))


# Sizes of sparse attention, see `layers/sparse_patterns.py`. The minimum block size limits the work of listing blocks.
_STRIDE, _PART = (1, 65536), (1, 2)
PATTERN_BOUNDS = {
    "window": {"width": (1, 65536)},
    "strided": {"stride": _STRIDE, "part": _PART},
    "fixed": {"stride": _STRIDE, "summary": _STRIDE, "part": _PART},
    "bigbird": {
        "block": (8, 65536),
        "window": (1, 1023),
        "globals": (0, 1024),
        "random": (0, 64),
        "seed": (0, 1_000_000),
        "length": (1, 65536),
    },
}
ATTENTION_PATTERN = optional(sized(PATTERN_BOUNDS))
TRUTH = ("true or false", lambda value: isinstance(value, bool))
OBJECT = ("an object", lambda value: isinstance(value, dict))


def check_fields(values, fields, required, where):
    """Checks a dict against `fields`, a dict from key to allowed values. Keys in `required` must be present.

    Raises:
        EntryError: names the first key or value that is not allowed.
    """
    check_keys(values, required, tuple(set(fields) - set(required)), where)
    for name, value in values.items():
        check_value(name, value, fields[name], where)


def check_keys(values, required, optional, where):
    """Raises EntryError unless `values` is a dict with all keys of `required`, and no keys outside of both."""
    if not isinstance(values, dict):
        raise EntryError(f"{where} must be an object. Received: {type(values).__name__}")
    for name in sorted(set(values) - set(required) - set(optional)):
        raise EntryError(f"{where} has the unknown key {quoted(name)}.")
    for name in required:
        if name not in values:
            raise EntryError(f"{where} lacks the key {name!r}.")


def check_value(name, value, field, where):
    """Raises EntryError unless `field` allows the value."""
    what, holds = field
    if not holds(value):
        raise EntryError(f"{where}: {name} must be {what}. Received: {name}={quoted(value)}")


def _as_it_is(config, where):
    return config


class Activity(NamedTuple):
    """What a visitor of the demo page can do with a model, in plain words.

    Attributes:
        title: str, a few words for a button; models with the same title stand together.
        introduction: str, one sentence.
        input_title: str, stands above the field of the input.
    """

    title: str
    introduction: str
    input_title: str


@dataclass(frozen=True)
class Task:
    """What a model is for: its pipeline, and the keys of `config.json` other than the network's settings.

    Attributes:
        tasks: tuple of str, the tasks of the pipeline, the main one first: "translate", "classify", "fill-mask" ...
        pipeline: str, "module:Class" of a `pipelines.base.Pipeline`.
        method: str, the method of the pipeline for the example on a card.
        inputs: tuple of classes, the kinds of input that the pipeline reads, see `keras_attention.inputs`.
        input_of: callable(config) -> the kind of input of one model; None: the first of `inputs`, without arguments.
        new_input: callable(sources, kind or None) -> (kind of input, settings of the network), for a new network that
            is trained on these sources: list of what the kind reads. `kind` is the `plural` of one; None: the kind that
            the sources look like. Or None if the network takes one size of inputs.
        tokenizers: dict from the role of a tokenizer to the model's setting with its vocabulary size.
        tokenizer_kinds: tuple of str, the kinds of tokenizers that the pipeline works with; None: all.
        keys: dict from each key of `config.json`, in addition to `ALWAYS`, to its allowed values.
        defaults: dict, optional keys with their defaults.
        title: callable(config) -> str, a short text for lists: "en to de".
        reads: callable(config) -> str, a sentence for the card: "From en to de".
        check: callable(config, where) -> config, checks that keys fit together; raises EntryError.
        activity: callable(config) -> Activity, for the demo page; None: the name of the task.
    """

    tasks: tuple
    pipeline: str
    method: str
    title: Callable
    reads: Callable
    inputs: tuple = (TextInput,)
    input_of: Callable | None = None
    new_input: Callable | None = None
    tokenizers: dict = field(default_factory=dict)
    tokenizer_kinds: tuple | None = None
    keys: dict = field(default_factory=dict)
    defaults: dict = field(default_factory=dict)
    check: Callable = _as_it_is
    activity: Callable | None = None
    task = RenamedAttribute("name")

    @property
    def name(self):
        """str, the main task of the pipeline."""
        return self.tasks[0]

    def input(self, config):
        """The kind of input of the model with this `config.json`."""
        return self.input_of(config) if self.input_of else self.inputs[0]()

    def activity_of(self, config):
        """The Activity of the model with this `config.json`."""
        if self.activity:
            return self.activity(config)
        kind = self.input(config)
        return Activity(self.name.replace("-", " ").capitalize(), kind.instruction, kind.noun.capitalize())

    def pipeline_class(self):
        """The pipeline's class; imports its module."""
        return imported(self.pipeline)


@dataclass(frozen=True)
class Architecture:
    """A registered network.

    Attributes:
        name: str, "architecture" in `config.json` and the name of the model's class.
        model: str, "module:Class"; a keras.Model with the `settings` as arguments and in its `get_config()`.
        settings: dict from each setting to its allowed values, see `whole`, `number`, `choice`.
        parameters: callable(settings) -> int, a close upper bound on the number of weights. It is computed before the
            model is built, so that a small file cannot request a large model.
        task: Task; several architectures may share one.
        defaults: dict, values for settings that older entries do not have.
        detail: callable(settings) -> str, added to the name on the card: " with additive attention".
        classifier: str, the name of the architecture of the classifiers that fine-tuning makes from such a network, or
            None; that one is a `models.shared.FinetunableNetwork`.
        networks: dict from each name of this classifier for `finetune --network` to the settings that the name implies.
    """

    name: str
    model: str
    settings: dict
    parameters: Callable
    task: Task
    defaults: dict = field(default_factory=dict)
    detail: Callable = lambda settings: ""
    classifier: str | None = None
    networks: dict = field(default_factory=dict)
    use = RenamedAttribute("task")

    def model_class(self):
        """The model's class; imports its module."""
        return imported(self.model)


Architecture.__init__ = renamed_arguments(use="task")(Architecture.__init__)
ARCHITECTURES = {}


def register(architecture):
    """Registers an architecture for the zoo, the commands, the server, the export and the cards.

    The files of `catalog/` have one call for each model of the package. `pipelines/base.py`
    explains how to add a model.

    Args:
        architecture: Architecture.

    Raises:
        ValueError: if the name is already registered.
    """
    if architecture.name in ARCHITECTURES:
        raise ValueError(f"`name` must be new. Received: name={architecture.name!r}")
    ARCHITECTURES[architecture.name] = architecture


def imported(path):
    """The object at "module:name". The path comes from a registration, never from a file."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


FORMAT_VERSION = 1
MAX_PARAMETERS = 400_000_000
MAX_TERMS, MAX_TERM_CHARACTERS = 50_000, 64  # of a bag of words
WORDS_FILE = "words.h5"  # a bag of words
MAX_FEATURES = 100_000
FEATURES_FILE = "features.h5"  # a linear model on the features of a kind of input
_FOLDER = text("[a-z][a-z0-9_]{0,40}", "the name of a folder of the entry")
ALWAYS = ("format_version", "architecture", "model", "tokenizer")
OPTIONAL = {"weights_dtype": "float32"}
WEIGHTS_DTYPE = choice("float32", "float16", "int8", "int8_deflate")


def architecture_of(config, where="config.json"):
    """The Architecture of a `config.json`; raises EntryError if it is not registered."""
    name = config["architecture"]
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise EntryError(
            f"{where} has architecture={quoted(name)}. Expected: one of {len(ARCHITECTURES)} that this version "
            "knows, such as Transformer. The model may be from a later version: update keras_attention."
        )
    return ARCHITECTURES[name]


def check_config(config, where="config.json"):
    """Checks every key and value of a `config.json`.

    Args:
        config: dict.
        where: str, the name of the file in errors.

    Returns:
        The config, with the defaults of the optional keys filled in.

    Raises:
        EntryError: for an unknown or missing key, a value out of range, or a model over `MAX_PARAMETERS`.
    """
    check_keys(config, ALWAYS, config, where)
    version = config["format_version"]
    if type(version) is not int or version != FORMAT_VERSION:
        raise EntryError(f"{where} has format_version={quoted(version)}. This version reads {FORMAT_VERSION}.")
    architecture = architecture_of(config, where)
    task, defaults = architecture.task, {**architecture.task.defaults, **OPTIONAL}
    check_keys(config, (*ALWAYS, *(key for key in task.keys if key not in defaults)), defaults, where)
    if isinstance(config["model"], dict):
        config = {**config, "model": {**architecture.defaults, **config["model"]}}
    check_fields(config["model"], architecture.settings, tuple(architecture.settings), f"{where}, model")
    folders = dict.fromkeys(task.tokenizers, _FOLDER)
    check_fields(config["tokenizer"], folders, tuple(folders), f"{where}, tokenizer")
    config = {**defaults, **config}
    for name, allowed in {**task.keys, "weights_dtype": WEIGHTS_DTYPE}.items():
        check_value(name, config[name], allowed, where)
    parameters = architecture.parameters(config["model"])
    if parameters > MAX_PARAMETERS:
        raise EntryError(f"{where} needs about {parameters} parameters. Allowed: {MAX_PARAMETERS}")
    return task.check(config, where)


def max_bytes_of_terms(num_terms):
    """The most bytes that the terms of a bag of words may have together, each with a line break."""
    return num_terms * (4 * MAX_TERM_CHARACTERS + 1)


def max_bytes_of_words(num_terms, num_labels):
    """The most bytes that the file of a bag of words may have."""
    return max_bytes_of_terms(num_terms) + 4 * (num_terms + num_terms * num_labels + num_labels) + 65536


def __getattr__(name):
    return moved_name(__name__, name)
