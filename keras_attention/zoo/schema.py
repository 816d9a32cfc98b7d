"""The schema of `config.json`: allowed architectures, keys and values."""

import re

from keras_attention.errors import EntryError


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
        raise EntryError(f"{where} has the unknown key {name!r}.")
    for name in required:
        if name not in values:
            raise EntryError(f"{where} lacks the key {name!r}.")


def check_value(name, value, field, where):
    """Raises EntryError unless `field` allows the value."""
    what, holds = field
    if not holds(value):
        raise EntryError(f"{where}: {name} must be {what}. Received: {name}={value!r:.100}")


VOCABULARY = whole(5, 1_000_000)
ENCODER = {
    "vocabulary_size": VOCABULARY,
    "hidden_dim": whole(1, 8192),
    "intermediate_dim": whole(1, 32768),
    "num_heads": whole(1, 128),
    "num_layers": whole(1, 64),
    "max_length": whole(1, 65536),
    "num_segments": whole(0, 16),
    "dropout": number(0, 0.99),
    "activation": choice("gelu", "gelu_approximate", "relu", "silu"),
    "normalize_first": TRUTH,
    "layer_norm_epsilon": number(1e-14, 0.1),
}
ARCHITECTURES = {
    "AttentionSeq2Seq": {
        "source_vocabulary_size": VOCABULARY,
        "target_vocabulary_size": VOCABULARY,
        "embedding_dim": whole(1, 8192),
        "hidden_dim": whole(2, 8192),
        "num_layers": whole(1, 16),
        "cell": choice("gru", "lstm"),
        "attention": choice("additive", "dot", "general", "concat", "none"),
        "attention_mode": choice("global", "local_m", "local_p"),
        "attention_window": whole(1, 4096),
        "input_feeding": TRUTH,
        "tie_embeddings": choice("none", "target", "all"),
        "dropout": number(0, 0.99),
    },
    "Transformer": {
        "source_vocabulary_size": VOCABULARY,
        "target_vocabulary_size": VOCABULARY,
        "hidden_dim": whole(1, 8192),
        "intermediate_dim": whole(1, 32768),
        "num_heads": whole(1, 128),
        "num_encoder_layers": whole(1, 64),
        "num_decoder_layers": whole(1, 64),
        "dropout": number(0, 0.99),
        "attention_dropout": number(0, 0.99),
        "activation": choice("relu", "gelu", "silu"),
        "normalize_first": TRUTH,
        "positions": choice("sinusoidal", "learned"),
        "max_length": whole(1, 65536),
        "tie_embeddings": choice("none", "target", "all"),
    },
    "BertEncoder": ENCODER,
    "BertMaskedLM": ENCODER,
    "BertClassifier": {
        **ENCODER,
        "num_labels": whole(1, 1000),
        "pooling": choice("cls", "mean", "both"),
        "pooler": TRUTH,
        "pooler_activation": choice("tanh", "relu"),
    },
}
MODEL_DEFAULTS = {"BertClassifier": {"pooling": "cls"}}  # settings that older entries do not have
TRANSLATORS = ("AttentionSeq2Seq", "Transformer")


def estimated_parameters(architecture, model):
    """An upper bound, close to the truth, on a model's number of weights, from its settings alone."""
    if architecture == "AttentionSeq2Seq":
        return _seq2seq_parameters(model)
    return _transformer_parameters(model) if architecture == "Transformer" else _bert_parameters(model)


def _embedding_rows(model):
    """How many vectors the tables of both vocabularies and the output projection have together."""
    target = model["target_vocabulary_size"]
    tables = {"all": target, "target": target + model["source_vocabulary_size"]}
    return tables.get(model["tie_embeddings"], 2 * target + model["source_vocabulary_size"])


def _seq2seq_parameters(model):
    width, hidden = model["embedding_dim"], model["hidden_dim"]
    gates = (4 if model["cell"] == "lstm" else 3) * hidden
    first = 2 * gates * (width + hidden + 2)  # both directions of the encoder and the decoder
    others = (model["num_layers"] - 1) * 2 * gates * (2 * hidden + 2)
    bridges = model["num_layers"] * (hidden + 1) * hidden
    around = 4 * (hidden + 1) * hidden + width * gates + (2 * hidden + 1) * width + model["target_vocabulary_size"]
    return _embedding_rows(model) * width + first + others + bridges + around


def _transformer_parameters(model):
    width = model["hidden_dim"]
    attention, feed_forward, norm = _layer_parts(model)
    encoder = model["num_encoder_layers"] * (attention + feed_forward + 2 * norm)
    decoder = model["num_decoder_layers"] * (2 * attention + feed_forward + 3 * norm)
    positions = 2 * model["max_length"] * width if model["positions"] == "learned" else 0
    return _embedding_rows(model) * width + encoder + decoder + positions + 2 * norm


def _bert_parameters(model):
    width = model["hidden_dim"]
    attention, feed_forward, norm = _layer_parts(model)
    tables = (model["vocabulary_size"] + model["max_length"] + model["num_segments"]) * width
    pooled = width * (2 if model.get("pooling") == "both" else 1)
    head = (pooled + 1) * width + norm + max(model["vocabulary_size"], (pooled + 1) * model.get("num_labels", 0))
    return tables + model["num_layers"] * (attention + feed_forward + 2 * norm) + 2 * norm + head


def _layer_parts(model):
    """The weights of an attention, of a feed-forward network and of a norm."""
    width, inner = model["hidden_dim"], model["intermediate_dim"]
    return 4 * (width + 1) * width, (2 * width + 1) * inner + width, 2 * width


FORMAT_VERSION = 1
MAX_PARAMETERS = 400_000_000
MAX_LABELS, MAX_LABEL_CHARACTERS = 1000, 200

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
# `long_texts`: what it reads of a text with too many tokens. `min_probability`: a label of a task with one label is
# given if it is as probable; else the classifier is unsure.
TASK = {
    "kind": choice("binary", "multiclass", "multilabel", "regression"),
    "label_names": different_texts(MAX_LABELS, MAX_LABEL_CHARACTERS),
    "threshold": number_or_list(0, 1),
    "separator": optional(text(r"[^\w\s]{1,3}| ", "up to three signs, or a blank")),
    "pair": TRUTH,
    "long_texts": choice("start", "ends", "whole"),
    "min_probability": optional(number(0, 1)),
}
TASK_DEFAULTS = {"long_texts": "start", "min_probability": None}
# The bag of words that a classifier is blended with: how many terms it knows, and how much it counts.
MAX_TERMS, MAX_TERM_CHARACTERS = 50_000, 64
WORDS = {"num_terms": whole(1, MAX_TERMS), "weight": number(0, 1)}

_FOLDER = text("[a-z][a-z0-9_]{0,40}", "the name of a folder of the entry")
_LANGUAGE = text("[A-Za-z][A-Za-z0-9 _-]{0,40}", "the name or code of a language")
ALWAYS = ("format_version", "architecture", "model", "tokenizer")
# Beside these, each kind of model has keys of its own: those it needs, and those it may have with their defaults.
TRANSLATOR_NEEDS = ("decoding", "source_language", "target_language")
TRANSLATOR_MAY = {"low_score_threshold": None, "weights_dtype": "float32"}
BERT_NEEDS = ("language", "max_tokens")
BERT_MAY = {"weights_dtype": "float32"}
# `pooling`: the vector of a text is the mean over all its tokens, [CLS] and [SEP] included, or that of [CLS].
# `normalize`: it is scaled to length 1.
ENCODER_MAY = {**BERT_MAY, "pooling": "mean", "normalize": False}
VALUES = {
    "source_language": _LANGUAGE,
    "target_language": _LANGUAGE,
    "language": _LANGUAGE,
    "max_tokens": whole(3, 65536),
    "low_score_threshold": optional(number(-100, 0)),
    "weights_dtype": choice("float32", "float16", "int8"),
    "pooling": choice("mean", "cls"),
    "normalize": TRUTH,
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
        classifies = architecture == "BertClassifier"
        needs = (*BERT_NEEDS, "task") if classifies else BERT_NEEDS
        may = BERT_MAY | {"words": None} if classifies else ENCODER_MAY
        roles = ("text",)
    else:
        needs, may, roles = TRANSLATOR_NEEDS, TRANSLATOR_MAY, ("source", "target")
    check_keys(config, (*ALWAYS, *needs), tuple(may), where)
    if config["format_version"] != FORMAT_VERSION or type(config["format_version"]) is not int:
        found = config["format_version"]
        raise EntryError(f"{where} has format_version={found!r}. This version reads {FORMAT_VERSION}.")
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise EntryError(f"{where} has architecture={architecture!r}. Known: {', '.join(ARCHITECTURES)}")
    fields = ARCHITECTURES[architecture]
    if isinstance(config["model"], dict):
        config = {**config, "model": {**MODEL_DEFAULTS.get(architecture, {}), **config["model"]}}
    check_fields(config["model"], fields, tuple(fields), f"{where}, model")
    check_fields(config["tokenizer"], dict.fromkeys(roles, _FOLDER), roles, f"{where}, tokenizer")
    config = {**may, **config}
    for name, value in config.items():
        if name in VALUES:
            check_value(name, value, VALUES[name], where)
    parameters = estimated_parameters(architecture, config["model"])
    if parameters > MAX_PARAMETERS:
        raise EntryError(f"{where} needs about {parameters} parameters. Allowed: {MAX_PARAMETERS}")
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
    if config["words"] is not None:
        check_fields(config["words"], WORDS, tuple(WORDS), f"{where}, words")
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
        raise EntryError(f"{where}, task: a multilabel task needs a separator, other tasks cannot have one.")
