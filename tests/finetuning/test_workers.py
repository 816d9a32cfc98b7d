"""Fine-tuning in two processes: its defaults run there, and the result is the chief's."""

import subprocess
import sys

import pytest
from finetuning.test_workflow import examples, write_csv
from zoo.tiny_bert import tiny_encoder, write_tiny

import keras_attention
from keras_attention.zoo.entry import read_entry


@pytest.mark.slow
def test_two_workers_fine_tune_with_the_defaults(tmp_path):
    write_tiny(tmp_path / "start", tiny_encoder(num_layers=1))
    data = examples("binary", 60)
    table = write_csv(tmp_path / "table.csv", data)
    command = ["launch", "--workers", "2", "--", "finetune", table, "--text", "review", "--label", "mood"]
    command += ["--from", str(tmp_path / "start"), "--out", str(tmp_path / "mine")]
    command += ["--epochs", "2", "--max-tokens", "17", "--strategy", "multiworker"]
    done = subprocess.run([sys.executable, "-m", "keras_attention", *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    history = read_entry(tmp_path / "mine").metrics["training"]["history"]
    assert [set(epoch) >= {"val_loss", "val_share"} for epoch in history] == [True, True]
    assert set(keras_attention.load(tmp_path / "mine").classify(data.texts)) <= {"bad", "good"}
