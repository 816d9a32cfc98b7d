"""The page of words that decide words: all of them are there, and nothing in them is markup."""

import re

from keras_attention.visualize.effect_pages import EffectPage

SENTENCE = {
    "text": "<i>A</i> dog",
    "answer": " Ein <b>Hund</b>",
    "sources": ["<i>A</i>", "dog"],
    "targets": ["Ein", "<b>Hund</b>"],
    "log_probs": [-0.1, -9.0],
    "effects": [[-2.0, 0.01], [4.0, None]],
    "contrast": {"position": 0, "word": "Ein", "other": "<u>", "log_ratio": -1.5, "effects": [3.0]},
    "truncated": True,
}


def test_the_page_has_all_words_and_numbers_and_needs_no_network(tmp_path):
    page = EffectPage([{"text": "", "answer": "", "sentences": [SENTENCE]}])
    page.save(tmp_path / "why.html")
    actual = (tmp_path / "why.html").read_text(encoding="utf-8")
    assert not re.search(r"<script|https?:|<i>|<u>|<b>Hund", actual)
    assert actual.count("&lt;b&gt;Hund") == 3  # answer, row and the title of its cell
    assert (
        '<td class="against" style="--share: 0.50" title="Ein without &lt;i&gt;A&lt;/i&gt;: -2.000">−2.0</td>' in actual
    )
    assert '<td class="for" style="--share: 0.00" title="Ein without dog: +0.010"></td>' in actual
    assert '<td class="none"></td>' in actual
    assert ">90%<" in actual
    assert ">&lt;0.1%<" in actual
    assert "Why <b>Ein</b> and not <b>&lt;u&gt;</b>?" in actual
    assert "= −1.50; without a word" in actual
    assert "longer than the model reads" in actual
    assert "srcdoc" in page._repr_html_()


def test_an_answer_without_words_shows_a_message():
    empty = {**SENTENCE, "targets": [], "effects": [], "log_probs": [], "contrast": None, "truncated": False}
    actual = EffectPage([{"text": "", "answer": "", "sentences": [empty]}]).html
    assert "No word of this answer" in actual
    assert "<table" not in actual
