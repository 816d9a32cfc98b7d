"""FASTA files, sound and hostile, and proteins made by rules."""

import gzip
import time

import pytest

from keras_attention.data.proteins.protein_files import (
    is_fasta,
    proteins_of,
    read_proteins,
    residue_lines,
    rule_proteins,
)
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.amino_acid_tokenizer import AMINO_ACIDS

FASTA = b">first protein\r\nMKVL\r\n\r\nAA*\r\n; a comment\r\n>second\nmk--vX\nBZ\n"
READ = [("first protein", "MKVLAA"), ("second", "MKVXBZ")]


@pytest.fixture
def write(tmp_path):
    def write(content, name="a.fasta"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def test_records_have_names_and_residues(write):
    assert read_proteins([write(FASTA)]) == READ
    assert read_proteins([write(b"\xef\xbb\xbf" + FASTA)]) == READ
    assert list(residue_lines(write(gzip.compress(FASTA), "b.fa.gz"))) == [residues for _, residues in READ]
    assert read_proteins([write(b">\xff\xfe\nMK", "c"), write(FASTA)]) == [("\ufffd\ufffd", "MK"), *READ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty. Expected: FASTA"),
        (b"\n \n", "the file is blank"),
        (b"MKVLAA\n", "line 1: found 'MKVLAA'. Expected: FASTA, as >NAME"),
        (b"\n>a\nMK\n>b c\n>d\nMK", "line 4: the protein 'b c' has no residues"),
        (b">a\nMK\n>b\n--*\n", "line 3: the protein 'b' has no residues"),
        (b">a\nMK\n>b\nMK\nV1L\n", "line 3, protein 'b': Expected a protein.* Found '1' after 3 residues of 'MKV1L'"),
        (b">a\nMK\xff\xfe\n", "line 1, protein 'a': Expected a protein"),
        (b"\x7fELF\0\0\1\2\n", "line 1: this is not text"),
        (b"\x89PNG\r\n\x1a\n\0\0", "line 1: found"),
        (b">a\rMKVL\r>b\rMK\r", "line 1: lines end with CR alone"),
        (b">a\n" + b"ACGTACGTNN" * 10 + b"\n>b\nACGU\n", "has only the letters A, C, G, N, T, U: DNA or RNA"),
    ],
)
def test_other_files_are_refused_in_one_line(write, content, message):
    path = write(content)
    with pytest.raises(UserError, match=message) as error:
        read_proteins([path])
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < len(str(path)) + 200


def test_a_protein_of_nearly_one_kind_of_residue_is_no_dna(write):
    """One of alanine and a few glycines was refused as DNA."""
    ((_, residues),) = read_proteins([write(b">a\n" + b"AAAAAAAAAAAAAAAAAAAG" * 17 + b"\n")])
    assert residues == "AAAAAAAAAAAAAAAAAAAG" * 17


def test_a_damaged_archive_is_refused(write):
    with pytest.raises(UserError, match="cannot be decompressed"):
        read_proteins([write(FASTA, "a.fasta.gz")])
    with pytest.raises(UserError, match="cannot be decompressed"):
        read_proteins([write(gzip.compress(FASTA * 99)[:60], "b.fasta.gz")])
    with pytest.raises(UserError, match="no such file"):
        read_proteins(["missing.fasta"])


def test_short_peptides_may_have_the_letters_of_nucleotides(write):
    assert read_proteins([write(b">a\nGATTACA\n")]) == [("a", "GATTACA")]


def test_a_record_of_a_million_residues_is_read_in_a_second(write):
    residues = AMINO_ACIDS * 50_000
    lines = "\n".join(residues[i : i + 60] for i in range(0, len(residues), 60))
    started = time.perf_counter()
    ((_, read), (_, other)) = proteins_of(write(f">long\n{lines}\n>a\n{residues}".encode()))
    assert read == other == residues
    assert time.perf_counter() - started < 1.0


def test_names_of_fasta_files():
    assert all(map(is_fasta, ("a.fasta", "b.FA", "c.faa.gz", "dir.txt/d.fasta.xz")))
    assert not any(map(is_fasta, ("a.txt", "b.gz", "fasta", "c.fna", "d.fasta.txt")))


def test_rules_make_families_of_proteins():
    made = [protein.residues for protein in rule_proteins(31, seed=3)]
    assert [protein.residues for protein in rule_proteins(31, seed=3)] == made
    assert [protein.residues for protein in rule_proteins(31, seed=4)] != made
    assert set("".join(made)) == set(AMINO_ACIDS)
    same = [sum(map(str.__eq__, made[i], made[i + 1])) / len(made[i]) for i in (0, 3, 6, 9)]
    assert all(0.8 < share < 1 for share in same)
