"""Blanks go where English has none, and stay where it has one."""

import pytest

from keras_attention.tokenizers.bert_characters import english_spacing


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("he said , yes ! ( or so ) : no ?", "he said, yes! (or so): no?"),
        ('she asked " who is it ? " and " why " .', 'she asked "who is it?" and "why".'),
        ("don ' t , we ' ll , the dog ' s , i ’ m", "don't, we'll, the dog's, i’m"),
        ("a well - known film and / or book", "a well-known film and/or book"),
        ("$ 1 , 000 or 3 . 5 % at 10 : 30", "$1,000 or 3.5% at 10:30"),
        ("in 1990 , 300 men and 7 - 5", "in 1990, 300 men and 7 - 5"),
    ],
)
def test_text_reads_as_it_is_printed(text, printed):
    assert english_spacing(text) == printed
