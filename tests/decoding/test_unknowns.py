import numpy as np
import pytest

from keras_attention.decoding import replace_unknowns

UNKNOWN = 1


def test_unknown_tokens_become_the_source_tokens_attended_to_most():
    attention = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5], [0.4, 0.4, 0.2], [0.0, 0.0, 1.0]])
    tokens = replace_unknowns([5, 1, 1, 7], ["Ein", "?", "?", "."], attention, ["A", "Zorg", "in"], UNKNOWN)
    assert tokens == ["Ein", "in", "A", "."]


def test_nothing_to_replace():
    assert replace_unknowns([], [], np.zeros((0, 3)), ["a", "b", "c"], UNKNOWN) == []
    assert replace_unknowns([1, 5], ["?", "x"], np.zeros((2, 0)), [], UNKNOWN) == ["?", "x"]


@pytest.mark.parametrize(("shape", "tokens"), [((2, 5), ["a", "b"]), ((3, 3), ["a", "b"]), ((2, 3), ["a"])])
def test_sizes_that_do_not_agree_are_named(shape, tokens):
    with pytest.raises(ValueError, match="Received: attention.shape=.*" + str(len(tokens))):
        replace_unknowns([1, 5], tokens, np.zeros(shape), ["x", "y", "z"], UNKNOWN)
