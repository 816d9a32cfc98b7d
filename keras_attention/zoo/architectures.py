"""The architectures of the package, one registration each: settings with bounds, size, pipeline, text of the card."""

from keras_attention.errors import EntryError
from keras_attention.zoo.schema import (
    ATTENTION_PATTERN,
    MAX_TERMS,
    OBJECT,
    TRUTH,
    Architecture,
    Use,
    check_fields,
    choice,
    different_texts,
    number,
    number_or_list,
    optional,
    register,
    text,
    whole,
)

LANGUAGE = text("[A-Za-z][A-Za-z0-9 _-]{0,40}", "the name or code of a language")

VOCABULARY = whole(5, 1_000_000)
MAX_LABELS, MAX_LABEL_CHARACTERS = 1000, 200

# ---- Uses of models.

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
# The task of a classifier, see `label_task.Task`. `threshold`: minimum probability of a label in a multilabel
# task, one for all labels or one for each. `pair`: whether the inputs are text pairs. `long_texts`: the part of a text
# with too many tokens that is used. `min_probability`: in a task with one label per text, the classifier is unsure if
# no label reaches it.
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
# The bag of words that is blended with a classifier: number of terms, and weight of its predictions.
WORDS = {"num_terms": whole(1, MAX_TERMS), "weight": number(0, 1)}


def _check_translator(config, where):
    check_fields(config["decoding"], DECODING, (), f"{where}, decoding")
    return {**config, "decoding": {**DECODING_DEFAULTS, **config["decoding"]}}


def _languages(config):
    return f"{config['source_language']} to {config['target_language']}"


TRANSLATION = Use(
    tasks=("translate",),
    pipeline="keras_attention.pipelines.translator:Translator",
    method="translate",
    tokenizers={"source": "source_vocabulary_size", "target": "target_vocabulary_size"},
    tokenizer_kinds=("characters", "sentencepiece"),  # a byte-level one writes control characters
    keys={
        "decoding": OBJECT,
        "source_language": LANGUAGE,
        "target_language": LANGUAGE,
        "low_score_threshold": optional(number(-100, 0)),
    },
    defaults={"low_score_threshold": None},
    title=_languages,
    reads=lambda config: f"From {_languages(config)}",
    check=_check_translator,
)


def _check_length(config, where):
    most = config["model"]["max_length"]
    if config["max_tokens"] > most:
        raise EntryError(
            f"{where}: max_tokens may be at most max_length={most} of the model. "
            f"Received: max_tokens={config['max_tokens']}"
        )
    return config


def _check_classifier(config, where):
    _check_length(config, where)
    model, task = config["model"], config["task"]
    if config["words"] is not None:
        check_fields(config["words"], WORDS, tuple(WORDS), f"{where}, words")
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
    return config | {"task": TASK_DEFAULTS | task}


def _kind(task):
    return task["kind"] if task["kind"] == "regression" else f"{task['kind']} classification"


def language_of(config):
    return f"Language: {config['language']}"


def _decides(config):
    names = config["task"]["label_names"]
    labels = f" with the labels {', '.join(names[:10])}{', ...' * (len(names) > 10)}" if names else ""
    return f"{language_of(config)}; {_kind(config['task'])}{labels}"


TEXT_TOKENIZER = {"text": "vocabulary_size"}
_BERT_TOKENIZERS = ("wordpiece",)
_TEXT_KEYS = {"language": LANGUAGE, "max_tokens": whole(3, 65536)}
# `pooling`: the vector of a text is the mean over all tokens, including [CLS] and [SEP], or the vector of [CLS].
# `normalize`: whether the vector is scaled to length 1.
_VECTOR_KEYS = {"pooling": choice("mean", "cls"), "normalize": TRUTH}
_VECTOR_DEFAULTS = {"pooling": "mean", "normalize": False}
ENCODING = Use(
    tasks=("encode",),
    pipeline="keras_attention.pipelines.text_encoder:TextEncoder",
    method="encode",
    tokenizers=TEXT_TOKENIZER,
    tokenizer_kinds=_BERT_TOKENIZERS,
    keys={**_TEXT_KEYS, **_VECTOR_KEYS},
    defaults=_VECTOR_DEFAULTS,
    title=lambda config: f"{config['language']}, text embeddings",
    reads=language_of,
    check=_check_length,
)
MASK_FILLING = Use(
    tasks=("fill-mask", "encode"),
    pipeline="keras_attention.pipelines.mask_filler:MaskFiller",
    method="fill_mask",
    tokenizers=TEXT_TOKENIZER,
    tokenizer_kinds=_BERT_TOKENIZERS,
    keys={**_TEXT_KEYS, **_VECTOR_KEYS},
    defaults=_VECTOR_DEFAULTS,
    title=lambda config: f"{config['language']}, masked words",
    reads=language_of,
    check=_check_length,
)
CLASSIFICATION = Use(
    tasks=("classify", "encode"),
    pipeline="keras_attention.pipelines.classifier:Classifier",
    method="classify",
    tokenizers=TEXT_TOKENIZER,
    tokenizer_kinds=_BERT_TOKENIZERS,
    keys={**_TEXT_KEYS, "task": OBJECT, "words": optional(OBJECT)},
    defaults={"words": None},
    title=lambda config: f"{config['language']}, {_kind(config['task'])}",
    reads=_decides,
    check=_check_classifier,
)

# ---- Close upper bounds on the number of weights of a model, from its settings alone.


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
    return _embedding_rows(model) * width + encoder + decoder + positions + 2 * norm


def _bert_parameters(model):
    width = model["hidden_dim"]
    attention, feed_forward, norm = layer_parts(model)
    tables = (model["vocabulary_size"] + model["max_length"] + model["num_segments"]) * width
    pooled = width * {"both": 2, "pair": 4}.get(model.get("pooling"), 1)
    head = (pooled + 1) * width + norm + max(model["vocabulary_size"], (pooled + 1) * model.get("num_labels", 0))
    return tables + model["num_layers"] * (attention + feed_forward + 2 * norm) + 2 * norm + head


def layer_parts(model):
    """The numbers of weights of an attention layer, a feed-forward network and a norm."""
    width, inner = model["hidden_dim"], model["intermediate_dim"]
    return 4 * (width + 1) * width, (2 * width + 1) * inner + width, 2 * width


# ---- The architectures.

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
        use=TRANSLATION,
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
        },
        parameters=_transformer_parameters,
        use=TRANSLATION,
        defaults={"decoder": "attention"},
    )
)

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
WITHOUT_PATTERN = {"attention_pattern": None}
register(
    Architecture(
        name="BertEncoder",
        model="keras_attention.models.bert_encoder:BertEncoder",
        settings=ENCODER,
        parameters=_bert_parameters,
        use=ENCODING,
        defaults=WITHOUT_PATTERN,
    )
)
register(
    Architecture(
        name="BertMaskedLM",
        model="keras_attention.models.bert_heads:BertMaskedLM",
        settings=ENCODER,
        parameters=_bert_parameters,
        use=MASK_FILLING,
        defaults=WITHOUT_PATTERN,
    )
)
register(
    Architecture(
        name="BertClassifier",
        model="keras_attention.models.bert_heads:BertClassifier",
        settings={
            **ENCODER,
            "num_labels": whole(1, 1000),
            "pooling": choice("cls", "mean", "both", "pair"),
            "pooler": TRUTH,
            "pooler_activation": choice("tanh", "relu"),
        },
        parameters=_bert_parameters,
        use=CLASSIFICATION,
        defaults={"pooling": "cls", **WITHOUT_PATTERN},
    )
)
