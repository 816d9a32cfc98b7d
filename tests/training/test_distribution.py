import json
import re
import types

import numpy as np
import pytest
import tensorflow as tf

from keras_attention.errors import UserError
from keras_attention.training import distribution


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_rows_are_divided_evenly_and_in_order(count):
    batch = {"labels": np.arange(5), "source_ids": np.arange(10).reshape(5, 2)}
    parts = distribution.split_rows(batch, count)
    assert max(len(part["labels"]) for part in parts) - min(len(part["labels"]) for part in parts) <= 1
    for name, array in batch.items():
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), array)


def test_too_few_rows_are_named():
    with pytest.raises(UserError, match="A batch of 2 rows cannot be split into 3 parts"):
        distribution.split_rows({"labels": np.zeros(2)}, 3)


@pytest.mark.parametrize(
    ("name", "variable", "found"),
    [
        ("several", "", "Received: several"),
        ("multiworker", "", "needs the variable TF_CONFIG"),
        ("auto", "{", "TF_CONFIG must be JSON"),
    ],
)
def test_a_strategy_that_cannot_be_is_named(monkeypatch, name, variable, found):
    monkeypatch.setenv("TF_CONFIG", variable)
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    with pytest.raises(UserError, match=re.escape(found)):
        distribution.use_strategy(name)


def test_a_worker_with_other_settings_than_the_chief_stops(monkeypatch):
    distribution.check_alike({"seed": 1}, 0)
    monkeypatch.setattr(distribution, "from_chief", lambda values: [value + 1 for value in values])
    with pytest.raises(UserError, match="Worker 0 is at step 7 with settings or data that are not the chief's"):
        distribution.check_alike({"seed": 1}, 7)


def test_slurm_says_who_takes_part(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    told = {"PROCID": "2", "STEP_NODELIST": "node[1-2]", "STEP_TASKS_PER_NODE": "2(x2)", "STEP_NUM_TASKS": "4"}
    for name, value in {**told, "JOB_ID": "123456"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    resolver = distribution.cluster_resolver()
    addresses = ["node1:23456", "node1:23457", "node2:23456", "node2:23457"]
    assert resolver.cluster_spec().as_dict() == {"worker": addresses}
    assert (resolver.task_type, resolver.task_id) == ("worker", 2)


@pytest.mark.parametrize(
    ("chiefs", "kind", "index", "expected"), [(0, "worker", 1, 1), (1, "chief", 0, 0), (1, "worker", 1, 2)]
)
def test_workers_are_numbered_from_the_chief_on(monkeypatch, chiefs, kind, index, expected):
    cluster = {"worker": ["a:1", "b:1"]} | ({"chief": ["c:1"]} if chiefs else {})
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))
    strategy = types.SimpleNamespace(cluster_resolver=distribution.cluster_resolver())
    monkeypatch.setattr(tf.distribute, "get_strategy", lambda: strategy)
    assert distribution.workers() == (expected, 2 + chiefs)


def test_one_process_is_a_chief_alone():
    assert distribution.workers() == (0, 1)
    assert distribution.add_up([1.5, 2.5]) == distribution.from_chief([1.5, 2.5]) == [1.5, 2.5]
    assert distribution.any_worker("SIGTERM")
    assert not distribution.any_worker(None)
    assert distribution.chief_goes_on()
