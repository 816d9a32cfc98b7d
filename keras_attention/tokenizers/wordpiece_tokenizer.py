"""BERT's tokenizer: words are split into the longest pieces of a vocabulary, which can be learned from texts."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from keras_attention.support.errors import UserError, parse_json, quoted
from keras_attention.tokenizers.bert_characters import english_spacing, part_words, part_words_in_graph
from keras_attention.tokenizers.special_tokens import PAD_ID, checked_ids, control_character

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # the ids of `special_tokens.py`, then the mask
CONTINUATION = "##"
MAX_WORD_CHARACTERS = 100  # longer words are UNKNOWN, as in the reference
MAX_WORD_BYTES = 4 * MAX_WORD_CHARACTERS
SHORT_CHARACTERS = 1 << 12  # for shorter input, the overhead of a TensorFlow call would dominate
MAX_KNOWN_WORDS = 1 << 14


class PieceCutter:
    """Splits blank-separated words into pieces, and caches the words of short texts.

    Args:
        vocabulary: list of str, the pieces in the order of their ids; "##" marks pieces that continue a word.

    Source: Song et al. (2021), the algorithm of tensorflow-text.
    """

    def __init__(self, vocabulary):
        self._vocabulary = vocabulary
        self._library = None
        self._compiled = None
        self._known = {}  # from word to list of ids

    def cut(self, texts):
        """Texts -> list of int32 arrays, the ids of each."""
        if sum(map(len, texts)) > SHORT_CHARACTERS:
            return self._cut_all(texts)
        words = [text.split() for text in texts]
        ids_of_words: dict = {word: self._known.get(word) for of_text in words for word in of_text}
        if new := [word for word, ids in ids_of_words.items() if ids is None]:
            new_ids = {word: ids.tolist() for word, ids in zip(new, self._cut_all(new), strict=True)}
            ids_of_words |= new_ids
            self._remember(new_ids)
        return [np.array([i for word in of_text for i in ids_of_words[word]], np.int32) for of_text in words]

    def cut_in_graph(self, texts):
        """A string tensor (B,) -> tf.RaggedTensor int32 (B, None), inside a TensorFlow graph."""
        import tensorflow as tf

        words = tf.strings.split(texts)  # (B, words)
        too_long = tf.strings.length(words.values, "UTF8_CHAR") > MAX_WORD_CHARACTERS
        unknown = "?" * (MAX_WORD_BYTES + 1)  # longer than the library accepts
        words = words.with_values(tf.where(too_long, unknown, words.values))
        return self._library_tokenizer().tokenize(words).merge_dims(1, 2)

    def _cut_all(self, texts):
        import tensorflow as tf

        if self._compiled is None:  # in eager mode, even a short text takes milliseconds
            signature = [tf.TensorSpec([None], tf.string)]
            self._compiled = tf.function(self.cut_in_graph, input_signature=signature, autograph=False)
        pieces = self._compiled(tf.constant(texts, tf.string))
        return np.split(pieces.values.numpy(), pieces.row_splits.numpy()[1:-1])

    def _remember(self, ids_of_words):
        """Caches the ids of words; safe with several threads."""
        if len(self._known) + len(ids_of_words) > MAX_KNOWN_WORDS:
            self._known = {}
        self._known.update((word, ids) for word, ids in ids_of_words.items() if len(word) <= MAX_WORD_CHARACTERS)

    def _library_tokenizer(self):
        import tensorflow as tf
        import tensorflow_text

        if self._library is None:
            with tf.init_scope():
                self._library = tensorflow_text.FastWordpieceTokenizer(
                    self._vocabulary,
                    suffix_indicator=CONTINUATION,
                    unknown_token=UNKNOWN,
                    max_bytes_per_word=MAX_WORD_BYTES,
                    no_pretokenization=True,
                    token_out_type=tf.int32,
                )
        return self._library


PAD, UNKNOWN, START, END, MASK = SPECIALS
UNKNOWN_TEXT = "⁇"
MAX_PIECES = 1_000_000
MAX_PIECE_CHARACTERS = len(CONTINUATION) + MAX_WORD_CHARACTERS
BATCH_CHARACTERS = 1 << 22  # encoded at once; bounds the memory


class WordPieceTokenizer:
    """Text <-> ids with the longest matching pieces of a vocabulary; "##" marks pieces that continue a word.

    The ids are those of `BertWordPieceTokenizer` of the library `tokenizers` for the same vocabulary, for every text
    whose combining marks are in canonical order, as in NFC and NFD. "[SEP]" in a text is ordinary text; "[MASK]" is the
    mask if `encode` is called with `masks=True`.

    Args:
        vocabulary: list of str, the pieces in the order of their ids. [PAD] is the first; [UNK], [CLS], [SEP] and
            [MASK] may be anywhere, as in the vocabularies of published models.
        lowercase: bool. Whether to convert text to lower-case letters without accents ("uncased").

    Attributes:
        vocabulary: list of str.
        pad_id, unknown_id, start_id, end_id, mask_id: int. START is [CLS] and END is [SEP].
        special_ids: tuple of these five ids.
        is_continuation: bool array (vocabulary size,), whether a piece continues a word.

    Raises:
        UserError: if a special piece is missing, [PAD] is not the first piece, or a piece occurs twice, is empty, is
            too long or has a control character.

    Source: Wu et al. (2016), section 4.1; Devlin et al. (2019); Song et al. (2021) for the algorithm, as implemented in
    tensorflow-text.
    """

    kind = "wordpiece"
    files = ("tokenizer.json", "vocab.txt")
    settings = ("kind", "lowercase")  # of tokenizer.json

    def __init__(self, vocabulary: Sequence[str], lowercase: bool = True):
        self.vocabulary = list(vocabulary)
        self.lowercase = lowercase
        _check(self.vocabulary)
        ids = [self.vocabulary.index(piece) for piece in SPECIALS]
        self.special_ids = tuple(ids)
        self.pad_id, self.unknown_id, self.start_id, self.end_id, self.mask_id = ids
        self.is_continuation = np.array([piece.startswith(CONTINUATION) for piece in self.vocabulary])
        self._cutter = PieceCutter(self.vocabulary)

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary_size: int, lowercase: bool = True) -> Self:
        """Learns the pieces of a vocabulary; the same texts give the same pieces.

        Args:
            texts: iterable of str.
            vocabulary_size: int, the largest number of ids, special ones included. Small texts give fewer.
            lowercase: bool, see the class.

        Raises:
            ValueError: if `vocabulary_size` is too small for the special pieces and one character.
            UserError: if there is no text.
        """
        return cls(learn_pieces(texts, vocabulary_size, lowercase), lowercase)

    @property
    def vocabulary_size(self) -> int:
        """int, the number of ids, special ones included."""
        return len(self.vocabulary)

    def encode(self, texts: Sequence[str], masks: bool = False) -> list[np.ndarray]:
        """Encodes texts, without START and END.

        Args:
            texts: list of str.
            masks: bool. Whether "[MASK]" in a text becomes `mask_id`. Other special pieces are ordinary text.

        Returns:
            List of int32 arrays, one for each text.

        Raises:
            UserError: if a text cannot be written as UTF-8.
        """
        texts = list(texts)
        parts = [text.split(MASK) if masks else [text] for text in texts]
        encoded = iter(self._encode_parts([part for of_text in parts for part in of_text]))
        if not masks:
            return list(encoded)
        mask = np.array([self.mask_id], np.int32)
        with_masks = [[array for _ in of_text for array in (mask, next(encoded))][1:] for of_text in parts]
        return [np.concatenate(arrays) for arrays in with_masks]

    def _encode_parts(self, texts):
        sizes = np.cumsum([len(text) for text in texts]) // BATCH_CHARACTERS
        encoded = []
        for batch in np.split(np.arange(len(texts)), np.flatnonzero(np.diff(sizes)) + 1):
            encoded += self._cutter.cut(part_words([texts[i] for i in batch], self.lowercase))
        return encoded

    def decode(self, sequences: Iterable) -> list[str]:
        """Returns a list of readable English str; this is not the inverse of `encode`.

        Pieces are joined, and blanks around punctuation are guessed. Case and accents are not restored. PAD,
        START and END are dropped; UNKNOWN is shown as "⁇", and the mask as "[MASK]".
        """
        dropped = (self.pad_id, self.start_id, self.end_id)
        texts = []
        for ids in sequences:
            pieces = self.tokens([i for i in _integers(ids) if i not in dropped])
            texts_of_pieces = [UNKNOWN_TEXT if piece == UNKNOWN else piece for piece in pieces]
            joined = "".join(
                piece.removeprefix(CONTINUATION) if piece.startswith(CONTINUATION) else f" {piece}"
                for piece in texts_of_pieces
            )
            texts.append(english_spacing(joined.strip()))
        return texts

    def tokens(self, ids: Iterable) -> list[str]:
        """Returns one readable str for each id; "##" marks pieces that continue a word."""
        return [self.vocabulary[i] for i in checked_ids(ids, self.vocabulary_size)]

    def tokenize_in_graph(self, texts: Any) -> Any:
        """Encodes a string tensor (B,) inside a TensorFlow graph: tf.RaggedTensor int32 (B, None), as `encode`."""
        return self._cutter.cut_in_graph(part_words_in_graph(texts, self.lowercase))

    def save(self, folder: str | Path) -> None:
        """Writes tokenizer.json and vocab.txt into `folder`, which is created if missing."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{piece}\n" for piece in self.vocabulary)
        (folder / "vocab.txt").write_text(text, encoding="utf-8", newline="\n")
        settings = json.dumps({"kind": self.kind, "lowercase": self.lowercase})
        (folder / "tokenizer.json").write_text(settings + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Loads a tokenizer from a folder that `save` wrote.

        Raises:
            UserError: if a file is missing or damaged.
        """
        settings_path, vocabulary_path = Path(folder) / "tokenizer.json", Path(folder) / "vocab.txt"
        try:
            lowercase = parse_json(settings_path.read_bytes())["lowercase"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{settings_path}: is not a saved WordPieceTokenizer ({error}).") from error
        if not isinstance(lowercase, bool):
            raise UserError(f"{settings_path}: `lowercase` must be true or false. Found: {quoted(lowercase)}")
        return cls(read_vocabulary(vocabulary_path), lowercase)


def read_vocabulary(path):
    """Reads vocab.txt, one piece on each line, as in published models.

    Args:
        path: str or Path.

    Returns:
        List of str.

    Raises:
        UserError: if the file cannot be read, is not UTF-8, or is not a vocabulary for a WordPieceTokenizer.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}). Expected: one piece on each line.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 ({error}).") from error
    vocabulary = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    try:
        _check(vocabulary)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return vocabulary


def _check(vocabulary):
    if len(vocabulary) > MAX_PIECES:
        raise UserError(f"A vocabulary has at most {MAX_PIECES:,} pieces. Found: {len(vocabulary):,}")
    seen = set()
    for number, piece in enumerate(vocabulary, start=1):
        if not isinstance(piece, str) or not piece or control_character(piece):
            raise UserError(f"Piece {number} must be a text without control characters. Found: {quoted(piece, 60)}")
        if len(piece) > MAX_PIECE_CHARACTERS:
            raise UserError(f"Piece {number} has {len(piece):,} characters. Allowed: {MAX_PIECE_CHARACTERS}")
        if piece in seen:
            raise UserError(f"Piece {number} occurs twice. Found: {quoted(piece, 60)}")
        seen.add(piece)
    missing = [piece for piece in SPECIALS if piece not in seen]
    if missing or vocabulary[PAD_ID] != PAD:
        raise UserError(
            f"A vocabulary begins with {PAD} and has {', '.join(SPECIALS[1:])}. "
            f"Found: {vocabulary[:1]} at the beginning, {', '.join(missing) or 'nothing'} missing"
        )


def _integers(ids):
    """Returns a list of int, from any sequence, array or tensor of ids."""
    return np.asarray(ids, dtype=np.int64).tolist()


MAX_CHARACTERS = 1_000  # distinct characters; each takes two ids, at the start of a word and inside
MAX_WORDS = 100_000  # distinct words, the most frequent ones; rarer words change few pieces
MAX_LEARNT_CHARACTERS = 50  # of a piece
SLACK = 0.05  # share of additional pieces that the library may learn; the rarest are dropped
CHUNK_TEXTS = 10_000
ENOUGH_CHARACTERS = 20_000_000  # with more text, only every second, third, ... text is used


def learn_pieces(texts, vocabulary_size, lowercase):
    """Learns a WordPiece vocabulary.

    If there are more than 20 million characters, an even sample of the texts is used. Only the most frequent characters
    are kept: at most 1,000, and at most as many as fill half of the vocabulary.

    Args:
        texts: iterable of str.
        vocabulary_size: int, the largest number of pieces, special ones included.
        lowercase: bool, see `WordPieceTokenizer`.

    Returns:
        List of str: the special pieces, the characters, then the other pieces from frequent to rare.

    Raises:
        ValueError: if `vocabulary_size` is too small for the special pieces and one character.
        UserError: if there is no text.

    Source: the learner of tensorflow-text, which works top-down: whole words first, then their parts.
    """
    room = vocabulary_size - len(SPECIALS)
    if room < 2:
        raise ValueError(f"`vocabulary_size` must be at least 7. Received: vocabulary_size={vocabulary_size}")
    texts = list(texts)
    step = -(-sum(map(len, texts)) // ENOUGH_CHARACTERS) or 1
    counts = count_words(texts[::step], lowercase)
    if not counts:
        raise UserError("There is no text to learn a vocabulary from: every line is empty.")
    characters = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    by_count = sorted(characters, key=lambda character: (-characters[character], character))
    frequent = sorted(by_count[: min(MAX_CHARACTERS, max(1, room // 4))])
    letters = set(frequent)
    words = sorted(
        (item for item in counts.items() if letters.issuperset(item[0])), key=lambda item: (-item[1], item[0])
    )
    alphabet = [*frequent, *(CONTINUATION + character for character in frequent)]
    pieces = _learn(words[:MAX_WORDS], vocabulary_size) if words else []
    return list(dict.fromkeys([*SPECIALS, *alphabet, *pieces]))[:vocabulary_size]


def count_words(texts, lowercase):
    """Returns a Counter of the words of `texts` (iterable of str), split as in WordPieceTokenizer."""
    counts, chunk = Counter(), []

    def count_chunk():
        counts.update(" ".join(part_words(chunk, lowercase)).split(" "))
        chunk.clear()

    for text in texts:
        chunk.append(text)
        if len(chunk) == CHUNK_TEXTS:
            count_chunk()
    count_chunk()
    del counts[""]
    return counts


def _learn(words, vocabulary_size):
    """Learns about `vocabulary_size` pieces with the library, from (word, count) pairs, most frequent first."""
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as library

    def count_at(rank):
        return words[min(rank, len(words) - 1)][1]

    return library.learn(
        words,
        vocab_size=int(vocabulary_size * (1 + SLACK)),
        reserved_tokens=list(SPECIALS),
        # The frequency threshold is near the count of the rarest piece that is kept.
        upper_thresh=count_at(vocabulary_size // 8),
        lower_thresh=count_at(vocabulary_size * 4),
        max_token_length=MAX_LEARNT_CHARACTERS,
        max_unique_chars=MAX_CHARACTERS,
        slack_ratio=SLACK / (1 + SLACK),
    )
