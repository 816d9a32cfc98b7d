"""From the fields of a published configuration to the settings of our models."""

# The largest sizes of `BertEncoder` that a checkpoint may ask for.
MAX_VOCABULARY, MAX_LENGTH, MAX_SEGMENTS = 1_000_000, 65536, 16
MAX_WIDTH, MAX_INNER, MAX_HEADS, MAX_LAYERS = 8192, 32768, 128, 64
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_approximate",
    "gelu_pytorch_tanh": "gelu_approximate",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
# Google's code computes the tanh approximation under this name.
GOOGLE_ACTIVATIONS = {"gelu": "gelu_approximate", "relu": "relu"}
# Fields with which the network would be another one, and the only values that do not make it so.
BERT_ONLY = {
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "is_encoder_decoder": (False,),
    "pruned_heads": ({}, None),
    "tie_word_embeddings": (True,),
    "pad_token_id": (0,),
    "quantization_config": (None,),
}


def bert_settings(fields, activations=ACTIVATIONS):
    """The arguments of `BertEncoder` for the configuration of a BERT.

    Only training knows the dropout of attention weights from the other; the model gets the other.

    Args:
        fields: Fields.
        activations: dict from names of activations to ours.

    Returns:
        dict.

    Raises:
        UserError: for a field out of range or a value that is not supported.
    """
    return _settings(
        fields,
        hidden_dim=fields.whole("hidden_size", 1, MAX_WIDTH),
        intermediate_dim=fields.whole("intermediate_size", 1, MAX_INNER),
        num_heads=fields.whole("num_attention_heads", 1, MAX_HEADS),
        num_layers=fields.whole("num_hidden_layers", 1, MAX_LAYERS),
        num_segments=fields.whole("type_vocab_size", 0, MAX_SEGMENTS),
        dropout=fields.number("hidden_dropout_prob", 0, 0.99, default=0.1),
        activation=fields.choice("hidden_act", activations, default="gelu"),
        layer_norm_epsilon=fields.number("layer_norm_eps", 1e-20, 0.1, default=1e-12),
    )


def distilbert_settings(fields):
    """The same for the configuration of a DistilBERT."""
    return _settings(
        fields,
        hidden_dim=fields.whole("dim", 1, MAX_WIDTH),
        intermediate_dim=fields.whole("hidden_dim", 1, MAX_INNER),
        num_heads=fields.whole("n_heads", 1, MAX_HEADS),
        num_layers=fields.whole("n_layers", 1, MAX_LAYERS),
        num_segments=0,
        dropout=fields.number("dropout", 0, 0.99, default=0.1),
        activation=fields.choice("activation", ACTIVATIONS, default="gelu"),
        layer_norm_epsilon=1e-12,
    )


def _settings(fields, **settings):
    """The settings, with those that both kinds have under the same names."""
    for name, allowed in BERT_ONLY.items():
        fields.only(name, *allowed)
    if settings["hidden_dim"] % settings["num_heads"]:
        fields.refuse("num_attention_heads", f"a divisor of the width {settings['hidden_dim']}")
    sizes = {
        "vocabulary_size": fields.whole("vocab_size", 5, MAX_VOCABULARY),
        "max_length": fields.whole("max_position_embeddings", 1, MAX_LENGTH),
    }
    return sizes | settings
