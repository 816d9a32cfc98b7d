"""Learns a WordPiece vocabulary from word counts."""

from collections import Counter

from keras_attention.errors import UserError
from keras_attention.tokenizers.bert_characters import part_words

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # the ids of `special_tokens.py`, then the mask
CONTINUATION = "##"
MAX_CHARACTERS = 1_000  # distinct characters; each takes two ids, at the start of a word and inside
MAX_WORDS = 100_000  # distinct words, the most frequent ones; rarer words change few pieces
MAX_PIECE_CHARACTERS = 50
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
    kept = sorted(by_count[: min(MAX_CHARACTERS, max(1, room // 4))])
    known = set(kept)
    words = sorted((item for item in counts.items() if known.issuperset(item[0])), key=lambda item: (-item[1], item[0]))
    alphabet = [*kept, *(CONTINUATION + character for character in kept)]
    learnt = _learn(words[:MAX_WORDS], vocabulary_size) if words else []
    return list(dict.fromkeys([*SPECIALS, *alphabet, *learnt]))[:vocabulary_size]


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
        max_token_length=MAX_PIECE_CHARACTERS,
        max_unique_chars=MAX_CHARACTERS,
        slack_ratio=SLACK / (1 + SLACK),
    )
