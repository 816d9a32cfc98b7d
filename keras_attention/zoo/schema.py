"""What `config.json` of an entry may say: the registered architectures, their keys and values, and nothing else."""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from keras_attention.errors import EntryError, quoted


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


def choice(*names):
    """One of the names."""
    return (f"one of {', '.join(names)}", lambda value: isinstance(value, str) and value in names)


def text(pattern, what):
    """A str that matches the regular expression."""
    return (what, lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None)


def different_texts(most, longest):
    """A list of at most `most` different str, each of 1 to `longest` characters that are no control characters."""

    def holds(value):
        if not isinstance(value, list) or len(value) > most or len({*map(repr, value)}) < len(value):
            return False
        return all(isinstance(name, str) and 1 <= len(name) <= longest and name.isprintable() for name in value)

    return (f"a list of at most {most} different names of up to {longest} characters", holds)


def optional(field):
    """What `field` allows, or null."""
    what, holds = field
    return (f"{what}, or null", lambda value: value is None or holds(value))


TRUTH = ("true or false", lambda value: isinstance(value, bool))
OBJECT = ("an object", lambda value: isinstance(value, dict))


def check_fields(values, fields, required, where):
    """Checks a dict whose keys and values are described by `fields`; those of `required` must be there.

    Raises:
        EntryError: names the first key or value that is not allowed.
    """
    check_keys(values, required, tuple(set(fields) - set(required)), where)
    for name, value in values.items():
        check_value(name, value, fields[name], where)


def check_keys(values, required, optional, where):
    """Raises EntryError unless `values` is a dict with all keys of `required` and no others than those of both."""
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


@dataclass(frozen=True)
class Use:
    """What models are used for: the pipeline that runs them, and what `config.json` says beside the network.

    Attributes:
        tasks: tuple of str, what the pipeline can do, its own task first: "translate", "classify", "fill-mask" ...
        pipeline: str, "module:Class" of a `pipelines.base.Pipeline`.
        method: str, the method of the pipeline that the example on a card calls.
        tokenizers: dict from the role of a tokenizer to the setting of the model that is its vocabulary's size.
        keys: dict from each key of `config.json` that these models have beside `ALWAYS` to what it may hold.
        defaults: dict, the keys among them that may be missing, with their defaults.
        title: callable(config) -> str for lists: "en to de".
        reads: callable(config) -> str for the card: "From en to de".
        check: callable(config, where) -> config: what keys must fit to each other; raises EntryError.
    """

    tasks: tuple
    pipeline: str
    method: str
    title: Callable
    reads: Callable
    tokenizers: dict = field(default_factory=dict)
    keys: dict = field(default_factory=dict)
    defaults: dict = field(default_factory=dict)
    check: Callable = _as_it_is

    @property
    def task(self):
        """str, the pipeline's own task."""
        return self.tasks[0]

    def pipeline_class(self):
        """The pipeline's class; imports its module."""
        return imported(self.pipeline)


@dataclass(frozen=True)
class Architecture:
    """A network that entries may ask for.

    Attributes:
        name: str, "architecture" of `config.json` and the name of the model's class.
        model: str, "module:Class"; a keras.Model with the `settings` as arguments and in its `get_config()`.
        settings: dict from each setting to what it may hold, see `whole`, `number`, `choice`.
        parameters: callable(settings) -> int, an upper bound on the number of weights, close to the truth. It is asked
            before anything is built, so that a small file cannot ask for a large model.
        use: Use; models of several architectures may share one.
        defaults: dict, settings that older entries do not have, with what models did before.
        detail: callable(settings) -> str, what the card adds to the name: " with additive attention".
    """

    name: str
    model: str
    settings: dict
    parameters: Callable
    use: Use
    defaults: dict = field(default_factory=dict)
    detail: Callable = lambda settings: ""

    def model_class(self):
        """The model's class; imports its module."""
        return imported(self.model)


ARCHITECTURES = {}


def register(architecture):
    """Makes an architecture known to the zoo, the commands, the server, the export and the cards.

    `zoo/architectures.py` has one call for each model of the package. How to add a model is told in
    `pipelines/base.py`.

    Args:
        architecture: Architecture.

    Raises:
        ValueError: if there is one of that name.
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
_FOLDER = text("[a-z][a-z0-9_]{0,40}", "the name of a folder of the entry")
ALWAYS = ("format_version", "architecture", "model", "tokenizer")
OPTIONAL = {"weights_dtype": "float32"}
WEIGHTS_DTYPE = choice("float32", "float16", "int8")


def architecture_of(config, where="config.json"):
    """The Architecture that a `config.json` asks for; raises EntryError if it is none of the registered ones."""
    name = config["architecture"]
    if not isinstance(name, str) or name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise EntryError(f"{where} has architecture={quoted(name)}. Known: {known}")
    return ARCHITECTURES[name]


def check_config(config, where="config.json"):
    """Checks every key and value of a `config.json`.

    Args:
        config: dict.
        where: str, named in errors.

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
    use, defaults = architecture.use, {**architecture.use.defaults, **OPTIONAL}
    check_keys(config, (*ALWAYS, *(key for key in use.keys if key not in defaults)), defaults, where)
    if isinstance(config["model"], dict):
        config = {**config, "model": {**architecture.defaults, **config["model"]}}
    check_fields(config["model"], architecture.settings, tuple(architecture.settings), f"{where}, model")
    folders = dict.fromkeys(use.tokenizers, _FOLDER)
    check_fields(config["tokenizer"], folders, tuple(folders), f"{where}, tokenizer")
    config = {**defaults, **config}
    for name, allowed in {**use.keys, "weights_dtype": WEIGHTS_DTYPE}.items():
        check_value(name, config[name], allowed, where)
    parameters = architecture.parameters(config["model"])
    if parameters > MAX_PARAMETERS:
        raise EntryError(f"{where} needs about {parameters} parameters. Allowed: {MAX_PARAMETERS}")
    return use.check(config, where)
