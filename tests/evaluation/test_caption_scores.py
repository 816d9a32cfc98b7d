import itertools

import numpy as np
import pytest

from keras_attention.evaluation.caption_scores import (
    edit_distance,
    exact_captions,
    low_score_threshold,
    pointing,
    within_words,
    word_error_rate,
)


def test_exact_captions():
    assert exact_captions(["a b", "a", "b", "c d"], [("a b",), ("b",), ("c", "b"), ("c",)]) == 50


class Answer(str):
    mean_log_prob = 0.0


def test_the_threshold_of_doubt():
    answers = [Answer() for _ in range(21)]
    for number, one in enumerate(answers):
        one.mean_log_prob = -number / 10
    assert low_score_threshold(answers) == -1.9  # one of 21 is below
    assert low_score_threshold(answers, 0.5) == -1.0
    assert low_score_threshold(answers[:19]) is None


def test_pointing():
    attention = np.zeros((2, 3, 4))  # cells of 10 x 5 pixels
    attention[0, 1, 2], attention[0, 0, 0] = 0.75, 0.25  # its middle is at (25, 7.5)
    attention[1] = 1 / 12
    boxes = {0: (21, 6, 30, 9), 1: (0, 0, 20, 5), 2: (0, 0, 40, 15)}
    actual = pointing(attention, boxes, (15, 40))
    assert actual == [(True, 0.75), (True, pytest.approx(2 / 12)), (False, 0.0)]
    assert pointing(attention, {0: (25, 7, 26, 8)}, (15, 40)) == [(True, 0.75)]
    assert pointing(attention, {0: (26, 7, 35, 8)}, (15, 40)) == [(False, 0.0)]


def slow_distance(actual, expected):
    """By its recursive definition."""
    if not actual or not expected:
        return len(actual) + len(expected)
    replaced = slow_distance(actual[1:], expected[1:]) + (actual[0] != expected[0])
    return min(replaced, slow_distance(actual[1:], expected) + 1, slow_distance(actual, expected[1:]) + 1)


def test_the_edit_distance_is_that_of_its_definition():
    generator = np.random.default_rng(0)
    texts = ["".join(map(str, generator.integers(0, 3, length))) for length in (0, 1, 2, 3, 4, 5)]
    for actual, expected in itertools.product(texts, texts):
        assert edit_distance(actual, expected) == slow_distance(actual, expected)


def test_rates_count_words_of_the_reference():
    assert word_error_rate(["12", "3"], ["123", "3"]) == pytest.approx(25)
    assert word_error_rate(["1111", ""], ["1", "2"]) == pytest.approx(200)
    assert word_error_rate([["one", "two"]], [["one", "three"]]) == pytest.approx(50)


def test_a_time_is_within_a_word_from_its_start_to_before_its_end():
    assert within_words([0.1, 0.3, 0.5], [(0.1, 0.2), (0.2, 0.3), (0.4, 0.6)]) == [True, False, True]
