"""The tool that stores trained models with rounded, compressed weights."""

import runpy
from pathlib import Path

import pytest
from zoo.tiny_bert import tiny_mask_filler, write_tiny
from zoo.tiny_entry import write_tiny_entry

from keras_attention.support.errors import UserError
from keras_attention.zoo.entry import read_entry

TOOL = runpy.run_path(str(Path(__file__).parents[3] / "recipes" / "tools" / "compress_weights.py"))


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.slow
def test_stores_what_answers_the_same(tmp_path, changed):
    filler, source = tiny_mask_filler(), "a [MASK] runs"
    (output,) = filler.answers([source])
    examples = [{"source": source, "output": "otherwise" if changed else output}]
    before = write_tiny(tmp_path / "tiny", filler.model, examples)
    store = TOOL["store"]
    if changed:
        with pytest.raises(UserError, match="is unchanged, since with rounded weights it would be another model"):
            store(tmp_path / "tiny")
        assert read_entry(tmp_path / "tiny") == before
    else:
        assert store(tmp_path / "tiny")[0] == before.bytes
        after = read_entry(tmp_path / "tiny")
        assert after.config == {**before.config, "weights_dtype": "int8_deflate"}
        assert (after.metrics, after.card) == (before.metrics, before.card)


def test_a_score_may_fall_by_a_tenth_of_a_point():
    scores = [{"metric": "BLEU B", "value": 40.0, "signature": "s"}, {"metric": "chrF2", "value": 60.0}]
    actual = {"BLEU B": 39.91, "chrF2": 60.2, "exact match (%)": 3.0}
    assert TOOL["compare"](scores, actual) == (
        [{"metric": "BLEU B", "value": 39.91, "signature": "s"}, {"metric": "chrF2", "value": 60.2}],
        [],
    )
    assert TOOL["compare"](scores, {**actual, "BLEU B": 39.89})[1] == ["BLEU B falls by 0.11 points"]


@pytest.mark.slow
def test_the_card_has_the_scores_of_the_rounded_weights(tmp_path, monkeypatch):
    monkeypatch.setitem(TOOL["store"].__globals__, "MOST_LOST", 100)  # the scores of the tiny entry are invented
    write_tiny_entry(tmp_path / "tiny")
    before = read_entry(tmp_path / "tiny")
    (tmp_path / "texts").write_text("a dog runs\na man sits\n", encoding="utf-8")
    files = ["--source", str(tmp_path / "texts"), "--target", str(tmp_path / "texts")]
    TOOL["store"](tmp_path / "tiny", files)
    after = read_entry(tmp_path / "tiny")
    assert after.config["weights_dtype"] == "int8_deflate"
    assert after.metrics["limits"][-1].endswith("before the weights were rounded to integers.")
    actual = TOOL["measured"](tmp_path / "tiny", files)
    assert [score["value"] for score in after.metrics["scores"]] == [
        actual[score["metric"]] for score in before.metrics["scores"]
    ]
