import pytest

from keras_attention.errors import UserError
from keras_attention.pipelines.texts import check_texts, is_calendar_day


@pytest.mark.parametrize(("text", "expected"), [
    ("2020-02-29", True), ("1900-01-01", True), ("2021-02-29", False), ("2020-13-01", False), ("20200229", False),
    ("2020-2-9", False), ("", False), ("2020-W10-1", False), ("2020-02-29 ", False),
])  # fmt: skip
def test_only_the_long_form_of_a_real_day_is_one(text, expected):
    assert is_calendar_day(text) is expected


@pytest.mark.parametrize("texts", ["a sentence", None, 7, {"a": 1}])
def test_a_list_is_wanted(texts):
    with pytest.raises(UserError, match=type(texts).__name__):
        check_texts(texts)


@pytest.mark.parametrize(("entry", "told"), [(None, "NoneType"), (b"x", "bytes"), (["x"], "list"), ("\ud800", "half")])
def test_the_sentence_that_is_none_is_numbered(entry, told):
    with pytest.raises(UserError, match=f"Sentence 2.*{told}"):
        check_texts(["fine", entry])
