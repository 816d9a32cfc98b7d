"""Texts of many combining marks, whose normal forms Python needs minutes for."""

import random
import time
import unicodedata

import pytest

from keras_attention.data.dates import upper_case
from keras_attention.data.tables.label_task import spelling_key
from keras_attention.evaluation.bag_of_words import words_of
from keras_attention.support.normalization import normalized
from keras_attention.tokenizers import CharacterTokenizer

MARKS = "e" + "\u0301" * 50_021 + "\u0316" * 50_023
JAPANESE = "か" + "\uff9e" * 50_021 + "\u0316" * 50_023
SIGNS = "a\u0301\u0316\u00e9\u1100\u1161\u11a8\uac00\u0344\uff9e\u0fb2\u0f71 "


@pytest.mark.parametrize("text", [MARKS, JAPANESE])
@pytest.mark.parametrize(
    "read",
    [
        lambda text: normalized("NFKD", text),
        words_of,
        spelling_key,
        lambda text: upper_case("α" + text),
        lambda text: CharacterTokenizer("abe").encode([text]),
        lambda text: CharacterTokenizer.train([text]),
    ],
    ids=["normalized", "words_of", "spelling_key", "upper_case", "encode", "train"],
)
def test_many_marks_take_a_linear_time(text, read):
    start = time.process_time()
    read(text)
    assert time.process_time() - start < 5  # the quadratic sort takes at least 20 seconds


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_texts_of_languages_have_the_forms_of_unicode(form):
    signs = random.Random(7)
    texts = ["".join(signs.choices(SIGNS, k=signs.randrange(53))) for _ in range(499)]
    assert any(unicodedata.normalize(form, text) != text for text in texts)
    for text in texts:
        assert normalized(form, text) == unicodedata.normalize(form, text)


def test_combining_marks_are_kept():
    marked = normalized("NFC", "e" + "\u0301\u0316" * 101)
    assert sorted(normalized("NFD", marked)) == sorted("e" + "\u0301\u0316" * 101)
