"""Continuations of texts and their probabilities: causal language models."""

from keras_attention.catalog.common import (
    LANGUAGE,
    NO_LANGUAGE,
    TEXT_TOKENIZER,
    VOCABULARY,
    WITHOUT_PATTERN,
    language_of,
    layer_parts,
    recurrent_layer_parameters,
)
from keras_attention.zoo.schema import (
    ATTENTION_PATTERN,
    Activity,
    Architecture,
    Task,
    choice,
    number,
    optional,
    register,
    text,
    whole,
)


def _activity(config):
    title = "Continue a piece of music" if config["language"] == NO_LANGUAGE else "Continue a story"
    return Activity(title, "Write a beginning and press the button: the model writes on.", "Beginning of a text")


# `line_break`: the character that stands for a line break in the vocabulary. `begins_with`: the token before each
# training text, which is also put before each prompt; "nothing": only an empty prompt gets END.
GENERATION = Task(
    tasks=("generate", "score"),
    pipeline="keras_attention.pipelines.text_generator:TextGenerator",
    method="generate",
    tokenizers=TEXT_TOKENIZER,
    tokenizer_kinds=("byte-level", "characters", "notes", "sentencepiece"),
    keys={
        "language": LANGUAGE,
        "line_break": optional(text(r"[^\w\s]", "one sign")),
        "begins_with": choice("end", "line_break", "nothing"),
    },
    defaults={"line_break": None, "begins_with": "end"},
    title=lambda config: f"{config['language']}, text generation",
    reads=language_of,
    activity=_activity,
)


def _gpt_parameters(model):
    width = model["hidden_dim"]
    attention, feed_forward, norm = layer_parts(model)
    positions = model["max_length"] if model["positions"] == "learned" else 0
    attention += model["max_length"] * width if model["positions"] == "relative" else 0
    layers = model["num_layers"] * (attention + feed_forward + 2 * norm)
    return (model["vocabulary_size"] + positions) * width + layers + norm


def _recurrent_parameters(model):
    of_layers = model["num_layers"] * recurrent_layer_parameters(model)
    return model["vocabulary_size"] * (model["hidden_dim"] + 1) + of_layers


def _convolutional_parameters(model):
    width = model["hidden_dim"]
    layer = 2 * width * (model["kernel_size"] * width + 1) + (width + 1) * width + 2 * width
    return model["vocabulary_size"] * (width + 1) + model["num_layers"] * layer + 2 * width


def _convolutional_detail(settings):
    """The distances between the inputs of the layers, from `ConvolutionalLM`, make its receptive field."""
    distances = [2 ** (i % settings["dilation_cycle"]) for i in range(settings["num_layers"])]
    return f" with a receptive field of {1 + (settings['kernel_size'] - 1) * sum(distances)} tokens"


register(
    Architecture(
        name="GPT",
        model="keras_attention.models.gpt:GPT",
        settings={
            "vocabulary_size": VOCABULARY,
            "hidden_dim": whole(1, 8192),
            "intermediate_dim": whole(1, 32768),
            "num_heads": whole(1, 128),
            "num_layers": whole(1, 64),
            "max_length": whole(2, 65536),
            "positions": choice("learned", "sinusoidal", "rotary", "relative"),
            "dropout": number(0, 0.99),
            "activation": choice("gelu_approximate", "gelu", "relu", "silu"),
            "layer_norm_epsilon": number(1e-14, 0.1),
            "pad_id": optional(whole(0, 1_000_000)),
            "attention_pattern": ATTENTION_PATTERN,
        },
        parameters=_gpt_parameters,
        task=GENERATION,
        defaults=WITHOUT_PATTERN,
        detail=lambda settings: f" with {settings['positions']} positions",
    )
)
register(
    Architecture(
        name="RecurrentLM",
        model="keras_attention.models.recurrent_networks:RecurrentLM",
        settings={
            "vocabulary_size": VOCABULARY,
            "hidden_dim": whole(1, 8192),
            "num_layers": whole(1, 16),
            "max_length": whole(2, 65536),
            "cell": choice("lstm", "gru", "lstmn"),
            "dropout": number(0, 0.99),
            "pad_id": optional(whole(0, 1_000_000)),
        },
        parameters=_recurrent_parameters,
        task=GENERATION,
        detail=lambda settings: f" of {settings['cell'].upper()} cells",
    )
)
register(
    Architecture(
        name="ConvolutionalLM",
        model="keras_attention.models.convolutional_lm:ConvolutionalLM",
        settings={
            "vocabulary_size": VOCABULARY,
            "hidden_dim": whole(1, 8192),
            "num_layers": whole(1, 64),
            "max_length": whole(2, 65536),
            "kernel_size": whole(2, 64),
            "dilation_cycle": whole(1, 16),
            "dropout": number(0, 0.99),
            "pad_id": optional(whole(0, 1_000_000)),
        },
        parameters=_convolutional_parameters,
        task=GENERATION,
        detail=_convolutional_detail,
    )
)
