"""Which settings the BERT models have, which go together, and the sizes that have names."""

import keras

ENCODER_INPUTS = ("token_ids", "segment_ids", "position_ids", "block_ids")
SIZES = ("vocabulary_size", "hidden_dim", "intermediate_dim", "num_heads", "num_layers", "max_length")
SETTINGS = (*SIZES, "num_segments", "dropout", "activation", "normalize_first", "layer_norm_epsilon")


@keras.saving.register_keras_serializable(package="keras_attention")
def gelu_approximate(x):
    """The tanh approximation of GELU, which the authors' code of BERT computes under the name "gelu"."""
    return keras.activations.gelu(x, approximate=True)


ACTIVATIONS = {
    "gelu": keras.activations.gelu,
    "gelu_approximate": gelu_approximate,
    "relu": keras.activations.relu,
    "silu": keras.activations.silu,
}


def _preset(num_layers, hidden_dim):
    widths = {"hidden_dim": hidden_dim, "intermediate_dim": 4 * hidden_dim, "num_heads": hidden_dim // 64}
    return {"num_layers": num_layers, **widths}


# base and large: Devlin et al. (2019), section 3. The others: Turc et al. (2019), table 1.
BERT_PRESETS = {
    "tiny": _preset(2, 128),
    "mini": _preset(4, 256),
    "small": _preset(4, 512),
    "medium": _preset(8, 512),
    "base": _preset(12, 768),
    "large": _preset(24, 1024),
}


def published_initializer():
    """How kernels and embeddings start, a new one each time: the same one would give equal shapes equal numbers."""
    return keras.initializers.TruncatedNormal(stddev=0.02)


def check_settings(**settings):
    """Raises ValueError for a setting out of range, or two that do not fit together."""
    for name in SIZES:
        _check_whole(name, settings[name], 1, "a positive integer")
    _check_whole("num_segments", settings["num_segments"], 0, "an integer, 0 or more")
    activation, dropout, epsilon = (settings[name] for name in ("activation", "dropout", "layer_norm_epsilon"))
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ValueError(f"`activation` must be one of {', '.join(ACTIVATIONS)}. Received: activation={activation}")
    width, heads = settings["hidden_dim"], settings["num_heads"]
    if width % heads:
        raise ValueError(f"`num_heads` must divide `hidden_dim`. Received: num_heads={heads}, hidden_dim={width}")
    if not 0 <= dropout < 1:
        raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout}")
    if not 0 < epsilon < 1:
        raise ValueError(f"`layer_norm_epsilon` must be between 0 and 1. Received: layer_norm_epsilon={epsilon}")


def check_inputs(inputs, num_segments, extra=()):
    """Raises ValueError unless the dict of inputs has `token_ids`, and only names that the model knows."""
    allowed = [name for name in (*ENCODER_INPUTS, *extra) if num_segments or name != "segment_ids"]
    for name in sorted(set(inputs) - set(allowed)):
        raise ValueError(f"This model's inputs are {', '.join(allowed)}. Received: {name}")
    if "token_ids" not in inputs:
        raise ValueError(f"The inputs must have `token_ids`. Received: {', '.join(sorted(inputs)) or 'none'}")


def _check_whole(name, value, lowest, what):
    if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
        raise ValueError(f"`{name}` must be {what}. Received: {name}={value}")
