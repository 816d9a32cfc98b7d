import math
from types import SimpleNamespace

import pytest

from keras_attention.evaluation.translation_scores import (
    bleu_by_source_length,
    bleu_tradition_a,
    bleu_tradition_b,
    by_source,
    chrf,
    compare_translators,
    low_score_threshold,
    ter,
)
from keras_attention.support.errors import UserError

# By hand, for both pairs together: words 4/5 + 5/6, pairs 3/4 + 3/5, triples 2/3 + 2/4, quadruples 1/2 + 1/3;
# 11 words against 12 in the references.
HYPOTHESES = ["the cat sat on rugs", "a dog runs in green parks"]
REFERENCES = ["the cat sat on mats today", "a dog runs in old parks"]
BY_HAND = 100 * math.exp(1 - 12 / 11) * (9 / 11 * 6 / 9 * 4 / 7 * 2 / 5) ** 0.25


def test_both_traditions_equal_the_hand_computed_score():
    assert bleu_tradition_a(HYPOTHESES, REFERENCES, "en").score == pytest.approx(BY_HAND, abs=1e-9)
    assert bleu_tradition_b(HYPOTHESES, REFERENCES).score == pytest.approx(BY_HAND, abs=1e-9)


def test_only_tradition_b_sees_case():
    shouted = [text.upper() for text in HYPOTHESES]
    assert bleu_tradition_a(shouted, REFERENCES, "en").score == pytest.approx(BY_HAND, abs=1e-9)
    assert bleu_tradition_b(shouted, REFERENCES).score == 0.0


def test_tradition_a_is_moses_tokenised():
    # "z.B." is one token for the German tokeniser; the final full stop is one of its own.
    same = bleu_tradition_a(["Ein Hund, z.B. Rex, rennt."], ["ein Hund , z.B. Rex , rennt ."], "de")
    assert same.score == pytest.approx(100.0)


def test_signatures_tell_the_traditions_apart():
    a = bleu_tradition_a(HYPOTHESES, REFERENCES, "de").signature
    b = bleu_tradition_b(HYPOTHESES, REFERENCES).signature
    assert "case:lc" in a
    assert "tok:none" in a
    assert "moses:de-" in a
    assert "case:mixed" in b
    assert "tok:13a" in b
    assert "nrefs:1" in b
    assert "nc:6" in chrf(HYPOTHESES, REFERENCES).signature


def test_a_sentence_may_have_several_references():
    score = bleu_tradition_b(HYPOTHESES, [[REFERENCES[0], HYPOTHESES[0]], [HYPOTHESES[1]]])
    assert score.score == pytest.approx(100.0)
    assert "nrefs:var" in score.signature


def test_the_targets_of_a_source_become_its_references():
    outputs, references = by_source(["A", "B", "A"], ["Hilfe!", "Warum?", "Zu Hilf!"], ["Help!", "Why?", "Help!"])
    assert outputs == ["A", "B"]
    assert references == [["Hilfe!", "Zu Hilf!"], ["Warum?"]]


def test_chrf_of_equal_texts_is_100():
    assert chrf(HYPOTHESES, HYPOTHESES).score == pytest.approx(100.0)
    assert chrf(HYPOTHESES, REFERENCES).score < 80


def test_bleu_by_source_length_splits_at_the_edges():
    sources = ["eins zwei drei", "eins zwei drei vier fünf"]
    table = bleu_by_source_length(HYPOTHESES, [HYPOTHESES[0], REFERENCES[1]], sources, (5, 7))
    assert [row[:3] for row in table] == [(0, 5, 1), (5, 7, 1), (7, None, 0)]
    assert table[0].bleu == pytest.approx(100.0)
    assert table[1].bleu == pytest.approx(bleu_tradition_b(HYPOTHESES[1:], REFERENCES[1:]).score)
    assert table[2].bleu is None


def test_wrong_lists_are_named():
    with pytest.raises(UserError, match="2 hypotheses and 1 references"):
        bleu_tradition_b(HYPOTHESES, REFERENCES[:1])
    with pytest.raises(UserError, match="0 hypotheses"):
        bleu_tradition_a([], [], "de")
    with pytest.raises(UserError, match="1 sources"):
        bleu_by_source_length(HYPOTHESES, REFERENCES, ["x"], (5,))
    with pytest.raises(UserError, match="one string"):
        chrf("text", ["text"])
    with pytest.raises(ValueError, match=r"Received: edges=\[7, 5\]"):
        bleu_by_source_length(HYPOTHESES, REFERENCES, ["x", "y"], (7, 5))


def test_an_empty_source_has_no_part_in_the_threshold():
    def hypotheses(sources, split, keep_items):
        return [[SimpleNamespace(tokens=source.split(), log_prob=-6.0 * bool(source))] for source in sources]

    translator = SimpleNamespace(hypotheses=hypotheses)
    assert low_score_threshold(translator, ["a dog runs", "", "a cat"], share=0.5) == pytest.approx(-2.5)
    assert low_score_threshold(translator, [""], share=0.5) is None


def test_two_translations_are_compared_by_a_paired_bootstrap():
    references = [
        f"the {animal} runs over the {place} today"
        for animal in ("dog", "cat", "cow")
        for place in ("hill", "park", "road", "sea", "roof")
    ]
    assert ter(references, references).score == 0
    better = [text.replace("today", "now") for text in references]
    worse = [text.replace("runs over", "sits at") if i % 3 else text for i, text in enumerate(better)]
    bleu, characters, edits = compare_translators(worse, better, references, samples=101)
    assert bleu.second == bleu_tradition_b(better, references).score > bleu.first
    assert (characters.first, edits.first) == (chrf(worse, references).score, ter(worse, references).score)
    assert edits.second < edits.first
    assert max(bleu.p_value, characters.p_value, edits.p_value) < 0.05
    assert min(one.p_value for one in compare_translators(better, better, references, samples=101)) > 0.9
    assert compare_translators(worse, better, references, samples=101) == [bleu, characters, edits]


def test_translations_of_different_lengths_cannot_be_compared():
    with pytest.raises(UserError, match="2 hypotheses and 1 references"):
        compare_translators(["a"], ["a", "b"], ["a"])
