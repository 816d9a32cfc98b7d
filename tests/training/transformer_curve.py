"""Trains a small Transformer on whichever backend Keras has, and writes the loss of every step: `... FILE`."""

import functools
import sys
from pathlib import Path

import keras
import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from recipe_modules import load_recipe

from keras_attention.data import BucketedBatches
from keras_attention.data.translation.parallel_corpus import ParallelCorpus, TokenSequences
from keras_attention.models import Transformer
from keras_attention.training.backends import compile_update
from keras_attention.training.optim import InverseSquareRoot

STEPS, VOCABULARY = 50, 31


def make_corpus(random, count=211):
    """Pairs whose target is the source in reverse order."""
    lengths = random.integers(3, 12, count)
    sides = [], []
    for length in lengths:
        tokens = random.integers(4, VOCABULARY, length - 1)
        sides[0].append(np.r_[tokens, 3])
        sides[1].append(np.r_[tokens[::-1], 3])
    offsets = np.r_[0, np.cumsum(lengths)]
    return ParallelCorpus(*(TokenSequences(np.concatenate(side).astype("int32"), offsets) for side in sides))


def main(path):
    keras.utils.set_random_seed(3)
    random = np.random.default_rng(3)
    sizes = {"hidden_dim": 24, "intermediate_dim": 41, "num_heads": 3, "num_encoder_layers": 2, "num_decoder_layers": 2}
    model = Transformer(VOCABULARY, VOCABULARY, **sizes, dropout=0.2)
    model.build()
    for weight in model.trainable_weights:
        if len(weight.shape) > 1:
            weight.assign(random.normal(size=weight.shape, scale=0.2))
    batches = BucketedBatches(make_corpus(random), 300, 1, 3)
    optimizer = keras.optimizers.Adam(InverseSquareRoot(3e-3, 20), beta_2=0.98, epsilon=1e-9)
    loss = functools.partial(load_recipe("transformer").loss, label_smoothing=0.1, r_drop=1.0)
    update = compile_update(model, optimizer, loss, clip_norm=1.0)
    losses = []
    for epoch in range(STEPS):
        for batch in batches.epoch(epoch):
            result = update(batch)
            losses.append(float(result.total) / float(result.count))
        if len(losses) >= STEPS:
            break
    np.savez(path, losses=losses[:STEPS])


if __name__ == "__main__":
    main(sys.argv[1])
