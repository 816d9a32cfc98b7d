import re
import sys

from keras_attention.training.run_facts import run_facts


def test_facts_name_command_commit_and_machine(monkeypatch, tmp_path):
    script = tmp_path / "train.py"
    script.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script), "--epochs", "3", "--data_dir=/home/me/pairs", "/a/b.tsv"])
    facts = run_facts()
    assert facts["command"] == "python train.py --epochs 3 --data_dir=pairs b.tsv"
    assert facts["commit"] == "unknown"
    assert re.match(r"1 core of |\d+ cores of ", facts["hardware"])
