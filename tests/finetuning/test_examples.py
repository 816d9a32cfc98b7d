"""Labelled texts keep their columns together."""

from dataclasses import replace

import numpy as np
import pytest

import keras_attention
from keras_attention.data.tables.label_task import find_task
from keras_attention.finetuning.examples import Examples, TableSettings, given_examples, load_tables
from keras_attention.finetuning.training_rows import check_label_names
from keras_attention.finetuning.workflow import finetune_lists
from keras_attention.support.errors import UserError

EXAMPLES = Examples(["a", "b", "c"], ["1", "0", "1"], None, [2, 5, 7], "some.csv")


def test_some_of_them():
    assert len(EXAMPLES) == 3
    assert EXAMPLES.some([2, 0]) == Examples(["c", "a"], ["1", "1"], None, [7, 2], "some.csv")
    assert EXAMPLES.first(2) == Examples(["a", "b"], ["1", "0"], None, [2, 5], "some.csv")
    assert EXAMPLES.first(7) == EXAMPLES


def test_a_changed_copy():
    assert replace(EXAMPLES, where="other.csv").where == "other.csv"
    assert EXAMPLES.where == "some.csv"


def test_labels_may_be_joined_emoji():
    labels = ["\U0001f469\u200d\U0001f680", "\U0001f469", "\U0001f469\u200d\U0001f680"]
    check_label_names(find_task(labels), replace(EXAMPLES, labels=labels))
    labels = ["a\u202eb", "c", "c"]  # it would turn the text around that follows
    with pytest.raises(UserError, match=r"the label .* holds the character U\+202E"):
        check_label_names(find_task(labels), replace(EXAMPLES, labels=labels))


def test_either_all_labels_are_lists_or_none_is():
    assert given_examples(["x", "y"], [["a", "b"], np.array(["c"])], None, True).labels == ["a|b", "c"]
    for labels in (["cat", ["a", "b"]], [np.array(["a", "b"]), 5]):
        with pytest.raises(UserError, match="A label of the examples is .*Expected: a list of labels, like other"):
            finetune_lists(["x", "y"], labels, None, "none", None, None, None, False, {})
    with pytest.raises(UserError, match=r"the validation.* is \['a'\]. Expected: a single label"):
        given_examples(["x"], [["a"]], None, False, "the validation examples")


def prepared_lists(monkeypatch, **given):
    """The Task and the Examples that `keras_attention.finetune` trains on."""
    seen = {}

    def stop(examples, validation, start, settings, *, task):
        seen.update(examples=examples, validation=validation, task=task)
        raise RuntimeError

    monkeypatch.setattr("keras_attention.finetuning.workflow.finetune_classifier", stop)
    with pytest.raises(RuntimeError):
        keras_attention.finetune(["x", "y", "z"], **given)
    return seen["task"], seen["examples"].labels, seen["validation"] and seen["validation"].labels


def test_columns_of_0_and_1_are_a_multilabel_task(monkeypatch):
    rows = np.array([[1, 0, 1], [0, 0, 1], [0, 0, 0]])
    names = ["tech", "news", "sport"]
    validation = (["v", "w"], [[0, 1, 0], [1, 1, 1]])
    task, labels, held = prepared_lists(monkeypatch, labels=rows, label_names=names, validation=validation)
    assert (task.kind, task.label_names, labels) == (
        "multilabel",
        ("tech", "news", "sport"),
        ["tech|sport", "sport", ""],
    )
    assert held == ["news", "tech|news|sport"]
    assert (
        task.because
        == "3 columns of 0 and 1, 1.00 labels for each text: multi-label classification; no text has 'news'"
    )


def test_lists_of_one_name_each_are_a_multilabel_task(monkeypatch):
    task, labels, _ = prepared_lists(monkeypatch, labels=[["a"], ["b"], ["a"]])
    assert (task.kind, task.label_names, labels) == ("multilabel", ("a", "b"), ["a", "b", "a"])


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([[0, 0], [0, 0]], {}, "The 2 columns of labels hold no 1"),
        ([[0, 1], [1, 0]], {"task": "multiclass"}, "are for the task multilabel. Received: multiclass"),
        ([["a"], ["b"]], {"task": "binary"}, "are for the task multilabel. Received: binary"),
        ([[0, 1], [1, 0]], {"validation": (["v"], [[0, 1, 0]])}, "`validation` have 3 columns"),
        ([[0, 1], [1, 0]], {"validation": (["v"], ["a"], None, 5)}, r"must be \(texts, labels\).* Received: 4 parts"),
        ([[0, 1], [1, 0], [1, 1]], {}, "one label for each text. Received: 2 and 3"),
    ],
)
def test_columns_that_do_not_fit(labels, options, message):
    with pytest.raises(UserError, match=message):
        keras_attention.finetune(["x", "y"], labels, **options)


@pytest.mark.slow
def test_a_model_learns_columns_of_0_and_1():
    random = np.random.default_rng(5)
    words = np.array(["goal", "vote", "chip"])
    rows = random.integers(0, 2, (150, 3))
    texts = [" ".join(["the", *words[row == 1], "today"]) for row in rows]
    options = {"size": "tiny", "vocabulary_size": 67, "max_tokens": 17, "layers": 1, "epochs": 2, "jit_compile": False}
    model = keras_attention.finetune(texts, rows, label_names=["sport", "politics", "tech"], start="none", **options)
    assert model.task["label_names"] == ["sport", "politics", "tech"]
    assert sorted(model.classify("the goal chip today")) == ["sport", "tech"]
    assert model.classify("the vote today") == ["politics"]


def test_the_recipe_reads_tables_in_other_encodings_and_rows_without_labels(tmp_path):
    table = tmp_path / "reviews.csv"
    table.write_bytes("text;label\ncafé;gut|süß\nthé;\n".encode("windows-1252"))
    train, validation, test = load_tables(TableSettings(str(table), encoding="windows-1252", separator="|"))
    assert (train.texts, train.labels, validation, test) == (["café", "thé"], ["gut|süß", ""], None, None)
    with pytest.raises(UserError, match="--encoding windows-1252"):
        load_tables(TableSettings(str(table)))
    with pytest.raises(UserError, match="empty label"):
        load_tables(TableSettings(str(table), encoding="windows-1252"))
