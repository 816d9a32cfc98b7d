"""A tiny untrained language model of music, and the pieces from which its vocabulary is."""

import functools

import keras
from zoo.tiny_bert import scaled

from keras_attention.data.music.chorales import rule_chorales
from keras_attention.models import new_language_model
from keras_attention.pipelines.text_generator import TextGenerator
from keras_attention.tokenizers import NoteTokenizer

PIECES = rule_chorales(7, seed=3)


@functools.cache
def note_tokenizer():
    return NoteTokenizer.train(PIECES)


def tiny_musician(kind="gpt", seed=3, factor=20.0, **settings):
    """A TextGenerator of random weights with a window of 149 tokens, 37 time steps."""
    keras.utils.set_random_seed(seed)
    sizes = {"hidden_dim": 14, "intermediate_dim": 19, "num_heads": 1, "num_layers": 2, "max_length": 149}
    sizes |= {"vocabulary_size": note_tokenizer().vocabulary_size, "positions": "rotary", **settings}
    model = new_language_model(kind, sizes)
    return TextGenerator(scaled(model, factor), note_tokenizer(), language="zxx")
