"""A table comes back as it was, with its answers behind it."""

import csv
import io
import json

import pytest

from keras_attention.data.tables.table import AnsweredTable
from keras_attention.support.errors import UserError

ROWS = [["7", 'a "good", long\nfilm', ""], ["9", "NA", "é;x"], ["11", " dull ", '"']]


def answered(table, label="good", probability=0.75):
    """All lines that a table gives if every row has the same answer."""
    return "".join(
        f"{line}\n" for line in [*table.head, *(table.answered(r, label, probability) for r in table.rows())]
    )


@pytest.mark.parametrize("delimiter", [",", ";", "|"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_all_columns_stay_and_two_are_new(tmp_path, delimiter, mark):
    with open(tmp_path / "a.csv", "w", encoding="utf-8", newline="") as file:
        file.write(mark)
        csv.writer(file, delimiter=delimiter).writerows([["id", "review", "note"], *ROWS])
    table = AnsweredTable(tmp_path / "a.csv", "review", delimiter=delimiter)
    assert [row.texts for row in table.rows()] == [(row[1],) for row in ROWS]
    actual = answered(table, f"so{delimiter}so")
    assert actual.startswith(mark + "id")
    header, *rows = csv.reader(io.StringIO(actual.removeprefix("\ufeff")), delimiter=delimiter)
    assert header == ["id", "review", "note", "label", "probability"]
    assert rows == [[*row, f"so{delimiter}so", "0.7500"] for row in ROWS]


def test_between_tabs_quotes_mean_nothing(tmp_path):
    (tmp_path / "a.tsv").write_text('text\tn\n"a\t1\r\nb" c\t2\n')
    assert answered(AnsweredTable(tmp_path / "a.tsv", "text")) == (
        'text\tn\tlabel\tprobability\n"a\t1\tgood\t0.7500\nb" c\t2\tgood\t0.7500\n'
    )


def test_lines_of_json_are_kept_letter_by_letter(tmp_path):
    lines = ['{"n": 1.0, "text":"\\u00e9 a",  "x": [1, {"y": null}]}', ' {"text": "b }"}  ']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    table = AnsweredTable(tmp_path / "a.jsonl", "text")
    actual = answered(table, ["good", "ünsure"], [0.75, 0.5]).splitlines()
    assert actual[0] == lines[0][:-1] + ', "label": ["good", "ünsure"], "probability": [0.75, 0.5]}'
    assert json.loads(actual[1]) == {"text": "b }", "label": ["good", "ünsure"], "probability": [0.75, 0.5]}
    assert json.loads(answered(table, 1.5, None).splitlines()[1])["label"] == 1.5


def test_rows_with_no_label_or_several(tmp_path):
    (tmp_path / "a.csv").write_text("text\na\n")
    table = AnsweredTable(tmp_path / "a.csv", "text", separator=";")
    (row,) = table.rows()
    assert table.answered(row, None, None) == "a,,"
    assert table.answered(row, ["x", "y"], [0.9, 0.25]) == "a,x;y,0.9000;0.2500"
    assert table.answered(row, -2.0, None) == "a,-2.0000,"


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_table_may_have_a_column_of_that_name(tmp_path, name):
    columns = ["text", "label"]
    for expected in (("predicted_label", "predicted_probability"), None):
        row = dict.fromkeys(columns, "a")
        lines = [",".join(row), ",".join(row.values())] if name == "a.csv" else [json.dumps(row)]
        (tmp_path / name).write_text("\n".join(lines))
        if expected:
            assert AnsweredTable(tmp_path / name, "text").names == expected
        else:
            with pytest.raises(UserError, match="has the columns .* already"):
                AnsweredTable(tmp_path / name, "text")
        columns.append("predicted_label")


def test_pairs_and_bad_rows(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\nx,y\n,y\nx\nz,w\n")
    with pytest.raises(UserError, match="line 4, column 'b': too few fields"):
        AnsweredTable(tmp_path / "a.csv", "a", "b")
    table = AnsweredTable(tmp_path / "a.csv", "a", "b", skip_bad_rows=True)
    assert [row.texts for row in table.rows()] == [("x", "y"), ("", "y"), ("z", "w")]
    assert table.summary() == "read 4, used 3, skipped 1 (1 too few fields)"
    with pytest.raises(UserError, match="different columns"):
        AnsweredTable(tmp_path / "a.csv", "a", "a")
    (tmp_path / "a.csv").write_text("a,b\nx\n")
    with pytest.raises(UserError, match="no row to answer: read 1, used 0"):
        AnsweredTable(tmp_path / "a.csv", "a", skip_bad_rows=True)


@pytest.mark.parametrize(
    "value",
    ["9" * 5000, "-" + "9" * 5000, "1e999", "0." + "1" * 5000, '"\\ud800"', '{"a": 1, "a": 2}', "[" * 300 + "]" * 300],
)
def test_the_values_of_other_columns_are_kept_whatever_they_are(tmp_path, value):
    path = tmp_path / "table.jsonl"
    path.write_text(f'{{"text": "a dog", "id": {value}}}\n')
    table = AnsweredTable(path, "text")
    (row,) = table.rows()
    assert (
        table.answered(row, "good", 0.5) == f'{{"text": "a dog", "id": {value}, "label": "good", "probability": 0.5}}'
    )


def test_rows_with_a_blank_text_stay(tmp_path):
    (tmp_path / "a.csv").write_text('text\na\n\n" "\nb\n')
    assert [row.texts for row in AnsweredTable(tmp_path / "a.csv", "text").rows()] == [("a",), ("",), (" ",), ("b",)]
    (tmp_path / "a.jsonl").write_text('{"text": null}\n{"text": ""}\n')
    table = AnsweredTable(tmp_path / "a.jsonl", "text")
    assert [table.answered(row, None, None) for row in table.rows()] == [
        '{"text": null, "label": null, "probability": null}',
        '{"text": "", "label": null, "probability": null}',
    ]


FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", " =1", "\uff1d1", "=1e9"]
HARMLESS = ["good", "-1", "+1", "-0.5", "+1e-3", "a=b", "'=1", "-1e", ""]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("label", [*FORMULAS, *HARMLESS[:-2]])
def test_a_label_that_looks_like_a_formula_gets_a_mark(tmp_path, name, label):
    (tmp_path / name).write_text("text\n=1\n", encoding="utf-8")
    delimiter = "," if name == "a.csv" else "\t"
    if delimiter in label:
        return
    for raw in (False, True):
        table = AnsweredTable(tmp_path / name, "text", raw=raw)
        (row,) = table.rows()
        (actual,) = csv.reader([table.answered(row, label, 0.5)], delimiter=delimiter)
        marked = label in FORMULAS and not raw
        assert actual == ["=1", "'" * marked + label, "0.5000"]  # what was in the table stays as it is
        assert table.shielded == marked


def test_several_labels_are_one_cell_and_numbers_are_none(tmp_path):
    (tmp_path / "a.csv").write_text("text\na\n")
    table = AnsweredTable(tmp_path / "a.csv", "text")
    (row,) = table.rows()
    assert table.answered(row, ["=1", "b"], [0.5, 0.5]) == "a,'=1|b,0.5000|0.5000"
    assert table.answered(row, ["b", "=1"], [0.5, 0.5]) == "a,b|=1,0.5000|0.5000"
    assert table.answered(row, -0.25, None) == "a,-0.2500,"
    assert table.answered(row, None, None) == "a,,"
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    table = AnsweredTable(tmp_path / "a.jsonl", "text")
    assert '"label": "=1"' in table.answered(next(table.rows()), "=1", 0.5)
