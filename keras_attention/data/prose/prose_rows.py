"""Documents as rows for a language model: packed without padding, or text pairs for next-sentence prediction."""

from dataclasses import dataclass

import numpy as np

from keras_attention.data.prose.documents import sentences
from keras_attention.data.translation.parallel_corpus import TokenSequences
from keras_attention.errors import UserError

WINDOW = 64  # rows that are open at a time


@dataclass(frozen=True)
class PackedRows:
    """Rows of T tokens that hold one text or several.

    A position may attend to positions with the same block number. Positions are counted from 0 in each block, so the
    model's output for a text is the same as if the text were alone.

    Attributes:
        token_ids: int32 (N, T).
        block_ids: int32 (N, T), 1, 2, ... for the texts of a row; 0 is padding.
        position_ids: int32 (N, T), from 0 in each block.
        segment_ids: int32 (N, T), or None: 1 for the second text of a pair and the END behind it.
        is_next: int32 (N,), or None: 1 where the second text of a row follows the first, else 0.
    """

    token_ids: np.ndarray
    block_ids: np.ndarray
    position_ids: np.ndarray
    segment_ids: np.ndarray | None = None
    is_next: np.ndarray | None = None

    def __len__(self):
        return len(self.token_ids)

    @property
    def filled_share(self):
        """float, the share of positions that are no padding."""
        return float(np.mean(self.block_ids != 0))

    @classmethod
    def pack(cls, texts, row_length, pad_id, start_id, end_id):
        """Puts START and END around each text and packs the texts into rows.

        A text that is too long is cut into chunks that fill a row each, the last one excepted; an empty text is left
        out. Texts keep their order in a row, and nearly so from row to row.

        Args:
            texts: TokenSequences without START and END, or a list of integer arrays, as from `encode`.
            row_length: int > 2 (T).
            pad_id, start_id, end_id: int, of the tokenizer.

        Returns:
            PackedRows.

        Raises:
            ValueError: if `row_length` is too small.
            UserError: if no text has a token.
        """
        if row_length < 3:
            raise ValueError(f"`row_length` must be greater than 2. Received: row_length={row_length}")
        texts = texts if isinstance(texts, TokenSequences) else _joined(texts)
        first, sizes = _chunks(texts, row_length - 2)
        if not len(first):
            raise UserError(f"None of the {len(texts):,} texts has a token. Expected: at least one text.")
        lengths = sizes + 2
        rows, columns, blocks, count = _first_fit(lengths.tolist(), row_length)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        flat = np.repeat(rows * row_length + columns, lengths) + within  # places in the rows, one after the other
        source = np.repeat(first - 1, lengths) + within
        last = np.repeat(lengths - 1, lengths)
        real = (within > 0) & (within < last)
        tokens = np.where(within == 0, start_id, end_id)
        tokens[real] = texts.values[source[real]]

        def filled(values, filler=0):
            row = np.full(count * row_length, filler, np.int32)
            row[flat] = values
            return row.reshape(count, row_length)  # (N, T)

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


def _first_fit(lengths, row_length):
    """Places each length into the first open row that has room for it; the fullest row closes when too many are open.

    Returns:
        Three int64 arrays, row, column and block number of each length, and the number of rows.
    """
    rows, columns, blocks = [], [], []
    used, texts_in_row = [], []  # of every row
    open_rows = []
    for length in lengths:
        row = next((row for row in open_rows if used[row] + length <= row_length), None)
        if row is None:
            if len(open_rows) == WINDOW:
                open_rows.remove(max(open_rows, key=used.__getitem__))
            row = len(used)
            open_rows.append(row)
            used.append(0)
            texts_in_row.append(0)
        rows.append(row)
        columns.append(used[row])
        texts_in_row[row] += 1
        blocks.append(texts_in_row[row])
        used[row] += length
        if used[row] > row_length - 3:
            open_rows.remove(row)
    return np.array(rows), np.array(columns), np.array(blocks), len(used)


def pair_sentences(documents, row_length, pad_id, start_id, end_id, seed=0):
    """Builds rows START first END second END from documents.

    Sentences are taken in order until a row is full, and split into two texts at a random boundary. In half of the rows
    the second text is the continuation; in the others it comes from another document, and the continuation begins a
    later row. If the texts are too long, the first loses its beginning and the second its end.

    Args:
        documents: list of documents, lists of integer arrays, the sentences without START and END.
        row_length: int > 4 (T).
        pad_id, start_id, end_id: int, of the tokenizer.
        seed: int >= 0.

    Returns:
        PackedRows, each of one block, with `segment_ids` and `is_next`.

    Raises:
        ValueError: if `row_length` is too small.
        UserError: if there are fewer than two documents with a token, or no document has two sentences.

    Source: Devlin et al. (2019), section 3.1 and appendix A.2, and the authors' code. Differences: no rows are
    shortened at random, and truncation never affects the boundary between the two texts.
    """
    if row_length < 5:
        raise ValueError(f"`row_length` must be greater than 4. Received: row_length={row_length}")
    documents = [[sentence for sentence in document if len(sentence)] for document in documents]
    documents = [document for document in documents if document]
    if len(documents) < 2:
        raise UserError(f"Documents with a token: {len(documents)}. Expected: at least two.")
    if max(map(len, documents)) < 2:
        raise UserError(
            f"None of the {len(documents):,} documents has two sentences. Expected: documents of several sentences."
        )
    room = row_length - 3
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
    return _rows(pairs, row_length, pad_id, start_id, end_id)


def _full_at(document, begin, room):
    """The index after the last sentence of a row that begins with sentence `begin`."""
    size, end = 0, begin
    while end < len(document) and size < room:
        size += len(document[end])
        end += 1
    return end


def _from_another(documents, number, room, generator):
    """Sentences of another random document, from a random sentence on, up to a full row."""
    other = documents[(number + 1 + _below(generator, len(documents) - 1)) % len(documents)]
    begin = _below(generator, len(other))
    return np.concatenate(other[begin : _full_at(other, begin, room)])


def _cut(first, second, room):
    """The end of the first text and the beginning of the second, together of at most `room` tokens."""
    kept = min(len(first), max(room - len(second), room // 2))
    return first[len(first) - kept :], second[: room - kept]


def _rows(pairs, row_length, pad_id, start_id, end_id):
    shape = len(pairs), row_length
    token_ids = np.full(shape, pad_id, np.int32)
    block_ids, position_ids, segment_ids = (np.zeros(shape, np.int32) for _ in range(3))
    for row, (first, second, _) in enumerate(pairs):
        text = np.concatenate([[start_id], first, [end_id], second, [end_id]])
        token_ids[row, : len(text)] = text
        block_ids[row, : len(text)] = 1
        position_ids[row, : len(text)] = np.arange(len(text))
        segment_ids[row, len(first) + 2 : len(text)] = 1
    is_next = np.array([follows for _, _, follows in pairs], np.int32)
    return PackedRows(token_ids, block_ids, position_ids, segment_ids, is_next)


def _below(generator, bound):
    """A random int in [0, bound) from raw bits, whose stream NumPy guarantees."""
    return int(generator.random_raw() % bound)


def prose_rows(documents, tokenizer, row_length, pairs=False, seed=0):
    """Encodes documents and builds rows from them.

    Args:
        documents: list of str.
        tokenizer: WordPieceTokenizer.
        row_length: int > 4.
        pairs: bool. Rows of two texts, see `pair_sentences`; otherwise packed texts, see `PackedRows.pack`.
        seed: int >= 0, for the pairs.

    Returns:
        PackedRows.

    Raises:
        UserError: if there is too little text.
    """
    ids = row_length, tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id
    if not pairs:
        return PackedRows.pack(tokenizer.encode(documents), *ids)
    divided = [sentences(document) for document in documents]
    encoded = iter(tokenizer.encode([sentence for document in divided for sentence in document]))
    return pair_sentences([[next(encoded) for _ in document] for document in divided], *ids, seed)
