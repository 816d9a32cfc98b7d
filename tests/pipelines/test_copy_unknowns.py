"""Finding the text behind unknown source tokens."""

import pytest

from keras_attention.pipelines.texts import source_surfaces
from keras_attention.tokenizers import CharacterTokenizer, SentencePieceTokenizer


@pytest.mark.parametrize("text", ["a ☃ b", "☃☃b a", "ab☃", "☃", "a ☃ b ☂☃ a"])
def test_characters(text):
    tokenizer = CharacterTokenizer("ab ")
    (ids,) = tokenizer.encode([text])
    assert "".join(source_surfaces(tokenizer.tokens(ids), ids, text)).strip() == text


@pytest.mark.parametrize(
    ("text", "copied"), [("A ☃ dog.", ["☃"]), ("A☃☂ dog☃.", ["☃☂", "☃"]), ("☃", ["☃"]), ("ﬁne  ☃", ["☃"])]
)
def test_pieces(text, copied):
    tokenizer = SentencePieceTokenizer.train(["A dog runs fine."], vocabulary_size=29)
    (ids,) = tokenizer.encode([text])
    surfaces = source_surfaces(tokenizer.tokens(ids), ids, text)
    assert [surface for surface, token in zip(surfaces, ids, strict=True) if token == 1] == copied


def test_a_text_that_does_not_fit_is_left_alone():
    assert source_surfaces(["x", "<unk>", "y"], [4, 1, 5], "abc") == ["x", "<unk>", "y"]
