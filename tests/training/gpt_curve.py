"""Trains a small GPT on whichever backend Keras has, and writes the loss of every step: `... FILE`."""

import sys
from pathlib import Path

import keras
import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from recipe_modules import load_recipe

from keras_attention.data.prose.token_stream import WindowBatches
from keras_attention.models import GPT
from keras_attention.training.backends import compile_update
from keras_attention.training.optim import LinearDecay

STEPS, VOCABULARY = 50, 29


def make_stream(random, count=3001):
    """Tokens of which each is mostly the one before it, doubled."""
    tokens = [5]
    for noise in random.random(count):
        tokens.append(4 + 2 * tokens[-1] % (VOCABULARY - 4) if noise < 0.9 else int(random.integers(4, VOCABULARY)))
    return np.array(tokens, "int32")


def main(path):
    keras.utils.set_random_seed(3)
    random = np.random.default_rng(3)
    model = GPT(VOCABULARY, 24, 41, num_heads=3, num_layers=2, max_length=13, positions="rotary", dropout=0.1)
    model.build()
    for weight in model.trainable_weights:
        if len(weight.shape) > 1:
            weight.assign(random.normal(size=weight.shape, scale=0.1))
    batches = WindowBatches(make_stream(random), 13, 7, seed=3)
    optimizer = keras.optimizers.AdamW(LinearDecay(1e-2, 5, STEPS), 0.1, beta_2=0.99)
    update = compile_update(model, optimizer, load_recipe("language_model").loss, clip_norm=1.0)
    losses = []
    for epoch in range(STEPS):
        for batch in (batch for batch in batches.epoch(epoch) if len(losses) < STEPS):
            result = update(batch)
            losses.append(float(result.total) / float(result.count))
    np.savez(path, losses=losses)


if __name__ == "__main__":
    main(sys.argv[1])
