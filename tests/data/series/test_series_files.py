"""Files of series: tables with and without a header, labels, arrays, `.ts` files, and what is refused in one line."""

import gzip

import numpy as np
import pytest

from keras_attention.data.series.series_files import as_series, numbers_of, read_series
from keras_attention.support.errors import UserError

ROWS = np.round(np.random.default_rng(3).normal(size=(5, 7)), 3)
LABELS = ["up", "down", "up", "up", "down"]


def table(sign=",", header=None, labels=LABELS, last=False):
    """The lines of a table as text."""
    rows = [[*map(repr, row.tolist())] for row in ROWS]
    rows = [[*row, label] if last else [label, *row] for row, label in zip(rows, labels, strict=True)]
    return "\n".join(sign.join(row) for row in ([header] if header else []) + rows) + "\n"


NAMES = [f"t{step}" for step in range(7)]


@pytest.mark.parametrize(
    ("name", "text", "column"),
    [
        ("named.csv", table(header=["label", *NAMES]), "'label'"),
        ("last.csv", table(header=[*NAMES, "Class"], last=True), "'Class'"),
        ("other.csv", table(header=["movement", *NAMES]), "'movement'"),
        ("counted.csv", table(header=["movement", *map(str, range(7))]), "'movement'"),
        ("tabs.tsv", table("\t"), "column 1"),
        ("semicolons.csv", table(";"), "column 1"),
        ("comma.csv", table(";").replace(".", ","), "column 1"),
        ("blanks.txt", table(" "), "column 1"),
        ("quoted.csv", '"' + table().replace(",", '","').replace("\n", '"\n"').rstrip('"'), "column 1"),
    ],
)
def test_a_table_has_one_series_a_row(name, text, column, tmp_path):
    (tmp_path / name).write_text(text)
    series = read_series(tmp_path / name)
    np.testing.assert_array_equal(np.stack(series.series)[..., 0], ROWS)
    assert series.labels == LABELS
    assert series.label_column == column
    unlabelled = read_series(tmp_path / name, labelled=False)
    np.testing.assert_array_equal(np.stack(unlabelled.series)[..., 0], ROWS)
    assert unlabelled.labels is None


def test_labels_that_are_numbers(tmp_path):
    numbers = ["1.0000000e+00", "-1.0", "1", "1", "-1"]
    (tmp_path / "archive.tsv").write_text(table("\t", labels=numbers))
    assert read_series(tmp_path / "archive.tsv").labels == ["1", "-1", "1", "1", "-1"]
    whole = read_series(tmp_path / "archive.tsv", labelled=False)
    assert {len(each) for each in whole.series} == {8}
    without = read_series(tmp_path / "archive.tsv", labelled=False, steps=7)
    np.testing.assert_array_equal(np.stack(without.series)[..., 0], ROWS)
    (tmp_path / "named.csv").write_text(table(header=["kind", *NAMES], labels=numbers))
    assert read_series(tmp_path / "named.csv", label="kind").labels[1] == "-1"
    with pytest.raises(UserError, match="Name it with --label"):
        read_series(tmp_path / "named.csv")


def test_the_index_that_pandas_writes_is_left_out(tmp_path):
    rows = [",".join(map(repr, [place, *ROWS[place].tolist()])) + f",{label}" for place, label in enumerate(LABELS)]
    (tmp_path / "frame.csv").write_text("\n".join([",0,1,2,3,4,5,6,label", *rows]))
    series = read_series(tmp_path / "frame.csv")
    np.testing.assert_array_equal(np.stack(series.series)[..., 0], ROWS)
    assert series.labels == LABELS


def test_rows_end_where_the_numbers_end(tmp_path):
    (tmp_path / "short.csv").write_text("label,a,b,c\nup,1,2,3\ndown,4,5,\nup,6,7,NaN\ndown,8,9\n")
    assert [len(each) for each in read_series(tmp_path / "short.csv").series] == [3, 2, 2, 2]


def test_compressed(tmp_path):
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(table().encode()))
    assert read_series(tmp_path / "rows.csv.gz").labels == LABELS


@pytest.mark.parametrize(
    "names", [("X_train.npy", "y_train.npy"), ("a.npy", "a_labels.npy"), ("a.npy", "a_labels.txt")]
)
def test_arrays_have_a_file_of_labels(names, tmp_path):
    array = np.random.default_rng(3).normal(size=(5, 7, 3))
    np.save(tmp_path / names[0], array)
    if names[1].endswith(".npy"):
        np.save(tmp_path / names[1], LABELS)
    else:
        (tmp_path / names[1]).write_text("\n".join(LABELS))
    series = read_series(tmp_path / names[0])
    np.testing.assert_array_equal(np.stack(series.series), array)
    assert series.labels == LABELS
    assert series.summary() == f"5 series of 7 steps of 3 channels, 2 different labels in {names[1]}"
    np.save(tmp_path / "other.npy", np.arange(5))
    assert read_series(tmp_path / names[0], label="other.npy").labels == ["0", "1", "2", "3", "4"]


def test_files_of_the_archives(tmp_path):
    head = "# a comment\n@problemName Toy\n@univariate false\n@classLabel true up down\n@data\n"
    (tmp_path / "toy.ts").write_text(head + "1,2,3:4,5,6:up\n7,8,?:9,0,?:down\n")
    series = read_series(tmp_path / "toy.ts")
    np.testing.assert_array_equal(series.series[0], [[1, 4], [2, 5], [3, 6]])
    assert series.labels == ["up", "down"]


HOSTILE = {
    "empty.csv": (b"", "the file is empty"),
    "words.csv": (b"label,a,b\nup,1,two\n", "column 'b': found 'two'"),
    "gap.csv": (b"label,a,b,c\nup,1,,3\n", "step 2: found nan"),
    "infinite.csv": (b"up,1,inf\n", "step 2: found inf"),
    "header.csv": (b"label,a,b\n", "has a header but no row"),
    "long.csv": (b"label,a\nup,1,2\n", "3 fields. Expected: 2"),
    "unlabelled.csv": (b"label,a\n,1\n", "the label is empty"),
    "lonely.csv": (b"label\nup\ndown\n", "there are no numbers"),
    "binary.csv": (b"\x00\xff" * 9, "not valid UTF-8"),
    "text.npy": (b"hello", "is no .npy array"),
    "huge.npy": (b"", "is no .npy array"),
    "alone.npy": (None, "There are no labels beside"),
    "pickled.npy": (None, "is no .npy array"),
    "complex.npy": (None, "must be an array of numbers"),
    "flat.ts": (b"@data\n1,2:3:up\n", "channels of equal length"),
    "stamped.ts": (b"@timeStamps true\n@data\n(1,2):up\n", "time stamps"),
    "sheet.xlsx": (b"PK", "no file of series"),
    "bomb.csv.gz": (b"\x1f\x8b broken", "cannot be decompressed"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_damaged_series_are_refused_in_one_line(name, tmp_path):
    content, message = HOSTILE[name]
    path = tmp_path / name
    if name == "huge.npy":
        np.save(path, np.zeros(3))
        path.write_bytes(path.read_bytes().replace(b"(3,)", b"(9" + b"9" * 9 + b",)")[:128])
    elif name == "alone.npy":
        np.save(path, ROWS)
    elif name == "pickled.npy":
        np.save(path, np.array([{"a": 1}], object), allow_pickle=True)
    elif name == "complex.npy":
        np.save(path, ROWS * 1j)
    else:
        path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        read_series(path)
    assert message in str(refused.value)
    assert name in str(refused.value)
    assert "\n" not in str(refused.value)


def test_missing_files_and_columns(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read_series(tmp_path / "none.csv")
    with pytest.raises(UserError, match="is no file"):
        read_series(tmp_path)
    (tmp_path / "rows.csv").write_text(table(header=["label", *NAMES]))
    with pytest.raises(UserError, match="no column 'mood'. Columns: label, t0, t1"):
        read_series(tmp_path / "rows.csv", label="mood")


@pytest.mark.parametrize(
    "values",
    [
        [],
        [[1, 2], [3]],
        ["a", "b"],
        [None],
        [float("nan")],
        [10**400, 1],
        np.zeros((2, 2, 2)),
        [1 + 2j],
        {"a": 1},
        True,
    ],
)
def test_only_finite_numbers_are_series(values):
    with pytest.raises(UserError, match="^The series"):
        as_series(values, "The series")


def test_numbers_as_text():
    np.testing.assert_array_equal(numbers_of(" 1, 2.5;-3e1\n[4] ", "A series")[:, 0], [1, 2.5, -30, 4])
    for text in ("", "1, two", "1_000, 2"):
        with pytest.raises(UserError, match="A series must be the name of a file, or numbers"):
            numbers_of(text, "A series")
