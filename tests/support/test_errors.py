"""Messages of bounded size and cost, whatever a value from outside holds; JSON from outside is parsed strictly."""

import numpy as np
import pytest

from keras_attention.support.errors import is_a_name, parse_json, quoted


def bomb(container, levels):
    value = container(["lol"] * 10)
    for _ in range(levels):
        value = container([value] * 10)
    return value


@pytest.mark.parametrize("container", [list, tuple, lambda items: dict(enumerate(items)), lambda items: {"a": items}])
def test_nested_values_are_quoted_at_once(container):
    assert len(quoted(bomb(container, 40))) <= 80  # its `repr` would have 10**41 characters


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a" * 1_000_000, "'" + "a" * 78 + "…"),
        ("short", "'short'"),
        ("a" * 79, "'" + "a" * 78 + "…"),
        (b"\xff", "b'\\xff'"),
        (10**6, "1000000"),
        (10**5000, "<an integer of 16,610 bits>"),
        (-(10**5000), "<an integer of 16,610 bits>"),
        ([10**5000, "a"], "[<an integer of 16,610 bits>, 'a']"),
        (None, "None"),
        (float("nan"), "nan"),
        ({"a": [1, None]}, "{'a': [1, None]}"),
        (np.str_("x"), "np.str_('x')"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_quoted_within_the_limit(value, text):
    assert quoted(value) == text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"a": 1, "a": 2}', "key 'a' stands twice"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"a": 1e400}', "'1e400' is too large for a number"),
        (b'{"a": -1e999}', "'-1e999' is too large for a number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "an integer of 5,000 digits"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'["\\ud800"]', "half of a surrogate pair"),
        (b'{"\\uDFFF": 1}', "half of a surrogate pair"),
        (b'["\\udc00\\ud800"]', "half of a surrogate pair"),
        (b'["\xed\xa0\x80"]', "utf-8"),
    ],
)
def test_text_other_than_strict_json_is_refused(content, reason):
    with pytest.raises(ValueError, match=reason):
        parse_json(content)


def test_json_at_the_limits_is_read():
    assert parse_json(b'["\\ud83d\\ude00", "\\\\ud800", 1e308, -0.0, 18446744073709551616]') == [
        "\N{GRINNING FACE}",
        "\\ud800",
        1e308,
        0.0,
        2**64,
    ]


@pytest.mark.parametrize(
    "name",
    [
        "sport",
        "café",
        "\U0001f469\u200d\U0001f680",
        "می\u200cخواهم",
        "क्\u200dष",
        "\U0001f3f4\U000e0067\U000e0062\U000e007f",
    ],
    ids=["Latin", "accent", "woman astronaut", "Persian", "Hindi", "flag with tags"],
)
def test_joiners_are_part_of_a_name(name):
    assert is_a_name(name)


@pytest.mark.parametrize("name", ["", "\u200d", "a\x1b[31m", "a\nb", "a\u202eb", "a\u200bb", "a\x9b", "a\U000e0067"])
def test_control_characters_are_no_part_of_a_name(name):
    assert not is_a_name(name)
