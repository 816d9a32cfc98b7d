"""What is in a table arrives exactly, and every row is used or counted."""

import csv
import gzip
import io
import json
import lzma
import random
import re

import pytest
from varied_texts import varied_texts

from keras_attention.data.tables.table import read_table
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import UserError

ALPHABET = "ab \",;|\t\n\r'é犬🐕\u2028\u0085\x0b\x1c\ufeff\\"


def write(path, content):
    content = content.encode() if isinstance(content, str) else content
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opener(path, "wb") as file:
        file.write(content)
    return path


def written_by_csv(rows, **settings):
    buffer = io.StringIO(newline="")
    csv.writer(buffer, **settings).writerows(rows)
    return buffer.getvalue()


@pytest.mark.parametrize("packed", ["", ".gz", ".xz", ".GZ"])
@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".csv", "id,label,review\n7,pos,a dog\n11,neg,a cat\n"),
        (".CSV", "id,label,review\n7,pos,a dog\n11,neg,a cat\n"),
        (".tsv", "label\treview\npos\ta dog\nneg\ta cat\n"),
        (".txt", "label\treview\npos\ta dog\nneg\ta cat\n"),
        (".jsonl", '{"label": "pos", "review": "a dog"}\n{"review": "a cat", "label": "neg", "id": [3]}\n'),
        (".ndjson", '{"label": "pos", "review": "a dog"}\n{"review": "a cat", "label": "neg"}'),
    ],
)
def test_every_format(tmp_path, suffix, content, packed):
    path = tmp_path / f"table.v2{suffix}{packed}"
    packer = {".gz": gzip.compress, ".xz": lzma.compress}.get(packed.lower(), bytes)
    path.write_bytes(packer(content.encode()))
    table = read_table(str(path), "review", "label")
    assert (table.texts, table.texts_b, table.labels) == (["a dog", "a cat"], None, ["pos", "neg"])
    assert (table.rows_read, table.skipped) == (2, {})
    assert table.lines == ([1, 2] if "json" in suffix else [2, 3])
    assert table.summary() == "read 2, used 2, skipped 0"


def test_pairs_without_labels(tmp_path):
    path = write(tmp_path / "pairs.csv", "a,b\none,eins\ntwo,zwei\n")
    table = read_table(path, "b", text_b="a")
    assert (table.texts, table.texts_b, table.labels) == (["eins", "zwei"], ["one", "two"], None)


LONG = "long, " * 33_347  # 200 kB
EXACT = {
    "byte order mark": ("\ufefftext,label\na,1\n", ["a"], ["1"]),
    "CRLF": ("text,label\r\na,1\r\nb,0\r\n", ["a", "b"], ["1", "0"]),
    "CRLF behind quotes": ('text,label\r\n"a","1"\r\n"b","0"\r\n', ["a", "b"], ["1", "0"]),
    "line ends in quotes": ('text,label\n"a\r\nb\nc\rd\n\ne",1\nf,0\n', ["a\r\nb\nc\rd\n\ne", "f"], ["1", "0"]),
    "doubled quotes": ('text,label\n"""a"" b""",1\n"""",0\n', ['"a" b"', '"'], ["1", "0"]),
    "a quote inside": ('text,label\n5" disc,1\na ""b"",0\n', ['5" disc', 'a ""b""'], ["1", "0"]),
    "an apostrophe": ("text,label\n'a,1\n", ["'a"], ["1"]),
    "a backslash": ('text,label\n"a\\",1\n', ["a\\"], ["1"]),
    "labels like missing": ("text,label\na,NA\nb,null\nNone,None\nnan,nan\n", ["a", "b", "None", "nan"], None),
    "labels like numbers": ("text,label\na,1\nb,01\nc,1.0\nd,1e3\n", ["a", "b", "c", "d"], ["1", "01", "1.0", "1e3"]),
    "long": (f'text,label\n"{LONG}",{"x" * 200_003}\n', [LONG], ["x" * 200_003]),
    "blanks": ("text,label\n  a \t, 1 \n", ["  a \t"], [" 1 "]),
    "no last line end": ("text,label\na,1\nb,0", ["a", "b"], ["1", "0"]),
    "no last line end, quoted": ('text,label\na,1\n"b","0"', ["a", "b"], ["1", "0"]),
    "other line ends": ("text,label\na\u2028b\u2029\x85\x0b\x0c\x1c,1\n", ["a\u2028b\u2029\x85\x0b\x0c\x1c"], ["1"]),
    "wide": ("text,label\n👩‍👩‍👧 𝔘犬 e\u0301,ñ\n", ["👩‍👩‍👧 𝔘犬 e\u0301"], ["ñ"]),
    "a mark inside": ("text,label\n\ufeffa,1\n", ["\ufeffa"], ["1"]),
    "empty lines at the end": ("text,label\na,1\n\n\r\n\n", ["a"], ["1"]),
    "a lone CR": ("text,label\na\rb,1\n", ["a\rb"], ["1"]),
    "quoted names": ('"text","label"\na,1\n', ["a"], ["1"]),
    "columns not asked for": ("x,text,x,label,\n,a,,1,\n", ["a"], ["1"]),
}


@pytest.mark.parametrize(("content", "texts", "labels"), EXACT.values(), ids=EXACT)
def test_nothing_is_changed(tmp_path, content, texts, labels):
    table = read_table(write(tmp_path / "table.csv", content), "text", "label")
    assert table.texts == texts
    assert table.labels == (["NA", "null", "None", "nan"] if labels is None else labels)


def test_a_byte_order_mark_before_json_is_no_part_of_it(tmp_path):
    table = read_table(write(tmp_path / "table.jsonl", '\ufeff{"text": "a", "label": "1"}\n'), "text", "label")
    assert (table.texts, table.labels) == (["a"], ["1"])


def test_lines_are_those_of_the_file(tmp_path):
    content = 'text,label\n"a\nb\r\nc",1\nd,0\n"e\n","1\n"\nf,0\n'
    assert read_table(write(tmp_path / "table.csv", content), "text", "label").lines == [2, 5, 6, 9]
    content = '"te\nxt",label\na,0\n'
    assert read_table(write(tmp_path / "table.csv", content), "te\nxt", "label").lines == [3]


def test_quotes_mean_nothing_between_tabs(tmp_path):
    content = 'text\tlabel\n"a dog" barks\t"1\n"\t""\n"a,b"\t1\n'
    table = read_table(write(tmp_path / "table.tsv", content), "text", "label")
    assert table.texts == ['"a dog" barks', '"', '"a,b"']
    assert table.labels == ['"1', '""', "1"]


@pytest.mark.parametrize("delimiter", [";", "|", "\t", "\\t", "^", "]", " ", "-", "\\"])
def test_a_delimiter_chosen_by_the_user(tmp_path, delimiter):
    mark = "\t" if delimiter == "\\t" else delimiter
    path = write(tmp_path / "table.dat", f"text{mark}label\nb,a{mark}1\n")
    assert read_table(path, "text", "label", delimiter=delimiter).texts == ["b,a"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_empty_labels_where_they_are_allowed(tmp_path, suffix):
    content = {".csv": 'text,label\na,\nb," "\n', ".jsonl": '{"text":"a","label":""}\n{"text":"b","label":" "}'}
    path = write(tmp_path / f"table{suffix}", content[suffix])
    assert read_table(path, "text", "label", empty_labels=True).labels == ["", " "]
    with pytest.raises(UserError, match="empty label"):
        read_table(path, "text", "label")


def random_rows(draw):
    texts = [text.replace("\x00", "") for text in varied_texts(31, seed=draw.random())]
    texts += ["".join(draw.choices(ALPHABET, k=draw.randrange(1, 23))) for _ in range(31)]
    texts = [text for text in texts if not is_blank(text)]
    return [[draw.choice(texts), draw.choice(texts), str(draw.randrange(3))] for _ in range(draw.randrange(1, 17))]


def rows_of(table):
    return [list(row) for row in zip(table.texts, table.texts_b, table.labels, strict=True)]


@pytest.mark.parametrize("seed", range(3))
def test_300_random_tables_come_back_exactly(tmp_path, seed):
    draw = random.Random(seed)
    names = ["text", "b", "label"]
    for _ in range(100):
        rows = random_rows(draw)
        delimiter, quoting = draw.choice(",;|^ "), draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        content = written_by_csv([names, *rows], delimiter=delimiter, quoting=quoting)
        path = write(tmp_path / "t.csv", draw.choice(["", "\ufeff"]) + content)
        assert rows_of(read_table(path, "text", "label", "b", delimiter=delimiter)) == rows

        ascii_only = draw.random() < 0.5
        lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=ascii_only) for row in rows]
        path = write(tmp_path / "t.jsonl", "\n".join(lines))
        assert rows_of(read_table(path, "text", "label", "b")) == rows

        rows = [[re.sub("[\t\r\n]", "_", text) for text in row] for row in rows]
        path = write(tmp_path / "t.tsv", "\n".join("\t".join(row) for row in [names, *rows]))
        assert rows_of(read_table(path, "text", "label", "b")) == rows


def damaged(draw, suffix):
    """Returns the bytes of a random table in which some are changed or the end is missing."""
    rows = random_rows(draw)
    if suffix == ".jsonl":
        content = "\n".join(json.dumps({"text": a, "label": b}) for a, _, b in rows)
    else:
        content = written_by_csv([["text", "b", "label"], *rows], delimiter="\t" if suffix == ".tsv" else ",")
    content = bytearray(gzip.compress(content.encode()) if suffix.endswith(".gz") else content.encode())
    for _ in range(draw.randrange(4)):
        content[draw.randrange(len(content))] = draw.choice([draw.randrange(256), *b'\n",\t\0\xff'])
    return content[: draw.randrange(len(content))] if draw.random() < 0.3 else content


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".csv.gz"])
def test_damage_gives_a_table_or_one_message(tmp_path, suffix):
    draw = random.Random(suffix)
    path, messages, tables = tmp_path / f"table{suffix}", [], []
    for number in range(200):
        path.write_bytes(damaged(draw, suffix))
        try:
            tables.append(read_table(path, "text", "label", skip_bad_rows=number % 3 != 0))
        except UserError as error:
            messages.append(str(error))
    assert [text for text in messages if "\n" in text or str(path) not in text] == []
    for table in tables:
        assert table.rows_read == len(table.texts) + sum(table.skipped.values())
        assert len(table.texts) == len(table.labels) == len(table.lines) > 0
        assert f"read {table.rows_read}, used {len(table.texts)}, skipped" in table.summary()
    assert len(messages) > 11
    assert sum(bool(table.skipped) for table in tables) >= (0 if suffix.endswith(".gz") else 11)
