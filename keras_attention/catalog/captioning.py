"""Captions: networks that read a picture and write a sentence."""

from math import prod

from keras_attention.catalog.common import FROM_FILE, LOW_SCORE_DEFAULTS, TEXT_TOKENIZER, VOCABULARY, with_search
from keras_attention.inputs.image import FITS, ImageInput
from keras_attention.zoo.schema import (
    OBJECT,
    Activity,
    Architecture,
    Task,
    choice,
    list_of,
    number,
    register,
    whole,
)

IMAGE = {"fit": choice(*FITS), "mean": list_of(1, 3, number(0, 1)), "std": list_of(1, 3, number(1e-6, 1e6))}


def _input_of(config):
    return ImageInput(config["model"]["input_size"], **config["image"])


def _check(config, where):
    return with_search(config, where, "image", IMAGE, _input_of)


CAPTIONING = Task(
    tasks=("caption",),
    pipeline="keras_attention.pipelines.media.captioner:Captioner",
    method="caption",
    inputs=(ImageInput,),
    input_of=_input_of,
    tokenizers=TEXT_TOKENIZER,
    tokenizer_kinds=("sentencepiece",),
    keys={"image": OBJECT, **FROM_FILE},
    defaults=LOW_SCORE_DEFAULTS,
    title=lambda config: f"pictures to {config['language']}",
    reads=lambda config: f"Pictures; captions in the language {config['language']}",
    check=_check,
    activity=lambda config: Activity("Describe a picture", ImageInput.instruction, "Picture to describe"),
)


def _parameters(model):
    annotation, embedding, hidden = model["annotation_dim"], model["embedding_dim"], model["hidden_dim"]
    height, width, channels = model["input_size"]
    halvings, more = model["num_halvings"], model["num_convolutions"]
    step = 2**halvings
    widths = [channels, *(max(8, annotation // 2 ** (halvings - i)) for i in range(halvings)), *[annotation] * more]
    convolutions = sum((9 * read + 1) * written for read, written in zip(widths, widths[1:], strict=False))
    positions = prod(side // step + 1 for side in (height, width)) * annotation
    start = (annotation + 1) * (annotation + 2 * hidden)
    attention = (hidden + annotation + 1) * hidden + hidden + 1 + 64
    decoder = 4 * hidden * (embedding + annotation + hidden + 1)
    output = (hidden + annotation + 1) * embedding + model["vocabulary_size"] * (2 * embedding + 1)
    return convolutions + positions + start + attention + decoder + output


register(
    Architecture(
        name="AttentionCaptioner",
        model="keras_attention.models.attention_captioner:AttentionCaptioner",
        settings={
            "vocabulary_size": VOCABULARY,
            "input_size": list_of(3, 3, whole(1, 4096)),
            "annotation_dim": whole(1, 8192),
            "embedding_dim": whole(1, 8192),
            "hidden_dim": whole(1, 8192),
            "num_halvings": whole(1, 12),
            "num_convolutions": whole(1, 64),
            "attention": choice("soft", "hard"),
            "dropout": number(0, 0.99),
        },
        parameters=_parameters,
        task=CAPTIONING,
        detail=lambda settings: f" with {settings['attention']} attention",
    )
)
