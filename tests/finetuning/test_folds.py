"""Folds: every row is held out once, and equal texts are never on both sides."""

from types import SimpleNamespace

import numpy as np
import pytest
from finetuning.test_linear_start import SETTINGS, start  # noqa: F401 (a fixture)
from finetuning.test_workflow import examples

from keras_attention.data.tables.label_task import find_task
from keras_attention.finetuning import cross_validation
from keras_attention.finetuning.cross_validation import cross_validate, fold_rows
from keras_attention.finetuning.examples import Examples
from keras_attention.support.errors import UserError


@pytest.mark.parametrize("kind", ["multiclass", "regression"])
def test_every_row_is_held_out_once(kind):
    data = examples(kind, 67)
    data = Examples([*data.texts, *data.texts[:9]], [*data.labels, *data.labels[:9]])
    folds = fold_rows(data, find_task(data.labels), 5, seed=3)
    assert sorted(np.concatenate(folds)) == list(range(76))
    texts = [{data.texts[row] for row in fold} for fold in folds]
    assert sum(map(len, texts)) == len(set(data.texts))
    with pytest.raises(UserError, match="--folds must be from 2 to"):
        fold_rows(data, find_task(data.labels), 1, seed=3)


def test_more_folds_than_rows_of_a_label():
    data = Examples([f"text {row}" for row in range(10)], ["good", "bad"] * 5)
    assert list(map(len, fold_rows(data, find_task(data.labels), 10, seed=3))) == [1] * 10


@pytest.mark.parametrize("labels", [["good", "bad"] * 5 + ["plain"], [str(number) for number in range(21)]])
def test_every_fold_has_the_task_of_the_table(labels, monkeypatch):
    """One fold lacks a label: without it, the classes would be two, and the 21 numbers would be classes."""
    tasks = []

    def prepared(examples, validation, _start, settings, *, task, **options):
        tasks.append(task)
        return SimpleNamespace(scores={"accuracy": 1.0}, baseline={"accuracy": 1.0})

    monkeypatch.setattr(cross_validation, "finetune_classifier", prepared)
    monkeypatch.setattr(cross_validation, "make_report", lambda finetuned, test: finetuned)
    data = Examples([f"text {row}" for row in range(len(labels))], labels)
    options = {"task": None, "separator": None, "notify": lambda _: None}
    cross_validate(data, "none", SETTINGS, 3, **options)
    assert [task._replace(main_score=None) for task in tasks] == [find_task(labels)] * 3
    assert len({task.main_score for task in tasks}) == 1


@pytest.mark.slow
def test_mean_and_deviation_over_the_folds(start):  # noqa: F811
    messages = []
    rows = cross_validate(examples("binary", 60), start, SETTINGS, 2, notify=messages.append, verbose=0)
    assert [row[0] for row in rows] == ["accuracy", "macro-F1", "Matthews"]
    assert len(messages) == 2
    values = [float(line.split("accuracy ")[1].split(" ")[0]) for line in messages]
    assert rows[0][1] == pytest.approx(np.mean(values), abs=0.1)
    assert rows[0][2] == pytest.approx(np.std(values, ddof=1), abs=0.1)
