"""Tables and parallel files as they come from spreadsheets, other systems and broken transfers."""

import gzip
import json
import lzma

GOOD = b"good,1\nbad,0\n"
HEAD = b"text,label\n"
LINES = b"A dog runs.\nMen sit.\nA girl climbs.\n"

# name -> (suffix, content, what the message must name)
BAD_TABLES = {
    "too few fields": (".csv", HEAD + GOOD + b"a\n" + GOOD, ["line 4", "column 'label'"]),
    "too many fields": (".csv", HEAD + GOOD + b"a,b,1\n" + GOOD, ["line 4", "column 'label'"]),
    "an empty line inside": (".csv", HEAD + GOOD + b"\n" + GOOD, ["line 4"]),
    "an empty text": (".csv", HEAD + b",1\n" + GOOD, ["line 2", "column 'text'"]),
    "a blank text": (".csv", HEAD + b'"\n \t",1\n' + GOOD, ["line 2", "column 'text'"]),
    "an empty label": (".csv", HEAD + b"a,\n" + GOOD, ["line 2", "column 'label'"]),
    "Latin-1": (".csv", HEAD + GOOD + b"f\xfcr,1\n", ["line 4", "column 'text'", "UTF-8"]),
    "half a character": (".csv", HEAD + b"a,\xe7\x8a\n" + GOOD, ["line 2", "column 'label'"]),
    "a NUL": (".csv", HEAD + b"a\0b,1\n" + GOOD, ["line 2", "column 'text'"]),
    "text behind a quote": (".csv", HEAD + b'"a" b,1\n' + GOOD, ["line 2", "column 'text'"]),
    "a quote that never closes": (".csv", HEAD + b'a,1\n"b,0\n' + GOOD * 500, ["line 3", "Close it"]),
    "a stray quote that meets another": (".csv", HEAD + b'"b,0\n' + GOOD + b'd "q" e,1\n', ["line 2", "Fix it"]),
    "a header that never closes": (".csv", b'"text,label\na,1\n', ["line 1"]),
    "no such column": (".csv", b"text,Label\na,1\n", ["'label'", "The columns are"]),
    "a column twice": (".csv", b"text,label,text\na,1,b\n", ["'text'", "Rename"]),
    "semicolons": (".csv", b"text;class\na;1\n", ["The columns are: 'text', 'class'"]),
    "commas between tabs": (".tsv", b"text,class\na,1\n", ["The columns are: 'text', 'class'"]),
    "no header": (".csv", GOOD, ["The columns are: 'good', '1'"]),
    "an empty file": (".csv", b"", ["is empty"]),
    "a header alone": (".csv", HEAD, ["a header but no row"]),
    "UTF-16": (".csv", "text,label\na,1\n".encode("utf-16"), ["UTF-16", "Save it as UTF-8"]),
    "old line ends": (".csv", b"text,label\ra,1\rb,0\r", ["CR alone"]),
    "a spreadsheet": (".xlsx", b"PK\x03\x04", ["this is an Excel workbook"]),
    "no gzip": (".csv.gz", HEAD + GOOD, ["cannot be decompressed"]),
    "a cut gzip": (".csv.gz", gzip.compress(HEAD + GOOD, mtime=0)[:-9], ["cannot be decompressed"]),
    "a cut xz": (".csv.xz", lzma.compress(HEAD + GOOD)[:-9], ["cannot be decompressed"]),
    "a line ends inside a field between tabs": (".tsv", b'text\tlabel\n"a\nb"\t1\n', ["line 2", "quotes mean nothing"]),
    "cut JSON": (".jsonl", b'{"text": "a", "label"\n', ["line 1", "on one line"]),
    "two objects on a line": (".jsonl", b'{"text": "a", "label": "1"}{}\n', ["line 1"]),
    "a JSON array": (".jsonl", b'[{"text": "a", "label": "1"}]\n', ["line 1", "not an object"]),
    "NaN": (".jsonl", b'{"text": "a", "label": NaN}\n', ["line 1"]),
    "deep JSON": (".jsonl", b"[" * 100_000 + b"\n", ["line 1"]),
    "a missing key": (".jsonl", b'{"text": "a"}\n', ["line 1", "column 'label'"]),
    "a key twice": (".jsonl", b'{"text": "a", "text": "b", "label": "1"}\n', ["line 1", "column 'text'"]),
    "null": (".jsonl", b'{"text": null, "label": "1"}\n', ["line 1", "column 'text'", "null"]),
    "a number as text": (".jsonl", b'{"text": 17, "label": "1"}\n', ["line 1", "column 'text'"]),
    "half of a surrogate pair": (".jsonl", rb'{"text": "a\ud83d", "label": "1"}', ["line 1", "column 'text'"]),
    "one label only": (".csv", HEAD + b"a,1\nb,1\n", ["Check the label column"]),
    "a label for each text": (".csv", HEAD + b"".join(b"t%d,l%d\n" % (i, i) for i in range(1_100)), ["label"]),
    "labels that differ in case": (".csv", HEAD + b"a,Yes\nb,yes\nc,no\nd,No\n", ["label"]),
}
# name -> (suffix, content of the source file, content of the target file, what the message must name)
BAD_PAIRS = {
    "a line less": ("", LINES, LINES.split(b"\n", 1)[1], ["3 lines", "has 2"]),
    "Latin-1": ("", b"A dog.\nGr\xfc\xdfe\n", LINES, ["line 2, column 3", "0xFC", "Save the file as UTF-8"]),
    "UTF-16": ("", "A dog.\n".encode("utf-16"), LINES, ["line 1", "UTF-16", "Save it as UTF-8"]),
    "UTF-16 without a mark": ("", "A dog.\n".encode("utf-16-le"), LINES, ["line 1, column 2", "NUL"]),
    "a NUL": ("", b"A dog.\nMen\0sit.\n", LINES, ["line 2, column 4", "NUL"]),
    "old line ends": ("", b"A dog.\rMen sit.\r", LINES, ["line 1", "CR alone"]),
    "an empty file": ("", b"", LINES, ["is empty"]),
    "a mark alone": ("", b"\xef\xbb\xbf", LINES, ["is empty"]),
    "no gzip": (".gz", LINES, gzip.compress(LINES, mtime=0), ["cannot be decompressed"]),
    "a cut gzip": (
        ".gz",
        gzip.compress(LINES, mtime=0)[:-5],
        gzip.compress(LINES, mtime=0),
        ["cannot be decompressed"],
    ),
    "a cut xz": (".xz", lzma.compress(LINES)[:-5], lzma.compress(LINES), ["cannot be decompressed"]),
    "half a character at the end": ("", LINES, LINES + b"\xf0\x9f\x90", ["line 4, column 1", "0xF0"]),
}
# name -> (suffix, content, texts, labels)
ODD_TABLES = {
    "a mark at the start": (".csv", b"\xef\xbb\xbf" + HEAD + GOOD, ["good", "bad"], ["1", "0"]),
    "CRLF": (".csv", b"text,label\r\na,1\r\nb,0\r\n", ["a", "b"], ["1", "0"]),
    "line ends in quotes": (".csv", HEAD + b'"a\r\nb\nc",1\nd,0\n', ["a\r\nb\nc", "d"], ["1", "0"]),
    "doubled quotes": (".csv", HEAD + b'"""a"" b",1\n5" disc,0\n', ['"a" b', '5" disc'], ["1", "0"]),
    "labels that look like nothing": (".csv", HEAD + b"a,NA\nNone,null\n", ["a", "None"], ["NA", "null"]),
    "quotes between tabs": (".tsv", b'text\tlabel\n"a\t1\nb"\t0\n', ['"a', 'b"'], ["1", "0"]),
    "strange line ends": (".csv", HEAD + "a\u2028b\x85c,1\nd,0\n".encode(), ["a\u2028b\x85c", "d"], ["1", "0"]),
    "emoji": (".csv", HEAD + "👩‍👩‍👧 e\u0301,é\nb,0\n".encode(), ["👩‍👩‍👧 e\u0301", "b"], ["é", "0"]),
    "a field of 200 kB": (".csv", HEAD + b"x" * 200_000 + b",1\nb,0\n", ["x" * 200_000, "b"], ["1", "0"]),
    "no end of the last line": (".csv", HEAD + b'a,1\n"b","0"', ["a", "b"], ["1", "0"]),
    "more columns": (".csv", b"id,label,,text\n7,1,,a\n9,0,,b\n", ["a", "b"], ["1", "0"]),
    "empty lines at the end": (".csv.gz", gzip.compress(HEAD + GOOD + b"\r\n\n", mtime=0), ["good", "bad"], ["1", "0"]),
    "JSON lines": (
        ".jsonl",
        b"\xef\xbb\xbf"
        + json.dumps({"label": 1, "text": "\u2028é"}).encode()
        + b'\r\n{"text":"b","label":false,"x":[]}',
        ["\u2028é", "b"],
        ["1", "false"],
    ),
}
# name -> (content, lines)
ODD_LINES = {
    "a mark, CRLF and no end": (b"\xef\xbb\xbfone\r\ntwo\r\n\r\nfour", ["one", "two", "", "four"]),
    "strange line ends": ("a\u2028b\x85\x0b\x0c\nc\rd\n".encode(), ["a\u2028b\x85\x0b\x0c", "c\rd"]),
    "blanks": (b" \n\t\n  a  \n", [" ", "\t", "  a  "]),
}
