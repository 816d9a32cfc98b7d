"""Sentences out of reviews: how they are written, and how sure a teacher may be."""

import runpy
from pathlib import Path

import numpy as np
import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "label_sentences.py"))


@pytest.mark.parametrize(
    ("sentence", "written"),
    [
        ("I don't like it, but it's over.", "i do n't like it , but it 's over ."),
        ('He said "never again" to a well-known man.', "he said `` never again '' to a well - known man ."),
        ("Funny (at times) - and sad!", "funny ( at times ) -- and sad !"),
    ],
)
def test_sentences_are_written_as_in_the_treebank(sentence, written):
    assert SCRIPT["as_in_the_treebank"](sentence) == written


def test_only_whole_sentences_of_some_words_are_taken():
    text = "A short one. This one has as many words as it needs.<br />and this does not begin well. Nor does this end"
    assert SCRIPT["sentences"](text) == ["This one has as many words as it needs."]


def test_a_teacher_that_is_too_sure_is_corrected_by_how_often_it_agrees():
    random = np.random.default_rng(1)
    truth = random.integers(0, 2, 64_000)
    of_texts = np.where(random.random(len(truth)) < SCRIPT["SURE"], truth, 1 - truth)
    honest = random.exponential(1.5, len(truth))
    right = random.random(len(truth)) < 1 / (1 + np.exp(-honest))
    logits = 3 * honest * np.where(right == (truth == 1), 1, -1)  # three times as sure as it may be
    found = SCRIPT["calibrated"](logits, (logits > 0) == of_texts)
    clear = (honest > 0.3) & (honest < 3)
    assert np.all(np.sign(found[clear]) == np.sign(logits[clear]))
    assert np.abs(np.abs(found[clear]) - honest[clear]).mean() < 0.2
