"""Labels from Python: columns of 0 and 1 are one label per column, and what is no label is an error."""

import numpy as np
import pytest
from scipy import sparse

from keras_attention.data.tables.python_labels import as_labels, label_columns, named_labels
from keras_attention.support.errors import UserError

ROWS = [[1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]]
NAMES = [["news", "sport"], ["politics"], ["news", "politics"], [], ["sport"]]


class Frame:
    """As a DataFrame of polars: columns by name."""

    def __init__(self, **columns):
        self.columns, self._columns = list(columns), columns

    def __getitem__(self, name):
        return self._columns[name]


class Tensor:
    """As a tensor of PyTorch or TensorFlow: an array, and none of NumPy's."""

    def __init__(self, values):
        self._values = np.asarray(values)
        self.ndim = self._values.ndim

    def __array__(self, dtype=None, copy=None):
        return self._values

    def __iter__(self):
        return map(Tensor, self._values)


def named(labels, label_names=None):
    return named_labels(as_labels(labels), label_names)


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        tuple(map(tuple, ROWS)),
        np.array(ROWS),
        np.array(ROWS, dtype=float),
        np.array(ROWS, dtype=bool),
        np.array(ROWS, dtype=object),
        np.array(ROWS, dtype=np.uint8),
        np.matrix(ROWS),
        [np.array(row) for row in ROWS],
        [[bool(number) for number in row] for row in ROWS],
        [[float(number) for number in row] for row in ROWS],
        sparse.csr_matrix(ROWS),
        sparse.coo_array(np.array(ROWS)),
        Frame(a=[row[0] for row in ROWS], b=[row[1] for row in ROWS], c=[row[2] for row in ROWS]),
        Tensor(ROWS),
        (iter(row) for row in ROWS),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_each_column_of_0_and_1_is_a_label(rows):
    assert named(rows, ["news", "politics", "sport"]) == (NAMES, ("news", "politics", "sport"))


def test_columns_without_names_have_their_numbers_as_names():
    assert named(ROWS) == ([["0", "2"], ["1"], ["0", "1"], [], ["2"]], ("0", "1", "2"))


def test_a_table_of_labels_has_names():
    assert label_columns(Frame(news=[1], sport=[0])) == ["news", "sport"]
    assert label_columns(["news"]) is None


@pytest.mark.parametrize(
    "labels",
    [
        ["sport", "news"],
        ["0", "1", "1"],
        [0, 1, 1],
        [True, False],
        [0.5, 1.0],
        [["sport", "news"], ["news"], []],
        [[3, 5], [7], [5]],
        [["1", "0"], ["1"]],
    ],
)
def test_other_labels_stay_as_they_are(labels):
    assert named(labels) == (labels, None)


@pytest.mark.parametrize("column", [np.array([["a"], ["b"]]), Frame(mood=["a", "b"]), np.array(["a", "b"])])
def test_a_single_column_is_one_label_for_each_text(column):
    assert named(column) == (["a", "b"], None)


def test_a_single_column_of_0_and_1_is_one_label_for_each_text():
    assert named([[1], [0], [1]]) == ([1, 0, 1], None)


def test_the_names_in_a_set_are_sorted():
    assert named([{"b", "c", "a"}, frozenset("dc")]) == ([["a", "b", "c"], ["c", "d"]], None)


def test_class_numbers_get_their_names():
    assert named([0, 2, np.int64(1), 1.0], ["bad", "fair", "good"]) == (["bad", "good", "fair", "fair"], None)


@pytest.mark.parametrize(
    ("labels", "label_names", "message"),
    [
        ([[1, 0], [1], [0, 1]], None, "Found: row 1 of `texts` has 2 and row 2 has 1"),
        ([[0], [1], [0, 1]], None, "row 1 of `texts` has 1 and row 3 has 2"),
        ([[1, 0, 2], [0, 1, 0]], None, "Label 1 of `texts` has 2. Expected: 0 or 1"),
        ([[0.9, 0.1], [0.25, 0.75]], None, "Label 1 of `texts` has 0.9"),
        (np.array([[0, -1], [0, 0]]), None, "Label 1 of `texts` has -1"),
        ([["1", "0", "1"], ["0", "1", "0"]], None, "lists of '0' and '1' as text. Expected: the numbers 0 and 1"),
        ([[3, 5], [7]], ["a", "b"], "Label 1 of `texts` has 3"),
        (ROWS, ["a", "b"], "have 3 columns. Received: 2 `label_names`"),
        (ROWS, ["a", "b", "a"], "must be different names. Received: 'a', 'b', 'a'"),
        (ROWS, "abc", "`label_names` must be a list of str. Received: 'abc'"),
        (ROWS, ["a", None, "b"], "`label_names` must be a list of str. Received: .'a', None, 'b'"),
        (ROWS, ["a", float("nan"), "b"], "`label_names` must be a list of str"),
        (ROWS, [b"a", b"b", b"c"], "`label_names` must be a list of str"),
        (ROWS, ["a", "\N{HANGUL FILLER}", "b"], "`label_names` must be different names"),
        ([["a"], ["b", "a"]], ["a", "b"], "`texts` has lists of other labels"),
        (["a", "b"], ["a", "b"], "Label 1 of `texts` is 'a'. Expected, with `label_names`"),
        ([0, 3], ["a", "b", "c"], "Label 2 of `texts` is 3.* from 0 to 2"),
        ([0, float("inf")], ["a", "b"], "Label 2 of `texts` is inf"),
        ([0, 0.5], ["a", "b"], "Label 2 of `texts` is 0.5"),
        ([[1, 0], [float("inf"), 0]], None, "Label 2 of `texts` has inf"),
        ([[1, 0], [1j, 0]], None, "Label 2 of `texts` has 1j"),
        (["sport", None], None, "Label 2 of `texts` is missing. Received: None"),
        (["a", float("nan")], None, "Label 2 of `texts` is missing. Received: nan"),
        (["a", np.datetime64("NaT")], None, "Label 2 of `texts` is missing"),
        ([["sport", None], ["news"]], None, "Label 1 of `texts` is missing. Received: None"),
        ([["a"], ["b", float("nan")]], None, "Label 2 of `texts` is missing"),
        (np.array([[1, np.nan], [0, 1]]), None, "Label 1 of `texts` is missing"),
        (np.ma.array([1, 2], mask=[False, True]), None, "Label 2 of `texts` is missing"),
        (np.ma.array(ROWS, mask=[[False, True, False]] * 5), None, "Label 1 of `texts` is missing"),
        ([b"pos", b"neg"], None, r"Label 1 of `texts` is bytes. Received: b'pos'. Expected: a str"),
        (np.array([b"pos", b"neg"]), None, "Label 1 of `texts` is bytes_"),
        ([["a", b"b"]], None, "Label 1 of `texts` is bytes"),
        (np.array("pos"), None, "must be a list or another sequence of labels. Received: ndarray with 0 axes"),
        (np.zeros((2, 3, 2)), None, "Received: ndarray with 3 axes"),
        (3, None, "Received: int"),
        ({"a", "b"}, None, "Received: set"),
        (["a", "", "b"], None, "Label 2 of `texts` is empty. Received: ''"),
        (["a", " \t"], None, "Label 2 of `texts` is empty"),
        (["a", "\u200b"], None, "Label 2 of `texts` is empty"),
        (["a", "\N{HANGUL FILLER}"], None, "Label 2 of `texts` is empty"),
        ([memoryview(b"pos")], None, "Label 1 of `texts` is memoryview"),
        ([["a", " "]], None, "Label 1 of `texts` is empty"),
        ([{"a": 1}], None, "Label 1 of `texts` is a dict"),
        ([[["a"]]], None, "Label 1 of `texts` is a list"),
    ],
)
def test_labels_that_cannot_be_used(labels, label_names, message):
    with pytest.raises(UserError, match=message) as caught:
        named(labels, label_names)
    assert "\n" not in str(caught.value)


def test_pandas_gives_labels_too():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=["news", "politics", "sport"], index=[7, 7, 2, 3, 5])
    assert named(frame, label_columns(frame)) == (NAMES, ("news", "politics", "sport"))
    assert named(pandas.Series(["a", "b"], index=[5, 3], dtype="category")) == (["a", "b"], None)
    assert named(pandas.Categorical(["a", "b"])) == (["a", "b"], None)
    with pytest.raises(UserError, match="Label 2 of `texts` is missing"):
        named(pandas.Series([1, None], dtype="Int64"))
