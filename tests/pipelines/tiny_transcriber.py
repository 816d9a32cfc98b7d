"""A transcriber of tones with random weights."""

import functools

import numpy as np

from keras_attention.data.sounds.spoken_strings import load_speech_data
from keras_attention.inputs.speech import SpeechInput
from keras_attention.models import SpeechRecognizer
from keras_attention.publishing.speech_entries import spoken_strings, transcriber_of
from keras_attention.tokenizers import CharacterTokenizer

RATE = 8_000


@functools.cache
def tiny_strings(count=5):
    """Strings of one to four tones."""
    return spoken_strings(load_speech_data("tones", RATE, None, ()).train, count, 0, RATE, (1, 4))


def tiny_transcriber(attention="location", beam_size=2):
    """The pipeline of a network with random weights that depend on nothing else."""
    tokenizer = CharacterTokenizer("0123456789")
    sizes = {"num_bands": 11, "convolution_dim": 7, "encoder_dim": 5, "embedding_dim": 3, "hidden_dim": 13}
    model = SpeechRecognizer(tokenizer.vocabulary_size, attention=attention, **sizes)
    model.build()
    for i, weight in enumerate(model.trainable_weights):
        weight.assign(np.random.default_rng(i).uniform(-0.7, 0.7, weight.shape))
    return transcriber_of(model, tokenizer, SpeechInput((1_000, 11), RATE), tiny_strings()[:2], beam_size)
