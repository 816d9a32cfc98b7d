"""Converts documents into rows for BERT: packed text, or text pairs for next-sentence prediction."""

import numpy as np

from keras_attention.data.prose.documents import sentences
from keras_attention.data.prose.packed_text import PackedRows
from keras_attention.errors import UserError


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
