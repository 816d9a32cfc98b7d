"""The benchmark of guided alignment: what is measured, what is stored, and the table."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from zoo.tiny_entry import ENGLISH, write_tiny_entry

from keras_attention.models.transformer import Transformer
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import SentencePieceTokenizer
from keras_attention.zoo.entry_io import rewrite_entry

SIZES = {"hidden_dim": 12, "intermediate_dim": 7, "num_heads": 3, "num_encoder_layers": 1, "num_decoder_layers": 2}


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import guided_alignment

    return guided_alignment


@pytest.fixture
def entry(tmp_path):
    tokenizer = SentencePieceTokenizer.train(ENGLISH, 61)
    model = Transformer(61, 61, **SIZES)
    model.build()
    return write_tiny_entry(tmp_path / "tiny", (model, tokenizer, tokenizer)).folder


@pytest.fixture
def command(benchmark, entry, tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"{one}\t{one}\n" for one in ENGLISH * 5), encoding="utf-8")
    (tmp_path / "dev.tsv").write_text("en\tfr\n" + "".join(f"{one}\t{one}\n" for one in ENGLISH), encoding="utf-8")
    (tmp_path / "pairs.txt").write_text("".join(f"{one} ||| {one}\n" for one in ENGLISH[:3]), encoding="utf-8")
    links = [[f"{n}-{n}" for n in range(1, len(one.split()) + 1)] for one in ENGLISH[:3]]
    (tmp_path / "gold.txt").write_text("".join(f"{' '.join(one)}\n" for one in links), encoding="utf-8")
    files = {"data": "pairs.tsv", "pairs": "pairs.txt", "gold": "gold.txt", "dev": "dev.tsv", "out": "results.json"}
    given = [word for name, file in files.items() for word in (f"--{name}", str(tmp_path / file))]
    given += ["--languages", "en", "fr", "--from", str(entry), "--models", str(tmp_path), "--choose", "1"]

    def run(*more):
        benchmark.main([*given, *more])
        return json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["results"]

    return run


@pytest.mark.slow
def test_each_training_is_measured_once(benchmark, command, entry, monkeypatch):
    trainings = []
    monkeypatch.setattr(benchmark, "trained", lambda _, weight, seed: trainings.append((weight, seed)) or entry)
    with pytest.raises(UserError, match="no heads that align words"):
        command("--weights", "0.05")
    rewrite_entry(entry, config={"alignment_heads": [[1, 2]]})
    results = command("--weights", "0.05")
    assert trainings == [(0.05, 1)] * 2
    measured = results["0.05"]["1"]
    assert measured["heads"] == [[1, 2]]
    assert measured["--align"] == measured["rates"]["--align"]
    assert results["IBM model 1"][""] < 1  # sentences and their copies
    assert command("--weights", "0.05") == results
    assert len(trainings) == 2


def test_the_table_has_the_mean_and_the_range_of_the_seeds(benchmark):
    def measured(rate):
        return {"--align": rate, "best head": rate + 1, "BLEU": 40.0}

    results = {"IBM model 1": {"": 17.46}, "0.05": {"1": measured(19)}, "0.0": {"1": measured(20), "2": measured(22)}}
    assert benchmark.table(results).splitlines()[2:] == [
        "| not guided | 21.0 (20.0 to 22.0) | 22.0 (21.0 to 23.0) | 40.0 (40.0 to 40.0) | 2 |",
        "| `--guided-alignment 0.05` | 19.0 | 20.0 | 40.0 | 1 |",
        "| IBM model 1 | 17.5 | | | |",
    ]


def test_a_training_has_the_weight_and_the_start(benchmark, monkeypatch, tmp_path):
    """A folder that is there is not trained again."""
    calls = []
    monkeypatch.setattr(benchmark.subprocess, "run", lambda command, check: calls.append(command[1:]))
    options = SimpleNamespace(models=tmp_path, data=Path("d.tsv"), languages=("en", "fr"), start="one")
    folder = benchmark.trained(options, 0.05, 3)
    (command,) = calls
    assert command[0].name == "transformer.py"
    for flag, value in (("--guided-alignment", "0.05"), ("--from", "one"), ("--seed", "3"), ("--out", str(folder))):
        assert command[command.index(flag) + 1] == value
    folder.mkdir()
    (folder / "config.json").touch()
    assert benchmark.trained(options, 0.05, 3) == folder
    assert len(calls) == 1
