"""Tables as spreadsheets of other countries and older programs write them: other encodings, other delimiters."""

import json

import pytest

from keras_attention.data.files import read_lines
from keras_attention.data.tables.table import AnsweredTable, read_table
from keras_attention.support.errors import UserError

ROWS = [
    ("un café crème", "thé"),
    ("Stra\N{LATIN SMALL LETTER SHARP S}e \N{EN DASH} 5 \N{EURO SIGN}", "th\u00e9"),
    ("a, b; c", "x"),
]
ENCODINGS = ("windows-1252", "cp1252", "utf-16", "utf-16-le", "utf-8", "utf-8-sig")


def content(delimiter, rows=ROWS):
    lines = [delimiter.join(("id", "review", "drink"))]
    lines += [delimiter.join((str(number), f'"{text}"', label)) for number, (text, label) in enumerate(rows)]
    return "".join(f"{line}\r\n" for line in lines)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_table_in_another_encoding_is_read(tmp_path, encoding, suffix):
    path = tmp_path / f"table{suffix}"
    objects = "".join(json.dumps({"review": a, "drink": b}, ensure_ascii=False) + "\n" for a, b in ROWS)
    path.write_bytes((content(",") if suffix == ".csv" else objects).encode(encoding))
    table = read_table(path, "review", "drink", encoding=encoding)
    assert list(zip(table.texts, table.labels, strict=True)) == ROWS
    answered = AnsweredTable(path, "review", encoding=encoding)
    lines = [answered.answered(row, "good", 0.5) for row in answered.rows()]
    assert [text in line for (text, _), line in zip(ROWS, lines, strict=True)] == [True] * 3
    assert "".join(lines).encode("utf-8")
    for_excel = suffix == ".csv" and encoding != "utf-8"  # it takes UTF-8 without a byte order mark for Windows-1252
    assert "".join(answered.head).startswith("\N{ZERO WIDTH NO-BREAK SPACE}") is for_excel


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt"])
def test_the_delimiter_is_the_one_that_gives_the_columns(tmp_path, delimiter, suffix):
    path = tmp_path / f"table{suffix}"
    text = content(delimiter)
    path.write_text(text.replace('"', "") if delimiter == "\t" else text, encoding="utf-8", newline="")
    table = read_table(path, "review", "drink")
    assert list(zip(table.texts, table.labels, strict=True)) == ROWS
    answered = AnsweredTable(path, "review")
    assert answered.head == [delimiter.join(("id", "review", "drink", "label", "probability"))]


def test_a_missing_column_of_a_table_with_semicolons_is_named(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("Text;Label\na, b;c\n")
    with pytest.raises(UserError, match="no column 'text'. The columns are: 'Text', 'Label'"):
        read_table(path, "text", "label")


def test_the_delimiter_of_the_name_comes_first_and_a_given_one_is_obeyed(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("text,label,x;y\na,b,c;d\n")
    assert read_table(path, "text", "label").labels == ["b"]
    path.write_text("text;label\na;b\n")
    with pytest.raises(UserError, match="--delimiter ';'"):
        read_table(path, "text", "label", delimiter=",")
    path.write_text('\ufefftext;label\n"a;b";c\n', encoding="utf-8")
    assert read_table(path, "text", "label").texts == ["a;b"]
    path.write_text("text\na;b\n")
    assert read_table(path, "text").texts == ["a;b"]


WESTERN = "It looks like Windows-1252. Save the file as UTF-8, or give --encoding windows-1252"


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@pytest.mark.parametrize(
    ("text", "encoding", "hint"),
    [
        ("un café crème", "windows-1252", WESTERN),
        ("é", "windows-1252", WESTERN),
        ("\u201cquoted\u201d \u2026", "windows-1252", WESTERN),
        ("это фильм", "windows-1251", "such as --encoding windows-1251"),
        ("映画です", "shift_jis", "such as --encoding windows-1251 or shift_jis"),
    ],
)
def test_the_advice_names_the_encoding(tmp_path, suffix, text, encoding, hint):
    path = tmp_path / f"table{suffix}"
    row = f'{{"text": "{text}", "label": "a"}}\n' if suffix == ".jsonl" else f"text,label\n{text},a\n"
    path.write_bytes(row.encode(encoding))
    with pytest.raises(UserError) as caught:
        read_table(path, "text", "label")
    assert hint in str(caught.value)
    assert read_table(path, "text", "label", encoding=encoding).texts == [text]


def test_a_header_in_another_encoding_is_an_error(tmp_path):
    (tmp_path / "a.csv").write_bytes("caf\xe9,label\na,b\n".encode("latin-1"))
    with pytest.raises(UserError, match="no column 'café'.*looks like Windows-1252"):
        read_table(tmp_path / "a.csv", "caf\xe9", "label")
    assert read_table(tmp_path / "a.csv", "caf\xe9", "label", encoding="latin-1").texts == ["a"]


def test_lines_of_texts_have_an_encoding_too(tmp_path):
    path = tmp_path / "lines"
    for encoding in ENCODINGS:
        path.write_bytes(
            "un café\nthé\x85 x\r\n".encode(encoding.replace("cp", "windows-").replace("windows-1252", "latin-1"))
        )
        assert read_lines(path, encoding)[0] == "un café"
        assert len(read_lines(path, encoding)) == 2
    path.write_bytes(b"caf\xe9\n")
    with pytest.raises(UserError, match="line 1, column 4.*looks like Windows-1252"):
        read_lines(path)
    path.write_bytes(b"a\nb\x81\n")
    with pytest.raises(UserError, match="not text in the encoding windows-1252.*Give another --encoding"):
        read_lines(path, "windows-1252")


@pytest.mark.parametrize("name", ["klingon", "", "utf-99", "base64", "hex", "rot13", "a\0b"])
def test_an_unknown_encoding_is_refused(tmp_path, name):
    (tmp_path / "a.csv").write_text("text\na\n")
    with pytest.raises(UserError, match="There is no encoding.*windows-1252"):
        read_table(tmp_path / "a.csv", "text", encoding=name)
    (tmp_path / "a.csv").write_bytes(b"text\n\xe9\n")
    with pytest.raises(UserError, match="not text in the encoding ascii"):
        read_table(tmp_path / "a.csv", "text", encoding="ascii")
