import json
import re
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from models.tiny_bert import TINY, make_texts

from keras_attention.models import BertMaskedLM
from keras_attention.support.errors import UserError
from keras_attention.training import devices
from keras_attention.training.devices import AMX, CLUSTERS, CPU, GPU, accelerate, description, in_float32
from keras_attention.training.run import AccelerationSettings


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_rows_are_divided_evenly_and_in_order(count):
    batch = {"labels": np.arange(5), "source_ids": np.arange(10).reshape(5, 2)}
    parts = devices.split_batch(batch, count)
    assert max(len(part["labels"]) for part in parts) - min(len(part["labels"]) for part in parts) <= 1
    for name, array in batch.items():
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), array)


def test_too_few_rows_are_named():
    with pytest.raises(UserError, match="A batch of 2 examples cannot be split into 3 parts"):
        devices.split_batch({"labels": np.zeros(2)}, 3)


@pytest.mark.parametrize(
    ("name", "variable", "message"),
    [
        ("several", "", "Received: several"),
        ("multiworker", "", "needs the variable TF_CONFIG"),
        ("auto", "{", "TF_CONFIG must be JSON"),
    ],
)
def test_a_strategy_that_cannot_be_is_named(monkeypatch, name, variable, message):
    monkeypatch.setenv("TF_CONFIG", variable)
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    with pytest.raises(UserError, match=re.escape(message)):
        devices.use_strategy(name)


def test_a_worker_with_other_settings_than_the_chief_stops(monkeypatch):
    devices.check_alike({"seed": 1}, 0)
    monkeypatch.setattr(devices, "from_chief", lambda values: [value + 1 for value in values])
    with pytest.raises(UserError, match="Worker 0, at step 7, has other settings or data than the chief"):
        devices.check_alike({"seed": 1}, 7)


def test_slurm_variables_name_the_workers(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    variables = {"PROCID": "2", "STEP_NODELIST": "node[1-2]", "STEP_TASKS_PER_NODE": "2(x2)", "STEP_NUM_TASKS": "4"}
    for name, value in {**variables, "JOB_ID": "123456"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    resolver = devices.cluster_resolver()
    addresses = ["node1:23456", "node1:23457", "node2:23456", "node2:23457"]
    assert resolver.cluster_spec().as_dict() == {"worker": addresses}
    assert (resolver.task_type, resolver.task_id) == ("worker", 2)


@pytest.mark.parametrize(
    ("chiefs", "kind", "index", "expected"), [(0, "worker", 1, 1), (1, "chief", 0, 0), (1, "worker", 1, 2)]
)
def test_workers_are_numbered_from_the_chief_on(monkeypatch, chiefs, kind, index, expected):
    cluster = {"worker": ["a:1", "b:1"]} | ({"chief": ["c:1"]} if chiefs else {})
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))
    strategy = types.SimpleNamespace(cluster_resolver=devices.cluster_resolver())
    monkeypatch.setattr(tf.distribute, "get_strategy", lambda: strategy)
    assert devices.workers() == (expected, 2 + chiefs)


def test_one_process_is_a_chief_alone():
    assert devices.workers() == (0, 1)
    assert devices.add_up([1.5, 2.5]) == devices.from_chief([1.5, 2.5]) == [1.5, 2.5]
    assert devices.any_worker("SIGTERM")
    assert not devices.any_worker(None)
    assert devices.chief_goes_on()


BY_PARTS = "bfloat16 on a CPU with AMX, all but the products compiled with XLA."
MINE = "--tf_xla_clustering_debug=false"  # TensorFlow ends the process at a flag that it does not know


@pytest.fixture
def untouched(monkeypatch):
    """The policy and the flags are as they were, afterwards."""
    monkeypatch.setenv("TF_XLA_FLAGS", MINE)
    monkeypatch.setenv("TF_SET_ONEDNN_FPMATH_MODE", "")
    before = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(before)


@pytest.mark.parametrize(
    ("device", "asked", "large", "chosen", "sentence"),
    [
        (GPU, (None, None), True, (True, True), "bfloat16 on a GPU, compiled with XLA."),
        (GPU, (None, None), False, (False, True), "float32 on a GPU, compiled with XLA."),
        (GPU, (False, None), True, (False, True), "float32 on a GPU, compiled with XLA."),
        (CPU, (None, None), True, (False, True), "float32 on a CPU, compiled with XLA."),
        (CPU, (True, False), True, (True, False), "bfloat16 on a CPU."),
        (AMX, (None, None), False, (False, True), "float32 on a CPU with AMX, compiled with XLA."),
        (AMX, (None, None), True, (True, False), BY_PARTS),
        (AMX, (None, False), True, (True, False), BY_PARTS),
        (AMX, (None, True), True, (False, True), "float32 on a CPU with AMX, compiled with XLA."),
        (AMX, (False, False), True, (False, False), "float32 on a CPU with AMX."),
        (AMX, (True, True), True, (True, True), "bfloat16 on a CPU with AMX, compiled with XLA."),
    ],
)
@pytest.mark.usefixtures("untouched")
def test_open_settings_are_chosen_for_the_device(monkeypatch, device, asked, large, chosen, sentence):
    monkeypatch.setattr(devices, "find_device", lambda: device)
    settings = accelerate(AccelerationSettings(*asked), large)
    assert (settings.mixed_precision, settings.jit_compile) == chosen
    assert description(settings) == f"Computing in {sentence}"
    assert keras.config.dtype_policy().name == ("mixed_bfloat16" if chosen[0] else "float32")
    by_parts = sentence == BY_PARTS
    assert devices.os.environ["TF_XLA_FLAGS"] == (f"{MINE} {CLUSTERS}" if by_parts else MINE)


@pytest.mark.usefixtures("untouched")
def test_a_model_is_stored_in_float32():
    keras.config.set_dtype_policy("mixed_bfloat16")
    trained = BertMaskedLM(**TINY)
    trained.build()
    keras.config.set_dtype_policy("float32")
    model, texts = in_float32(trained), make_texts()
    plain = BertMaskedLM(**TINY)
    plain.build()
    plain.set_weights(trained.get_weights())
    np.testing.assert_array_equal(model(texts), plain(texts))
    assert np.abs(model(texts) - trained(texts)).max() > 0
    assert in_float32(plain) is plain
