"""What the table says is checked before the training: no hours are lost to a label that cannot be saved."""

import json

import pytest
from zoo.tiny_entry import METRICS

from keras_attention.cli.main import main
from keras_attention.finetuning import workflow
from keras_attention.finetuning.examples import Examples
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.workflow import finetune_classifier
from keras_attention.support.errors import EntryError, UserError
from keras_attention.zoo.card import check_metrics
from keras_attention.zoo.entry import as_json, read_entry

FLAGS = ("--text", "text", "--label", "mood", "--from", "none", "--size", "tiny", "--epochs", "1")


@pytest.fixture
def no_training(monkeypatch):
    def train(*arguments, **options):
        raise AssertionError("the training began")

    monkeypatch.setattr(workflow, "fit", train)


def complaint(tmp_path, capsys, table, *flags):
    (tmp_path / "table.csv").write_text(table, encoding="utf-8", newline="")
    assert main(["finetune", str(tmp_path / "table.csv"), *FLAGS, "--out", str(tmp_path / "out"), *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]
    return line


def table_with(label, rows=20):
    return "text,mood\n" + 'so fine,good\nso "poor",bad\n' * rows + f'a day,"{label}"\nan hour,"{label}"\n'


@pytest.mark.parametrize(
    ("label", "fault"),
    [
        ("x" * 201, "has 201 characters"),
        ("first\nsecond", "U+000A"),
        ("red\x1b[31m", "U+001B"),
        ("\u202eevil", "U+202E"),
        ("a\x9bm", "U+009B"),
    ],
)
def test_a_label_that_no_model_can_have(no_training, tmp_path, capsys, label, fault):
    line = complaint(tmp_path, capsys, table_with(label))
    assert "table.csv, line 42, column 'mood'" in line
    assert fault in line
    assert line.isprintable()


def test_an_impossible_label_among_several(no_training, tmp_path, capsys):
    rows = f"a day,good|{'x' * 201}\nan hour,bad\n" * 3
    line = complaint(tmp_path, capsys, "text,mood\n" + "so fine,good|bad\nso poor,bad\n" * 9 + rows, "--separator", "|")
    assert "line 20, column 'mood'" in line


def test_labels_too_many_or_too_long_together(no_training, tmp_path, capsys):
    rows = "".join(f"text {i},label{i}\n" * 2 for i in range(1_001))
    assert "1,001 different labels" in complaint(tmp_path, capsys, f"text,mood\n{rows}", "--task", "multiclass")
    rows = "".join(f"text {i},{i:0199}x\n" * 2 for i in range(400))
    line = complaint(tmp_path, capsys, f"text,mood\n{rows}", "--task", "multiclass")
    assert "config.json may have at most 65,536 bytes" in line


@pytest.mark.parametrize("flags", [("--language", "d\ne"), ("--separator", "and")])
def test_flags_that_no_model_can_have(no_training, tmp_path, capsys, flags):
    table = "text,mood\n" + "so fine,goodandbad\nso poor,bad\n" * 9
    assert flags[0].strip("-") in complaint(tmp_path, capsys, table, *flags)


def test_lists_in_python(no_training):
    examples = Examples(["so fine", "so poor"] * 9, ["good", "bad\n"] * 9)
    with pytest.raises(UserError, match=r"the examples, row 2: the label .* U\+000A"):
        finetune_classifier(examples, None, "none", FinetuneSettings(size="tiny"))


def test_numbers_of_any_size_can_be_scores():
    score = {**METRICS["scores"][0], "value": 4e76}
    assert check_metrics({**METRICS, "scores": [score]}, "metrics.json")
    with pytest.raises(EntryError, match="value"):
        check_metrics({**METRICS, "scores": [{**score, "value": float("inf")}]}, "metrics.json")


def test_a_file_name_that_is_no_text():
    assert json.loads(as_json("metrics.json", {"command": "finetune b\udce9.csv"})) == {"command": "finetune b?.csv"}


@pytest.mark.thorough
def test_texts_too_long_for_a_card_are_left_out_of_it(tmp_path):
    table = tmp_path / "long.csv"
    rows = (f"so {'fine' if i % 2 else 'poor'} {i} {'day ' * 70_000},{'good' if i % 2 else 'bad'}\n" for i in range(40))
    table.write_text("text,mood\n" + "".join(rows))
    assert main(["finetune", str(table), *FLAGS, "--out", str(tmp_path / "out")]) == 0
    assert read_entry(tmp_path / "out").metrics["examples"] == []
