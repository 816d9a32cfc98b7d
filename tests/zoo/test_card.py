"""The card: everything in metrics.json that a reader needs."""

import pytest
from zoo.tiny_entry import CONFIG, METRICS

from keras_attention.support.errors import EntryError
from keras_attention.zoo.card import REQUIRED, card_text


def test_everything_is_on_it():
    card = card_text("rnn_attention_x", CONFIG, METRICS)
    assert card.startswith("# rnn_attention_x\n\nTurns dates into ISO 8601.\n")
    for part in (
        "From en to ISO 8601, 5,123,457 parameters",
        "| test2016 | BLEU A | 38.61 | `nrefs:1\\|case:lc\\|tok:none` |",
        "| test2016 | BLEU B | 38.10 |",
        "| 1-10 | 40.13 |\n| 11\\|20 | 37 |",
        "![BLEU by length](bleu_by_length.png)",
        "- Multi30k: free for research <https://example.org/multi30k>",
        "```\npython recipes/rnn_attention.py --seed 3\n```",
        "commit `0123abc`, seed 3, 5, 61.0 minutes on 2 CPU cores",
        "- Sentences of up to 50 words.",
        'keras_attention.load(\'rnn_attention_x\').translate(["A dog\'s run.", "A dog\'s run.", "A dog\'s run."])',
        "Ein Hund rennt.",
    ):
        assert part in card
    assert "learning_rate" not in card


def test_the_card_explains_the_threshold_of_low_scores():
    rule = {"set": "multi30k validation", "sentences": 1013, "share": 0.05}
    card = card_text("x", {**CONFIG, "low_score_threshold": -0.8591}, {**METRICS, "low_score": rule})
    assert "mean log probability of its tokens is below -0.859 (`low_score_threshold`)" in card
    assert "5.0% of the 1,013 sentences of multi30k validation are below." in card
    for config, metrics in ((CONFIG, {"low_score": rule}), ({"low_score_threshold": -0.8591}, {})):
        assert "low_score" not in card_text("x", {**CONFIG, **config}, {**METRICS, **metrics})


@pytest.mark.parametrize("key", list(REQUIRED))
def test_nothing_may_be_left_out(key):
    with pytest.raises(EntryError, match=f"lacks {key!r}"):
        card_text("x", CONFIG, {name: value for name, value in METRICS.items() if name != key})
