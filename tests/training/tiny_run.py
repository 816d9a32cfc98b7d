"""A training of a second or two: imported by the tests, and run as a program by those that kill it."""

import argparse
import functools
import hashlib
import json
import resource
import signal
import time

import keras
import numpy as np
from plain_graphs import run_graphs_as_traced

from keras_attention.training.losses import token_cross_entropy
from keras_attention.training.optim import InverseSquareRoot
from keras_attention.training.run import RunSettings
from keras_attention.training.session import Session

VOCABULARY, WIDTH = 29, 11
SHAPES = [(3, 5), (2, 7)]  # two batch shapes, so that more than one function is compiled


class TinyModel(keras.Model):
    """Embedding, dropout, projection; seeded, so that two of them start equal."""

    def __init__(self, dropout=0.3, dtype=None):
        super().__init__(dtype=dtype)
        uniform = keras.initializers.RandomUniform(seed=3)
        self.embedding = keras.layers.Embedding(VOCABULARY, WIDTH, embeddings_initializer=uniform, dtype=dtype)
        self.dropout = keras.layers.Dropout(dropout, seed=17, dtype=dtype)
        glorot = keras.initializers.GlorotUniform(seed=5)
        self.projection = keras.layers.Dense(VOCABULARY, kernel_initializer=glorot, dtype=dtype)

    def call(self, inputs, training=None):
        return self.projection(self.dropout(self.embedding(inputs["source_ids"]), training=training))

    def get_config(self):
        return {**super().get_config(), "dropout": self.dropout.rate}


class Steep(TinyModel):
    """Adds the root of a weight that is 0: finite forwards, an infinite gradient backwards."""

    def __init__(self):
        super().__init__(dropout=0.0)
        self.radicand = self.add_weight(shape=(), initializer="zeros", name="radicand")

    def call(self, inputs, training=None):
        return self.projection(self.embedding(inputs["source_ids"]) + keras.ops.sqrt(self.radicand))


class TinyBatches:
    """The label of a token is its successor. A pure function of (seed, epoch), as the real ones are."""

    def __init__(self, steps=7, seed=0, pause=0.0, fail_at=None):
        self.steps = steps
        self.seed = seed
        self.pause = pause
        self.fail_at = fail_at  # (epoch, step) at which the disk, notify, breaks

    def epoch(self, epoch):
        return TinyEpoch(self, epoch)


class TinyEpoch:
    def __init__(self, batches, epoch):
        self.batches = batches
        self.number = epoch

    def __len__(self):
        return self.batches.steps

    def __getitem__(self, step):
        if self.batches.fail_at == (self.number, step):
            raise OSError("the data went away")
        time.sleep(self.batches.pause)
        rng = np.random.default_rng((self.batches.seed, self.number, step))
        tokens = rng.integers(1, VOCABULARY, SHAPES[step % 2]).astype("int32")
        labels = tokens % (VOCABULARY - 1) + 1
        labels[0, 3:] = 0  # padding
        return {"source_ids": tokens, "labels": labels.astype("int32")}


def make_optimizer():
    return keras.optimizers.Adam(InverseSquareRoot(0.05, 13))


def token_loss(model, inputs, labels, label_smoothing=0.0):
    return token_cross_entropy(labels, model(inputs, training=True), label_smoothing)


RUN = ("accumulate", "resume", "restart", "log_dir", "jit_compile")
SESSION = ("checkpoint_dir", "checkpoint_every", "checkpoint_minutes", "verbose", "unit")
COMPILE = ("clip_norm", "average_last", "ema_decay")


def train(model, optimizer, batches, *, loss=None, label_smoothing=0.0, validate=None, validate_every=1, **options):
    """The loop of a recipe; `options` are settings of the run and arguments of the session and its methods.

    Returns:
        TrainResult.
    """
    of_run, of_session, of_compile = (
        {name: options.pop(name) for name in names if name in options} for names in (RUN, SESSION, COMPILE)
    )
    if not model.built:
        model({name: value[:1] for name, value in batches.epoch(0)[0].items() if name != "labels"})
    session = Session(RunSettings(**of_run), **of_session)
    loss = loss or functools.partial(token_loss, label_smoothing=label_smoothing)
    update = session.compile(model, optimizer, loss, **of_compile)
    with session:
        for epoch in session.epochs(batches, **options):
            for batch in epoch:
                epoch.record(update(batch))
            if validate and epoch.number % validate_every == 0:
                with session.averaged_weights():
                    session.report(**validate(model))
    return session.result


def run(model=None, optimizer=None, batches=None, **arguments):
    """Trains quietly; returns (result, model, optimizer)."""
    model = model or TinyModel()
    optimizer = optimizer or make_optimizer()
    result = train(model, optimizer, batches or TinyBatches(), **{"verbose": 0, "jit_compile": False, **arguments})
    return result, model, optimizer


def arrays_of(model, optimizer):
    """Every variable, with the states of the random generators."""
    return [keras.ops.convert_to_numpy(v.value).copy() for v in [*model.variables, *optimizer.variables]]


def untimed(history):
    """The history without what a clock measured."""
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in history]


def resumable(folder, pause=0.0, checkpoint_every=1):
    """Five epochs that go on from whatever checkpoint is there; all that the end is made of."""
    result, model, optimizer = run(
        batches=TinyBatches(pause=pause),
        epochs=5,
        checkpoint_dir=folder,
        checkpoint_every=checkpoint_every,
        average_last=2,
        resume=True,
    )
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays_of(model, optimizer)))
    return {"sha256": digest.hexdigest(), "history": untimed(result.history)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--checkpoint_every", type=int, default=1)
    parser.add_argument("--file_limit", type=int, help="bytes, beyond which a write fails as on a full disk")
    flags = parser.parse_args()
    run_graphs_as_traced()
    if flags.file_limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (flags.file_limit, flags.file_limit))
    print(json.dumps(resumable(flags.folder, flags.pause, flags.checkpoint_every)))


if __name__ == "__main__":
    main()
