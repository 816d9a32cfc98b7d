"""The small language of `config.json`: which architectures, which keys, which values. Anything else is refused."""

from keras_attention.zoo.architectures import ARCHITECTURES, TRANSLATORS, estimated_parameters
from keras_attention.zoo.entry_error import EntryError
from keras_attention.zoo.fields import (
    TRUTH,
    check_fields,
    check_keys,
    check_value,
    choice,
    different_texts,
    number,
    number_or_list,
    optional,
    text,
    whole,
)

FORMAT_VERSION = 1
MAX_PARAMETERS = 400_000_000

# Lengths count tokens with END. An answer has at most min(max_length, length_ratio * source + length_offset) tokens.
DECODING = {
    "beam_size": whole(1, 64),
    "length_penalty": number(0, 10),
    "coverage_penalty": number(0, 10),
    "patience": optional(number(0.01, 1000)),
    "max_length": whole(1, 4096),
    "length_ratio": number(0, 1000),
    "length_offset": whole(0, 4096),
    "max_source_length": whole(2, 4096),
}
DECODING_DEFAULTS = {
    "beam_size": 5,
    "length_penalty": 0.0,
    "coverage_penalty": 0.0,
    "patience": 2.0,
    "max_length": 128,
    "length_ratio": 2.0,
    "length_offset": 10,
    "max_source_length": 128,
}
# What a classifier decides: see `data.label_task.Task`. `threshold`: the probability from which on a label of a
# multilabel task is given, one for all labels or one for each. `pair`: it reads two texts.
# `long_texts`: what it reads of a text with too many tokens.
TASK = {
    "kind": choice("binary", "multiclass", "multilabel", "regression"),
    "label_names": different_texts(1000, 200),
    "threshold": number_or_list(0, 1),
    "separator": optional(text(r"[^\w\s]{1,3}| ", "up to three signs, or a blank")),
    "pair": TRUTH,
    "long_texts": choice("start", "ends", "whole"),
}
TASK_DEFAULTS = {"long_texts": "start"}

_FOLDER = text("[a-z][a-z0-9_]{0,40}", "the name of a folder of the entry")
_LANGUAGE = text("[A-Za-z][A-Za-z0-9 _-]{0,40}", "the name or code of a language")
ALWAYS = ("format_version", "architecture", "model", "tokenizer")
# Beside these, each kind of model has keys of its own: those it needs, and those it may have with their defaults.
TRANSLATOR_NEEDS = ("decoding", "source_language", "target_language")
TRANSLATOR_MAY = {"low_score_threshold": None, "weights_dtype": "float32"}
BERT_NEEDS = ("language", "max_tokens")
BERT_MAY = {"weights_dtype": "float32"}
VALUES = {
    "source_language": _LANGUAGE,
    "target_language": _LANGUAGE,
    "language": _LANGUAGE,
    "max_tokens": whole(3, 65536),
    "low_score_threshold": optional(number(-100, 0)),
    "weights_dtype": choice("float32", "float16"),
}


def check_config(config, where="config.json"):
    """Checks every key and value of a `config.json`.

    Args:
        config: dict.
        where: str, named in errors.

    Returns:
        The config, with the defaults of "decoding" and of the optional keys filled in.

    Raises:
        EntryError: for an unknown or missing key, a value out of range, or a model over `MAX_PARAMETERS`.
    """
    architecture = config.get("architecture") if isinstance(config, dict) else None
    if isinstance(architecture, str) and architecture.startswith("Bert"):
        needs, may = (*BERT_NEEDS, *(("task",) if architecture == "BertClassifier" else ())), BERT_MAY
        roles = ("text",)
    else:
        needs, may, roles = TRANSLATOR_NEEDS, TRANSLATOR_MAY, ("source", "target")
    check_keys(config, (*ALWAYS, *needs), tuple(may), where)
    if config["format_version"] != FORMAT_VERSION or type(config["format_version"]) is not int:
        found = config["format_version"]
        raise EntryError(f"{where} has format_version={found!r}. This version reads {FORMAT_VERSION}.")
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise EntryError(f"{where} asks for architecture={architecture!r}. Known: {', '.join(ARCHITECTURES)}")
    fields = ARCHITECTURES[architecture]
    check_fields(config["model"], fields, tuple(fields), f"{where}, model")
    check_fields(config["tokenizer"], dict.fromkeys(roles, _FOLDER), roles, f"{where}, tokenizer")
    config = {**may, **config}
    for name, value in config.items():
        if name in VALUES:
            check_value(name, value, VALUES[name], where)
    parameters = estimated_parameters(architecture, config["model"])
    if parameters > MAX_PARAMETERS:
        raise EntryError(f"{where} asks for about {parameters} parameters. Allowed: {MAX_PARAMETERS}")
    if architecture in TRANSLATORS:
        check_fields(config["decoding"], DECODING, (), f"{where}, decoding")
        return {**config, "decoding": {**DECODING_DEFAULTS, **config["decoding"]}}
    _check_bert(config, where)
    return config | {"task": TASK_DEFAULTS | config["task"]} if "task" in config else config


def _check_bert(config, where):
    """What settings of a BERT must fit to each other."""
    model = config["model"]
    if config["max_tokens"] > model["max_length"]:
        raise EntryError(
            f"{where}: max_tokens may be at most max_length={model['max_length']} of the model. "
            f"Received: max_tokens={config['max_tokens']}"
        )
    if "task" not in config:
        return
    task = config["task"]
    check_fields(task, TASK, tuple(name for name in TASK if name not in TASK_DEFAULTS), f"{where}, task")
    numbers = {"regression": (0, 1), "binary": (2, 2)}.get(task["kind"], (len(task["label_names"]),) * 2)
    found = len(task["label_names"]), model["num_labels"]
    if found != numbers:
        raise EntryError(
            f"{where}: a {task['kind']} task has {numbers[0]} label_names and num_labels={numbers[1]}. "
            f"Received: {found[0]} and num_labels={found[1]}"
        )
    if isinstance(task["threshold"], list) and len(task["threshold"]) != len(task["label_names"]):
        raise EntryError(
            f"{where}, task: threshold must be one number or one for each of the {len(task['label_names'])} labels. "
            f"Received: {len(task['threshold'])}"
        )
    if (task["kind"] == "multilabel") != (task["separator"] is not None):
        raise EntryError(f"{where}, task: a multilabel task, and no other, has a separator.")
