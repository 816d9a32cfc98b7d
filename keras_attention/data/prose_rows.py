"""From documents to the rows that a BERT is pre-trained on."""

from keras_attention.data.packed_text import PackedRows
from keras_attention.data.prose import sentences
from keras_attention.data.sentence_pairs import pair_sentences


def prose_rows(documents, tokenizer, row_length, pairs=False, seed=0):
    """Encodes documents and makes rows of them.

    Args:
        documents: list of str.
        tokenizer: WordPieceTokenizer.
        row_length: int > 4.
        pairs: bool. Rows of two texts, see `pair_sentences`; otherwise as many texts as fit, see `PackedRows.pack`.
        seed: int >= 0, of the pairs.

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
