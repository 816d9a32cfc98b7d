"""A tokenizer for proteins: one token for each amino acid."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from keras_attention.support.errors import UserError, parse_json, quoted
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID, UNKNOWN_ID, checked_ids

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"  # one-letter codes of the 20 that the genetic code has
UNKNOWN_RESIDUE = "X"
MASK = "[MASK]"
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", MASK)  # the ids of `special_tokens.py`, then the mask
_NOT_A_RESIDUE = re.compile(r"[^A-Za-z*]")
_LAYOUT = re.compile(r"[\s.-]")  # blanks and the gaps of alignments


def residues_of(text: str) -> str:
    """The residues of a protein in capital letters, without blanks, gaps (- and .) and a stop (*) at the end.

    A stop elsewhere becomes X, an unknown residue.

    Args:
        text: str.

    Raises:
        UserError: if there is something else than letters; names the place.
    """
    residues = _LAYOUT.sub("", text)
    if wrong := _NOT_A_RESIDUE.search(residues):
        raise UserError(
            f"Expected a protein in letters of amino acids, such as MKVLAA. Found {quoted(wrong[0])} after "
            f"{wrong.start():,} residues of {quoted(text, 40)}"
        )
    return residues.upper().removesuffix("*").replace("*", UNKNOWN_RESIDUE)


class AminoAcidTokenizer:
    """Proteins <-> ids, as "MKVLAA": one id for each of the 20 amino acids.

    Lower-case letters are read as capital ones, see `residues_of`. All other letters are UNKNOWN and shown as X:
    ambiguous residues (B, J, X, Z), and selenocysteine and pyrrolysine (U, O), which are too rare to learn.

    Attributes:
        pad_id, unknown_id, start_id, end_id, mask_id: int.
        special_ids: tuple of these five ids.
        amino_acid_ids: int32 array (20,), the ids of `AMINO_ACIDS`.
        is_continuation: bool array (vocabulary size,), False: no piece continues a word.

    Source: one token a residue as in Rives et al. (2021), https://doi.org/10.1073/pnas.2016239118. Difference: they
    have tokens for B, U, X and Z.
    """

    kind = "amino-acids"
    pad_id, unknown_id, start_id, end_id, mask_id = PAD_ID, UNKNOWN_ID, START_ID, END_ID, len(SPECIALS) - 1
    special_ids = (pad_id, unknown_id, start_id, end_id, mask_id)
    files = ("tokenizer.json",)
    settings = ("kind",)  # of tokenizer.json

    def __init__(self):
        self.vocabulary = [*SPECIALS, *AMINO_ACIDS]
        self.amino_acid_ids = np.arange(len(SPECIALS), len(self.vocabulary), dtype=np.int32)
        self.is_continuation = np.zeros(len(self.vocabulary), bool)
        self._ids = np.full(128, UNKNOWN_ID, np.int32)  # by ASCII code
        self._ids[[ord(letter) for letter in AMINO_ACIDS]] = self.amino_acid_ids

    @property
    def vocabulary_size(self) -> int:
        """int, the number of ids, special ones included."""
        return len(self.vocabulary)

    def encode(self, texts: Sequence[str], masks: bool = False) -> list[np.ndarray]:
        """Encodes proteins, without START and END.

        Args:
            texts: list of str.
            masks: bool. Whether "[MASK]" in a text becomes `mask_id`.

        Returns:
            List of int32 arrays, one for each text.

        Raises:
            UserError: if a text has something else than letters, see `residues_of`.
        """
        if not masks:
            return [self._encoded(text) for text in texts]
        mask = np.array([self.mask_id], np.int32)
        encoded = [[array for part in text.split(MASK) for array in (mask, self._encoded(part))] for text in texts]
        return [np.concatenate(arrays[1:]) for arrays in encoded]

    def _encoded(self, text):
        return self._ids[np.frombuffer(residues_of(text).encode("ascii"), np.uint8)]

    def decode(self, sequences: Iterable) -> list[str]:
        """Returns a list of str. PAD, START and END are dropped; UNKNOWN is shown as X, and the mask as "[MASK]"."""
        return ["".join(self._shown(i) for i in checked_ids(ids, self.vocabulary_size)) for ids in sequences]

    def _shown(self, token_id):
        if token_id in (PAD_ID, START_ID, END_ID):
            return ""
        return UNKNOWN_RESIDUE if token_id == UNKNOWN_ID else self.vocabulary[token_id]

    def tokens(self, ids: Iterable) -> list[str]:
        """Returns one readable str for each id."""
        return [self.vocabulary[i] for i in checked_ids(ids, self.vocabulary_size)]

    def tokenize_in_graph(self, texts: Any) -> Any:
        """Encodes a string tensor (B,) inside a TensorFlow graph: tf.RaggedTensor int32 (B, None), as `encode`.

        A graph raises no error, so what is not a letter is UNKNOWN.
        """
        import tensorflow as tf

        texts = tf.strings.regex_replace(texts, r"[\s.-]", "")
        letters = tf.strings.unicode_decode(tf.strings.regex_replace(texts, r"\*$", ""), "UTF-8")
        ids = tf.constant(self._ids)

        def lookup(points):
            lower = (points >= ord("a")) & (points <= ord("z"))
            points = tf.where(lower, points - (ord("a") - ord("A")), points)
            return tf.where(points < 128, tf.gather(ids, tf.minimum(points, 127)), UNKNOWN_ID)

        return tf.ragged.map_flat_values(lookup, letters)

    def save(self, folder: str | Path) -> None:
        """Writes tokenizer.json into `folder`, which is created if missing."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(json.dumps({"kind": self.kind}) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Loads a tokenizer from a folder that `save` wrote.

        Raises:
            UserError: if tokenizer.json is missing, damaged or of another kind.
        """
        path = Path(folder) / "tokenizer.json"
        try:
            kind = parse_json(path.read_bytes())["kind"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: is not a saved AminoAcidTokenizer ({error}).") from error
        if kind != cls.kind:
            raise UserError(f"{path}: is not a saved AminoAcidTokenizer. Found: {quoted(kind)}")
        return cls()
