"""A captioner of canvases with generic weights, and one that has learned a little."""

import functools

import numpy as np

from keras_attention.data.images.caption_data import CaptionedPicture
from keras_attention.data.images.digit_canvases import captions, scenes, squares
from keras_attention.data.images.labelled_images import LabelledImages
from keras_attention.models import AttentionCaptioner
from keras_attention.publishing.caption_entries import captioner_of
from keras_attention.tokenizers import SentencePieceTokenizer


@functools.cache
def tokenizer():
    return SentencePieceTokenizer.train(captions(), 200)


@functools.cache
def tiny_scenes(count=5):
    """Canvases with blocks of ten brightnesses in place of digits."""
    pixels = np.zeros((10, 8, 8, 1), "uint8")
    pixels[:, 1:7, 1:7] = 60 + 19 * np.arange(10, dtype="uint8")[:, None, None, None]
    return scenes(squares(LabelledImages(pixels, np.arange(10, dtype="int32"))), count, 3)


def tiny_captioner(attention="soft", beam_size=2):
    """The pipeline of a network with random weights that depend on nothing else."""
    sizes = {"annotation_dim": 8, "embedding_dim": 11, "hidden_dim": 13, "num_halvings": 3}
    model = AttentionCaptioner(tokenizer().vocabulary_size, (48, 48, 1), attention=attention, **sizes)
    model.build()
    for i, weight in enumerate(model.trainable_weights):
        weight.assign(np.random.default_rng(i).uniform(-0.7, 0.7, weight.shape))
    samples = [CaptionedPicture(scene.pixels, (scene.caption,), scene.boxes) for scene in tiny_scenes()[:2]]
    return captioner_of(model, tokenizer(), samples, beam_size, max_length=12)
