"""Every complaint about a file names the file, the line and what was expected."""

import gzip
import lzma

import pytest

from keras_attention.data import read_lines, read_parallel, read_tsv
from keras_attention.support.errors import UserError

LINES = ["a dog", "", "ein\u2028Hund\x85 läuft\x0b\x0c", "犬 \x1c\x1d"]


@pytest.mark.parametrize(("suffix", "opener"), [("", open), (".gz", gzip.open), (".xz", lzma.open), (".GZ", gzip.open)])
@pytest.mark.parametrize("end", ["\n", ""])
def test_only_newlines_end_a_line(tmp_path, suffix, opener, end):
    path = tmp_path / f"text.en{suffix}"
    with opener(path, "wb") as file:
        file.write(("\n".join(LINES) + end).encode())
    assert read_lines(path) == LINES


def test_byte_order_marks_and_carriage_returns_are_removed(tmp_path):
    path = tmp_path / "text.en"
    path.write_bytes("\ufeffone\r\ntwo \ufeff\rthree\r\n".encode())
    assert read_lines(path) == ["one", "two \ufeff\rthree"]


def test_parallel_files(tmp_path):
    (tmp_path / "a").write_text("one\n\nthree\n")
    (tmp_path / "b").write_text("eins\nzwei\ndrei")
    assert read_parallel(tmp_path / "a", str(tmp_path / "b")) == (["one", "", "three"], ["eins", "zwei", "drei"])


def test_different_numbers_of_lines(tmp_path):
    (tmp_path / "a").write_text("one\n" * 1_009)
    (tmp_path / "b").write_text("eins\nzwei\n")
    with pytest.raises(UserError, match=r"a has 1,009 lines and .*b has 2\..*line n"):
        read_parallel(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_missing_files(tmp_path, suffix):
    with pytest.raises(UserError, match="nothing.*no such file"):
        read_lines(tmp_path / f"nothing{suffix}")


def test_a_folder(tmp_path):
    with pytest.raises(UserError, match="folder"):
        read_lines(tmp_path)


@pytest.mark.parametrize(
    ("suffix", "content"), [("", b""), (".gz", gzip.compress(b"", mtime=0)), (".xz", lzma.compress(b""))]
)
def test_empty_files(tmp_path, suffix, content):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(content)
    with pytest.raises(UserError, match="text.*empty"):
        read_lines(path)


DAMAGED = {
    "plain": b"plain text",
    "cut_gz": gzip.compress(b"text" * 101, mtime=0)[:-11],
    "cut_xz": lzma.compress(b"text" * 101)[:-7],
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_damaged_compression(tmp_path, suffix, content):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(content)
    with pytest.raises(UserError, match="text.*decompressed"):
        read_lines(path)


def test_damaged_bytes_inside_gzip(tmp_path):
    content = bytearray(gzip.compress(bytes(range(256)) * 17))
    content[13:29] = b"\xff" * 16
    (tmp_path / "text.gz").write_bytes(content)
    with pytest.raises(UserError, match="decompressed"):
        read_lines(tmp_path / "text.gz")


def test_invalid_utf8_names_line_and_byte(tmp_path):
    (tmp_path / "latin1").write_bytes("eins\nzwei\nfünf\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"latin1, line 3, column 2: .*0xFC.*UTF-8"):
        read_lines(tmp_path / "latin1")
    (tmp_path / "utf16").write_bytes("eins\n".encode("utf-16"))
    with pytest.raises(UserError, match=r"utf16, line 1"):
        read_lines(tmp_path / "utf16")


def test_tables_have_no_quotes(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text('"a dog\tein "Hund"\t3\na cat\t\t5\n')
    assert read_tsv(path) == (['"a dog', "a cat"], ['ein "Hund"', ""])
    assert read_tsv(path, source_column=2, target_column=0) == (["3", "5"], ['"a dog', "a cat"])
    assert read_tsv(path, header=True) == (["a cat"], [""])


@pytest.mark.parametrize(("column", "needed"), [(1, 2), (4, 5)])
def test_too_few_columns_names_the_line(tmp_path, column, needed):
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\tc\td\te\nonly this\n")
    with pytest.raises(UserError, match=rf"pairs\.tsv, line 2: found 1 column.*at least {needed}"):
        read_tsv(path, target_column=column)


def test_a_header_alone(tmp_path):
    (tmp_path / "pairs.tsv").write_text("en\tde\n")
    with pytest.raises(UserError, match="header"):
        read_tsv(tmp_path / "pairs.tsv", header=True)


def test_negative_columns(tmp_path):
    with pytest.raises(ValueError, match="source_column=-1"):
        read_tsv(tmp_path / "pairs.tsv", source_column=-1)
