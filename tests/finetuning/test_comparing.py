"""`evaluate` with two classifiers, and `finetune` with folds and a lowest probability."""

import json

import pytest
from finetuning.test_linear_start import start  # noqa: F401 (a fixture)
from finetuning.test_workflow import examples, write_csv
from zoo.tiny_bert import task, tiny_classifier, write_tiny

import keras_attention
from keras_attention.cli.main import main

ROWS = [("a dog runs", "bad"), ("men sit", "good"), ("a red dress", "good"), ("many bushes", "bad")] * 3


def evaluation(folder, *models, kind="binary"):
    """The words of a command that scores classifiers on a table of its own; writes those that are not there yet."""
    table = folder / "rows.csv"
    table.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in ROWS), encoding="utf-8")
    for seed, name in enumerate(models, start=3):
        if not (folder / name).exists():
            write_tiny(folder / name, tiny_classifier(kind, seed=seed, num_layers=1).model, task=task(kind))
    return ["evaluate", "--table", str(table), *(word for name in models for word in ("--model", str(folder / name)))]


@pytest.mark.slow
def test_two_classifiers_on_the_same_rows(tmp_path, capsys):
    command = evaluation(tmp_path, "one", "other")
    assert main(command) == 0
    printed = capsys.readouterr().out.strip()
    assert printed.count("On test, 12 rows:") == 2
    last = printed.splitlines()[-1]
    assert last.startswith(f"{tmp_path / 'other'} beside {tmp_path / 'one'}: accuracy ")
    assert "exact McNemar test" in last

    assert main([*command, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert ("beside" in first, second["beside"]["model"]) == (False, str(tmp_path / "one"))
    difference = second["scores"]["accuracy"] - first["scores"]["accuracy"]
    assert abs(second["beside"]["difference"] - difference) < 1e-9
    assert f"accuracy {difference:+.2f}" in last
    answers = [keras_attention.load(tmp_path / name).classify([text for text, _ in ROWS]) for name in ("one", "other")]
    right = [100 * sum(label == given for (_, label), given in zip(ROWS, some, strict=True)) / 12 for some in answers]
    assert abs(right[1] - right[0] - difference) < 1e-9


@pytest.mark.slow
def test_classifiers_that_cannot_be_compared(tmp_path, capsys):
    third = evaluation(tmp_path, "third", kind="multiclass")[3:]
    assert main(evaluation(tmp_path, "one") + third) == 2
    assert "cannot be compared: kind is 'binary' and 'multiclass'" in capsys.readouterr().err
    assert main([*evaluation(tmp_path)[:3], "--model", "rnn_attention_dates", "--model", str(tmp_path / "one")]) == 2
    assert "is a translator: --table is not allowed" in capsys.readouterr().err


@pytest.mark.slow
def test_folds_and_a_lowest_probability(start, tmp_path, capsys):  # noqa: F811
    table = write_csv(tmp_path / "train.csv", examples("binary", 60))
    flags = ["--from", str(start), "--max-tokens", "17", "--epochs", "1", "--text", "review", "--label", "mood"]
    flags += ["--folds", "2", "--min-probability", "0.999", "--json", "--out", str(tmp_path / "mine")]
    assert main(["finetune", table, *flags]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row[0] for row in report["folds"]] == ["accuracy", "macro-F1", "Matthews"]
    assert 0 <= report["calibration_error"] <= 100
    classifier = keras_attention.load(tmp_path / "mine")
    assert classifier.task["min_probability"] == 0.999
    surest = max(classifier.classify("film", return_scores=True).probabilities.values())
    assert (classifier.classify("film") is None) == (surest < 0.999)
    assert classifier.classify("film", threshold=1.0) is None
    assert main(["zoo", "verify", str(tmp_path / "mine")]) == 0
