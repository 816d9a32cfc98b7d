"""Translators of several shapes: equally long trainings that go on after a stop, and speeds in turns."""

import json
from pathlib import Path

import pytest
from benchmarks.test_attention_studies import PAIRS

from keras_attention.support.errors import UserError

SMALL = ["--vocabulary-size", "41", "--width", "16", "--tokens-per-batch", "32", "--buckets", "1", "--no-xla"]
SMALL += ["--test-size", "4", "--up-to", "5", "--minutes", "0.002"]
SHAPES = {"1 + 2": (1, 2, "attention"), "2 + 1, SSRU": (2, 1, "ssru")}


@pytest.fixture
def shapes(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import translator_shapes

    for name, value in {
        "SHAPES": SHAPES,
        "BEAMS": {"greedy": 1},
        "PROBED": 3,
        "SPEED_SENTENCES": 1,
        "ROUNDS": 2,
    }.items():
        monkeypatch.setattr(translator_shapes, name, value)
    (tmp_path / "train.md").write_text("before\n<!-- shapes -->\nold\n<!-- /shapes -->\nafter\n", encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")
    return translator_shapes


@pytest.mark.slow
def test_shapes_are_trained_once_and_translate_in_turns(shapes, tmp_path, capsys):
    files = ["--data", str(tmp_path / "pairs.tsv"), "--out", str(tmp_path / "shapes.json")]
    with pytest.raises(UserError, match=r"--speed: 1 \+ 2, seed 3 is not trained. Leave out --speed, or name others"):
        shapes.main([*files, *SMALL, "--seeds", "3", "--speed"])
    for only in (["1 + 2"], list(SHAPES)):
        shapes.main([*files, *SMALL, "--seeds", "3", "--only", *only])
    trained = json.loads((tmp_path / "shapes.json").read_text(encoding="utf-8"))["results"]
    assert capsys.readouterr().out.count("1 + 2, seed 3: BLEU") == 1  # not trained twice
    shapes.main([*files, *SMALL, "--seeds", "3", "--speed", "--docs", str(tmp_path / "train.md")])
    results = json.loads((tmp_path / "shapes.json").read_text(encoding="utf-8"))["results"]
    assert list(results) == list(SHAPES)
    for shape, seeds in results.items():
        assert trained[shape]["3"].items() <= seeds["3"].items()
        assert seeds["3"]["greedy"] > 0
        assert seeds["3"]["updates"] >= 1
    page = [line for line in (tmp_path / "train.md").read_text(encoding="utf-8").splitlines() if line]
    before, mark, head, _, *rows, end, after = page
    assert (before, mark, end, after) == ("before", "<!-- shapes -->", "<!-- /shapes -->", "after")
    assert head.startswith("| layers | BLEU |")
    assert [row.split(" | ")[0] for row in rows] == ["| 1 + 2", "| 2 + 1, SSRU"]
