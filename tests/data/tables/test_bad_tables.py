"""A table that cannot be used says where, what was found, what was expected and how to mend it."""

import pytest

from keras_attention.data.tables.table import read_table
from keras_attention.support.errors import UserError

JSON_GOOD = b'{"text": "good", "label": "1"}\n'
# name -> (the row, its reason, more of the message)
BAD_CSV_ROWS = {
    "too few": (b"a\n", "too few fields", ["'label'", "1 ('a')", "2 ('text', 'label')"]),
    "too many": (b"a,b,1\n", "too many fields", ["3 ('a,b,1')"]),
    "empty line": (b"\n", "empty line", ["2 fields"]),
    "blank line": (b"  \n", "too few fields", ["'  '"]),
    "empty text": (b",1\n", "empty text", ["column 'text'", "''"]),
    "quoted empty text": (b'"",1\n', "empty text", ["column 'text'", "''"]),
    "blank text": (b'"\n \t\xe2\x80\xa8",1\n', "empty text", [r"'\n \t\u2028'"]),
    "empty label": (b"a,\n", "empty label", ["column 'label'"]),
    "latin-1": (b"f\xfcr,1\n", "invalid UTF-8", ["column 'text'", "f\ufffdr", "UTF-8"]),
    "half a character": (b"a,\xe7\x8a\n", "invalid UTF-8", ["column 'label'"]),
    "NUL": (b"a\0b,1\n", "NUL character", ["column 'text'", r"a\x00b"]),
    "behind a quote": (b'"a" b,1\n', "text after a closing quote", ["column 'text'", "'\"a\" b'", "doubled"]),
    "behind a quote at the end": (b'a,"1"\r2\n', "text after a closing quote", ["column 'label'"]),
    "behind a quote, too many": (b'a,1,"b"c\n', "text after a closing quote", ["b"]),
}
BAD_JSON_ROWS = {
    "cut": (b'{"text": "a", "label"\n', "invalid JSON", ['\'{"text": "a", "label"\'', "on one line"]),
    "two": (b'{"text": "a", "label": "1"}{}\n', "invalid JSON", []),
    "single quotes": (b"{'text': 'a'}\n", "invalid JSON", []),
    "NaN": (b'{"text": "a", "label": NaN}\n', "invalid JSON", []),
    "nested": (b"[" * 100_003 + b"\n", "invalid JSON", []),
    "empty line": (b" \n", "empty line", []),
    "a line of an array": (b"[\n", "invalid JSON", ["on one line"]),
    "array": (b'["a", "1"]\n', "not an object", ["'text', 'label'"]),
    "text": (b'"text"\n', "not an object", []),
    "key missing": (b'{"text": "a", "Label": "1"}\n', "key missing", ["column 'label'", "'text', 'Label'"]),
    "key twice": (b'{"text": "a", "label": "1", "text": "b"}\n', "key twice", ["column 'text'"]),
    "null": (b'{"text": "a", "label": null}\n', "value not a text", ["column 'label'", "null", "a number"]),
    "null text": (b'{"text": null, "label": "1"}\n', "value not a text", ["column 'text'", "null"]),
    "number as text": (b'{"text": 17, "label": "1"}\n', "value not a text", ["the number 17", "a text"]),
    "array as label": (b'{"text": "a", "label": ["1"]}\n', "value not a text", ["an array"]),
    "object as text": (b'{"text": {}, "label": "1"}\n', "value not a text", ["an object"]),
    "empty text": (b'{"text": " ", "label": "1"}\n', "empty text", ["column 'text'"]),
    "empty label": (b'{"text": "a", "label": ""}\n', "empty label", ["column 'label'"]),
    "latin-1": (b'{"text": "f\xfcr", "label": "1"}\n', "invalid UTF-8", []),
    "NUL": (rb'{"text": "a\u0000", "label": "1"}' + b"\n", "NUL character", [r"a\x00"]),
    "half a pair": (rb'{"text": "a\ud83d", "label": "1"}' + b"\n", "invalid UTF-8", [r"a\ud83d", "surrogate"]),
}
TSV = {
    name: (row.replace(b",", b"\t"), reason, [part.replace("a,b,1", r"a\tb\t1") for part in parts])
    for name, (row, reason, parts) in BAD_CSV_ROWS.items()
    if b'"' not in row
}
CASES = [
    pytest.param(suffix, header, good, *case, id=f"{suffix} {name}")
    for suffix, header, good, cases in [
        (".csv", b"text,label\n", b"good,1\n", BAD_CSV_ROWS),
        (".tsv", b"text\tlabel\n", b"good\t1\n", TSV),
        (".jsonl", b"", JSON_GOOD, BAD_JSON_ROWS),
    ]
    for name, case in cases.items()
]


@pytest.mark.parametrize(("suffix", "header", "good", "bad", "reason", "parts"), CASES)
def test_bad_rows(tmp_path, suffix, header, good, bad, reason, parts):
    path = tmp_path / f"table{suffix}"
    path.write_bytes(header + good + bad + good)
    line = 3 if header else 2
    with pytest.raises(UserError) as caught:
        read_table(path, "text", "label")
    message = str(caught.value)
    assert message.startswith(f"{path}, line {line}")
    assert "--skip-bad-rows" in message
    assert [part for part in [reason, "Expected: ", *parts] if part not in message] == []
    assert len(message) < len(str(path)) + 400
    assert "\n" not in message

    path.write_bytes(header + good + 3 * bad + good)
    table = read_table(path, "text", "label", skip_bad_rows=True)
    assert (table.texts, table.labels) == (["good"] * 2, ["1"] * 2)
    assert (table.rows_read, table.skipped) == (5, {reason: 3})
    assert table.lines == [line - 1, line + 3 * bad.count(b"\n")]


def test_the_summary_counts_by_reason(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("text,label\na,1\na,1,\n,1\nb,0\n ,0\n" + "c,0\n" * 1_009)
    table = read_table(path, "text", "label", skip_bad_rows=True)
    assert table.summary() == "read 1,014, used 1,011, skipped 3 (2 empty text, 1 too many fields)"


def test_quoted_cells_are_cut_to_80_characters(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("text,label\n" + "\x01" * 200_003 + "\n")
    with pytest.raises(UserError, match=r"found 1 \('[^']{76}\.\.\.\)\. Expected"):
        read_table(path, "text", "label")


def test_a_quoted_line_end_between_tabs_is_explained(tmp_path):
    path = tmp_path / "table.tsv"
    path.write_text('text\tlabel\n"a\nb"\t1\n')
    with pytest.raises(UserError, match=r"line 2, column 'label': too few.*'\"a'.*between TABs quotes mean nothing"):
        read_table(path, "text", "label")


def test_numbers_and_booleans_are_labels_as_they_are_written(tmp_path):
    path = tmp_path / "table.jsonl"
    labels = ["1", "1.0", "-1e3", "true", "false", "9" * 5_003]
    path.write_text("\n".join(f'{{"text": "a", "label": {label}}}' for label in labels))
    table = read_table(path, "text", "label")
    assert table.labels == labels
    assert {type(label) for label in table.labels} == {str}


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('text,label\na,1\n"b,0\n' + "c,1\n" * 1_009, 3),
        ('text,label\na,1\n"b\nc",0\n"d\ne","1\n' + "c,1\n" * 1_009, 6),
        ('text,label\na,"', 2),
        ('text,label\na,1\nb,"0""\n', 3),
        ('"text,label\na,1\n', 1),
    ],
)
def test_an_unclosed_quote_loses_no_rows(tmp_path, content, line, skip):
    path = tmp_path / "table.csv"
    path.write_text(content)
    with pytest.raises(UserError, match=rf"table\.csv, line {line}: a quote opens here and never closes"):
        read_table(path, "text", "label", skip_bad_rows=skip)


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("end", ['d "quoted" word,1\n', 'd,"1"\n', 'd,"\n'], ids=["torn", "torn label", "too few"])
def test_two_stray_quotes_lose_no_rows(tmp_path, end, skip):
    path = tmp_path / "table.csv"
    path.write_text('text,label\na,1\n"b,0\n' + "c,1\n" * 1_009 + end)
    with pytest.raises(UserError, match=r"line 3.* in a row of 1,011 lines\..*Fix it first"):
        read_table(path, "text", "label", skip_bad_rows=skip)


FILES = {
    "empty": (".csv", b"", "the file is empty"),
    "a mark alone": (".csv", b"\xef\xbb\xbf\r\n\n", "the file is empty"),
    "empty JSON": (".jsonl", b"\n", "the file is empty"),
    "header alone": (".csv", b"text,label\r\n\r\n", "a header but no row"),
    "column missing": (".csv", b"text,Label \na,1\n", r"no column 'label'\. The columns are: 'text', 'Label '\."),
    "column twice": (".tsv", b"text\tlabel\ttext\na\t1\tb\n", "has the column 'text' 2 times"),
    "semicolons": (".csv", b"text;class\na, b;1\n", "no column 'label'. The columns are: 'text', 'class'"),
    "TABs": (".csv", b"text\tclass\na\t1\n", "The columns are: 'text', 'class'"),
    "commas": (".tsv", b"text,class\na,1\n", "The columns are: 'text', 'class'"),
    "bars": (".txt", b"text|class\na|1\n", "The columns are: 'text', 'class'"),
    "torn header": (".csv", b'text,"label"s\na,1\n', "line 1: there is text after a closing quote in the header"),
    "swallowed header": (".csv", b'"text,label\na,"1"\n', "line 1: there is text after a closing quote"),
    "UTF-16": (".csv", "text,label\na,1\n".encode("utf-16"), "UTF-16. Save it as UTF-8"),
    "CR alone": (".csv", b"text,label\ra,1\rb,0\r", "end with CR alone"),
    "another format": (".parquet", b"PAR1", r"not known by this name.*\.csv, .*\.jsonl.*--delimiter"),
}


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize(("suffix", "content", "message"), FILES.values(), ids=FILES)
def test_files_that_cannot_be_used(tmp_path, suffix, content, message, skip):
    path = tmp_path / f"table{suffix}"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        read_table(path, "text", "label", skip_bad_rows=skip)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".csv.gz"])
def test_missing_files(tmp_path, suffix):
    with pytest.raises(UserError, match="no such file"):
        read_table(tmp_path / f"table{suffix}", "text")


def test_no_row_left(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("text,label\n,1\n,0\na\n")
    message = r"no row is left: read 3, used 0, skipped 3 \(2 empty text, 1 too few fields\)"
    with pytest.raises(UserError, match=message):
        read_table(path, "text", "label", skip_bad_rows=True)


def test_one_column_may_hold_other_delimiters(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a;b\nc;d\n")
    assert read_table(path, "a;b").texts == ["c;d"]


def test_an_empty_line_among_single_columns_is_an_empty_text(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text('text\na\n\n""\nb\n')
    assert read_table(path, "text", skip_bad_rows=True).skipped == {"empty text": 2}


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n", "é"])
def test_impossible_delimiters(tmp_path, delimiter):
    (tmp_path / "table.csv").write_text("text,label\na,1\n")
    with pytest.raises(UserError, match="delimiter must be one ASCII character.*Received"):
        read_table(tmp_path / "table.csv", "text", delimiter=delimiter)


def test_json_lines_have_no_delimiter(tmp_path):
    (tmp_path / "table.jsonl").write_bytes(JSON_GOOD)
    with pytest.raises(UserError, match="no delimiter"):
        read_table(tmp_path / "table.jsonl", "text", delimiter=",")


def test_columns_must_differ(tmp_path):
    with pytest.raises(UserError, match="different columns.*text, text"):
        read_table(tmp_path / "table.csv", "text", "text")
