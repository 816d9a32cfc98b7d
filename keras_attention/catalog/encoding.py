"""Vectors of texts: BERT encoders. The settings and keys here are those of all BERTs."""

from keras_attention.catalog.common import (
    LANGUAGE,
    TEXT_TOKENIZER,
    VOCABULARY,
    WITHOUT_PATTERN,
    language_of,
    layer_parts,
)
from keras_attention.support.errors import EntryError
from keras_attention.zoo.schema import (
    ATTENTION_PATTERN,
    TRUTH,
    Activity,
    Architecture,
    Task,
    choice,
    number,
    register,
    whole,
)

BERT_TOKENIZERS = ("amino-acids", "unigram", "wordpiece")
TEXT_KEYS = {"language": LANGUAGE, "max_tokens": whole(3, 65536)}
# `pooling`: the vector of a text is the mean over all tokens, including [CLS] and [SEP], or the vector of [CLS].
# `normalize`: whether the vector is scaled to length 1.
VECTOR_KEYS = {"pooling": choice("mean", "cls"), "normalize": TRUTH}
VECTOR_DEFAULTS = {"pooling": "mean", "normalize": False}


def check_length(config, where):
    most = config["model"].get("max_length", config["max_tokens"])  # a recurrent network has no limit
    if config["max_tokens"] > most:
        raise EntryError(
            f"{where}: max_tokens may be at most max_length={most} of the model. "
            f"Received: max_tokens={config['max_tokens']}"
        )
    return config


ENCODING = Task(
    tasks=("encode",),
    pipeline="keras_attention.pipelines.text_encoder:TextEncoder",
    method="encode",
    tokenizers=TEXT_TOKENIZER,
    tokenizer_kinds=BERT_TOKENIZERS,
    keys={**TEXT_KEYS, **VECTOR_KEYS},
    defaults=VECTOR_DEFAULTS,
    title=lambda config: f"{config['language']}, text embeddings",
    reads=language_of,
    check=check_length,
    activity=lambda config: Activity(
        "Find similar texts",
        "Type a text, and others to compare it with: the most similar one comes first.",
        "Text",
    ),
)


def bert_parameters(model):
    width = model["hidden_dim"]
    attention, feed_forward, norm = layer_parts(model)
    tables = (model["vocabulary_size"] + model["max_length"] + model["num_segments"]) * width
    pooled = width * {"both": 2, "pair": 4}.get(model.get("pooling"), 1)
    head = (pooled + 1) * width + norm + max(model["vocabulary_size"], (pooled + 1) * model.get("num_labels", 0))
    return tables + model["num_layers"] * (attention + feed_forward + 2 * norm) + 2 * norm + head


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
    "attention_pattern": ATTENTION_PATTERN,
}
register(
    Architecture(
        name="BertEncoder",
        model="keras_attention.models.bert_encoder:BertEncoder",
        settings=ENCODER,
        parameters=bert_parameters,
        task=ENCODING,
        defaults=WITHOUT_PATTERN,
        classifier="BertClassifier",
    )
)
