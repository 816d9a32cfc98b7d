"""Rows for validation: the same ones each time, of every label, and never a text on both sides."""

import random

import numpy as np
import pytest

from keras_attention.data.tables.label_task import split_validation
from keras_attention.support.errors import UserError


def test_every_row_is_on_one_side():
    for num_rows, share in [(2, 0.5), (3, 0.01), (101, 0.99), (1_009, 0.1)]:
        train, validation = split_validation(np.zeros(num_rows, dtype=np.float32), share, seed=3)
        np.testing.assert_array_equal(np.sort(np.r_[train, validation]), np.arange(num_rows))
        assert len(validation) == min(max(1, round(share * num_rows)), num_rows - 1)
        assert (np.diff(train) > 0).all()
        assert (np.diff(validation) > 0).all()


def test_the_seed_decides_and_nothing_else():
    labels = ["a", "b", "c"] * 37
    texts = [f"text {number % 89}" for number in range(111)]
    first, again, other = (split_validation(labels, 0.2, seed, texts)[1].tolist() for seed in (5, 5, 7))
    assert first == again != other


@pytest.mark.parametrize("kind", [str, int])
def test_each_label_has_its_share(kind):
    labels = np.array([kind(place) for place, count in enumerate([1_000, 310, 20, 3, 2, 1]) for _ in range(count)])
    labels = labels[np.random.default_rng(3).permutation(len(labels))]
    train, validation = split_validation(labels, 0.1, seed=11)
    count = [np.sum(labels[validation] == kind(place)) for place in range(6)]
    assert count == [100, 31, 2, 1, 1, 0]
    assert set(labels[train]) == set(labels)


def test_a_large_share_leaves_something_of_each_label_to_learn_from():
    labels = np.repeat([0, 1, 2], [2, 3, 101])
    train, _ = split_validation(labels, 0.99, seed=11)
    assert np.bincount(labels[train]).tolist() == [1, 1, 1]


@pytest.mark.parametrize("seed", range(7))
def test_the_same_text_is_never_on_both_sides(seed):
    draw = random.Random(seed)
    texts = [f"text {int(draw.expovariate(0.02))}" for _ in range(503)]
    label_of = {text: draw.choice("aaaaab") for text in texts}
    labels = [label_of[text] if seed % 2 else draw.choice("abc") for text in texts]  # Even seeds: labels contradict.
    train, validation = split_validation(labels, 0.2, seed, texts)
    assert not {texts[row] for row in train} & {texts[row] for row in validation}
    assert len(train) + len(validation) == len(texts)
    assert abs(len(validation) - 0.2 * len(texts)) < 20
    assert {labels[row] for row in train} == {labels[row] for row in validation} == set(labels)


def test_a_label_of_two_rows_is_on_both_sides_though_many_texts_repeat():
    texts = ["same"] * 53 + ["rare 1", "rare 2"] + [f"text {number}" for number in range(11)]
    labels = ["a"] * 53 + ["b"] * 2 + ["a"] * 11
    train, validation = split_validation(labels, 0.1, 3, texts)
    assert {labels[row] for row in train} == {labels[row] for row in validation} == {"a", "b"}
    assert 0 in train


@pytest.mark.parametrize("seed", range(7))
def test_a_text_under_two_labels_counts_for_the_rarer_one(seed):
    texts = ["x", "y", "x", "y"] + [f"text {number}" for number in range(101)]
    labels = ["a", "a", "b", "b"] + ["a"] * 101
    train, validation = split_validation(labels, 0.1, seed, texts)
    assert {labels[row] for row in train} == {labels[row] for row in validation} == {"a", "b"}


def test_labels_of_one_text_each():
    train, validation = split_validation(["a", "a", "b"], 0.3, 3, texts=["x", "x", "y"])
    assert sorted([train.tolist(), validation.tolist()]) == [[0, 1], [2]]


def test_pairs_are_texts_and_targets_may_have_two_dimensions():
    targets = np.eye(7, dtype=np.float32)[np.arange(101) % 7]
    texts = [(f"text {number % 31}", "b") for number in range(101)]
    train, validation = split_validation(targets, 0.3, 3, texts)
    assert not {texts[row] for row in train} & {texts[row] for row in validation}


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan")])
def test_impossible_shares(share):
    with pytest.raises(UserError, match=f"between 0 and 1. Received: {share}"):
        split_validation([0, 1, 0], share, seed=3)


@pytest.mark.parametrize(("labels", "texts"), [([0], None), ([], None), ([0, 1, 0], ["a"] * 3)])
def test_too_few_texts(labels, texts):
    with pytest.raises(UserError, match="2 different texts"):
        split_validation(labels, 0.5, 3, texts)


def test_as_many_texts_as_labels():
    with pytest.raises(ValueError, match="2 texts and 3 labels"):
        split_validation([0, 1, 0], 0.5, 3, ["a", "b"])
