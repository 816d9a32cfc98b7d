"""Input texts of any type, and the text behind unknown source tokens."""

import numpy as np
import pytest

from keras_attention.inputs.given_texts import as_pair, as_texts
from keras_attention.pipelines.copied_unknowns import source_surfaces
from keras_attention.pipelines.doubt import is_calendar_day
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import CharacterTokenizer, SentencePieceTokenizer


@pytest.mark.parametrize(("text", "expected"), [
    ("2020-02-29", True), ("1900-01-01", True), ("2021-02-29", False), ("2020-13-01", False), ("20200229", False),
    ("2020-2-9", False), ("", False), ("2020-W10-1", False), ("2020-02-29 ", False),
])  # fmt: skip
def test_only_the_long_form_of_a_real_day_is_one(text, expected):
    assert is_calendar_day(text) is expected


class Column:
    """As a column of a `datasets` table: a sequence that is no list."""

    def __len__(self):
        return 2

    def __getitem__(self, number):
        return ["a", "b"][number]  # IndexError ends the iteration

    def __iter__(self):
        return iter(["a", "b"])


class Table:
    columns = ["text"]

    def __iter__(self):
        return iter(self.columns)


SEQUENCES = {
    "list": ["a", "b"],
    "tuple": ("a", "b"),
    "NumPy array": np.array(["a", "b"]),
    "NumPy array of objects": np.array(["a", "b"], dtype=object),
    "generator": (text for text in "ab"),
    "dict's values": {1: "a", 2: "b"}.values(),
    "column": Column(),
}


@pytest.mark.parametrize("kind", SEQUENCES)
def test_any_sequence_is_taken(kind):
    texts, alone = as_texts(SEQUENCES[kind])
    assert (texts, alone) == (["a", "b"], False)
    assert {type(text) for text in texts} == {str}


def test_a_str_stands_alone():
    assert as_texts("a b") == (["a b"], True)
    assert as_texts(np.str_("a")) == (["a"], True)
    assert as_pair("a", "b") == (["a"], ["b"], True)
    assert as_pair(("a", "b"), None) == (["a", "b"], None, False)


@pytest.mark.parametrize("texts", [None, 7, {"a": 1}, b"ab", bytearray(b"ab"), np.array("a"), object()])
def test_values_other_than_texts_are_named(texts):
    with pytest.raises(UserError, match=f"`texts` must be a str or a list of str. Received: {type(texts).__name__}"):
        as_texts(texts)


def test_a_table_is_no_texts():
    with pytest.raises(UserError, match="Give one of its columns"):
        as_texts(Table())


def test_pairs_have_as_many_second_texts():
    with pytest.raises(UserError, match="Every text needs one second text. Received: 2 texts and 1 second texts"):
        as_pair(["a", "b"], ["c"])


@pytest.mark.parametrize(
    ("entry", "message"), [(None, "NoneType"), (b"x", "bytes"), (["x"], "list"), ("\ud800", "half")]
)
def test_the_sentence_that_is_none_is_numbered(entry, message):
    with pytest.raises(UserError, match=f"Sentence 2.*{message}"):
        as_texts(["fine", entry])


@pytest.mark.parametrize("text", ["a ☃ b", "☃☃b a", "ab☃", "☃", "a ☃ b ☂☃ a"])
def test_the_text_behind_unknown_characters(text):
    tokenizer = CharacterTokenizer("ab ")
    (ids,) = tokenizer.encode([text])
    assert "".join(source_surfaces(tokenizer.tokens(ids), ids, text)).strip() == text


@pytest.mark.parametrize(
    ("text", "copied"), [("A ☃ dog.", ["☃"]), ("A☃☂ dog☃.", ["☃☂", "☃"]), ("☃", ["☃"]), ("ﬁne  ☃", ["☃"])]
)
def test_the_text_behind_unknown_pieces(text, copied):
    tokenizer = SentencePieceTokenizer.train(["A dog runs fine."], vocabulary_size=29)
    (ids,) = tokenizer.encode([text])
    surfaces = source_surfaces(tokenizer.tokens(ids), ids, text)
    assert [surface for surface, token in zip(surfaces, ids, strict=True) if token == 1] == copied


def test_tokens_of_another_text_stay_unchanged():
    assert source_surfaces(["x", "<unk>", "y"], [4, 1, 5], "abc") == ["x", "<unk>", "y"]
