"""The small language of `config.json`: which architectures, which keys, which values. Anything else is refused."""

import re

from keras_attention.zoo.entry_error import EntryError

FORMAT_VERSION = 1
MAX_PARAMETERS = 100_000_000


def whole(low, high):
    """An int from `low` to `high`."""
    return (f"an integer from {low} to {high}", lambda value: type(value) is int and low <= value <= high)


def number(low, high):
    """An int or float from `low` to `high`."""
    return (f"a number from {low} to {high}", lambda value: type(value) in (int, float) and low <= value <= high)


def choice(*names):
    """One of the names."""
    return (f"one of {', '.join(names)}", lambda value: isinstance(value, str) and value in names)


def text(pattern, what):
    """A str that matches the regular expression."""
    return (what, lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None)


TRUTH = ("true or false", lambda value: isinstance(value, bool))

ARCHITECTURES = {
    "AttentionSeq2Seq": {
        "source_vocabulary_size": whole(5, 1_000_000),
        "target_vocabulary_size": whole(5, 1_000_000),
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
        "source_vocabulary_size": whole(5, 1_000_000),
        "target_vocabulary_size": whole(5, 1_000_000),
        "hidden_dim": whole(1, 8192),
        "intermediate_dim": whole(1, 32768),
        "num_heads": whole(1, 128),
        "num_encoder_layers": whole(1, 64),
        "num_decoder_layers": whole(1, 64),
        "dropout": number(0, 0.99),
        "activation": choice("relu", "gelu", "silu"),
        "normalize_first": TRUTH,
        "positions": choice("sinusoidal", "learned"),
        "max_length": whole(1, 65536),
        "tie_embeddings": choice("none", "target", "all"),
    },
}

# Lengths count tokens with END. An answer has at most min(max_length, length_ratio * source + length_offset) tokens.
DECODING = {
    "beam_size": whole(1, 64),
    "length_penalty": number(0, 10),
    "coverage_penalty": number(0, 10),
    "max_length": whole(1, 4096),
    "length_ratio": number(0, 1000),
    "length_offset": whole(0, 4096),
    "max_source_length": whole(2, 4096),
}
DECODING_DEFAULTS = {
    "beam_size": 5,
    "length_penalty": 0.0,
    "coverage_penalty": 0.0,
    "max_length": 128,
    "length_ratio": 2.0,
    "length_offset": 10,
    "max_source_length": 128,
}

_FOLDER = text("[a-z][a-z0-9_]{0,40}", "the name of a folder of the entry")
_LANGUAGE = text("[A-Za-z][A-Za-z0-9 _-]{0,40}", "the name or code of a language")
TOKENIZER = {"source": _FOLDER, "target": _FOLDER}
REQUIRED = ("format_version", "architecture", "model", "tokenizer", "decoding", "source_language", "target_language")
OPTIONAL = ("low_score_threshold", "weights_dtype")


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
    _check_keys(config, REQUIRED, OPTIONAL, where)
    if config["format_version"] != FORMAT_VERSION or type(config["format_version"]) is not int:
        found = config["format_version"]
        raise EntryError(f"{where} has format_version={found!r}. This version reads {FORMAT_VERSION}.")
    if not isinstance(config["architecture"], str) or config["architecture"] not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise EntryError(f"{where} asks for architecture={config['architecture']!r}. Known: {known}")
    fields = ARCHITECTURES[config["architecture"]]
    _check_fields(config["model"], fields, tuple(fields), f"{where}, model")
    _check_fields(config["tokenizer"], TOKENIZER, tuple(TOKENIZER), f"{where}, tokenizer")
    _check_fields(config["decoding"], DECODING, (), f"{where}, decoding")
    for name in ("source_language", "target_language"):
        _check_value(name, config[name], _LANGUAGE, where)
    threshold = config.get("low_score_threshold")
    if threshold is not None:
        _check_value("low_score_threshold", threshold, number(-100, 0), where)
    dtype = config.get("weights_dtype", "float32")
    _check_value("weights_dtype", dtype, choice("float32", "float16"), where)
    parameters = estimated_parameters(config["architecture"], config["model"])
    if parameters > MAX_PARAMETERS:
        raise EntryError(f"{where} asks for about {parameters} parameters. Allowed: {MAX_PARAMETERS}")
    decoding = {**DECODING_DEFAULTS, **config["decoding"]}
    return {**config, "decoding": decoding, "low_score_threshold": threshold, "weights_dtype": dtype}


def estimated_parameters(architecture, model):
    """An upper bound, close to the truth, on a model's number of weights, from its settings alone."""
    return {"AttentionSeq2Seq": _seq2seq_parameters, "Transformer": _transformer_parameters}[architecture](model)


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
    width, inner = model["hidden_dim"], model["intermediate_dim"]
    attention, feed_forward, norm = 4 * (width + 1) * width, (2 * width + 1) * inner + width, 2 * width
    encoder = model["num_encoder_layers"] * (attention + feed_forward + 2 * norm)
    decoder = model["num_decoder_layers"] * (2 * attention + feed_forward + 3 * norm)
    positions = 2 * model["max_length"] * width if model["positions"] == "learned" else 0
    return _embedding_rows(model) * width + encoder + decoder + positions + 2 * norm


def _check_fields(values, fields, required, where):
    """Checks a dict whose keys and values are described by `fields`."""
    _check_keys(values, required, tuple(set(fields) - set(required)), where)
    for name, value in values.items():
        _check_value(name, value, fields[name], where)


def _check_keys(values, required, optional, where):
    if not isinstance(values, dict):
        raise EntryError(f"{where} must be an object. Received: {type(values).__name__}")
    for name in sorted(set(values) - set(required) - set(optional)):
        raise EntryError(f"{where} has the unknown key {name!r}.")
    for name in required:
        if name not in values:
            raise EntryError(f"{where} lacks the key {name!r}.")


def _check_value(name, value, field, where):
    what, holds = field
    if not holds(value):
        raise EntryError(f"{where}: {name} must be {what}. Received: {name}={value!r:.100}")
