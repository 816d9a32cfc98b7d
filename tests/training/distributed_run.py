"""Trains plain Keras models with `keras_attention.distribute`; a program, because strategies are for whole processes.

`distributed_run.py FOLDER STRATEGY MODEL,MODEL` writes FOLDER/STRATEGY-MODEL-WORKER.npz with history and weights, and
saves the model of the chief. `distributed_run.py FOLDER fit MODEL` uses `fit` under MultiWorkerMirroredStrategy.
"""

import os
import sys
from pathlib import Path

import keras
import numpy as np
from keras import layers

import keras_attention

V, B, S, K, EPOCHS = 29, 7, 5, 3, 4
ROWS, HELD_OUT = 23, 13


def two_devices():
    import tensorflow as tf

    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)


def tokens():
    """Labels of tokens; rows have different numbers of valid tokens, and the mask leaves out the others."""
    keras.utils.set_random_seed(3)
    embedding = layers.Embedding(V, 11, mask_zero=True)
    model = keras.Sequential([embedding, layers.LSTM(13, return_sequences=True), layers.Dense(K)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


def several():
    """Two inputs by name, two outputs by name, regularizer, loss weights, sample weights, and a clipped gradient."""
    keras.utils.set_random_seed(3)
    left, right = keras.Input((S,), name="left"), keras.Input((K,), name="right")
    joined = layers.Dense(11, "relu", kernel_regularizer="l2")(layers.Concatenate()([left, right]))
    outputs = {"kind": layers.Dense(K, name="kind")(joined), "size": layers.Dense(1, name="size")(joined)}
    model = keras.Model({"left": left, "right": right}, outputs)
    losses = {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "size": "mse"}
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.01, 17), global_clipnorm=0.5)
    metrics = {"kind": ["accuracy"], "size": ["mae"]}
    model.compile(optimizer, losses, loss_weights={"kind": 1.0, "size": 0.3}, metrics=metrics)
    return model


def normed():
    """Batch normalization and dropout, whose results depend on how a batch is split."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential([layers.Dense(11), layers.BatchNormalization(), layers.Dropout(0.2), layers.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"])
    return model


def data(name, seed, count):
    """x, y and sample weights of a model."""
    random = np.random.default_rng(seed)
    if name == "tokens":
        x = random.integers(1, V, (count, S)).astype("int32")
        x[np.arange(S) >= random.integers(1, S + 1, count)[:, None]] = 0
        return x, (x % K).astype("int32"), None
    x = random.normal(size=(count, S)).astype("float32")
    if name == "normed":
        return x, x.sum(axis=1, keepdims=True), None
    right = random.normal(size=(count, K)).astype("float32")
    y = {"kind": right.argmax(axis=1).astype("int32"), "size": x.sum(axis=1, keepdims=True)}
    return {"left": x, "right": right}, y, None


MODELS = {made.__name__: made for made in (tokens, several, normed)}


def train(name, strategy, **options):
    """What `distribute` returns for one of MODELS."""
    *rows, _ = data(name, 5, ROWS)
    held_out = data(name, 7, HELD_OUT)[:2]
    options = {"batch_size": B, "epochs": EPOCHS, "validation_data": held_out, "verbose": 0, **options}
    return keras_attention.distribute(MODELS[name], *rows, strategy=strategy, **options)


def main(folder, strategy, names):
    folder = Path(folder)
    if strategy == "fit":
        import tensorflow as tf

        with tf.distribute.MultiWorkerMirroredStrategy().scope():
            model = MODELS[names]()
        model.fit(*data(names, 5, ROWS)[:2], batch_size=B, verbose=0)
        return
    if strategy == "mirrored":
        two_devices()
    for name in names.split(","):
        trained = train(name, strategy)
        values = {f"history/{key}": value for key, value in trained.history.items()}
        path = folder / f"{strategy}-{name}-{int(not trained.is_chief)}.npz"
        np.savez(path, *trained.model.get_weights(), **values)
        if trained.is_chief:
            trained.model.save(folder / f"{strategy}-{name}.keras")


if __name__ == "__main__":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    main(*sys.argv[1:])
