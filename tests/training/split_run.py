"""Trains three small models with every batch split in some way; a program, because strategies are for whole processes.

`split_run.py FOLDER MODEL,MODEL STRATEGY:TURNS ...` writes FOLDER/STRATEGY-TURNS-MODEL-WORKER.npz with the loss of each
step, the trained weights and the validation loss.
"""

import sys
from pathlib import Path

import keras
import numpy as np
from plain_graphs import run_graphs_as_traced
from training.tiny_run import TinyModel, train

from keras_attention.models import AttentionSeq2Seq, BertMaskedLM, Transformer
from keras_attention.training import devices

STEPS, V, B, S, T, P = 50, 29, 8, 5, 3, 2
LAYERS = {"hidden_dim": 24, "intermediate_dim": 41, "num_heads": 3, "dropout": 0.0}


def rnn():
    return AttentionSeq2Seq(V, V, embedding_dim=13, hidden_dim=22, dropout=0.0)


def transformer():
    return Transformer(V, V, **LAYERS, num_encoder_layers=1, num_decoder_layers=1)


def masked_lm():
    return BertMaskedLM(V, **LAYERS, num_layers=1, max_length=S, num_segments=1)


def dropping():
    """With Keras's dropout, of which each replica draws masks of its own."""
    return TinyModel(dropout=0.2)


MODELS = {made.__name__: made for made in (rnn, transformer, masked_lm, dropping)}


class OneBatchEpochs:
    """Epochs of one batch, so that the history has the loss of each step. Rows of different lengths, the last empty."""

    def __init__(self, name):
        self.name = name

    def epoch(self, number):
        random = np.random.default_rng(number)
        source = random.integers(4, V, (B, S)).astype("int32")
        source[np.arange(S) >= random.integers(2, S + 1, B)[:, None]] = 0
        source[-1] = 0
        if self.name == "masked_lm":
            positions = np.sort(random.integers(0, S, (B, P)), axis=1).astype("int32")
            labels = np.take_along_axis(source, positions, axis=1)
            return [{"token_ids": source, "masked_positions": positions, "labels": labels}]
        if self.name == "dropping":
            return [{"source_ids": source, "labels": source}]
        labels = source[:, :T]  # what is to be written is the beginning of what was read
        target = np.concatenate([np.full((B, 1), 2, "int32"), labels[:, :-1]], axis=1)
        return [{"source_ids": source, "target_ids": target, "labels": labels}]


def make_model(name):
    model = MODELS[name]()
    model({key: value[:1] for key, value in OneBatchEpochs(name).epoch(0)[0].items() if key != "labels"})
    random = np.random.default_rng(7)
    for weight in model.trainable_weights:
        if len(weight.shape) > 1:
            weight.assign(random.normal(size=weight.shape, scale=weight.shape[0] ** -0.5))
    return model


def validation_loss(name):
    """A validation: the loss over batches of which each worker takes its share."""
    batches = [OneBatchEpochs(name).epoch(number)[0] for number in range(1000, 1005)]
    if keras.backend.backend() != "tensorflow":
        return None
    from keras_attention.evaluation.masked_lm_scores import MaskedLMScores

    def validate(model):
        return {"val_loss": MaskedLMScores(model, jit_compile=False)(batches)["loss"]}

    return validate


def run(name, turns):
    keras.utils.set_random_seed(5)
    model = make_model(name)
    options = {"label_smoothing": 0.1, "clip_norm": 0.5, "accumulate": turns, "jit_compile": False, "verbose": 0}
    validation = {"validate": validation_loss(name), "validate_every": STEPS}
    optimizer = keras.optimizers.Adam(1e-2, epsilon=1e-5)
    result = train(model, optimizer, OneBatchEpochs(name), epochs=STEPS, **options, **validation)
    weights = [keras.ops.convert_to_numpy(v.value) for v in model.trainable_variables]
    last = result.history[-1]
    return {"losses": [entry["loss"] for entry in result.history], "validation": last.get("val_loss", 0.0)}, weights


def main(folder, models, *ways):
    run_graphs_as_traced()
    for strategy, turns in (way.split(":") for way in ways):
        if strategy == "mirrored" and keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            two = [tf.config.LogicalDeviceConfiguration()] * 2
            tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
        devices.use_strategy(strategy)
        worker = devices.workers().index
        for name in models.split(","):
            actual, weights = run(name, int(turns))
            np.savez(Path(folder) / f"{strategy}-{turns}-{name}-{worker}.npz", *weights, **actual)


if __name__ == "__main__":
    main(*sys.argv[1:])
