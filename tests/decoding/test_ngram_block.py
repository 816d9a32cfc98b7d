"""Searches in which no sequence of n tokens occurs twice."""

import numpy as np
import pytest
from decoding.random_model import END, SPECIAL, UNKNOWN, RandomModel, reference_beam_search, repeats, tokens_of
from layer_checks import EXECUTIONS

from keras_attention.decoding import Hypotheses, beam_search
from keras_attention.decoding.ngram_block import repeating_tokens, without_repeats


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("length", [0, 1, 4, 11])
def test_the_tokens_that_repeat_a_sequence_are_those_of_the_loop(size, length):
    token_ids = np.random.default_rng(size).integers(4, 7, (3, 2, 11)).astype("int32")
    actual = np.asarray(repeating_tokens(token_ids, length, size, nothing=2))
    assert actual.shape == (3, 2, 11 - size + 1)
    for row in np.ndindex(3, 2):
        tokens = token_ids[row][:length].tolist()
        expected = {token for token in range(4, 7) if repeats([*tokens, token], size) and length >= size}
        assert set(actual[row].tolist()) - {2} == expected


def test_only_the_logits_of_repeating_tokens_change():
    logits = np.random.default_rng(3).normal(size=(2, 13)).astype("float32")
    token_ids = np.array([[5, 6, 7, 5, 6, 0, 0], [5, 6, 7, 6, 5, 0, 0]], "int32")
    actual = np.array(without_repeats(logits, token_ids, 5, 3, nothing=2))
    assert actual[0, 7] == -np.inf
    actual[0, 7] = logits[0, 7]
    np.testing.assert_array_equal(np.delete(actual, 2, axis=1), np.delete(logits, 2, axis=1))
    assert without_repeats(logits, token_ids, 5, 8, nothing=2) is logits


def search(model, execution, **options):
    @EXECUTIONS[execution]
    def run():
        return beam_search(model.step, model.state(), model.rows, **SPECIAL, unknown_id=UNKNOWN, **options)

    return Hypotheses(*(np.asarray(field) for field in run()))


@pytest.mark.parametrize("execution", ["eager", pytest.param("xla", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("size", "beam_size"), [(2, 5), (3, 1), (3, 7)])
def test_a_blocked_search_equals_the_same_algorithm_with_lists(size, beam_size, execution):
    model = RandomModel(3, 7, seed=size, ends=-3.0)
    options = {"beam_size": beam_size, "max_length": 17}
    hypotheses = search(model, execution, no_repeat_ngram_size=size, **options)
    loops = 0
    for row in range(3):
        tokens = tokens_of(hypotheses, row)
        assert tokens == reference_beam_search(model, row, beam_size, 17, forbidden=[UNKNOWN], ngram=size)[0]
        np.testing.assert_allclose(hypotheses.log_probs[row, 0], model.log_prob(row, tokens), rtol=1e-5)
        assert not any(repeats(tokens[:end], size) for end in range(1, len(tokens) + 1) if tokens[end - 1] != END)
        free = reference_beam_search(model, row, beam_size, 17, forbidden=[UNKNOWN])[0]
        loops += any(repeats(free[:end], size) for end in range(1, len(free) + 1))
    assert loops or size == 3


def test_a_block_of_single_tokens_is_an_error():
    with pytest.raises(ValueError, match="no_repeat_ngram_size=1"):
        search(RandomModel(3, 7), "eager", beam_size=2, max_length=5, no_repeat_ngram_size=1)
