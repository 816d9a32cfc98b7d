"""Texts made to be slow: the patterns that are searched in a text take time in proportion to its length."""

import time

import pytest

from keras_attention.inputs.document import DocumentInput
from keras_attention.pipelines.items import WITH_CURRENCY_WORDS, difference, guard, without_items
from keras_attention.pipelines.markup import parts_of
from keras_attention.pipelines.sentences import split_text
from keras_attention.support.errors import UserError

LENGTH = 50_021


def _stand_ins(text):
    one = guard(text, languages=("en", "de"))
    return one and one.masked(WITH_CURRENCY_WORDS)


READERS = {
    "items": lambda text: without_items(text),
    "difference": lambda text: difference(text, "x"),
    "currencies": lambda text: difference(text, text, "en", "de"),
    "people": lambda text: difference(text, text, "fr", "en"),
    "stand-ins": _stand_ins,
    "document": DocumentInput.sentences,
    "sentences": lambda text: split_text(text, "en"),
    "markdown": lambda text: parts_of(text, "markdown"),
}
PARTS = [
    "a",
    "a.",
    "a-",
    "0",
    "0,",
    "1.",
    "$1",
    "$1.",
    "@",
    "http://",
    ".",
    "!",
    "…",
    "(",
    ".)",
    "`",
    "[",
    "![",
    "[^",
    "[a",
    "<",
    "<br",
    "Mr ",
    "M. ",
    "Anna ",
    "Friday ",
]


@pytest.mark.parametrize("reader", READERS)
def test_a_long_text(reader):
    for part in PARTS:
        text = f"x {part * (LENGTH // len(part))}x"
        start = time.process_time()
        READERS[reader](text)
        assert time.process_time() - start < 3, part  # quadratic patterns take longer


def test_html_that_the_parser_refuses():
    with pytest.raises(UserError, match="The HTML cannot be read: .*--format text"):
        parts_of("<p>One</p><![<![", "html")
