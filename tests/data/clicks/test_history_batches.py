"""Batches of a target with the history before it."""

import numpy as np
import pytest

from keras_attention.data.clicks.history_batches import HistoryBatches, split_by_time
from keras_attention.data.clicks.interactions import arranged

HOUR = 3_600


def make_data():
    """User 0 has seven answers, an hour apart, user 1 has two."""
    users, items = [0] * 7 + [1] * 2, [3, 1, 4, 2, 5, 7, 6, 2, 7]
    times = [*(HOUR * i for i in range(7)), 0, 100 * HOUR]
    categories = [("a",), ("a", "b"), (), ("c",), (), (), ("b",)]
    names = ["", *"ABCDEFG"]
    return arranged(users, items, [1, 2] * 4 + [1], times, names, num_answers=3, first_good=2, categories=categories)


def test_a_target_follows_its_history():
    data = make_data()
    inputs = HistoryBatches(data, np.arange(9), 3, 2).inputs(np.array([5, 1, 8]))
    assert inputs["item_ids"].tolist() == [[4, 2, 5, 7], [0, 0, 3, 1], [0, 0, 2, 7]]
    assert inputs["answers"].tolist() == [[1, 2, 1, 0], [0, 0, 1, 0], [0, 0, 2, 0]]
    assert inputs["ages"].tolist() == [[3, 3, 2, 0], [0, 0, 2, 0], [0, 0, 8, 0]]  # 3, 2 and 1 hours; 100 hours
    assert inputs["categories"][0].tolist() == [[3, 0], [1, 2], [0, 0], [2, 0]]
    assert inputs["profile"].tolist() == [[1], [1], [2]]
    assert all(values.dtype == "int32" for values in inputs.values())


def test_a_history_holds_known_answers_only():
    data = make_data()
    known, held = split_by_time(data)
    assert known.tolist() == [0, 1, 2, 3, 4, 7, 8]  # at most a third of a user's answers are held out
    assert held.tolist() == [5, 6]
    inputs = HistoryBatches(data, held, 2, 2, known=known).inputs(held)
    assert inputs["item_ids"].tolist() == [[2, 5, 7], [2, 5, 6]]
    known, held = split_by_time(data, held=1, validation=True)
    assert known.tolist() == [0, 1, 2, 3, 4, 7, 8]
    assert held.tolist() == [5]


def test_gaps_leave_out_the_last_answers():
    data = make_data()
    batches = HistoryBatches(data, np.array([6]), 2, 1, gap=3)
    seen = {tuple(batches.epoch(epoch)[0]["item_ids"][0]) for epoch in range(40)}
    assert seen == {(5, 7, 6), (2, 5, 6), (4, 2, 6), (1, 4, 6)}


def test_drawn_histories_hold_all_other_known_answers():
    data = make_data()
    known, _ = split_by_time(data)
    batches = HistoryBatches(data, known, 3, 7, known=known, drawn=1.0)
    seen = {}
    for epoch in range(60):
        batch = batches.epoch(epoch)[0]
        for items, answers, ages in zip(batch["item_ids"], batch["answers"], batch["ages"], strict=True):
            assert answers[-1] == 0
            history = zip(*(column[:-1].tolist() for column in (items, answers, ages)), strict=True)
            seen.setdefault(int(items[-1]), set()).add(tuple(history))
    age = {1: 2, 2: 3, 3: 3, 4: 4}  # class of a distance in hours, to both sides
    known_answers = [(3, 1), (1, 2), (4, 1), (2, 2), (5, 1)]  # of the first user, an hour apart
    for time, target in ((0, 3), (1, 1), (2, 4), (4, 5)):  # both users have answered item 2
        others = [(*pair, age[abs(when - time)]) for when, pair in enumerate(known_answers) if when != time]
        assert seen[target] == {(*others[:left_out], *others[left_out + 1 :]) for left_out in range(4)}
    assert seen[7] == {((0, 0, 0), (0, 0, 0), (2, 2, 8))}
    half = HistoryBatches(data, known, 3, 7, known=known, drawn=0.5)
    causal = HistoryBatches(data, known, 3, 7, known=known)
    pairs = [(half.epoch(i)[0]["item_ids"], causal.epoch(i)[0]["item_ids"]) for i in range(40)]
    assert 0.3 < np.mean([(a == b).all(axis=1).mean() for a, b in pairs]) < 0.8
    np.testing.assert_array_equal(half.epoch(3)[0]["item_ids"], half.epoch(3)[0]["item_ids"])


def test_drawn_histories_do_not_tell_a_later_answer_to_the_same_item():
    data = arranged([0] * 3, [1, 2, 1], [1, 1, 2], [0, 1, 2], ["", "A", "B"], num_answers=3, first_good=2)
    batches = HistoryBatches(data, np.arange(3), 2, 3, known=np.arange(3), drawn=1.0)
    histories = {tuple(row) for epoch in range(9) for row in batches.epoch(epoch)[0]["item_ids"].tolist()}
    assert histories == {(0, 2, 1), (1, 1, 2)}


def test_an_epoch_has_each_target_once():
    data = make_data()
    batches = HistoryBatches(data, np.arange(9), 3, 4, seed=5)
    for epoch in (0, 1):
        actual = [batches.epoch(epoch)[i] for i in range(len(batches.epoch(epoch)))]
        assert [len(batch["labels"]) for batch in actual] == [4, 4, 4]
        targets = np.concatenate([batch["item_ids"][:, -1] for batch in actual])
        labels = np.concatenate([batch["labels"] for batch in actual])
        assert sorted(targets[labels >= 0]) == sorted(data.items)
        assert (labels == -1).sum() == 3
    first, again = batches.epoch(0)[0], batches.epoch(0)[0]
    np.testing.assert_array_equal(first["item_ids"], again["item_ids"])
    assert (batches.epoch(0)[0]["item_ids"] != batches.epoch(1)[0]["item_ids"]).any()
    in_order = HistoryBatches(data, np.arange(9), 3, 9, shuffle=False).epoch(0)[0]
    assert in_order["labels"].tolist() == (data.answers - 1).tolist()


@pytest.mark.parametrize(
    ("targets", "length", "rows", "gap", "drawn"),
    [([], 3, 2, 0, 0), ([1], 0, 2, 0, 0), ([1], 3, 0, 0, 0), ([1], 3, 2, -1, 0), ([1], 3, 2, 0, 1.1)],
)
def test_refuses_what_is_out_of_range(targets, length, rows, gap, drawn):
    with pytest.raises(ValueError, match="There must be targets"):
        HistoryBatches(make_data(), np.array(targets, int), length, rows, gap=gap, drawn=drawn)
