"""Proteins: read from FASTA files, or made by simple rules."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.data.files import opened
from keras_attention.support.errors import UserError, quoted
from keras_attention.tokenizers.amino_acid_tokenizer import AMINO_ACIDS, residues_of

FASTA_ENDINGS = (".fasta", ".fa", ".faa")  # perhaps with .gz or .xz behind
NUCLEOTIDES = frozenset("ACGTUN")
MOST_OF_ONE = 0.9  # share of a nucleotide
ENOUGH_RESIDUES = 100  # in a file with fewer, all letters may be those of nucleotides by chance
LONGEST_LINE = 1 << 26  # bytes
EXAMPLE = "Expected: FASTA, as >NAME and below it MKVLAA"


class Protein(NamedTuple):
    """A record of a FASTA file.

    Attributes:
        name: str, the line after ">".
        residues: str of capital letters, see `residues_of`.
    """

    name: str
    residues: str


def is_fasta(path: str | Path) -> bool:
    """Whether a file has the name of a FASTA file of proteins."""
    path = Path(path)
    inner = path.with_suffix("") if path.suffix.lower() in (".gz", ".xz") else path
    return inner.suffix.lower() in FASTA_ENDINGS


def read_proteins(paths: Iterable[str | Path]) -> list[Protein]:
    """Reads FASTA files; names ending with .gz or .xz are decompressed.

    Args:
        paths: list of str or Path.

    Returns:
        List of Protein, at least one for each file.

    Raises:
        UserError: if a file cannot be read or is not FASTA, a record has no residues or other characters than letters,
            or a file holds DNA or RNA. Names file and line.
    """
    proteins = []
    for path in paths:
        of_file = list(proteins_of(path))
        letters = set().union(*(protein.residues for protein in of_file))
        if letters <= NUCLEOTIDES and _may_be_nucleotides(of_file):
            raise UserError(
                f"{path}: has only the letters {', '.join(sorted(letters))}: DNA or RNA. Expected: proteins"
            )
        proteins += of_file
    return proteins


def _may_be_nucleotides(proteins):
    """Whether there are enough residues, not nearly all of one kind, as in a protein of alanine: AAAAGAAAA ..."""
    counts = Counter("".join(protein.residues for protein in proteins))
    return counts.total() >= ENOUGH_RESIDUES and max(counts.values()) <= MOST_OF_ONE * counts.total()


def proteins_of(path: str | Path) -> Iterator[Protein]:
    """Yields the records of a FASTA file one by one, for files of any size; raises the errors of `read_proteins`."""
    name, begin, parts, number = None, 0, [], 0
    with opened(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            text = _text(path, number, line)
            if text.startswith(">"):
                if name is not None:
                    yield _protein(path, begin, name, parts)
                name, begin, parts = text[1:].strip(), number, []
            elif text.strip() and not text.startswith(";"):  # an old form of comments
                if name is None:
                    raise UserError(f"{path}, line {number}: found {quoted(text.strip(), 40)}. {EXAMPLE}")
                parts.append(text)
    if name is None:
        raise UserError(f"{path}: the file is {'blank' if number else 'empty'}. {EXAMPLE}")
    yield _protein(path, begin, name, parts)


def residue_lines(path: str | Path) -> Iterator[str]:
    """Yields the residues of each record of a FASTA file; raises the errors of `read_proteins` about its records."""
    return (protein.residues for protein in proteins_of(path))


def _text(path, number, line):
    """The text of a line of bytes. The name of a protein may have any characters, its residues only ASCII."""
    if len(line) >= LONGEST_LINE or b"\0" in line:
        raise UserError(f"{path}, line {number}: this is not text. {EXAMPLE}")
    line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
    text = line.decode("utf-8", errors="replace").removesuffix("\n").removesuffix("\r")
    if "\r" in text:
        raise UserError(f"{path}, line {number}: lines end with CR alone. Save it with LF or CRLF at their ends.")
    return text


def _protein(path, begin, name, parts):
    try:
        residues = residues_of("".join(parts))
    except UserError as error:
        raise UserError(f"{path}, line {begin}, protein {quoted(name, 40)}: {error}") from error
    if not residues:
        raise UserError(f"{path}, line {begin}: the protein {quoted(name, 40)} has no residues. {EXAMPLE}")
    return Protein(name, residues)


KINDS_OF_RESIDUES = ("AVLIM", "FWY", "KRH", "DE", "NQST", "GPC")
PATTERNS, PERIOD = 12, 7  # a heptad is the period of coiled coils
ANY = 0.3  # share of places that have any residue
MEMBERS, MUTATED = 3, 0.1  # of a family, and the share of its residues in which a member differs from the first


def rule_proteins(number: int, seed: int = 0) -> list[Protein]:
    """Makes proteins by simple rules, for a first try without data.

    A protein repeats one of 12 patterns of seven kinds of residues, such as "hydrophobic, charged, ...". A residue is a
    random one of its kind, or sometimes any. Three proteins are a family: two are copies of the first with mutations.

    Args:
        number: int > 0.
        seed: int >= 0.

    Returns:
        List of `number` Protein.
    """
    random = np.random.default_rng(seed)
    patterns = random.integers(0, len(KINDS_OF_RESIDUES), (PATTERNS, PERIOD))

    def residue_of(kind):
        letters = AMINO_ACIDS if random.random() < ANY else KINDS_OF_RESIDUES[kind]
        return letters[random.integers(len(letters))]

    proteins, kinds, first = [], [], []
    for place in range(number):
        if place % MEMBERS == 0:
            kinds = np.resize(patterns[random.integers(PATTERNS)], random.integers(40, 120))
            first = [residue_of(kind) for kind in kinds]
            residues = first
        else:
            mutated = random.random(len(kinds)) < MUTATED
            residues = [residue_of(kinds[i]) if other else first[i] for i, other in enumerate(mutated)]
        proteins.append(Protein(f"made_{place + 1}", "".join(residues)))
    return proteins
