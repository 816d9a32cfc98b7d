"""Recommendations of a trained network, and its files."""

import json
from dataclasses import replace
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_attention.data.clicks.history_batches import NUM_AGES, HistoryBatches, split_by_time
from keras_attention.data.clicks.interactions import generate_interactions
from keras_attention.evaluation.recommendation_scores import auc
from keras_attention.models.behavior_sequence import BehaviorSequenceTransformer
from keras_attention.publishing.recommendations import (
    check_recommender,
    probabilities,
    recommend,
    score,
    write_recommender,
)
from keras_attention.support.errors import UserError

LENGTH = 5


def make(sequence="transformer"):
    data = generate_interactions(13, 67, seed=3)
    keras.utils.set_random_seed(3)
    sizes = len(data.item_names), data.num_answers, NUM_AGES, len(data.category_names), data.num_profile_values
    model = BehaviorSequenceTransformer(*sizes, 6, 7, 2, 1, (5,), sequence)
    model.build()
    for i, weight in enumerate(model.weights):
        weight.assign(np.random.default_rng(i).normal(0, 0.5, size=weight.shape))
    return model, data


def test_the_probability_is_that_of_the_good_answers():
    model, data = make()
    inputs = HistoryBatches(data, np.arange(3), LENGTH, 3).inputs(np.arange(11, 14))
    logits = np.asarray(model(inputs), "float64")
    expected = np.exp(logits[:, 1]) / np.exp(logits).sum(axis=1)
    np.testing.assert_allclose(probabilities(model, data, inputs), expected, rtol=1e-5)


def test_the_score_is_the_auc_with_known_histories():
    model, data = make()
    known, held = split_by_time(data)
    inputs = HistoryBatches(data, held, LENGTH, 1, known=known).inputs(held)
    expected = auc(data.liked[held], probabilities(model, data, inputs))
    assert score(model, data, held, known, LENGTH) == pytest.approx(expected)


def test_recommends_the_most_probable_new_items():
    model, data = make()
    known, _ = split_by_time(data)
    own = known[data.users[known] == 7]
    items = recommend(model, data, 7, known, LENGTH, most=3)
    names = [one.item for one in items]
    assert not {data.item_names.index(name) for name in names} & set(data.items[own])
    assert sorted((one.probability for one in items), reverse=True) == [one.probability for one in items]
    history = [f"{data.item_names[data.items[row]]}: {('no', 'yes')[data.answers[row] - 1]}" for row in own[-LENGTH:]]
    assert items[0].history == history
    assert 0 < items[0].weights.sum() < 1  # the rest is the target's own
    # The same as a target that the user answers next, right after the last known one.
    item = data.item_names.index(names[0])
    changed = [column.copy() for column in (data.items, data.times)]
    changed[0][own[-1] + 1], changed[1][own[-1] + 1] = item, data.times[own[-1]]
    after = replace(data, items=changed[0], times=changed[1])
    inputs = HistoryBatches(after, own, LENGTH, 1).inputs(own[-1:] + 1)
    assert probabilities(model, after, inputs)[0] == pytest.approx(items[0].probability, rel=1e-5)


@pytest.mark.parametrize("sequence", ["transformer", "mean"])
def test_files_are_written_and_replaced_on_request_only(tmp_path, sequence):
    model, data = make(sequence)
    known, held = split_by_time(data)
    outcome = {"settings": {"seed": 1}, "result": SimpleNamespace(seconds=17.0), "facts": {"commit": "abc"}}
    report = write_recommender(tmp_path / "mine", model, data, held, known, LENGTH, **outcome)
    assert set(report["auc"]) == {f"network, sequence {sequence}", "item mean alone", "item and user bias alone"}
    written = json.loads((tmp_path / "mine" / "report.json").read_text(encoding="utf-8"))
    assert (written["settings"], written["commit"], written["seconds"]) == ({"seed": 1}, "abc", 17.0)
    assert (tmp_path / "mine" / "because.png").exists() == (sequence == "transformer")
    with pytest.raises(UserError, match="exists already.*--overwrite"):
        write_recommender(tmp_path / "mine", model, data, held, known, LENGTH, **outcome)
    write_recommender(tmp_path / "mine", model, data, held, known, LENGTH, overwrite=True, **outcome)
    (tmp_path / "mine" / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match="thesis.txt"):
        check_recommender(tmp_path / "mine", overwrite=True)
