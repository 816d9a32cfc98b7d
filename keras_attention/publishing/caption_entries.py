"""Writes a trained captioner as an entry, with its scores and its card."""

from importlib.metadata import version
from typing import Any

import numpy as np

from keras_attention.data.images.caption_data import CaptionData, CaptionedPicture
from keras_attention.data.images.digit_canvases import LARGEST, SIDE, SMALLEST
from keras_attention.data.images.image_batches import MEAN, STD
from keras_attention.evaluation.caption_scores import DOUBTED, exact_captions, low_score_threshold, pointing
from keras_attention.evaluation.translation_scores import bleu_tradition_b
from keras_attention.inputs.image import STRETCH, ImageInput
from keras_attention.pipelines.media.captioner import Captioner
from keras_attention.zoo.entry_io import write_entry

TEST_PICTURES, CHECKED_PICTURES = 2_000, 500
EXAMPLES = 8
OF_CANVASES = [
    "The model knows two white digits on a black canvas, of which one is clearly above or left of the other, and "
    "describes any picture as if it were one, even a photo.",
    f"A picture is stretched to {SIDE} x {SIDE} pixels, in which digits are {SMALLEST} to {LARGEST} pixels tall.",
]
OF_PICTURES = [
    "The model describes any picture with the words of its training captions, even one of something else.",
    "Pictures are stretched to the size of the training, whatever their shape.",
]
CELLS = (
    "Attention weights show which cells the network reads for a word. The network sees some pixels around each cell."
)


def captioner_of(model, tokenizer: Any, samples: list[CaptionedPicture], beam_size: int, max_length: int) -> Captioner:
    """The pipeline of a network that was trained on `CaptionData`; these samples become the examples of its card."""
    kind = ImageInput(model.input_size, STRETCH, mean=[MEAN], std=[STD])
    decoding = {"beam_size": beam_size, "max_length": max_length}
    return Captioner(model, tokenizer, kind, decoding, samples=[one.picture for one in samples])


def caption_scores(captioner: Captioner, pictures: list[CaptionedPicture], **search) -> dict[str, float]:
    """Scores by name: exact captions (%), equal to one of the picture's.

    With boxes, the percentage of the words with a box whose attention is in it, by the largest weight and by the sum of
    the weights; without, BLEU.
    """
    captions = captioner.caption([one.picture for one in pictures], **search)
    references = [one.captions for one in pictures]
    scores = {"exact captions": exact_captions(captions, references)}
    if not all(one.boxes for one in pictures):
        return scores | {
            "BLEU": bleu_tradition_b([str(one) for one in captions], [one.captions for one in pictures]).score
        }
    size = captioner.kind.size[:2]
    seen = [pointing(_attention(*both), both[1].boxes, size) for both in zip(captions, pictures, strict=True)]
    hits, shares = (np.array(each, float) for each in zip(*(each for one in seen for each in one), strict=True))
    return scores | {"pointing": 100 * float(hits.mean()), "attention in the box": 100 * float(shares.mean())}


def _attention(caption, picture):
    """The attention of a caption; none if it has not as many words as the picture's, so that no word points."""
    as_many = len(caption.words) == len(picture.captions[0].split())
    return caption.attention[: len(caption.words) if as_many else 0]


def write_captioner(folder, captioner, data: CaptionData, *, settings, result, facts, overwrite=False):
    """Scores a captioner on the test part of its data and writes its entry.

    Args:
        folder: str or Path.
        captioner: Captioner.
        data: CaptionData.
        settings: dict of JSON types, the recipe's configuration.
        result: TrainResult.
        facts: dict, see `training.history.run_facts`.
        overwrite: bool. Whether to replace an existing entry.

    Returns:
        Dict of scores by name.
    """
    for weight in captioner.model.weights:  # as they are stored, so that scores and examples are those of the entry
        weight.assign(np.asarray(weight).astype("float16").astype("float32"))
    checked = data.validation(CHECKED_PICTURES)
    captioner.low_score_threshold = low_score_threshold(captioner.caption([one.picture for one in checked]))
    held = data.test(TEST_PICTURES)
    measured = caption_scores(captioner, held)
    name = f"{len(held):,} {data.tested_on}"
    model, attention = captioner.model, captioner.model.attention
    view = captioner.attention_view(held[0].picture)
    picture = {"file": "spotlights.png", "caption": f"Where each word of {quoted_caption(view.title)} looks"}
    what = "two handwritten digits on a canvas" if held[0].boxes else "pictures"
    metrics = {
        "description": f"Describes {what}, such as {quoted_caption(held[0].captions[0])}, with {attention} attention. "
        f"A convolutional network, then an LSTM that attends to {model.grid[0]} x {model.grid[1]} cells for each word "
        "(Xu et al. 2015).",
        "data": [data.origin],
        **facts,
        "minutes": result.seconds / 60,
        "seeds": [settings["seed"]],
        "parameters": model.count_params(),
        "scores": [
            {"set": name, "metric": SIGNATURES[metric][0], "value": value, "signature": SIGNATURES[metric][1]}
            for metric, value in measured.items()
        ],
        "low_score": {
            "set": "the validation",
            "sentences": len(checked),
            "inputs": "canvases" if held[0].boxes else "pictures",
            "share": DOUBTED,
        },
        "pictures": [picture],
        "limits": [*(OF_CANVASES if held[0].boxes else OF_PICTURES), CELLS],
        "examples": captioner.examples(),
        "training": {**settings, "history": result.history},
    }
    draw = [lambda place: view.save(place / picture["file"])]
    options = {"about": captioner.config_keys(), "extra_files": [*captioner.extra_files, *draw], "overwrite": overwrite}
    write_entry(folder, model, captioner.tokenizers, metrics=metrics, weights_dtype="float16", **options)
    return measured


SIGNATURES = {
    "exact captions": ("exact captions (%)", "all words equal"),
    "pointing": ("pointing (%)", "digit words whose largest weight is in the box of the digit"),
    "attention in the box": ("attention in the box (%)", "mean sum of the weights in the box, digit words"),
    "BLEU": ("BLEU", f"sacrebleu {version('sacrebleu')}, all captions of a picture as references"),
}


def quoted_caption(caption: str) -> str:
    """A caption in quotation marks."""
    return f'"{caption}"'
