"""A tokenizer with one token per character, for short texts such as dates."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from keras_attention.support.errors import UserError, parse_json, quoted
from keras_attention.support.normalization import normalized
from keras_attention.tokenizers.special_tokens import (
    END_ID,
    PAD_ID,
    SPECIAL_PIECES,
    START_ID,
    UNKNOWN_ID,
    control_character,
)

UNKNOWN_TEXT = "⁇"


class CharacterTokenizer:
    """Text <-> ids, one id for each character of the composed form (Unicode NFC).

    Args:
        characters: str, the characters that have an id, each once, in the order of their ids (which begin at 4).
        lowercase: bool. A capital letter gets the id of its lower-case form, so decoded text is lower case.

    Raises:
        UserError: if `characters` is empty, or contains a character twice or a control character.
    """

    kind = "characters"
    pad_id, unknown_id, start_id, end_id = PAD_ID, UNKNOWN_ID, START_ID, END_ID
    files = ("tokenizer.json",)
    settings = ("kind", "lowercase", "characters")  # of tokenizer.json

    def __init__(self, characters: str, lowercase: bool = False):
        if not characters or len(set(characters)) != len(characters):
            raise UserError(f"`characters` must be different characters, at least one. Received: {quoted(characters)}")
        if control := control_character(characters):
            raise UserError(f"`characters` may hold no control character. Found: U+{ord(control):04X}")
        self.characters = characters
        self.lowercase = lowercase
        first_id = len(SPECIAL_PIECES)
        self._ids = {character: first_id + number for number, character in enumerate(characters)}
        if lowercase:
            self._ids |= {upper: self._ids[low] for upper, low in _upper_to_lower() if low in self._ids}

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary_size: int | None = None, lowercase: bool = False) -> Self:
        """Gives an id to each character of `texts`, except control characters.

        Args:
            texts: iterable of str.
            vocabulary_size: int > 4 or None, the largest number of ids, special ones included. The rarest characters
                get no id. None keeps all characters.
            lowercase: bool, see the class.

        Raises:
            UserError: if there is no text, or `vocabulary_size` is too small.
        """
        counts = Counter()
        for text in texts:
            counts.update(normalized("NFC", text))
        counts = Counter({character: count for character, count in counts.items() if not control_character(character)})
        if lowercase:
            lower = dict(_upper_to_lower())
            folded = Counter()
            for character, count in counts.items():
                folded[lower.get(character, character)] += count
            counts = folded
        limit = len(counts) if vocabulary_size is None else max(vocabulary_size - len(SPECIAL_PIECES), 0)
        alphabet = sorted(counts, key=lambda character: (-counts[character], character))[:limit]
        if not alphabet:
            raise UserError(
                "There is no character to learn a vocabulary from. "
                f"Found: {len(counts)} different characters, vocabulary_size={vocabulary_size}"
            )
        return cls("".join(sorted(alphabet)), lowercase)

    @property
    def vocabulary_size(self) -> int:
        """int, the number of ids, special ones included."""
        return len(SPECIAL_PIECES) + len(self.characters)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns a list of int32 arrays, one for each str of `texts`, without START and END."""
        composed = (normalized("NFC", text) for text in texts)
        get = self._ids.get
        return [np.array([get(character, UNKNOWN_ID) for character in text], dtype=np.int32) for text in composed]

    def decode(self, sequences: Iterable) -> list[str]:
        """Returns a list of str. PAD, START and END are dropped; UNKNOWN is shown as "⁇"."""
        return ["".join(self._shown(token_id) for token_id in _integers(ids)) for ids in sequences]

    def tokens(self, ids: Iterable) -> list[str]:
        """Returns one readable str for each id."""
        first_id = len(SPECIAL_PIECES)
        return [SPECIAL_PIECES[i] if 0 <= i < first_id else self._character(i) for i in _integers(ids)]

    def tokenize_in_graph(self, texts: Any) -> Any:
        """Encodes a string tensor (B,) inside a TensorFlow graph: tf.RaggedTensor int32 (B, None), as `encode`."""
        import tensorflow as tf
        import tensorflow_text

        characters = sorted(self._ids)
        known_points = tf.constant([ord(character) for character in characters], tf.int32)
        known_ids = tf.constant([self._ids[character] for character in characters], tf.int32)
        points = tf.strings.unicode_decode(tensorflow_text.normalize_utf8(texts, "NFC"), "UTF-8")

        def lookup(points):
            place = tf.minimum(tf.searchsorted(known_points, points), len(characters) - 1)
            return tf.where(tf.gather(known_points, place) == points, tf.gather(known_ids, place), UNKNOWN_ID)

        return tf.ragged.map_flat_values(lookup, points)

    def save(self, folder: str | Path) -> None:
        """Writes tokenizer.json into `folder`, which is created if missing."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"kind": self.kind, "lowercase": self.lowercase, "characters": self.characters}
        text = json.dumps(settings, ensure_ascii=False, indent=2) + "\n"
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Loads a tokenizer from a folder that `save` wrote.

        Raises:
            UserError: if tokenizer.json is missing, damaged or of another kind.
        """
        path = Path(folder) / "tokenizer.json"
        try:
            settings = parse_json(path.read_bytes())
            characters, lowercase = settings["characters"], settings["lowercase"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: is not a saved CharacterTokenizer ({error}).") from error
        if not isinstance(characters, str) or not isinstance(lowercase, bool):
            raise UserError(f"{path}: expected `characters` to be a text and `lowercase` to be true or false.")
        return cls(characters, lowercase)

    def _shown(self, token_id):
        if token_id in (PAD_ID, START_ID, END_ID):
            return ""
        return UNKNOWN_TEXT if token_id == UNKNOWN_ID else self._character(token_id)

    def _character(self, token_id):
        """The character of an id that is not special."""
        place = token_id - len(SPECIAL_PIECES)
        if not 0 <= place < len(self.characters):
            raise ValueError(f"A token id must be in [0, {self.vocabulary_size}). Received: {token_id}")
        return self.characters[place]


def _integers(ids):
    """Returns a list of int, from any sequence, array or tensor of ids."""
    return np.asarray(ids, dtype=np.int64).tolist()


def _upper_to_lower():
    """Yields (character, first character of its lower-case form) where they differ; all are in planes 0 and 1."""
    for point in range(0x20000):
        character = chr(point)
        lower = character.lower()[0]
        if lower != character:
            yield character, lower
