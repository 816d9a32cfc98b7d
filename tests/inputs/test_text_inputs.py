"""Texts and pairs of texts: the lines of files and of the command line."""

import pytest

from keras_attention.inputs.pair import PairInput
from keras_attention.inputs.text import TextInput
from keras_attention.support.errors import UserError


def test_a_line_is_a_text():
    assert TextInput().sides("a\tb") == ("a\tb",)
    assert list(TextInput().fields) == list(TextInput().signature()) == ["texts"]


def test_a_line_with_a_tab_is_a_pair():
    assert PairInput().sides("a\tb") == ("a", "b")
    assert list(PairInput().fields) == list(PairInput().signature()) == ["texts", "texts_b"]
    PairInput().check_line(3, "a\tb")
    with pytest.raises(UserError, match="exactly one tab. Found 2"):
        PairInput().sides("a\tb\tc")
    with pytest.raises(UserError, match="Text 3 has 0 tabs: 'a'. Expected: two texts with one tab between them."):
        PairInput().check_line(3, "a")
