"""Plain Keras models trained on several devices and in several processes, as on one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers
from training.distributed_run import EPOCHS, HELD_OUT, MODELS, ROWS, B, data, train

import keras_attention
from keras_attention.cli.launch import free_ports
from keras_attention.support.errors import UserError

PROGRAM = Path(__file__).with_name("distributed_run.py")
EXACT = ("tokens", "several")  # the others depend on how a batch is split


def start(folder, *arguments, **variables):
    roots = os.pathsep.join([str(PROGRAM.parents[2]), str(PROGRAM.parents[1])])
    command = [sys.executable, str(PROGRAM), str(folder), *arguments]
    environment = {**os.environ, "PYTHONPATH": roots, **variables}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def start_workers(folder, *arguments):
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    tasks = [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}) for index in range(2)]
    return [start(folder, *arguments, TF_CONFIG=task) for task in tasks]


def outputs(processes):
    texts = [process.communicate(timeout=300)[0] for process in processes]
    return [process.returncode for process in processes], texts


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder of the results of all models on two devices and in two processes."""
    folder = tmp_path_factory.mktemp("runs")
    names = ",".join(MODELS)
    codes, printed = outputs([*start_workers(folder, "multiworker", names), start(folder, "mirrored", names)])
    assert codes == [0, 0, 0], printed
    return folder


def load(path):
    with np.load(path) as file:
        weights = [file[name] for name in file.files if name.startswith("arr_")]
        return weights, {name.removeprefix("history/"): file[name] for name in file.files if "history/" in name}


@pytest.mark.thorough
@pytest.mark.parametrize("split", ["mirrored", "multiworker"])
@pytest.mark.parametrize("name", EXACT)
def test_history_and_weights_are_those_of_one_device(runs, name, split):
    """With masks, several inputs and outputs, weights of losses, a schedule and a clipped gradient."""
    expected = train(name, "none")
    weights, history = load(runs / f"{split}-{name}-0.npz")
    assert history.keys() == expected.history.keys()
    for key, values in expected.history.items():
        np.testing.assert_allclose(history[key], values, rtol=1e-4, err_msg=key)
    assert expected.history["loss"][-1] < expected.history["loss"][0]
    for one, other in zip(weights, expected.model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS)
def test_both_workers_end_with_the_same_weights(runs, name):
    (chief, history), (other, same) = (load(runs / f"multiworker-{name}-{worker}.npz") for worker in range(2))
    for one, two in zip(chief, other, strict=True):
        np.testing.assert_array_equal(one, two)
    assert history.keys() == same.keys()
    for key in history:
        np.testing.assert_array_equal(history[key], same[key])


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS)
def test_the_chief_saves_a_plain_model(runs, name):
    model = keras.models.load_model(runs / f"multiworker-{name}.keras")
    x, y, _ = data(name, 7, HELD_OUT)
    _, history = load(runs / f"multiworker-{name}-0.npz")
    scores = model.evaluate(x, y, verbose=0, return_dict=True, batch_size=HELD_OUT)
    assert scores["loss"] == pytest.approx(history["val_loss"][-1], rel=1e-4)


@pytest.mark.thorough
def test_fit_with_several_workers_still_fails(tmp_path):
    """keras #20585: if this test fails, `fit` has been mended, and docs/scale_out.md says so."""
    codes, printed = outputs(start_workers(tmp_path, "fit", "normed"))
    assert codes != [0, 0]
    assert any("PerReplica" in text or "reduction dimension" in text for text in printed), printed


@pytest.mark.slow
def test_one_device_trains_as_fit_does():
    """With SGD: with Adam, `fit` takes a token that occurs twice in a batch for two gradients."""
    x, y, _ = data("tokens", 5, 3 * B)
    held_out = data("tokens", 7, HELD_OUT)[:2]

    def make():
        model = MODELS["tokens"]()
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), model.loss, metrics=["accuracy"])
        model.build((None, x.shape[1]))
        return model

    fitted, model = make(), make()
    expected = fitted.fit(x, y, batch_size=B, epochs=3, shuffle=False, verbose=0, validation_data=held_out).history
    options = {"batch_size": B, "epochs": 3, "shuffle": False, "verbose": 0, "strategy": "none"}
    trained = keras_attention.distribute(model, x, y, validation_data=held_out, **options)
    assert trained.model is model  # in place
    assert trained.is_chief
    for one, other in zip(model.get_weights(), fitted.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    np.testing.assert_allclose(trained.history["val_accuracy"], expected["val_accuracy"], rtol=1e-5)


@pytest.mark.slow
def test_parts_one_after_the_other_train_as_the_whole(tmp_path):
    """Gradient accumulation (keras #20582), and a training that was interrupted."""
    whole, parts = train("several", "none"), train("several", "none", accumulate=3)
    for one, other in zip(whole.model.get_weights(), parts.model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    train("several", "none", epochs=2, checkpoints=tmp_path / "c")
    resumed = train("several", "none", checkpoints=tmp_path / "c", resume=True)
    for one, other in zip(whole.model.get_weights(), resumed.model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert resumed.history == whole.history
    assert len(whole.history["loss"]) == EPOCHS


class OwnStep(keras.Model):
    """A model with a `train_step`."""

    def call(self, inputs):
        return inputs

    def train_step(self, data):
        return {}


def compiled(loss="mse", optimizer="sgd", model=None):
    model = model or keras.Sequential([layers.Dense(1)])
    model.compile(optimizer, loss)
    return model


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: keras.Sequential([layers.Dense(1)]), "must be compiled with an optimizer and a loss"),
        (lambda: compiled(model=OwnStep()), "OwnStep has a `train_step` of its own, which cannot be split"),
        (lambda: compiled(keras.losses.MeanSquaredError("sum")), "must be a mean over the rows. Received: .*'sum'"),
        (lambda: compiled(optimizer=keras.optimizers.SGD(gradient_accumulation_steps=2)), "Use `accumulate`"),
        (lambda: compiled(optimizer=keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())), "mixed_bfloat16"),
        (lambda: "my_model", "Expected a keras.Model, or a function that returns one. Received: 'my_model'"),
    ],
)
def test_models_that_cannot_be_split(make, message):
    with pytest.raises(UserError, match=message):
        keras_attention.distribute(make, np.ones((3, 2)), np.ones((3, 1)), strategy="none", verbose=0)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.ones((3, 2)), np.ones((2, 1)), r"must have equally many rows, at least 1. Received: \[2, 3\]"),
        (np.ones((0, 2)), np.ones((0, 1)), r"at least 1. Received: \[0\]"),
        (7, np.ones((3, 1)), "takes arrays with rows. Received: 'int' as x"),
        (iter([1]), np.ones((3, 1)), "takes arrays with rows. Received: 'list_iterator' as x"),
    ],
)
def test_rows_that_do_not_fit_together(x, y, message):
    with pytest.raises(UserError, match=message):
        keras_attention.distribute(compiled, x, y, strategy="none", verbose=0)


def test_each_row_is_in_one_batch_of_an_epoch():
    from keras_attention.training.distribution import Rows

    rows = Rows(np.arange(ROWS), np.arange(ROWS), batch_size=B, shuffle=True, seed=3)
    epochs = [[batch["x/0"] for batch in map(rows.epoch(number).__getitem__, range(4))] for number in (0, 1, 0)]
    for batches in epochs:
        assert {len(batch) for batch in batches} == {5, 6}
        assert sorted(np.concatenate(batches)) == list(range(ROWS))
    np.testing.assert_array_equal(np.concatenate(epochs[0]), np.concatenate(epochs[2]))
    assert (np.concatenate(epochs[0]) != np.concatenate(epochs[1])).any()
