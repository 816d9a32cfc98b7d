"""A tiny untrained language model with a vocabulary, and an entry of it."""

import functools

import keras
from tiny_byte_level import tiny_byte_level
from zoo.tiny_bert import scaled
from zoo.tiny_entry import METRICS

from keras_attention.models import GPT, new_language_model
from keras_attention.pipelines.text_generator import TextGenerator
from keras_attention.tokenizers import CharacterTokenizer, SentencePieceTokenizer
from keras_attention.zoo.entry_io import write_entry

TEXTS = ["A dog runs over green grass.", "Two men are near many bushes.", "A girl in a red dress sings.", "Men sit."]
SIZES = {"hidden_dim": 14, "intermediate_dim": 19, "num_heads": 1, "num_layers": 2, "max_length": 29}
LINE_BREAK = "␤"


@functools.cache
def tokenizer(level="bpe"):
    """A vocabulary out of `TEXTS`, with a sign for line breaks."""
    if level == "char":
        return CharacterTokenizer.train([*TEXTS, LINE_BREAK])
    return SentencePieceTokenizer.train([*TEXTS * 3, LINE_BREAK], 61)


def tiny_generator(level="bpe", seed=3, factor=30.0, line_break=LINE_BREAK, begins_with="end", kind="gpt", **settings):
    """A TextGenerator of random weights; with this factor it is sure of some tokens, but not of all."""
    keras.utils.set_random_seed(seed)
    sizes = {"vocabulary_size": tokenizer(level).vocabulary_size, **SIZES, **settings}
    model = scaled(GPT(**sizes) if kind == "gpt" else new_language_model(kind, sizes), factor)
    return TextGenerator(model, tokenizer(level), line_break, begins_with)


def write_byte_level(folder):
    """Writes an entry with a byte-level tokenizer."""
    model, tokens = GPT(283, **SIZES, pad_id=None), tiny_byte_level(283)
    model.build()
    metrics = {**METRICS, "examples": [], "parameters": model.count_params(), "pictures": []}
    return write_entry(folder, model, {"text": tokens}, about={"language": "en"}, metrics=metrics)
