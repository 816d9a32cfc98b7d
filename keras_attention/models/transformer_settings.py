"""Which settings of `Transformer` there are, which go together, and the sizes that have names."""

SIZES = (
    "source_vocabulary_size",
    "target_vocabulary_size",
    "hidden_dim",
    "intermediate_dim",
    "num_heads",
    "num_encoder_layers",
    "num_decoder_layers",
    "max_length",
)
CHOICES = {
    "activation": ("relu", "gelu", "silu"),
    "positions": ("sinusoidal", "learned"),
    "tie_embeddings": ("none", "target", "all"),
}
SETTINGS = (*SIZES, *CHOICES, "normalize_first", "dropout", "attention_dropout")


def _preset(num_layers, hidden_dim, intermediate_dim, num_heads, dropout):
    layers = {"num_encoder_layers": num_layers, "num_decoder_layers": num_layers}
    widths = {"hidden_dim": hidden_dim, "intermediate_dim": intermediate_dim, "num_heads": num_heads}
    return {**layers, **widths, "dropout": dropout}


# tiny: Wu et al. (2021), for Multi30k. base and big: Vaswani et al. (2017), table 3. small lies between.
PRESETS = {
    "tiny": _preset(4, 128, 256, 4, 0.3),
    "small": _preset(4, 256, 1024, 4, 0.1),
    "base": _preset(6, 512, 2048, 8, 0.1),
    "big": _preset(6, 1024, 4096, 16, 0.3),
}


def check_settings(**settings):
    """Raises ValueError for a setting out of range, or two that do not fit together."""
    for name in SIZES:
        value = settings[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value}")
    for name, allowed in CHOICES.items():
        if settings[name] not in allowed:
            raise ValueError(f"`{name}` must be one of {', '.join(allowed)}. Received: {name}={settings[name]}")
    width, heads = settings["hidden_dim"], settings["num_heads"]
    if width % heads:
        raise ValueError(f"`num_heads` must divide `hidden_dim`. Received: num_heads={heads}, hidden_dim={width}")
    if width % 2 and settings["positions"] == "sinusoidal":
        raise ValueError(f"Sinusoidal positions need an even `hidden_dim`. Received: hidden_dim={width}")
    for name in ("dropout", "attention_dropout"):
        if not 0 <= settings[name] < 1:
            raise ValueError(f"`{name}` must be in [0, 1). Received: {name}={settings[name]}")
    sizes = settings["source_vocabulary_size"], settings["target_vocabulary_size"]
    if settings["tie_embeddings"] == "all" and sizes[0] != sizes[1]:
        raise ValueError(
            '`tie_embeddings="all"` needs one vocabulary for both sides. Received: '
            f"source_vocabulary_size={sizes[0]}, target_vocabulary_size={sizes[1]}"
        )
