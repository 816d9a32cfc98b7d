"""Labelled texts keep their columns together."""

from dataclasses import replace

import numpy as np
import pytest

from keras_attention.errors import UserError
from keras_attention.finetuning.examples import Examples, given_examples
from keras_attention.finetuning.workflow import finetune_lists

EXAMPLES = Examples(["a", "b", "c"], ["1", "0", "1"], None, [2, 5, 7], "some.csv")


def test_some_of_them():
    assert len(EXAMPLES) == 3
    assert EXAMPLES.some([2, 0]) == Examples(["c", "a"], ["1", "1"], None, [7, 2], "some.csv")
    assert EXAMPLES.first(2) == Examples(["a", "b"], ["1", "0"], None, [2, 5], "some.csv")
    assert EXAMPLES.first(7) == EXAMPLES


def test_a_changed_copy():
    assert replace(EXAMPLES, where="other.csv").where == "other.csv"
    assert EXAMPLES.where == "some.csv"


def test_either_all_labels_are_lists_or_none_is():
    assert given_examples(["x", "y"], [["a", "b"], np.array(["c"])], None, True).labels == ["a|b", "c"]
    for labels in (["cat", ["a", "b"]], [np.array(["a", "b"]), 5]):
        with pytest.raises(UserError, match="A label of the examples is .*Expected: a list of labels, like other"):
            finetune_lists(["x", "y"], labels, None, "none", None, None, None, False, {})
    with pytest.raises(UserError, match=r"the validation.* is \['a'\]. Expected: a single label"):
        given_examples(["x"], [["a"]], None, False, "the validation examples")
