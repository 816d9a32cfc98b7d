"""A batch that is split, over devices, over workers or over turns, trains as the whole one does."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from training.split_run import MODELS
from training.tiny_run import TinyModel, token_loss

from keras_attention.cli.launch import free_ports
from keras_attention.training.backends import compile_update

PROGRAM = Path(__file__).with_name("split_run.py")
WITHOUT_DROPOUT = [name for name in MODELS if name != "dropping"]
EVERY_SPLIT = pytest.mark.parametrize("split", ["none-3-{}-0", "mirrored-2-{}-0", "multiworker-2-{}-0"])


def start(folder, *ways, models=tuple(MODELS), **variables):
    roots = os.pathsep.join([str(PROGRAM.parents[2]), str(PROGRAM.parents[1])])
    environment = {**os.environ, "PYTHONPATH": roots, "CUDA_VISIBLE_DEVICES": "", **variables}
    command = [sys.executable, str(PROGRAM), str(folder), ",".join(models), *ways]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(processes):
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), outputs
    return outputs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder of all results: one process alone, one with two devices, two with one each."""
    folder = tmp_path_factory.mktemp("runs")
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    tasks = [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}) for index in range(2)]
    workers = [start(folder, "multiworker:2", TF_CONFIG=task) for task in tasks]
    alone = start(folder, "none:1", "none:3")
    (*silent, printed) = finish([*workers, alone, start(folder, "mirrored:2")])
    assert "Strategy: mirrored, on 2 CPUs." in printed
    assert "Strategy: multiworker, worker 1 of 2, 1 devices in each." in silent[1]
    return folder


def load(folder, name):
    with np.load(folder / f"{name}.npz") as file:
        return {key: file[key] for key in file.files}


def weights_of(arrays):
    return [array for key, array in arrays.items() if key.startswith("arr_")]


def assert_same_training(actual, expected):
    np.testing.assert_allclose(actual["losses"], expected["losses"], rtol=1e-5)
    for weight, other in zip(weights_of(actual), weights_of(expected), strict=True):
        assert np.abs(weight - other).max() <= 1e-5 * np.abs(other).max()


@pytest.mark.thorough
@EVERY_SPLIT
@pytest.mark.parametrize("model", WITHOUT_DROPOUT)
def test_losses_and_weights_of_50_steps_are_those_of_one_device(runs, split, model):
    """Among them gradient accumulation (keras #20582), a multi-worker fit (#20585) and gradients of embeddings, whose
    tokens occur in several parts (#21069)."""
    whole = load(runs, f"none-1-{model}-0")
    assert whole["losses"][-1] < whole["losses"][0] - 0.1
    assert_same_training(load(runs, split.format(model)), whole)


@pytest.mark.thorough
@EVERY_SPLIT
@pytest.mark.parametrize("model", WITHOUT_DROPOUT)
def test_validation_counts_each_batch_once(runs, split, model):
    """Evaluation under a strategy (keras #19891)."""
    expected = load(runs, f"none-1-{model}-0")["validation"]
    np.testing.assert_allclose(load(runs, split.format(model))["validation"], expected, rtol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("model", MODELS)
def test_both_workers_end_with_the_same_bits(runs, model):
    both = [load(runs, f"multiworker-2-{model}-{worker}") for worker in range(2)]
    for one, other in zip(*map(weights_of, both), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.thorough
@EVERY_SPLIT
def test_with_dropout_the_validation_is_the_same_within_noise(runs, split):
    whole, actual = load(runs, "none-1-dropping-0"), load(runs, split.format("dropping"))
    assert np.abs(actual["losses"] / whole["losses"] - 1).max() > 1e-3  # other masks
    np.testing.assert_allclose(actual["validation"], whole["validation"], rtol=0.05)


@pytest.mark.thorough
def test_replicas_drop_different_units():
    """Dropout seeds under a strategy (keras #20611): two replicas that get equal rows have different losses."""
    program = """
import keras, numpy as np, tensorflow as tf
from training.tiny_run import TinyModel, token_loss
from keras_attention.training import devices
from keras_attention.cli.launch import free_ports
from keras_attention.training.backends import compile_update
two = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
devices.use_strategy("mirrored")
model = TinyModel(dropout=0.5)
row = np.arange(1, 14, dtype="int32")[None]
model({"source_ids": row})
step = compile_update(model, keras.optimizers.SGD(0.0), token_loss, jit_compile=False)
step({"source_ids": np.repeat(row, 2, axis=0), "labels": np.repeat(row, 2, axis=0)})
state = next(v for v in model.variables if v.path.endswith("seed_generator_state"))
print([copy.numpy().tolist() for copy in state.value.values])
"""
    roots = os.pathsep.join([str(PROGRAM.parents[2]), str(PROGRAM.parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": roots}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (first, first_draws), (second, second_draws) = json.loads(done.stdout.splitlines()[-1])
    assert first == 17
    assert first != second
    assert first_draws == second_draws == 1


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_jax_splits_over_devices_and_turns(tmp_path):
    flags = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    (printed,) = finish([start(tmp_path, "none:1", "none:3", "mirrored:2", models=["transformer"], **flags)])
    assert "Strategy: mirrored, on 2 devices of JAX." in printed
    whole = load(tmp_path, "none-1-transformer-0")
    for split in ("none-3", "mirrored-2"):
        assert_same_training(load(tmp_path, f"{split}-transformer-0"), whole)


def test_accumulation_must_be_positive_and_without_loss_scale():
    model = TinyModel()
    model({"source_ids": np.ones((1, 3), "int32")})
    with pytest.raises(ValueError, match="Received: accumulate=0"):
        compile_update(model, keras.optimizers.SGD(0.1), token_loss, accumulate=0)
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    with pytest.raises(ValueError, match="use bfloat16 instead"):
        compile_update(model, scaled, token_loss, accumulate=2)
