"""Labelled texts keep their columns together."""

from dataclasses import replace

from keras_attention.finetuning.examples import Examples

EXAMPLES = Examples(["a", "b", "c"], ["1", "0", "1"], None, [2, 5, 7], "some.csv")


def test_some_of_them():
    assert len(EXAMPLES) == 3
    assert EXAMPLES.some([2, 0]) == Examples(["c", "a"], ["1", "1"], None, [7, 2], "some.csv")
    assert EXAMPLES.first(2) == Examples(["a", "b"], ["1", "0"], None, [2, 5], "some.csv")
    assert EXAMPLES.first(7) == EXAMPLES


def test_a_changed_copy():
    assert replace(EXAMPLES, where="other.csv").where == "other.csv"
    assert EXAMPLES.where == "some.csv"
