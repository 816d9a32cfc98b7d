"""Documents for language models: reads them from files, and builds packed sequences or text pairs."""

import ast
import inspect
import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from keras_attention.data.files import read_lines
from keras_attention.data.translation.parallel_corpus import TokenSequences
from keras_attention.support.errors import UserError

# Parts of the standard library whose docstrings are tests or not prose.
LEFT_OUT = ("test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "__pycache__", "encodings")
SHORTEST = 40  # minimum characters of a docstring
END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"')])\s+")


def read_documents(paths):
    """Reads texts from UTF-8 files; names ending with .gz or .xz are decompressed.

    A blank line ends a document, also at the end of the file. In a file without blank lines, each line is a document.

    Args:
        paths: list of str or Path.

    Returns:
        List of str, none of them blank.

    Raises:
        UserError: if a file cannot be read, or all files are blank.
    """
    documents = []
    for path in paths:
        lines = [line.strip() for line in read_lines(path)]
        whole = "" in lines
        parts = "\n".join(lines).split("\n\n") if whole else lines
        documents += [" ".join(part.split("\n")).strip() for part in parts]
    documents = [document for document in documents if document]
    if not documents:
        raise UserError(
            f"{', '.join(map(str, paths))}: found no text. Expected: prose, with blank lines between documents."
        )
    return documents


def sentences(document):
    """The sentences of a text, split at the white space after a full stop, exclamation mark or question mark."""
    return [sentence for sentence in END_OF_SENTENCE.split(document) if sentence]


def hold_out(documents, share):
    """Splits documents into training and validation; every n-th document is for validation."""
    every = max(2, round(1 / share))
    return [text for i, text in enumerate(documents) if i % every], documents[::every]


def docstrings(folder=None, most_files=None):
    """The docstrings of the Python standard library: about 1.5 million characters of English.

    Args:
        folder: str or Path, or None for the standard library of the running Python.
        most_files: int or None, maximum number of files to read.

    Returns:
        List of different str, in the order of the file names.

    Raises:
        UserError: if no docstring is found.
    """
    folder = Path(folder or sysconfig.get_paths()["stdlib"])
    paths = [path for path in sorted(folder.rglob("*.py")) if not set(path.relative_to(folder).parts) & set(LEFT_OUT)]
    texts = {}
    for path in paths[:most_files]:
        texts |= dict.fromkeys(_docstrings_of(path))
    if not texts:
        raise UserError(f"{folder}: found no Python file with docstrings. Pass text files with --text.")
    return list(texts)


def _docstrings_of(path):
    """The docstrings of a module, its classes and functions without indentation; none if it cannot be parsed."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node, clean=False)
            text = " ".join(inspect.cleandoc(text).split()) if text else ""
            if len(text) >= SHORTEST and text.isprintable():
                yield text


WINDOW = 64  # sequences that are open at a time


@dataclass(frozen=True)
class PackedSequences:
    """Sequences of T tokens that hold one text or several.

    A position may attend to positions with the same block number. Positions are counted from 0 in each block, so the
    model's output for a text is the same as if the text were alone.

    Attributes:
        token_ids: int32 (N, T).
        block_ids: int32 (N, T), 1, 2, ... for the texts of a sequence; 0 is padding.
        position_ids: int32 (N, T), from 0 in each block.
        segment_ids: int32 (N, T), or None: 1 for the second text of a pair and the END after it.
        is_next: int32 (N,), or None: 1 where the second text of a sequence follows the first, else 0.
    """

    token_ids: np.ndarray
    block_ids: np.ndarray
    position_ids: np.ndarray
    segment_ids: np.ndarray | None = None
    is_next: np.ndarray | None = None

    def __len__(self):
        return len(self.token_ids)

    @property
    def filled_share(self) -> float:
        """float, the share of positions that are not padding."""
        return float(np.mean(self.block_ids != 0))

    @classmethod
    def pack(
        cls, texts: TokenSequences | list[np.ndarray], sequence_length: int, pad_id: int, start_id: int, end_id: int
    ) -> Self:
        """Puts START and END around each text and packs the texts into sequences.

        A text that is too long is cut into chunks, all but the last of which fill a sequence. Empty texts are left out.
        Texts keep their order within a sequence, and almost keep it across sequences.

        Args:
            texts: TokenSequences without START and END, or a list of integer arrays, as from `encode`.
            sequence_length: int > 2 (T).
            pad_id, start_id, end_id: int, of the tokenizer.

        Returns:
            PackedSequences.

        Raises:
            ValueError: if `sequence_length` is too small.
            UserError: if no text has a token.
        """
        if sequence_length < 3:
            raise ValueError(f"`sequence_length` must be greater than 2. Received: sequence_length={sequence_length}")
        texts = texts if isinstance(texts, TokenSequences) else _joined(texts)
        first, sizes = _chunks(texts, sequence_length - 2)
        if not len(first):
            raise UserError(f"None of the {len(texts):,} texts has a token. Expected: at least one text.")
        lengths = sizes + 2
        numbers, columns, blocks, count = _first_fit(lengths.tolist(), sequence_length)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        flat = np.repeat(numbers * sequence_length + columns, lengths) + within  # places in all sequences
        source = np.repeat(first - 1, lengths) + within
        last = np.repeat(lengths - 1, lengths)
        real = (within > 0) & (within < last)
        tokens = np.where(within == 0, start_id, end_id)
        tokens[real] = texts.values[source[real]]

        def filled(values, filler=0):
            flat_ids = np.full(count * sequence_length, filler, np.int32)
            flat_ids[flat] = values
            return flat_ids.reshape(count, sequence_length)  # (N, T)

        return cls(filled(tokens, pad_id), filled(np.repeat(blocks, lengths)), filled(within))


def _joined(sequences):
    offsets = np.cumsum([0, *map(len, sequences)], dtype=np.int64)
    return TokenSequences(np.concatenate([np.zeros(0, np.int32), *sequences]).astype(np.int32), offsets)


def _chunks(texts, size):
    """Cuts texts into runs of at most `size` tokens: where each begins in `texts.values`, and its length."""
    counts = -(-texts.lengths // size)  # chunks of each text
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    first = np.repeat(texts.offsets[:-1], counts) + number * size
    return first, np.minimum(size, np.repeat(texts.offsets[1:], counts) - first)


def _first_fit(lengths, sequence_length):
    """Places each length into the first open sequence with room for it; if too many are open, the fullest closes.

    Returns:
        Three int64 arrays, the sequence, column and block number of each length, and the number of sequences.
    """
    numbers, columns, blocks = [], [], []
    used, texts_in_sequence = [], []  # of every sequence
    open_sequences = []
    for length in lengths:
        sequence = next((sequence for sequence in open_sequences if used[sequence] + length <= sequence_length), None)
        if sequence is None:
            if len(open_sequences) == WINDOW:
                open_sequences.remove(max(open_sequences, key=used.__getitem__))
            sequence = len(used)
            open_sequences.append(sequence)
            used.append(0)
            texts_in_sequence.append(0)
        numbers.append(sequence)
        columns.append(used[sequence])
        texts_in_sequence[sequence] += 1
        blocks.append(texts_in_sequence[sequence])
        used[sequence] += length
        if used[sequence] > sequence_length - 3:
            open_sequences.remove(sequence)
    return np.array(numbers), np.array(columns), np.array(blocks), len(used)


def pair_sentences(documents, sequence_length, pad_id, start_id, end_id, seed=0):
    """Builds sequences START first END second END from documents.

    Sentences are taken in order until a sequence is full, and split into two texts at a random boundary. In half of the
    sequences the second text is the continuation; in the others it comes from another document, and the continuation
    begins a later sequence. If the texts are too long, the first loses its beginning and the second its end.

    Args:
        documents: list of documents, lists of integer arrays, the sentences without START and END.
        sequence_length: int > 4 (T).
        pad_id, start_id, end_id: int, of the tokenizer.
        seed: int >= 0.

    Returns:
        PackedSequences, each of one block, with `segment_ids` and `is_next`.

    Raises:
        ValueError: if `sequence_length` is too small.
        UserError: if there are fewer than two documents with a token, or no document has two sentences.

    Source: Devlin et al. (2019), section 3.1 and appendix A.2, and the authors' code. Differences: no sequences are
    shortened at random, and truncation never affects the boundary between the two texts.
    """
    if sequence_length < 5:
        raise ValueError(f"`sequence_length` must be greater than 4. Received: sequence_length={sequence_length}")
    documents = [[sentence for sentence in document if len(sentence)] for document in documents]
    documents = [document for document in documents if document]
    if len(documents) < 2:
        raise UserError(f"Documents with a token: {len(documents)}. Expected: at least two.")
    if max(map(len, documents)) < 2:
        raise UserError(
            f"None of the {len(documents):,} documents has two sentences. Expected: documents of several sentences."
        )
    room = sequence_length - 3
    generator = np.random.PCG64(seed)
    pairs = []
    for number, document in enumerate(documents):
        begin = 0
        while begin < len(document):
            end = _full_at(document, begin, room)
            middle = begin + 1 + _below(generator, max(1, end - begin - 1))
            follows = middle < end and _below(generator, 2) == 1
            first = np.concatenate(document[begin:middle])
            if follows:
                second, begin = np.concatenate(document[middle:end]), end
            else:
                second, begin = _from_another(documents, number, room, generator), middle
            pairs.append((*_cut(first, second, room), follows))
    return _joined_pairs(pairs, sequence_length, pad_id, start_id, end_id)


def _full_at(document, begin, room):
    """The index after the last sentence of a sequence that begins with sentence `begin`."""
    size, end = 0, begin
    while end < len(document) and size < room:
        size += len(document[end])
        end += 1
    return end


def _from_another(documents, number, room, generator):
    """Sentences of another random document, from a random sentence on, up to a full sequence."""
    other = documents[(number + 1 + _below(generator, len(documents) - 1)) % len(documents)]
    begin = _below(generator, len(other))
    return np.concatenate(other[begin : _full_at(other, begin, room)])


def _cut(first, second, room):
    """The end of the first text and the beginning of the second, together of at most `room` tokens."""
    kept = min(len(first), max(room - len(second), room // 2))
    return first[len(first) - kept :], second[: room - kept]


def _joined_pairs(pairs, sequence_length, pad_id, start_id, end_id):
    shape = len(pairs), sequence_length
    token_ids = np.full(shape, pad_id, np.int32)
    block_ids, position_ids, segment_ids = (np.zeros(shape, np.int32) for _ in range(3))
    for number, (first, second, _) in enumerate(pairs):
        text = np.concatenate([[start_id], first, [end_id], second, [end_id]])
        token_ids[number, : len(text)] = text
        block_ids[number, : len(text)] = 1
        position_ids[number, : len(text)] = np.arange(len(text))
        segment_ids[number, len(first) + 2 : len(text)] = 1
    is_next = np.array([follows for _, _, follows in pairs], np.int32)
    return PackedSequences(token_ids, block_ids, position_ids, segment_ids, is_next)


def _below(generator, bound):
    """A random int in [0, bound) from raw bits, whose stream NumPy guarantees."""
    return int(generator.random_raw() % bound)


def encode_documents(documents, tokenizer, sequence_length, pairs=False, seed=0):
    """Encodes documents and builds sequences from them.

    Args:
        documents: list of str.
        tokenizer: WordPieceTokenizer.
        sequence_length: int > 4.
        pairs: bool. Sequences of two texts, see `pair_sentences`; otherwise packed texts, see `PackedSequences.pack`.
        seed: int >= 0, for the pairs.

    Returns:
        PackedSequences.

    Raises:
        UserError: if there is too little text.
    """
    ids = sequence_length, tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id
    if not pairs:
        return PackedSequences.pack(tokenizer.encode(documents), *ids)
    divided = [sentences(document) for document in documents]
    encoded = iter(tokenizer.encode([sentence for document in divided for sentence in document]))
    return pair_sentences([[next(encoded) for _ in document] for document in divided], *ids, seed)
