"""The page of coloured words: the whole text is there, and nothing in it is markup."""

import re

import pytest

from keras_attention.support.errors import UserError
from keras_attention.visualize.pages import ExplanationPage


def word(text, start, effect, second=False):
    return {"text": text, "second": second, "start": start, "end": start + len(text), "effect": effect}


EXPLAINED = {
    "text": "A <b>good</b> film",
    "text_b": None,
    "label": "<pos>",
    "value": 0.9,
    "words": [word("A", 0, -0.02), word("good", 5, 0.4), word("film", 14, 0.0)],
    "truncated": False,
}


def test_the_text_is_whole_and_words_are_coloured(tmp_path):
    page = ExplanationPage([EXPLAINED, EXPLAINED | {"truncated": True}])
    page.save(tmp_path / "why.html")
    actual = (tmp_path / "why.html").read_text(encoding="utf-8")
    assert "<b>" not in actual
    assert "<script" not in actual
    (paragraph, _) = re.findall(r'<p class="text" dir="auto">(.*?)</p>', actual, re.DOTALL)
    assert re.sub("<.*?>", "", paragraph).replace("&lt;", "<").replace("&gt;", ">") == EXPLAINED["text"]
    assert '<span class="for" style="--share: 1.00" title="+0.4000">good</span>' in paragraph
    assert '<span class="against" style="--share: 0.05" title="-0.0200">A</span>' in paragraph
    assert "&lt;pos&gt; <span>90.0%</span>" in actual
    assert actual.count("<tr>") == 2 * 2  # words without effect are not listed
    assert actual.count("longer than the model reads") == 1


def test_weak_effects_look_weak_and_pairs_have_two_paragraphs():
    pair = EXPLAINED | {"text_b": "x", "words": [word("A", 0, 0.01), word("x", 0, 0.02, second=True)]}
    actual = ExplanationPage([pair]).html
    assert "--share: 0.10" in actual
    assert '<p class="text" dir="auto"><span class="for" style="--share: 0.20" title="+0.0200">x</span></p>' in actual
    number = EXPLAINED | {"label": None, "value": -1.5, "words": [word("A", 0, 0.01)]}
    assert "--share: 1.00" in ExplanationPage([number]).html
    assert '<h2 dir="auto">-1.5000</h2>' in ExplanationPage([number]).html
    assert "srcdoc" in ExplanationPage([number])._repr_html_()


def test_the_name_of_a_page_ends_with_html(tmp_path):
    with pytest.raises(UserError, match=r"must end with \.html"):
        ExplanationPage([EXPLAINED]).save(tmp_path / "why.txt")
