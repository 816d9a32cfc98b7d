"""The tool that lets a trained classifier judge together with a bag of words."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from zoo.tiny_bert import LABELS, task, tiny_classifier, write_tiny

from keras_attention.pipelines.base import load_pipeline
from keras_attention.support.errors import UserError
from keras_attention.zoo.entry import read_entry, verify_files

TOOL = runpy.run_path(str(Path(__file__).parents[3] / "recipes" / "tools" / "blend_with_words.py"))
WORDS = {"x": "red", "y": "green", "z": "tall", "bad": "dull", "good": "fine"}


def write_tables(folder, kind):
    """Tables whose labels their words tell, and texts without labels; their names in the order of the tool's flags."""
    labels = LABELS[kind]
    rows = [f"a {WORDS[label]} dog runs {number}\t{label}" for number in range(8) for label in labels]
    for name in ("train", "validation", "test"):
        (folder / f"{name}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    (folder / "texts.txt").write_text("\n".join(row.split("\t")[0] for row in rows) + "\n", encoding="utf-8")
    return ["--train", str(folder / "train.tsv"), "--test", str(folder / "test.tsv"), "--text", "text"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "held"), [("binary", "validation"), ("multilabel", "validation"), ("binary", "texts")]
)
def test_the_blend_is_better_and_the_card_says_what_each_part_has(kind, held, tmp_path, capsys):
    files = [*write_tables(tmp_path, kind), "--label", "label"]
    write_tiny(tmp_path / "tiny", tiny_classifier(kind).model, task=task(kind))
    before = load_pipeline(tmp_path / "tiny")
    flags = {"validation": ["--validation", str(tmp_path / "validation.tsv")]}
    TOOL["main"]([str(tmp_path / "tiny"), *files, *flags.get(held, ["--unlabelled", str(tmp_path / "texts.txt")])])
    assert "blended with a bag of words" in capsys.readouterr().out
    after, entry = load_pipeline(tmp_path / "tiny"), read_entry(tmp_path / "tiny")
    assert "CARD.md" in verify_files(tmp_path / "tiny")
    actual = {score["metric"]: score["value"] for score in entry.metrics["scores"]}
    assert held == "texts" or max(actual.values()) > 90
    assert 0 < entry.config["words"]["weight"] <= 1
    assert entry.metrics["limits"][-1].startswith("Without the bag of words, the network has ")
    assert "blend_with_words.py tiny --train train.tsv" in entry.metrics["command"]
    texts = ["a dull dog runs", "a red and tall dog"]
    network = [model.logits(model.sequences(texts)) for model in (before, after)]
    ratio = network[1] / network[0]  # the network is the same but for the temperature
    np.testing.assert_allclose(ratio, np.full_like(ratio, ratio.flat[0]), rtol=1e-3)


def test_missing_files_and_thresholds_are_refused(tmp_path):
    files = [*write_tables(tmp_path, "multilabel"), "--label", "label"]
    write_tiny(tmp_path / "tiny", tiny_classifier("multilabel").model, task=task("multilabel"))
    for more, message in (
        ([], "Give either --validation or --unlabelled"),
        (["--unlabelled", str(tmp_path / "texts.txt")], "The thresholds of a multilabel task need --validation"),
    ):
        with pytest.raises(UserError, match=message):
            TOOL["main"]([str(tmp_path / "tiny"), *files, *more])
