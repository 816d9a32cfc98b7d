"""The task is found from the labels and said; labels become numbers, or a message with their line."""

import numpy as np
import pytest

from keras_attention.data.tables.label_task import Task, encode_labels, find_task, respelled
from keras_attention.support.errors import UserError

NUMBERS = [str(number) for number in range(23)]


@pytest.mark.parametrize(
    ("labels", "kind", "names", "because"),
    [
        (["pos", "neg", "pos"], "binary", ("neg", "pos"), "2 different labels: binary classification"),
        (["1", "0"], "binary", ("0", "1"), "2 different labels: binary classification"),
        (["1.0", "0.0"], "binary", ("0.0", "1.0"), "2 different labels: binary classification"),
        (["NA", "null"], "binary", ("NA", "null"), "2 different labels"),
        (["-1", "1"], "binary", ("-1", "1"), "2 different labels"),
        (["10", "9", "-2"] * 2, "multiclass", ("-2", "9", "10"), "3 different labels: multi-class classification"),
        (["10", "9", "b"] * 2, "multiclass", ("10", "9", "b"), "3 different labels"),
        (NUMBERS[:20] * 2, "multiclass", tuple(NUMBERS[:20]), "20 different labels"),
        (NUMBERS[:21] * 2, "regression", (), "21 different numbers: regression (--task multiclass"),
        (["0", "1", ".5"], "regression", (), "numbers with fractions, such as .5: regression"),
        (["1", "2", "1e-3"], "regression", (), "such as 1e-3"),
        (["nan", "inf", "1_0"] * 2, "multiclass", ("1_0", "inf", "nan"), "3 different labels"),
        (["1.5", "unknown", "2.5"] * 2, "multiclass", ("1.5", "2.5", "unknown"), "3 different labels"),
    ],
)
def test_the_task_is_found(labels, kind, names, because):
    task = find_task(labels)
    assert task == Task(kind, names, None, task.because)
    assert because in task.because


def test_a_separator_makes_it_multilabel():
    task = find_task(["10", "2, 10", "", "3,", " "] * 2, separator=",")
    assert task == Task(
        "multilabel", ("2", "3", "10"), ",", "3 different labels, 0.80 for each text: multi-label classification"
    )
    targets = encode_labels(["10", "2, 10", "", "3,", " ,3"], task)
    assert targets.dtype == np.float32
    np.testing.assert_array_equal(targets, [[0, 0, 1], [1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 1, 0]])


def test_lists_of_labels_in_python_are_not_taken_for_texts():
    task = find_task(["a|b", "c", "d|e|f"], separator="|", lists=True)
    assert task.label_names == ("a", "b", "c", "d", "e", "f")


def test_labels_with_separators_are_reported():
    labels = ["1", "2", "1,2", "3"] * 2
    assert find_task(labels).because.endswith("('1,2' looks like several labels: --separator ',' if it is)")
    assert "separator" not in find_task(["1", "2", "1,7"] * 2).because


@pytest.mark.parametrize(
    ("labels", "asked", "kind", "names"),
    [
        (NUMBERS, "multiclass", "multiclass", tuple(NUMBERS)),
        (["1", "0"], "regression", "regression", ()),
        (["b", "a"], "multiclass", "multiclass", ("a", "b")),
        (["0.5", "1.5"], "binary", "binary", ("0.5", "1.5")),
        ([f"class {number:04}" for number in range(1_009)], "multiclass", "multiclass", None),
    ],
)
def test_a_task_that_was_asked_for(labels, asked, kind, names):
    task = find_task(labels, task=asked)
    assert (task.kind, task.label_names) == (kind, tuple(labels) if names is None else names)
    assert task.because.endswith("as asked")


@pytest.mark.parametrize(
    ("labels", "settings", "message"),
    [
        ([], {}, "no labels"),
        (["a"] * 3, {}, "Every label is 'a': there is nothing to learn"),
        (["0.5"] * 3, {}, "Every label is '0.5'"),
        (["3"] * 3, {"task": "regression"}, "Every label is '3'"),
        (["a,", "a"], {"separator": ","}, "Every label is 'a'"),
        ([",", ""], {"separator": ","}, "Every label is empty"),
        (["a", "b", "c"], {}, "3 different labels in 3 rows, such as 'a', 'b', 'c'. Was the column of the texts given"),
        ([f"text {n}" for n in range(1_009)] * 3, {}, "1,009 different labels in 3,027 rows"),
        (["a;b", "c;d", "e"], {"separator": ";"}, "5 different labels in 3 rows"),
        (["a", "b"], {"separator": ","}, "The separator ',' does not occur in any of the 2 labels, such as 'a', 'b'"),
        (["a,b", "b"], {"separator": ",", "task": "binary"}, "--task binary --separator ','"),
        (["a,b", "b"], {"task": "multilabel"}, "such as --separator ','"),
        (["a,b", "b"], {"separator": ""}, "needs a separator"),
        (
            ["a", "b"],
            {"task": "ranking"},
            "one of binary, multiclass, multilabel, regression. Received: --task ranking",
        ),
        (["a", "b", "c"], {"task": "binary"}, "needs 2 different labels. Found: 'a', 'b', 'c'"),
        (["1", "2", "two", "x"], {"task": "regression"}, "row 3: found the label 'two'. Expected: a number"),
        (["1", "nan"], {"task": "regression"}, "row 2: found the label 'nan'"),
        (["1.5", "1e39"], {}, "row 2: found the label '1e39'"),
        (["1.5", "1e999"], {}, "row 2: found the label '1e999'"),
        (["1", "0", "1.0"], {"task": "multiclass"}, "'1' (1 rows) and '1.0' (1 rows)"),
        (["1", "0", " 1.0"], {"task": "multiclass"}, "'1' (1 rows) and ' 1.0' (1 rows) are too similar"),
        (["a", " a", "a\N{NO-BREAK SPACE}"], {}, "Every label is 'a': there is nothing to learn"),
        (
            ["-1,1", "1,-1", "1,-1"],
            {"separator": ","},
            "has the labels '-1', '1': there is nothing to learn",
        ),
        (["0|2", "2|0"], {"separator": "|", "lists": True}, "Every text has the labels '0', '2'"),
        (["a,b", "b,a ,"], {"separator": ","}, "Every text has the labels 'a', 'b'"),
        (["1,0,1", "0,1,0"], {"separator": ","}, "a 0 or 1 for each of several labels, such as '1,0,1'"),
        (["1", "0 0", "0 1"], {"separator": " "}, "such as '0 0'"),
    ],
)
def test_labels_that_do_not_fit(labels, settings, message):
    with pytest.raises(UserError) as caught:
        find_task(labels, **settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


ALIKE = {
    "accents": ("caf\xe9", "cafe\u0301"),
    "variation selector": ("\u2764\ufe0f", "\u2764"),
    "sign of the same letter": ("\xc5rhus", "\u212brhus"),
    "full width": ("class 1", "class \uff11"),
    "ligature": ("file", "\ufb01le"),
    "zero-width space": ("pos", "p\u200bos"),
    "byte order mark": ("pos", "\ufeffpos"),
    "soft hyphen": ("positive", "posi\xadtive"),
    "joiner": ("pos", "pos\u200d"),
    "numbers": ("1", "\uff11"),
    "blank behind": ("pos", "pos "),
    "blank before": ("pos", " pos"),
    "blanks of other kinds": ("caf\xe9", "\N{NO-BREAK SPACE}caf\xe9\t"),
}


@pytest.mark.parametrize(("often", "seldom"), ALIKE.values(), ids=ALIKE)
def test_labels_that_look_the_same_are_one_label_with_the_most_frequent_spelling(often, seldom):
    labels = [seldom, often, "other", often, "cafe"]
    task = find_task(labels, task="multiclass")
    assert set(task.label_names) == {often, "other", "cafe"}
    assert f"{often!a} (2) stands for {seldom!a} (1) too" in task.because
    np.testing.assert_array_equal(encode_labels([often], task), encode_labels([seldom], task))
    assert respelled(labels, task) == [often, often, "other", often, "cafe"]
    several = find_task([f"{seldom}|other", f"other|{often}", often, "cafe"], task="multilabel", separator="|")
    assert several.label_names == task.label_names
    np.testing.assert_array_equal(
        encode_labels([f"other|{seldom}"], several), encode_labels([f"{often}|other"], several)
    )


def test_a_spelling_that_a_label_may_have_is_kept_before_a_frequent_one():
    assert find_task(["pos\u200b", "pos\u200b", "pos", "neg"]).label_names == ("neg", "pos")
    assert find_task(["pos ", "pos ", "pos", "neg"]).label_names == ("neg", "pos")
    assert find_task([" pos", " neg", " pos"]).label_names == (" neg", " pos")


def test_labels_that_look_different_stay_apart():
    labels = ["cafe", "caf\xe9", "Cafe", "\u0645\u06cc\u200c\u062f", "\u0645\u06cc\u062f"] * 2
    task = find_task(labels)
    assert len(task.label_names) == 5
    assert "look the same" not in task.because


def test_numbers_of_full_width_are_numbers():
    task = find_task(["\uff11.\uff15", "2.5", "3"])
    assert task.kind == "regression"
    np.testing.assert_array_equal(encode_labels(["\uff11.\uff15", "-1"], task), [1.5, -1.0])


def test_two_spellings_of_an_earlier_model_stay_two_labels():
    task = Task("binary", ("cafe\u0301", "caf\xe9"), None, "")
    np.testing.assert_array_equal(encode_labels(["caf\xe9", "cafe\u0301"], task), [1, 0])
    assert respelled(["caf\xe9", "cafe\u0301"], task) == ["caf\xe9", "cafe\u0301"]


def test_labels_become_numbers():
    task = find_task(["10", "9", "-2"] * 2)
    encoded = encode_labels(["9", "-2", "10", "9"], task)
    assert encoded.dtype == np.int32
    np.testing.assert_array_equal(encoded, [1, 0, 2, 1])
    encoded = encode_labels(["0.25", "-1e3", "3"], find_task(["0.5", "1"]))
    assert encoded.dtype == np.float32
    np.testing.assert_array_equal(encoded, [0.25, -1000.0, 3.0])


@pytest.mark.parametrize(
    ("train", "separator", "labels", "message"),
    [
        (["a", "b"], None, ["a", "c"], "test.csv, line 13: found the label 'c', which training did not have."),
        (["a", "b"], None, ["a", "b c "], "found the label 'b c '"),
        (["a,b", "b"], ",", ["a", "b, c"], "test.csv, line 13: found the label 'c'"),
        (["0.5", "1"], None, ["7", "x" * 101], "test.csv, line 13: found the label 'xxx"),
        ([f"{n:02}x" for n in range(11)] * 2, None, ["00x", "?"], "Known labels: '00x', '01x', '02x'"),
        ([f"{n:02}x" for n in range(11)] * 2, None, ["00x", "?"], "'09x', ... (11 in all)."),
    ],
)
def test_a_label_that_training_did_not_have(train, separator, labels, message):
    task = find_task(train, separator=separator)
    with pytest.raises(UserError) as caught:
        encode_labels(labels, task, lines=[11, 13], where="test.csv")
    assert message in str(caught.value)
    with pytest.raises(UserError, match=r"^row 2: found the label"):
        encode_labels(labels, task)
