"""GPT-2's tokenizer: byte-pair encoding of the bytes of UTF-8, so that no text has unknown characters."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from keras_attention.support.errors import UserError, parse_json, quoted
from keras_attention.tokenizers.special_tokens import checked_ids, checked_text

ROLES = ("end", "start", "pad", "unknown", "mask")
MAX_PIECES, MAX_PIECE_CHARACTERS = 1_000_000, 1_024
VERSION = "#version"  # how the first line of merges.txt may begin


def _byte_characters():
    """Dict from each byte to the character that stands for it in pieces: itself, or one from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + number) for number, byte in enumerate(others)}


BYTE_OF = {character: byte for byte, character in _byte_characters().items()}


class ByteLevelTokenizer:
    """Text <-> ids through byte-pair encoding of bytes; decoding restores the text exactly.

    The text is split into words, numbers and signs, each with the blank before it. Within each of these parts, bytes
    are merged pair by pair, in the order in which the merges were learned. "<|endoftext|>" in a text is ordinary text.

    Args:
        vocabulary: list of str, the pieces in the order of their ids: all 256 bytes, each as the character that stands
            for it; the results of the merges; and special pieces, which encoding never returns.
        merges: list of pairs of str, the pieces to join, in the order in which the merges were learned.
        special_pieces: dict from roles to pieces. The role "end" is required; "start", "pad", "unknown" and "mask" are
            optional.

    Attributes:
        vocabulary, merges, special_pieces: as given.
        end_id, start_id, pad_id, unknown_id, mask_id: int, or None.
        special_ids: tuple of int.

    Raises:
        UserError: if a byte is missing; a piece or merge occurs twice; a piece is too long or has a control character;
            a merge joins or makes a string that is not a piece; or a merge makes a special piece.

    Source: Radford et al. (2019), section 2.2; Sennrich, Haddow & Birch (2016). The splitting and merging are those of
    the library `tokenizers`.
    """

    kind = "byte-level"
    files = ("tokenizer.json", "vocab.json", "merges.txt")
    settings = ("kind", "special_pieces")  # of tokenizer.json

    def __init__(self, vocabulary: Sequence[str], merges: Sequence[tuple[str, str]], special_pieces: Mapping[str, str]):
        self.vocabulary, self.special_pieces = list(vocabulary), dict(special_pieces)
        _check_pieces(self.vocabulary)
        ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        _check_special(self.special_pieces, ids)
        self.merges = [(left, right) for left, right in merges]
        _check_merges(self.merges, ids, set(self.special_pieces.values()))
        for role in ROLES:
            setattr(self, f"{role}_id", ids[self.special_pieces[role]] if role in self.special_pieces else None)
        self.special_ids = tuple(ids[piece] for piece in self.special_pieces.values())
        self._bytes = [_bytes_of(piece) for piece in self.vocabulary]
        self._library = _library_tokenizer(ids, self.merges)

    @property
    def vocabulary_size(self) -> int:
        """int, the number of ids, special ones included."""
        return len(self.vocabulary)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encodes texts; never returns a special id.

        Args:
            texts: list of str.

        Returns:
            List of int32 arrays, one for each text.

        Raises:
            UserError: if a text cannot be written as UTF-8.
        """
        return [np.array(self._library.encode(checked_text(text)).ids, np.int32) for text in texts]

    def decode(self, sequences: Iterable) -> list[str]:
        """Returns a list of str. Special ids are dropped; invalid UTF-8 is shown as "\ufffd"."""
        dropped = set(self.special_ids)
        parts = ([i for i in checked_ids(ids, self.vocabulary_size) if i not in dropped] for ids in sequences)
        return [b"".join([self._bytes[i] for i in ids]).decode("utf-8", "replace") for ids in parts]

    def tokens(self, ids: Iterable) -> list[str]:
        """Returns one readable str for each id; the blank before a word belongs to its first piece."""
        return [self._bytes[i].decode("utf-8", "replace") for i in checked_ids(ids, self.vocabulary_size)]

    def tokenize_in_graph(self, texts: Any) -> Any:
        """Not available.

        Raises:
            UserError: always, because TensorFlow has no operation for it.
        """
        raise UserError("A byte-level tokenizer cannot be part of a TensorFlow graph. Supported: SentencePiece.")

    def save(self, folder: str | Path) -> None:
        """Writes tokenizer.json, vocab.json and merges.txt into `folder`, which is created if missing."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"kind": self.kind, "special_pieces": self.special_pieces}
        ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        lines = [f"{VERSION}: 0.2", *(f"{left} {right}" for left, right in self.merges)]
        for name, text in (
            ("tokenizer.json", json.dumps(settings, ensure_ascii=False)),
            ("vocab.json", json.dumps(ids, ensure_ascii=False)),
            ("merges.txt", "\n".join(lines)),
        ):
            (folder / name).write_text(f"{text}\n", encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Loads a tokenizer from a folder that `save` wrote.

        Raises:
            UserError: if a file is missing or damaged.
        """
        path = Path(folder) / "tokenizer.json"
        try:
            special = parse_json(path.read_bytes())["special_pieces"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: is not a saved ByteLevelTokenizer ({error}).") from error
        if not isinstance(special, dict):
            raise UserError(f"{path}: `special_pieces` must map roles to pieces. Found: {quoted(special)}")
        vocabulary, merges = read_pieces(Path(folder) / "vocab.json"), read_merges(Path(folder) / "merges.txt")
        try:
            return cls(vocabulary, merges, special)
        except UserError as error:
            raise UserError(f"{folder}: {error}") from error


def read_pieces(path):
    """Reads vocab.json, an object from pieces to ids, as in published models.

    Args:
        path: str or Path.

    Returns:
        List of str, the pieces in the order of their ids.

    Raises:
        UserError: if the file cannot be read or does not contain such an object.
    """
    try:
        ids = parse_json(Path(path).read_bytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}). Expected: a JSON object of ids.") from error
    except ValueError as error:
        raise UserError(f"{path}: is not valid JSON ({error}).") from error
    return pieces_in_order(ids, path)


def pieces_in_order(ids, path):
    """The pieces of a dict from pieces to ids, in the order of the ids; raises UserError for gaps or repetitions."""
    sound = isinstance(ids, dict) and all(type(number) is int for number in ids.values())
    if not sound or sorted(ids.values()) != list(range(len(ids))):
        raise UserError(f"{path}: expected pieces with the ids from 0 on, each once.")
    return sorted(ids, key=ids.__getitem__)


def read_merges(path):
    """Reads merges.txt, two pieces on each line, as in published models.

    Args:
        path: str or Path.

    Returns:
        List of pairs of str.

    Raises:
        UserError: if the file cannot be read, is not UTF-8, or has other lines.
    """
    try:
        lines = Path(path).read_bytes().decode("utf-8").split("\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}). Expected: two pieces on each line.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 ({error}).") from error
    lines = [line.removesuffix("\r") for line in lines]
    first = 1 if lines[0].startswith(VERSION) else 0
    return [
        merge_of(line, f"{path}, line {number + 1}") for number, line in enumerate(lines) if line and number >= first
    ]


def merge_of(merge, where):
    """The pair of pieces of "a b" or ["a", "b"]; raises UserError for anything else."""
    pair = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(piece, str) and piece for piece in pair):
        raise UserError(f"{where}: expected two pieces. Found: {quoted(merge)}")
    return pair[0], pair[1]


def _check_pieces(vocabulary):
    if len(vocabulary) > MAX_PIECES:
        raise UserError(f"A vocabulary has at most {MAX_PIECES:,} pieces. Found: {len(vocabulary):,}")
    for number, piece in enumerate(vocabulary):
        if not isinstance(piece, str) or not piece or not (BYTE_OF.keys() >= set(piece) or piece.isprintable()):
            raise UserError(f"Piece {number} must be a text without control characters. Found: {quoted(piece)}")
        if len(piece) > MAX_PIECE_CHARACTERS:
            raise UserError(f"Piece {number} has {len(piece):,} characters. Allowed: {MAX_PIECE_CHARACTERS:,}")
    different = set(vocabulary)
    if len(different) < len(vocabulary):
        seen = set()
        twice = next(piece for piece in vocabulary if piece in seen or seen.add(piece))
        raise UserError(f"The piece {quoted(twice)} is there twice.")
    missing = [byte for character, byte in BYTE_OF.items() if character not in different]
    if missing:
        raise UserError(f"A byte-level vocabulary has a piece for each byte. Found: none for byte {missing[0]}")


def _check_special(special, ids):
    if "end" not in special or not set(special) <= set(ROLES):
        raise UserError(
            f"Special pieces have the roles {', '.join(ROLES)}, end at least. Found: {quoted(list(special))}"
        )
    for role, piece in special.items():
        if not isinstance(piece, str) or piece not in ids or len(piece) < 2:
            raise UserError(f"The special piece {role} must be a piece of several characters. Found: {quoted(piece)}")


def _check_merges(merges, ids, special):
    if len(set(merges)) < len(merges):
        raise UserError("A merge is there twice.")
    for left, right in merges:
        if left not in ids or right not in ids or left + right not in ids:
            raise UserError(f"A merge joins two pieces to a third one. Found: {quoted((left, right))}")
        if left + right in special:
            raise UserError(f"A text could contain the special piece {quoted(left + right)}, which a merge makes.")


def _bytes_of(piece):
    """The bytes that a piece stands for; a special piece with other characters stands for its UTF-8 bytes."""
    if BYTE_OF.keys() >= set(piece):
        return bytes(BYTE_OF[character] for character in piece)
    return piece.encode("utf-8")


def _library_tokenizer(ids, merges):
    """The library's tokenizer, which splits and merges; made from checked pieces, not from a file."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    tokenizer = Tokenizer(BPE(vocab=ids, merges=merges))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    return tokenizer
