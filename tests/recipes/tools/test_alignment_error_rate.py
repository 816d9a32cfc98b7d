"""The tool that compares attention with word alignments by hand."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from zoo.tiny_entry import ENGLISH, tiny_parts, write_tiny_entry

from keras_attention.cli.main import guarded
from keras_attention.pipelines.marks import alignment_pairs
from keras_attention.pipelines.translator import Translator
from keras_attention.tokenizers import SentencePieceTokenizer

TOOL = runpy.run_path(str(Path(__file__).parents[3] / "recipes" / "tools" / "alignment_error_rate.py"))


def write_files(folder, pairs, gold):
    (folder / "pairs.txt").write_text("".join(f"{line}\n" for line in pairs), encoding="utf-8")
    (folder / "gold.txt").write_text("".join(f"{line}\n" for line in gold), encoding="utf-8")
    return folder / "pairs.txt", folder / "gold.txt"


def test_the_rate_follows_its_definition(tmp_path):
    sentences = TOOL["read_gold"](*write_files(tmp_path, ["a b c ||| x y", "a ||| x"], ["1-1 2p2 3p2", "1-1"]))
    assert sentences[0] == (["a", "b", "c"], ["x", "y"], {(0, 0)}, {(0, 0), (1, 1), (2, 1)})
    # |A| = 3, |S| = 2; of A, (0, 0) twice is sure, (2, 1) is possible: 1 - (2 + 3) / 5
    assert TOOL["error_rate"]([{(0, 0), (2, 1)}, {(0, 0)}], sentences) == pytest.approx(0)
    # (1, 0) is neither: 1 - (1 + 2) / 5
    assert TOOL["error_rate"]([{(1, 0), (2, 1)}, {(0, 0)}], sentences) == pytest.approx(40)
    assert TOOL["diagonal"](list("abcd"), list("xy")) == {(0, 0), (2, 1)}


@pytest.mark.parametrize(
    ("pairs", "gold", "message"),
    [
        (["a ||| x"], ["1-1", "1-1"], "has 1 lines"),
        (["a x"], ["1-1"], "Line 1: expected 'source"),
        (["a ||| x"], ["1:1"], "Line 1: expected 'source"),
        (["a ||| x"], ["1-2"], "line 1: a link to a word that is not there"),
        (["a ||| x"], ["0-1"], "line 1: a link to a word that is not there"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, capsys, pairs, gold, message):
    files = write_files(tmp_path, pairs, gold)
    assert guarded(lambda: TOOL["read_gold"](*files), "alignment_error_rate.py") == 2
    assert message in capsys.readouterr().err


@pytest.fixture(scope="module")
def translator():
    tokenizer = SentencePieceTokenizer.train(ENGLISH, 61)
    model, *_ = tiny_parts(seed=2, tokenizers=(tokenizer, tokenizer))
    return Translator(model, tokenizer, tokenizer, target_language="de", source_language="en")


def test_links_of_the_step_that_writes_are_those_of_the_command(translator):
    answer = translator.translate(ENGLISH[0], return_attention=True, keep_items=False, max_length=12)
    assert len(answer.text.split()) > 1
    (weights,) = TOOL["word_weights"](translator, [(ENGLISH[0].split(), answer.text.split())])
    assert weights.shape == (1, 1, 2, len(answer.text.split()), len(ENGLISH[0].split()))
    if translator.target_tokenizer.encode([answer.text])[0].tolist() == list(answer.token_ids[:-1]):
        assert TOOL["links_of"](weights[0, 0, 0]) == set(alignment_pairs(answer, ENGLISH[0]))
    assert np.all(weights >= 0)
    assert np.all(weights.sum(axis=-1) > 0)


def test_the_command_prints_a_row_for_each_way(tmp_path, capsys):
    tokenizer = SentencePieceTokenizer.train(ENGLISH, 61)
    parts = tiny_parts(seed=2, tokenizers=(tokenizer, tokenizer))
    folder = write_tiny_entry(tmp_path / "tiny", parts).folder
    sentences = list(dict.fromkeys(ENGLISH))[:3]
    pairs, gold = write_files(tmp_path, [f"{one} ||| {one}" for one in sentences], ["1-1 2p2"] * 3)
    TOOL["main"]([str(folder), "--pairs", str(pairs), "--gold", str(gold), "--choose", "1"])
    printed = capsys.readouterr().out
    for name in ("diagonal", "written, all heads", "read, all heads"):
        assert f"| {name} |" in printed
    assert "best" not in printed  # there is one head
