"""Translation: encoder-decoders that read one text and write another."""

from keras_attention.catalog.common import LANGUAGE, LOW_SCORE, LOW_SCORE_DEFAULTS, VOCABULARY, layer_parts
from keras_attention.zoo.decoding_settings import DECODING, DECODING_DEFAULTS, alignment_heads_of
from keras_attention.zoo.schema import (
    OBJECT,
    TRUTH,
    Activity,
    Architecture,
    Task,
    check_fields,
    check_value,
    choice,
    number,
    register,
    whole,
)


def _check_translator(config, where):
    check_fields(config["decoding"], DECODING, (), f"{where}, decoding")
    model = config["model"]
    heads = alignment_heads_of(model.get("num_decoder_layers", 1), model.get("num_heads", 1))
    check_value("alignment_heads", config["alignment_heads"], heads, where)
    return {**config, "decoding": {**DECODING_DEFAULTS, **config["decoding"]}}


def _languages(config):
    return f"{config['source_language']} to {config['target_language']}"


TRANSLATION = Task(
    tasks=("translate",),
    pipeline="keras_attention.pipelines.translator:Translator",
    method="translate",
    tokenizers={"source": "source_vocabulary_size", "target": "target_vocabulary_size"},
    tokenizer_kinds=("characters", "marian", "sentencepiece"),  # a byte-level one writes control characters
    keys={
        "decoding": OBJECT,
        "source_language": LANGUAGE,
        "target_language": LANGUAGE,
        **LOW_SCORE,
        "alignment_heads": ("a list", lambda value: value is None or isinstance(value, list)),
    },
    defaults={**LOW_SCORE_DEFAULTS, "alignment_heads": None},
    title=_languages,
    reads=lambda config: f"From {_languages(config)}",
    check=_check_translator,
    activity=lambda config: Activity(
        "Translate",
        "Type or paste a text: the translation appears while you type.",
        "Text to translate",
    ),
)


def _embedding_rows(model):
    """The number of vectors in both embeddings and the output projection together."""
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
    attention, feed_forward, norm = layer_parts(model)
    encoder = model["num_encoder_layers"] * (attention + feed_forward + 2 * norm)
    decoder = model["num_decoder_layers"] * (2 * attention + feed_forward + 3 * norm)
    positions = 2 * model["max_length"] * width if model["positions"] == "learned" else 0
    bias = model["target_vocabulary_size"] if model["output_bias"] else 0
    return _embedding_rows(model) * width + encoder + decoder + positions + 2 * norm + bias


register(
    Architecture(
        name="AttentionSeq2Seq",
        model="keras_attention.models.seq2seq:AttentionSeq2Seq",
        settings={
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
        parameters=_seq2seq_parameters,
        task=TRANSLATION,
        detail=lambda settings: f" with {settings['attention']} attention",
    )
)
register(
    Architecture(
        name="Transformer",
        model="keras_attention.models.transformer:Transformer",
        settings={
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
            "decoder": choice("attention", "ssru"),
            "output_bias": TRUTH,
        },
        parameters=_transformer_parameters,
        task=TRANSLATION,
        defaults={"decoder": "attention", "output_bias": False},
    )
)
