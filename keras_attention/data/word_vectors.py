"""Word vectors of GloVe and word2vec: reads their files, finds neighbours, and solves analogies."""

import array
import re
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.data.files import opened, read_lines
from keras_attention.support.errors import UserError, quoted

MAX_WORDS, MAX_WIDTH, MAX_NUMBERS = 10_000_000, 10_000, 1_000_000_000
LONGEST_LINE = 1 << 20  # bytes
LONGEST_WORD = 10_000  # bytes, in binary files
VOCABULARIES = (".txt", ".vocab", ".words")  # endings of the list of words beside vectors.npy


class Neighbour(NamedTuple):
    """A word, and the cosine of its vector with that of the query."""

    word: str
    score: float


class WordVectors:
    """Words with a vector each.

    Args:
        words: list of V different str.
        vectors: float32 array (V, D).

    Source: Mikolov et al. (2013), https://arxiv.org/abs/1310.4546 (word2vec); Pennington, Socher & Manning (2014),
    https://aclanthology.org/D14-1162 (GloVe).

    Example:
        vectors = np.array([[-1.0, 0.2], [0.6, 0.8], [1.0, 0.5]], "float32")
        WordVectors(["cold", "warm", "hot"], vectors).similar("hot", top=1)  # [Neighbour(word="warm", score=...)]
    """

    def __init__(self, words: list[str], vectors: np.ndarray):
        self.words, self.vectors = words, vectors
        self._places = {word: place for place, word in enumerate(words)}

    @cached_property
    def _directions(self):
        return _unit(self.vectors)  # (V, D)

    def __len__(self) -> int:
        return len(self.words)

    def place(self, word: str) -> int | None:
        """The row of a word in `vectors`; that of its lower-case form if only this exists; None if neither does."""
        return self._places.get(word, self._places.get(word.lower()))

    def similar(self, query: str, top: int = 5) -> list[Neighbour]:
        """The words that are most like a word, or like the result of an analogy.

            king - man + woman: the word b with the largest cos(b, king - man + woman), all scaled to length 1

        Args:
            query: str, a word, or words between " + " and " - " with blanks around them.
            top: int > 0.

        Returns:
            List of at most `top` Neighbours, the most similar first, without the words of the query.

        Raises:
            UserError: if the query is empty, or has a word without a vector.

        Source: Mikolov, Yih & Zweig (2013), section 4, https://aclanthology.org/N13-1090.
        """
        terms = [(sign, self._known(word, query)) for sign, word in _terms(query)]
        target = _unit(np.sum([sign * self._directions[place] for sign, place in terms], axis=0))  # (D,)
        scores = self._directions @ target  # (V,)
        scores[[place for _, place in terms]] = -np.inf
        top = min(top, len(scores) - len({place for _, place in terms}))
        if top < 1:
            return []
        best = np.argpartition(-scores, top - 1)[:top]
        best = best[np.lexsort((best, -scores[best]))]
        return [Neighbour(self.words[place], float(scores[place])) for place in best]

    def _known(self, word, query):
        place = self.place(word)
        if place is None:
            where = "" if word == query.strip() else f" of the query {quoted(query)}"
            raise UserError(f"The word {quoted(word)}{where} is not among the {len(self):,} words that have vectors.")
        return place


def _terms(query):
    """Pairs of a sign and a word: "king - man + woman" has (1, "king"), (-1, "man"), (1, "woman")."""
    parts = re.split(r"(?:^|\s+)([+-])\s+", query.strip())
    words = [part.strip() for part in parts[::2]]
    if not words[0]:
        parts, words = parts[1:], words[1:]
        signs = parts[::2]
    else:
        signs = ["+", *parts[1::2]]
    if not words or not all(words):
        raise UserError(f'A query is a word, or words such as "king - man + woman". Received: {quoted(query)}')
    return [(-1 if sign == "-" else 1, word) for sign, word in zip(signs, words, strict=True)]


def _unit(vectors):
    """Vectors (..., D) scaled to length 1; a vector of zeros stays one."""
    lengths = np.sqrt(np.square(vectors, dtype="float64").sum(axis=-1, keepdims=True))
    return (vectors / np.maximum(lengths, np.finfo("float32").tiny)).astype("float32")


def read_word_vectors(path: str | Path, vocabulary: str | Path | None = None) -> WordVectors:
    """Reads word vectors from a file. Text and binary files may be compressed (.gz or .xz).

    Args:
        path: str or Path. The text format of GloVe ("word 0.1 0.2 ..." on each line) or word2vec (the same, after a
            line with the numbers of words and of columns); the binary format of word2vec (.bin); or a NumPy array
            (.npy) with one row for each word.
        vocabulary: str or Path of the words of a NumPy array, one on each line. None: the file beside the array with
            the same name and the ending .txt, .vocab or .words.

    Returns:
        WordVectors. If a word occurs twice, the first vector counts.

    Raises:
        UserError: if a file is missing or damaged, a vector has another length than the first or a number that is not
            finite, or there are more than 10 million words or a billion numbers; names file and line.
    """
    name = Path(path).name.lower().removesuffix(".gz").removesuffix(".xz")
    if name.endswith(".npy"):
        if name != Path(path).name.lower():
            raise UserError(f"{path}: unpack the array first. Only text files and .bin files are read compressed.")
        words, vectors = _read_array(Path(path), vocabulary)
    elif vocabulary is not None:
        raise UserError(f"{path}: only an array (.npy) needs a list of words. Leave it out.")
    else:
        with opened(path) as file:
            words, vectors = (_read_binary if name.endswith(".bin") else _read_text)(file, path)
    if not words:
        raise UserError(f"{path}: the file has no vectors. Expected: a word and its numbers on each line.")
    _check_finite(vectors, words, path)
    first = {}
    for place, word in enumerate(words):
        first.setdefault(word, place)
    if len(first) < len(words):
        words, vectors = list(first), vectors[list(first.values())]
    return WordVectors(words, vectors)


def _check_finite(vectors, words, path):
    for start in range(0, len(vectors), 1 << 16):
        wrong = ~np.isfinite(vectors[start : start + (1 << 16)]).all(axis=1)
        if wrong.any():
            word = words[start + int(np.argmax(wrong))]
            raise UserError(f"{path}: the vector of {quoted(word)} has a number that is not finite.")


def _check_sizes(num_words, width, path):
    if not 1 <= width <= MAX_WIDTH or not 0 <= num_words <= MAX_WORDS or num_words * width > MAX_NUMBERS:
        raise UserError(
            f"{path} has {num_words:,} words and {width:,} numbers for each. Allowed: up to {MAX_WORDS:,} words, "
            f"{MAX_WIDTH:,} numbers for each, and {MAX_NUMBERS:,} numbers in all."
        )


def _read_text(file, path):
    words, numbers, width = [], array.array("f"), None
    for count, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
        line = _decoded(raw, path, count)
        if count == 1 and re.fullmatch(r"\d{1,10} \d{1,10}", line.strip()):  # the header of word2vec
            _check_sizes(*map(int, line.split()), path)
            continue
        if not line.strip():
            continue
        width = len(line.split(" ")) - 1 if width is None else width
        word, *values = line.rsplit(" ", width)  # some words contain blanks
        try:
            numbers.extend(map(float, values))
        except ValueError as error:
            raise UserError(f"{path}, line {count}: {error}. Expected: a word and {width} numbers.") from error
        if not word or len(values) != width or not width:
            raise UserError(
                f"{path}, line {count}: found {len(values)} numbers. Expected: a word and {width or 'some'} numbers, "
                "separated by one blank each."
            )
        words.append(word)
        if len(words) % 4096 == 1:
            _check_sizes(len(words), width, path)
    if width is None:
        return [], None
    return words, np.frombuffer(numbers, "float32").reshape(len(words), width)


def _decoded(raw, path, count):
    if len(raw) == LONGEST_LINE:
        raise UserError(f"{path}, line {count}: longer than {LONGEST_LINE:,} bytes. Expected: a word and its numbers.")
    try:
        return raw.decode("utf-8").removesuffix("\n").removesuffix("\r").rstrip(" ")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {count}: not UTF-8 text. The name of a binary word2vec file must end with .bin or .bin.gz."
        ) from error


def _read_binary(file, path):
    header = file.readline(LONGEST_WORD)
    if not re.fullmatch(rb"\d{1,10} \d{1,10}\s*", header):
        raise UserError(f"{path}: not a binary word2vec file, which begins with the numbers of words and of columns.")
    num_words, width = map(int, header.split())
    _check_sizes(num_words, width, path)
    words, blocks = [], []
    for number in range(num_words):
        word = bytearray()
        while (byte := file.read(1)) not in (b" ", b"") and len(word) < LONGEST_WORD:
            word += byte if word or byte != b"\n" else b""  # some writers end each vector with a line break
        block = file.read(4 * width)
        if byte != b" " or len(block) < 4 * width:
            raise UserError(f"{path} ends within word {number + 1:,} of {num_words:,}. It is cut or damaged.")
        try:
            words.append(word.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise UserError(f"{path}: word {number + 1:,} is not UTF-8 text. The file is damaged.") from error
        blocks.append(block)
    if file.read(2).strip():
        raise UserError(f"{path} goes on after its {num_words:,} words. It is damaged.")
    return words, np.frombuffer(b"".join(blocks), "<f4").astype("float32").reshape(num_words, width)


def _read_array(path, vocabulary):
    if vocabulary is None:
        candidates = [path.with_suffix(ending) for ending in VOCABULARIES]
        vocabulary = next((candidate for candidate in candidates if candidate.is_file()), None)
        if vocabulary is None:
            raise UserError(f"{path} needs a list of its words, one on each line: {candidates[0]} does not exist.")
    words = read_lines(vocabulary)
    try:
        with opened(path) as file:
            file.read(1)  # reports a missing file
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise UserError(f"{path}: not a NumPy array that can be read ({error}).") from error
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f":
        what = f"{vectors.dtype} {vectors.shape}" if isinstance(vectors, np.ndarray) else "several arrays"
        raise UserError(f"{path}: found {what}. Expected: a float array with one row for each word.")
    _check_sizes(*vectors.shape, path)
    if len(words) != len(vectors):
        raise UserError(f"{path} has {len(vectors):,} vectors, but {vocabulary} has {len(words):,} words.")
    return words, np.ascontiguousarray(vectors, "float32")
