"""The tool that chooses the threshold of low scores of a trained translator."""

import runpy
from pathlib import Path

import pytest
from zoo.tiny_entry import ENGLISH, write_tiny_entry

import keras_attention as ka
from keras_attention.cli.main import guarded
from keras_attention.support.errors import UserError
from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.entry_io import rewrite_entry

TOOL = runpy.run_path(str(Path(__file__).parents[3] / "recipes" / "tools" / "low_score_threshold.py"))


@pytest.mark.slow
def test_only_the_threshold_and_the_card_change(tmp_path, capsys):
    about = {"target_language": "de"}
    before = write_tiny_entry(tmp_path / "tiny", weights_dtype="int8_deflate", about=about)
    weights = (before.folder / "model.weights.h5").read_bytes()
    sentences = [f"{text} {text[:i]}" for text in ENGLISH for i in range(2, 13)]
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"{text}\t{i}\n" for i in range(7) for text in sentences), encoding="utf-8"
    )
    TOOL["main"]([str(before.folder), "--data", str(tmp_path / "pairs.tsv")])
    after = read_entry(before.folder)
    threshold = after.config["low_score_threshold"]
    assert f"tiny: low_score_threshold {threshold}" in capsys.readouterr().out
    assert after.config == {**before.config, "low_score_threshold": threshold}
    assert after.metrics == {**before.metrics, "low_score": after.metrics["low_score"]}
    assert after.metrics["low_score"]["share"] == 0.05
    assert (after.folder / "model.weights.h5").read_bytes() == weights
    answers = [best for best, *_ in ka.load(after.folder).hypotheses(sentences, split=False)]
    low = [best.log_prob / len(best.tokens) < threshold for best in answers]
    assert 0 < sum(low) < len(low) / 2
    assert all(best.low_score for best, is_low in zip(answers, low, strict=True) if is_low)


def test_sentences_of_another_language_are_refused(tmp_path, capsys):
    folder = write_tiny_entry(tmp_path / "tiny", about={"target_language": "de"}).folder
    (tmp_path / "pairs.tsv").write_text("".join(f"a\t{i}\n" for i in range(7)), encoding="utf-8")
    call = [str(folder), "--data", str(tmp_path / "pairs.tsv"), "--target", "fr"]
    assert guarded(lambda: TOOL["main"](call), "low_score_threshold.py", debug=False) == 2
    assert "translates from en to de. Received sentences from en to fr" in capsys.readouterr().err
    assert read_entry(folder).config["low_score_threshold"] is None


@pytest.mark.parametrize(
    ("training", "options"),
    [
        ({"validation_split": 0.004, "seed": 7, "epochs": 2}, {"validation_split": 0.004, "seed": 7}),
        ({"validation_share": 0.3}, {"validation_split": 0.3}),
        ({}, {}),
    ],
)
def test_the_validation_sentences_are_those_of_the_training(tmp_path, monkeypatch, training, options):
    folder = write_tiny_entry(tmp_path / "tiny", about={"target_language": "de"}).folder
    rewrite_entry(folder, metrics={"training": training})
    received = {}

    def stop(**given):
        received.update(given)
        raise UserError("no more is needed")

    monkeypatch.setattr("keras_attention.data.translation.pairs.load_translation_data", stop)
    with pytest.raises(UserError, match="no more is needed"):
        TOOL["main"]([str(folder), "--data", "pairs.tsv"])
    given = {"data": "pairs.tsv", "data_dir": "", "source": "en", "target": "de"}
    assert received == {**given, **options}
