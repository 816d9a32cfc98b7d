"""Which settings of `AttentionSeq2Seq` there are, and which go together."""

from keras_attention.layers.recurrent_cells import GRUCell, LSTMCell

CELLS = {"gru": GRUCell, "lstm": LSTMCell}
LUONG_SCORES = ("dot", "general", "concat")
SIZES = ("source_vocabulary_size", "target_vocabulary_size", "embedding_dim", "hidden_dim", "num_layers")
CHOICES = {
    "cell": tuple(CELLS),
    "attention": ("additive", *LUONG_SCORES, "none"),
    "attention_mode": ("global", "local_m", "local_p"),
    "tie_embeddings": ("none", "target", "all"),
}
SETTINGS = (*SIZES, *CHOICES, "attention_window", "input_feeding", "dropout")


def check_settings(**settings):
    """Raises ValueError for a setting out of range, or two that do not fit together."""
    for name in (*SIZES, "attention_window"):
        value = settings[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value}")
    for name, allowed in CHOICES.items():
        if settings[name] not in allowed:
            raise ValueError(f"`{name}` must be one of {', '.join(allowed)}. Received: {name}={settings[name]}")
    if settings["hidden_dim"] % 2:
        raise ValueError(f"`hidden_dim` must be even. Received: hidden_dim={settings['hidden_dim']}")
    if not 0 <= settings["dropout"] < 1:
        raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={settings['dropout']}")
    if settings["attention_mode"] != "global" and settings["attention"] not in LUONG_SCORES:
        raise ValueError(
            f"`attention_mode` {settings['attention_mode']} needs one of Luong's scores {LUONG_SCORES}. "
            f"Received: attention={settings['attention']}"
        )
    if settings["tie_embeddings"] == "all" and settings["source_vocabulary_size"] != settings["target_vocabulary_size"]:
        raise ValueError(
            '`tie_embeddings="all"` needs one vocabulary for both sides. Received: '
            f"source_vocabulary_size={settings['source_vocabulary_size']}, "
            f"target_vocabulary_size={settings['target_vocabulary_size']}"
        )
