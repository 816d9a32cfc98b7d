"""The networks that an entry may ask for, their settings, and how many weights they have before any is made."""

from keras_attention.zoo.fields import TRUTH, choice, number, whole

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
        "pooler": TRUTH,
        "pooler_activation": choice("tanh", "relu"),
    },
}
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
    head = (width + 1) * width + norm + max(model["vocabulary_size"], (width + 1) * model.get("num_labels", 0))
    return tables + model["num_layers"] * (attention + feed_forward + 2 * norm) + 2 * norm + head


def _layer_parts(model):
    """The weights of an attention, of a feed-forward network and of a norm."""
    width, inner = model["hidden_dim"], model["intermediate_dim"]
    return 4 * (width + 1) * width, (2 * width + 1) * inner + width, 2 * width
