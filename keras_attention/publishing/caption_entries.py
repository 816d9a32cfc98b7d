"""Writes a trained captioner as an entry, with its scores and its card."""

from typing import Any

import numpy as np

from keras_attention.data.images.caption_data import CaptionData
from keras_attention.data.images.digit_canvases import LARGEST, SIDE, SMALLEST, Scene
from keras_attention.data.images.image_batches import MEAN, STD
from keras_attention.evaluation.caption_scores import exact_captions, pointing
from keras_attention.inputs.image import STRETCH, ImageInput
from keras_attention.pipelines.media.captioner import Captioner
from keras_attention.zoo.entry_io import write_entry

TEST_CANVASES = 2_000
EXAMPLES = 8
LIMITS = [
    "The model knows two white digits on a black canvas, of which one is clearly above or left of the other, and "
    "describes any picture as if it were one, even a photo.",
    f"A picture is stretched to {SIDE} x {SIDE} pixels, in which digits are {SMALLEST} to {LARGEST} pixels tall.",
    "Attention weights show which cells the network reads for a word. The network sees some pixels around each cell.",
]


def captioner_of(model, tokenizer: Any, samples: list[Scene], beam_size: int) -> Captioner:
    """The pipeline of a network that was trained on canvases; these samples become the examples of its card."""
    kind = ImageInput(model.input_size, STRETCH, mean=[MEAN], std=[STD])
    decoding = {"beam_size": beam_size, "max_length": 12}
    return Captioner(model, tokenizer, kind, decoding, samples=[scene.pixels for scene in samples])


def caption_scores(captioner: Captioner, scenes: list[Scene], **search) -> dict[str, float]:
    """Percentages by name: exact captions, and digit words whose attention is in the box of their digit."""
    found = captioner.caption([scene.pixels for scene in scenes], **search)
    seen = [
        pointing(_attention(one, scene), scene.boxes, (SIDE, SIDE)) for one, scene in zip(found, scenes, strict=True)
    ]
    hits, shares = (np.array(each, float) for each in zip(*(each for one in seen for each in one), strict=True))
    return {
        "exact captions": exact_captions(found, [scene.caption for scene in scenes]),
        "pointing": 100 * float(hits.mean()),
        "attention in the box": 100 * float(shares.mean()),
    }


def _attention(caption, scene):
    """The attention of a caption; none if it has not as many words as the scene's, so that no word points."""
    return caption.attention[: len(caption.words) if len(caption.words) == len(scene.caption.split()) else 0]


def write_captioner(folder, captioner, data: CaptionData, *, settings, result, facts, overwrite=False):
    """Scores a captioner on canvases with held-out digits and writes its entry.

    Args:
        folder: str or Path.
        captioner: Captioner.
        data: CaptionData.
        settings: dict of JSON types, the recipe's configuration.
        result: TrainResult.
        facts: dict, see `training.history.run_facts`.
        overwrite: bool. Whether to replace an existing entry.

    Returns:
        Dict of scores by name, in percent.
    """
    for weight in captioner.model.weights:  # as they are stored, so that scores and examples are those of the entry
        weight.assign(np.asarray(weight).astype("float16").astype("float32"))
    scenes = data.scenes("test", TEST_CANVASES)
    measured = caption_scores(captioner, scenes)
    name = f"{len(scenes):,} canvases with {len(data.test):,} digits that were not in the training"
    model, attention = captioner.model, captioner.model.attention
    view = captioner.attention_view(scenes[0].pixels)
    picture = {"file": "spotlights.png", "caption": f"Where each word of {quoted_caption(view.title)} looks"}
    metrics = {
        "description": f"Describes two handwritten digits on a canvas, such as {quoted_caption(scenes[0].caption)}, "
        f"with {attention} attention (Xu et al. 2015): a convolutional network, then an LSTM that attends to "
        f"{model.grid[0]} x {model.grid[1]} cells for each word.",
        "data": [data.origin],
        **facts,
        "minutes": result.seconds / 60,
        "seeds": [settings["seed"]],
        "parameters": model.count_params(),
        "scores": [
            {"set": name, "metric": f"{metric} (%)", "value": value, "signature": SIGNATURES[metric]}
            for metric, value in measured.items()
        ],
        "pictures": [picture],
        "limits": LIMITS,
        "examples": captioner.examples(),
        "training": {**settings, "history": result.history},
    }
    draw = [lambda place: view.save(place / picture["file"])]
    options = {"about": captioner.described(), "extra_files": [*captioner.extra_files, *draw], "overwrite": overwrite}
    write_entry(folder, model, captioner.tokenizers, metrics=metrics, weights_dtype="float16", **options)
    return measured


SIGNATURES = {
    "exact captions": "all words equal",
    "pointing": "digit words whose largest weight is in the box of the digit",
    "attention in the box": "mean sum of the weights in the box, digit words",
}


def quoted_caption(caption: str) -> str:
    """A caption in quotation marks."""
    return f'"{caption}"'
