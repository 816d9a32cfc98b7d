"""The page: what it holds, what it refuses; tests/pipelines/test_attention_view.py has models look at texts."""

import base64
import json
import re

import numpy as np
import pytest

from keras_attention.support.errors import UserError
from keras_attention.visualize.pages import (
    MOST_WEIGHTS,
    AttentionMap,
    attention_page,
    weights_of_words,
    word_numbers,
    words_of,
)

ROWS, COLUMNS = ["Ein", "Hund", "</s>"], ["A", "dog", "runs", "</script>", "\ud800"]


def one_map(layers=2, heads=3):
    weights = np.random.default_rng(5).random((layers, heads, len(ROWS), len(COLUMNS)))
    return AttentionMap("reading", weights / weights.sum(axis=-1, keepdims=True), ROWS, COLUMNS)


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_holds_every_weight_and_token():
    one = one_map()
    data = data_of(attention_page([("first", [one])], "A </script> dog", "note", [("good", 0.75)], ("row", 1)).html)
    assert (data["title"], data["note"], data["decision"], data["kept"]) == (
        "A </script> dog",
        "note",
        [["good", 0.75]],
        ["row", 1],
    )
    (answer,) = data["answers"]
    stored = answer["maps"][0]
    assert (stored["rows"], stored["columns"], stored["layers"], stored["heads"]) == (ROWS, COLUMNS, 2, 3)
    weights = np.frombuffer(base64.b64decode(stored["weights"]), "uint8").reshape(one.weights.shape) / 255
    np.testing.assert_allclose(weights, one.weights, atol=0.5 / 255)


def test_holds_queries_and_keys():
    random = np.random.default_rng(6)
    queries, keys = random.normal(size=(2, 3, len(ROWS), 4)), random.normal(size=(2, 3, len(COLUMNS), 4))
    (answer,) = data_of(attention_page([("", [one_map()._replace(queries=queries, keys=keys)])], "x").html)["answers"]
    for name, values in (("queries", queries), ("keys", keys)):
        stored = answer["maps"][0][name]
        integers = np.frombuffer(base64.b64decode(stored["integers"]), "<i2").reshape(values.shape)
        np.testing.assert_allclose(integers * stored["unit"], values, atol=1e-4)
        assert stored["width"] == 4


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["▁A", "▁do", "g", "s", ".", "</s>"], [0, 1, 1, 1, 1, 2]),
        (["A", "▁dog", "s", "</s>"], [0, 1, 1, 2]),
        (["<s>", "s", "t", "▁dog"], [0, 1, 1, 2]),
        (["[CLS]", "un", "##happy", "!", "[SEP]", "##x"], [0, 1, 1, 2, 3, 4]),
        (["[CLS]", "▁", "un", "##happy", "[SEP]"], [0, 1, 2, 2, 3]),
        (["▁A", "<0xF0>", "<0x9F>", "▁dog"], [0, 0, 0, 1]),
        (["<s>", "▁", "<unk>", "▁a", "<unk>", "b", "<mask>", "s", "</s>"], [0, 1, 1, 2, 2, 2, 3, 4, 5]),
        (["a", "<unk>", "b"], [0, 1, 2]),
        (["2", "0", "-", "<"], [0, 1, 2, 3]),
        ([], []),
    ],
)
def test_pieces_belong_to_words(pieces, expected):
    assert word_numbers(pieces) == expected


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["▁A", "▁do", "g", "s", "</s>"], ["A", "dogs", "</s>"]),
        (["[CLS]", "un", "##happy", "[SEP]"], ["[CLS]", "unhappy", "[SEP]"]),
        (["<s>", "▁"], ["<s>", "▁"]),
        ([], []),
    ],
)
def test_words_are_joined_pieces(pieces, expected):
    assert words_of(pieces) == expected


def test_words_get_the_sum_and_give_the_mean_of_their_pieces():
    weights = np.array([[[0.5, 0.1, 0.4], [0.2, 0.3, 0.5]]])  # (1, 2 pieces of a word, 3 pieces of two words)
    actual = weights_of_words(weights, ["▁Hund", "e"], ["▁do", "gs", "</s>"])
    np.testing.assert_allclose(actual, [[[0.55, 0.45]]], atol=1e-6)


def test_needs_no_network_and_cannot_be_broken_out_of():
    page = attention_page([("<img src=x onerror=alert(1)>", [one_map()])], "<b>").html
    assert page.count("</script>") == 2
    assert "<img" not in page
    outside = r"""(src|href)\s*=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)"""
    assert not re.search(outside, page.split('id="data"')[0])
    assert "default-src 'none'" in page


def test_thirty_tokens_of_a_large_bert_stay_small():
    weights = np.full((12, 12, 30, 30), 1 / 30)
    tokens = [f"token{i}" for i in range(30)]
    assert len(attention_page([("", [AttentionMap("all", weights, tokens, tokens)])], "x").html.encode()) < 1_000_000


def test_a_notebook_shows_it():
    view = attention_page([("", [one_map()])], 'a "quoted" text')
    shown = view._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert shown.count('"') == 4


def test_a_file_is_written_whole(tmp_path):
    view = attention_page([("", [one_map()])], "x")
    view.save(tmp_path / "view.html")
    assert (tmp_path / "view.html").read_text(encoding="utf-8") == view.html
    assert [path.name for path in tmp_path.iterdir()] == ["view.html"]
    for path, message in (("view.png", "end with .html"), ("no/view.html", "does not exist")):
        with pytest.raises(UserError, match=message):
            view.save(tmp_path / path)


def test_refuses():
    one = one_map()
    with pytest.raises(ValueError, match=r"\(layers, heads, 3, 5\). Received: weights.shape=\(3, 3, 5\)"):
        attention_page([("", [one._replace(weights=one.weights[0])])], "x")
    with pytest.raises(UserError, match="NaN or infinity as an attention weight"):
        attention_page([("", [one._replace(weights=one.weights * np.nan)])], "x")
    with pytest.raises(ValueError, match="must be in"):
        attention_page([("", [one._replace(weights=one.weights - 1)])], "x")
    with pytest.raises(UserError, match="nothing to show"):
        attention_page([], "x")
    large = one._replace(weights=np.broadcast_to(one.weights[:1, :1], (MOST_WEIGHTS // 15 + 1, 1, 3, 5)))
    with pytest.raises(UserError, match=r"too long for an attention page: 40,000,005 weights"):
        attention_page([("", [large])], "x")
