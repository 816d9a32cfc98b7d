"""Beam search with a prefix and phrases, against all sequences that a small model can write."""

import numpy as np
import pytest
from decoding.random_model import END, PAD, SPECIAL, START, UNKNOWN, RandomModel, all_sequences, tokens_of

from keras_attention.decoding import beam_search
from keras_attention.decoding.constrained_search import Constraints, constrained_search


def stepper(model, beam_size, row=0):
    """The step of a search over beams whose states are the hashes of their tokens."""
    histories = np.zeros(beam_size, "int64")

    def step(tokens, parents):
        nonlocal histories
        histories = (histories[parents] * 31 + tokens + 1) % len(model.log_probs[row])
        return model.log_probs[row, histories]

    return step


def search(model, constraints, beam_size, limit, row=0, **options):
    rules = {"start_id": START, "end_id": END, "never": [PAD, START], **options}
    return constrained_search(stepper(model, beam_size, row), constraints, beam_size=beam_size, limit=limit, **rules)


def contains(tokens, phrase, times=1):
    return sum(tokens[i : i + len(phrase)] == phrase for i in range(len(tokens))) >= times


def check_best(model, hypotheses, allowed, alpha=0.0):
    expected = sorted(allowed, key=lambda tokens: -model.score(0, tokens, alpha))[: hypotheses.lengths.shape[1]]
    assert [tokens_of(hypotheses, 0, place) for place in range(len(expected))] == expected
    scores = [model.score(0, tokens, alpha) for tokens in expected]
    np.testing.assert_allclose(hypotheses.scores[0, : len(expected)], scores, rtol=1e-5)
    np.testing.assert_allclose(
        hypotheses.log_probs[0, : len(expected)], [model.log_prob(0, t) for t in expected], rtol=1e-5
    )


@pytest.mark.parametrize("alpha", [0.0, 1.3])
@pytest.mark.parametrize("ranking", ["gnmt", "length"])
@pytest.mark.parametrize(("beam_size", "patience", "force_end"), [(1, None, False), (5, 2.0, False), (7, None, True)])
def test_without_constraints_it_is_the_beam_search(alpha, ranking, beam_size, patience, force_end):
    model = RandomModel(3, 11, seed=5)
    rules = {"beam_size": beam_size, "n_best": min(3, beam_size), "length_penalty": alpha, "patience": patience}
    rules |= {"ranking": ranking, "force_end": force_end}
    expected = beam_search(model.step, model.state(), 3, max_length=13, **rules, **SPECIAL)
    for row in range(3):
        hypotheses = search(model, Constraints(), limit=13, row=row, **rules)
        np.testing.assert_array_equal(hypotheses.token_ids[0], expected.token_ids[row])
        np.testing.assert_allclose(hypotheses.scores[0], expected.scores[row], rtol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_a_prefix_and_a_phrase_are_in_the_best_sequences(alpha):
    model = RandomModel(1, 7, seed=3)
    ended, _ = all_sequences(model, 5)
    options = {"beam_size": 997, "limit": 5, "n_best": 7, "length_penalty": alpha}
    check_best(model, search(model, Constraints([5, 4]), **options), [s for s in ended if s[:2] == (5, 4)], alpha)
    phrase = search(model, Constraints(phrases=[[(6, 5)]]), **options)
    check_best(model, phrase, [s for s in ended if contains(s, (6, 5))], alpha)
    both = search(model, Constraints([4], [[(6,)], [(5,)]]), **options)
    check_best(model, both, [s for s in ended if s[0] == 4 and 5 in s and 6 in s], alpha)
    ways = search(model, Constraints(phrases=[[(6, 5), (4,)]]), **options)
    check_best(model, ways, [s for s in ended if contains(s, (6, 5)) or 4 in s], alpha)
    twice = search(model, Constraints(phrases=[[(6,)], [(6,)]]), **options)
    check_best(model, twice, [s for s in ended if contains(s, (6,), 2)], alpha)


def test_a_way_for_the_beginning_counts_there_alone():
    model = RandomModel(1, 7, seed=11)
    ended, _ = all_sequences(model, 5)
    constraints = Constraints(phrases=[[(6,)]], first_ways=[[(5,)]])
    hypotheses = search(model, constraints, beam_size=997, limit=5, n_best=7)
    check_best(model, hypotheses, [s for s in ended if 6 in s or s[0] == 5])


def test_a_phrase_and_a_prefix_end_where_a_word_ends():
    model = RandomModel(1, 7, seed=2)
    ended, _ = all_sequences(model, 5)
    boundaries = np.isin(np.arange(7), (4, END))  # 5 and 6 go on with a word
    options = {"beam_size": 997, "limit": 5, "n_best": 5}

    def followed_by_a_boundary(tokens, place):
        return place + 1 < len(tokens) and bool(boundaries[tokens[place + 1]])

    hypotheses = search(model, Constraints(phrases=[[(6,)]], boundaries=boundaries), **options)
    whole = [s for s in ended if any(t == 6 and followed_by_a_boundary(s, i) for i, t in enumerate(s))]
    first = [s for s in whole if followed_by_a_boundary(s, s.index(6))]  # the first 6 counts
    check_best(model, hypotheses, first)
    hypotheses = search(model, Constraints([5], boundaries=boundaries, whole_prefix=True), **options)
    check_best(model, hypotheses, [s for s in ended if s[0] == 5 and boundaries[s[1]]])
    hypotheses = search(model, Constraints([5], boundaries=boundaries), **options)
    check_best(model, hypotheses, [s for s in ended if s[0] == 5])


def test_few_beams_write_improbable_phrases_nevertheless():
    for seed in range(13):
        model = RandomModel(1, 101, seed=seed, ends=3.0)
        rare = [int(token) for token in np.argsort(model.log_probs[0].mean(axis=0)) if token > END]
        phrases = [[tuple(rare[:3])], [tuple(rare[3:5])]]
        hypotheses = search(model, Constraints([rare[5]], phrases), beam_size=7, limit=17, n_best=3)
        for place in range(3):
            tokens = tokens_of(hypotheses, 0, place)
            assert tokens[0] == rare[5]
            assert (END in tokens) or place > 0  # the others may be truncated
            assert END not in tokens or (contains(tokens, tuple(rare[:3])) and contains(tokens, tuple(rare[3:5])))
        np.testing.assert_allclose(hypotheses.log_probs[0, 0], model.log_prob(0, tokens_of(hypotheses, 0)), rtol=1e-5)


def test_a_phrase_that_does_not_fit_leaves_a_truncated_hypothesis():
    model = RandomModel(1, 7, seed=3)
    hypotheses = search(model, Constraints(phrases=[[(4, 5, 6, 4, 5)]]), beam_size=5, limit=3)
    assert tokens_of(hypotheses, 0) == (4, 5, 6)
    assert END not in hypotheses.token_ids


def test_a_constraint_may_demand_a_forbidden_token():
    model = RandomModel(1, 7, seed=3)
    hypotheses = search(model, Constraints([UNKNOWN]), beam_size=5, limit=5, never=[PAD, START, UNKNOWN])
    tokens = tokens_of(hypotheses, 0)
    assert (tokens[0], UNKNOWN in tokens[1:]) == (UNKNOWN, False)
