"""Texts inside a TensorFlow graph, tokenizers, sequences of ids, bags of words; and a graph as a SavedModel."""

import re
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text

from keras_attention import __version__
from keras_attention.evaluation.bag_of_words import (
    BETWEEN,
    BY_LETTERS,
    LONGEST,
    SHARE_COUNT,
    SHORTEST,
    UNSPACED,
    VARIATION_SELECTORS,
)
from keras_attention.export.signatures import listing
from keras_attention.inputs.token_sequences import CHARACTERS_PER_TOKEN, START, WHOLE
from keras_attention.pipelines.mask_filler import MASK
from keras_attention.support.blank_texts import INVISIBLE
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.marian_tokenizer import WORD_START, tokenize_with
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID

# The white space that str.strip removes; TensorFlow's own strip removes only ASCII white space.
BLANKS = "".join(rf"\x{{{point:X}}}" for point in range(0x3001) if chr(point).isspace())
INVISIBLE_IN_RE2 = re.sub("[^-]", lambda point: rf"\x{{{ord(point[0]):X}}}", INVISIBLE)
CHARACTERS = "".join(rf"\x{{{first:X}}}-\x{{{last:X}}}" for first, last in UNSPACED)  # for RE2


def strip(texts):
    """Removes white space at both ends of each text (B,), like `str.strip`."""
    return tf.strings.regex_replace(texts, rf"\A[{BLANKS}]+|[{BLANKS}]+\z", "")


def blank_as_empty(texts):
    """The texts (B,), but "" for each that shows nothing, like `is_blank`."""
    return tf.strings.regex_replace(texts, rf"\A[{BLANKS}{INVISIBLE_IN_RE2}]*\z", "")


class SentencePieceInGraph(tf.Module):
    """A SentencePieceTokenizer or UnigramTokenizer in a graph.

    Args:
        tokenizer: SentencePieceTokenizer or UnigramTokenizer.
    """

    def __init__(self, tokenizer):
        super().__init__()
        self._pieces = tokenizer.tokens(range(tokenizer.vocabulary_size))
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save(folder)
            model = (Path(folder) / "tokenizer.model").read_bytes()
        self._library = tensorflow_text.SentencepieceTokenizer(model, out_type=tf.int32)  # a module, so it is saved

    def tokenize(self, texts):
        """Texts (B,) -> tf.RaggedTensor int32 (B, None), as `SentencePieceTokenizer.encode`."""
        return self._library.tokenize(texts)

    def detokenize(self, token_ids):
        """Ids (B, T), padded -> texts (B,), as `SentencePieceTokenizer.decode`."""
        return strip(self._library.detokenize(without_specials(token_ids)))

    def tokens(self, token_ids):
        """Ids (B, T) -> readable pieces (B, T), "" at padding."""
        return pieces_of(token_ids, self._pieces)


class CharactersInGraph(tf.Module):
    """A CharacterTokenizer in a graph.

    Args:
        tokenizer: CharacterTokenizer.
    """

    def __init__(self, tokenizer):
        super().__init__()
        self._pieces = tokenizer.tokens(range(tokenizer.vocabulary_size))
        self._tokenizer = tokenizer

    def tokenize(self, texts):
        """Texts (B,) -> tf.RaggedTensor int32 (B, None), as `CharacterTokenizer.encode`."""
        return self._tokenizer.tokenize_in_graph(texts)

    def detokenize(self, token_ids):
        """Ids (B, T), padded, without UNKNOWN -> texts (B,), as `CharacterTokenizer.decode`."""
        return tf.strings.reduce_join(tf.gather(self._pieces, without_specials(token_ids)), axis=1)

    def tokens(self, token_ids):
        """Ids (B, T) -> readable characters (B, T), "" at padding."""
        return pieces_of(token_ids, self._pieces)


class MarianInGraph(tf.Module):
    """A MarianTokenizer in a graph.

    Args:
        tokenizer: MarianTokenizer.
    """

    def __init__(self, tokenizer):
        super().__init__()
        self._pieces = tokenizer.tokens(range(tokenizer.vocabulary_size))
        self._parts = tokenizer.parts_of_graph()  # modules, so they are saved

    def tokenize(self, texts):
        """Texts (B,) -> tf.RaggedTensor int32 (B, None), as `MarianTokenizer.tokenize_in_graph`."""
        return tokenize_with(texts, *self._parts)

    def detokenize(self, token_ids):
        """Ids (B, T), padded, without UNKNOWN -> texts (B,), as `MarianTokenizer.decode`."""
        joined = tf.strings.reduce_join(tf.gather(self._pieces, without_specials(token_ids)), axis=1)
        return strip(tf.strings.regex_replace(joined, WORD_START, " "))

    def tokens(self, token_ids):
        """Ids (B, T) -> readable pieces (B, T), "" at padding."""
        return pieces_of(token_ids, self._pieces)


GRAPH_TOKENIZERS = {
    "sentencepiece": SentencePieceInGraph,
    "unigram": SentencePieceInGraph,
    "characters": CharactersInGraph,
    "marian": MarianInGraph,
}


def in_graph(tokenizer):
    """The tokenizer as part of a graph.

    Args:
        tokenizer: SentencePieceTokenizer, CharacterTokenizer or MarianTokenizer.

    Returns:
        A tf.Module with `tokenize`, `detokenize` and `tokens`.

    Raises:
        UserError: for another tokenizer.
    """
    if tokenizer.kind not in GRAPH_TOKENIZERS:
        known = " or ".join(GRAPH_TOKENIZERS)
        raise UserError(f"A {tokenizer.kind} tokenizer cannot be part of a TensorFlow graph. Supported: {known}")
    return GRAPH_TOKENIZERS[tokenizer.kind](tokenizer)


def without_specials(token_ids):
    """Drops PAD and END from each sequence (B, T): tf.RaggedTensor (B, None)."""
    written = tf.logical_and(tf.not_equal(token_ids, PAD_ID), tf.not_equal(token_ids, END_ID))
    return tf.ragged.boolean_mask(token_ids, written)


def pieces_of(token_ids, pieces):
    return tf.where(tf.equal(token_ids, PAD_ID), "", tf.gather(pieces, token_ids))


class Sequences(NamedTuple):
    """R sequences of ids for B texts.

    Attributes:
        token_ids, segment_ids: int32 tensors (R, T), padded with 0.
        lengths: int32 tensor (R,).
        owners: int32 tensor (R,), the number of the text that each sequence belongs to.
    """

    token_ids: tf.Tensor
    segment_ids: tf.Tensor
    lengths: tf.Tensor
    owners: tf.Tensor


def as_utf8(texts):
    """Texts (B,) with invalid UTF-8 replaced by U+FFFD."""
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")


class SequencesInGraph(tf.Module):
    """`texts.text_sequences` and `texts.whole_text_sequences` in a graph.

    Args:
        tokenizer: WordPieceTokenizer or UnigramTokenizer.
        max_tokens: int, maximum length of a sequence.
        long_texts: str, which part of a longer text is read.
    """

    def __init__(self, tokenizer, max_tokens, long_texts):
        super().__init__()
        self._tokenizer, self._max_tokens, self._long_texts = tokenizer, max_tokens, long_texts
        self._saved = in_graph(tokenizer) if tokenizer.kind in GRAPH_TOKENIZERS else None
        self._tokenize = tokenizer.tokenize_in_graph if self._saved is None else self._saved.tokenize

    def sequences(self, texts, texts_b=None, masks=False):
        """The Sequences of texts (B,), or pairs of them, and a bool tensor (B,): whether each was truncated."""
        if self._long_texts == WHOLE and texts_b is None:
            return self._whole_sequences(texts)
        sides = [self._encoded(side, masks) for side in ((texts,) if texts_b is None else (texts, texts_b))]
        lengths = [tf.cast(ids.row_lengths(), tf.int32) for ids, _ in sides]
        kept = self._kept(*lengths)
        parts = [cut(ids, length, self._long_texts) for (ids, _), length in zip(sides, kept, strict=True)]
        truncated = tf.reduce_any([was_cut for _, was_cut in sides], axis=0)
        for length, length_before in zip(kept, lengths, strict=True):
            truncated |= length < length_before
        return self._framed(parts, tf.range(tf.shape(texts)[0])), truncated

    def _encoded(self, texts, masks):
        """Ids of texts cut to the maximum number of characters, ragged tensor (B, None); and whether each was cut."""
        texts, was_cut = self._shortened(texts)
        return self._ids_with_masks(texts) if masks else self._tokenize(texts), was_cut

    def _shortened(self, texts):
        """Texts without blanks around them, cut to the maximum number of characters; and whether each was cut."""
        texts, longest = strip(texts), self._max_tokens * CHARACTERS_PER_TOKEN
        count = tf.strings.length(texts, "UTF8_CHAR")
        first = longest if self._long_texts == START else longest - longest // 2
        shorter = tf.strings.substr(texts, 0, first, "UTF8_CHAR")
        if first < longest:
            last = longest // 2
            shorter += tf.strings.substr(
                texts, tf.maximum(0, count - last), tf.fill(tf.shape(texts), last), "UTF8_CHAR"
            )
        return tf.where(count > longest, shorter, texts), count > longest

    def _ids_with_masks(self, texts):
        """Ids of texts in which "[MASK]" is the mask token: the ids of the parts, with a mask between them."""
        parts = tf.strings.split(texts, MASK)  # (B, gaps + 1)
        ids = self._tokenize(parts.flat_values)
        mask = tf.fill([tf.shape(parts.flat_values)[0], 1], self._tokenizer.mask_id)
        return parts.with_flat_values(tf.concat([ids, mask], axis=1)).merge_dims(1, 2)[:, :-1]

    def _kept(self, first, second=None):
        """The number of ids to keep of each text; in a pair, the longer text is cut first, until both are equal."""
        if second is None:
            return [tf.minimum(first, self._max_tokens - 2)]
        room = self._max_tokens - 3
        half = room // 2
        first, second = tf.minimum(first, room), tf.minimum(second, room)
        both_long, second_shorter = tf.minimum(first, second) > half, second < first
        new_first = tf.where(both_long, room - half, tf.where(second_shorter, room - second, first))
        new_second = tf.where(both_long, half, tf.where(second_shorter, second, room - first))
        fits = first + second <= room
        return [tf.where(fits, first, new_first), tf.where(fits, second, new_second)]

    def _whole_sequences(self, texts):
        parts, owners = self._overlapping(self._tokenize(strip(texts)), self._max_tokens - 2)
        return self._framed([parts], owners), tf.zeros_like(texts, tf.bool)

    def _overlapping(self, ids, room):
        """Parts of up to `room` ids of each text (B, None), with equally spaced starts; and the text of each part."""
        count = tf.cast(ids.row_lengths(), tf.int32)
        counts = tf.maximum(1, -(-count // room))  # sequences of each text
        owners = tf.repeat(tf.range(tf.shape(count)[0]), counts)
        number = tf.ragged.range(counts).flat_values  # of each sequence within its text
        last = tf.gather(tf.maximum(0, count - room), owners)
        steps = tf.gather(counts, owners) - 1
        step = tf.cast(last, tf.float64) / tf.cast(tf.maximum(steps, 1), tf.float64)
        start = tf.where(tf.equal(number, steps), last, tf.cast(tf.cast(number, tf.float64) * step, tf.int32))
        size = tf.minimum(tf.gather(count, owners) - start, room)
        places = tf.ragged.range(start, start + size) + tf.gather(tf.cast(ids.row_starts(), tf.int32), owners)[:, None]
        return places.with_flat_values(tf.gather(ids.flat_values, places.flat_values)), owners

    def _framed(self, parts, owners):
        """Sequences of ids with [CLS] and [SEP]."""
        column = tf.ones_like(owners)[:, None]
        ids, segments = [column * self._tokenizer.start_id], [column * 0]
        for number, part in enumerate(parts):
            ids += [part, column * self._tokenizer.end_id]
            segments += [part.with_flat_values(tf.fill(tf.shape(part.flat_values), number)), column * number]
        ids, segments = tf.concat(ids, axis=1), tf.concat(segments, axis=1)
        shape = (None, self._max_tokens)
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        return Sequences(ids.to_tensor(shape=shape), segments.to_tensor(shape=shape), lengths, owners)


def cut(ids, lengths, long_texts):
    """Keeps `lengths` (B,) ids of each sequence (B, None): the first ones if `long_texts` is START, else both ends."""
    if long_texts == START:
        first, last = lengths, tf.zeros_like(lengths)
    else:
        first, last = lengths - lengths // 2, lengths // 2
    counts = tf.cast(ids.row_lengths(), tf.int32)
    places = tf.ragged.range(counts)
    owners = places.value_rowids()
    place = places.flat_values
    kept = (place < tf.gather(first, owners)) | (place >= tf.gather(counts - last, owners))
    return tf.ragged.boolean_mask(ids, places.with_flat_values(kept))


class WordsInGraph(tf.Module):
    """A BagOfWords in a graph. Some capitals newer than Unicode 12 are not lower-cased by TensorFlow.

    Args:
        words: BagOfWords.
    """

    def __init__(self, words):
        super().__init__()
        self._size, self._units = len(words.terms), words.units
        numbers = tf.range(self._size, dtype=tf.int64)
        self._places = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant(words.terms, tf.string), numbers), -1
        )
        self._idf, self._kernel, self._bias = (tf.constant(part, tf.float32) for part in words[1:4])

    def logits(self, texts, texts_b=None):
        """Float32 tensor (B, K) for texts (B,), or pairs, as `BagOfWords.logits`."""
        if self._units == BY_LETTERS:
            terms = self._letters(texts if texts_b is None else tf.strings.join([texts, texts_b], BETWEEN))
        elif texts_b is None:
            terms = self._terms(texts)
        else:
            joined = tf.strings.join([texts, texts_b], BETWEEN)
            terms = tf.concat([self._terms(joined), self._shared(texts, texts_b)], axis=1)
        place, owner = self._places.lookup(terms.flat_values), terms.value_rowids()
        known = place >= 0
        both = tf.boolean_mask(owner * self._size + place, known)
        both, _, counts = tf.unique_with_counts(tf.sort(both))
        owner, place = both // self._size, both % self._size
        values = (1 + tf.math.log(tf.cast(counts, tf.float32))) * tf.gather(self._idf, place)
        size = tf.shape(texts, tf.int64)[0]
        norm = tf.sqrt(tf.math.unsorted_segment_sum(values * values, owner, size))
        shape = tf.stack([size, tf.constant(self._size, tf.int64)])
        matrix = tf.SparseTensor(tf.stack([owner, place], axis=1), values / tf.gather(norm, owner), shape)
        return tf.sparse.sparse_dense_matmul(matrix, self._kernel) + self._bias

    def _terms(self, texts):
        """The words of texts and the pairs of adjacent words, a ragged tensor (B, None); as `bag_of_words.terms_of`."""
        words = self._words(texts)
        first, second = words[:, :-1], words[:, 1:]
        pairs = first.with_flat_values(tf.strings.join([first.flat_values, second.flat_values], " "))
        return tf.concat([words, pairs], axis=1)

    def _shared(self, texts, texts_b):
        """Terms for common and different words of pairs, a ragged tensor (B, None); as `bag_of_words.terms_of_pair`."""
        a, b = (self._words(side).to_sparse() for side in (texts, texts_b))
        both, only_a, only_b = tf.sets.intersection(a, b), tf.sets.difference(a, b), tf.sets.difference(b, a)
        common, of_a, of_b = (tf.sets.size(words) for words in (both, only_a, only_b))
        sizes = {"all": common + of_a + of_b, "first": common + of_a, "second": common + of_b}
        shares = [
            tf.strings.join([f"shared/{name}:", tf.strings.as_string((20 * common + size) // tf.maximum(2 * size, 1))])
            for name, size in sizes.items()
        ]
        named = [
            words.with_flat_values(tf.strings.join([name, words.flat_values]))
            for name, words in zip(
                ("both:", "one:", "one:"), map(tf.RaggedTensor.from_sparse, (both, only_a, only_b)), strict=True
            )
        ]
        return tf.concat([*named, tf.RaggedTensor.from_tensor(tf.stack(shares * SHARE_COUNT, axis=1))], axis=1)

    def _letters(self, texts):
        """The n-grams of the letters of each word, a ragged tensor (B, None); as `bag_of_words.letters_of`."""
        _, lower = self._lower(texts)
        words = tf.strings.split(tensorflow_text.normalize_utf8(lower, "NFC"))  # (B, None)
        padded = words.with_flat_values(tf.strings.join([" ", words.flat_values, " "]))
        letters = tf.strings.unicode_split(padded, "UTF-8")  # (B, words, letters)
        grams = tf.strings.ngrams(letters, tuple(range(SHORTEST, LONGEST + 1)), separator="")
        return grams.merge_dims(1, 2)

    def _lower(self, texts):
        """The texts, and in lower case with a space for each blank."""
        texts = tf.strings.regex_replace(texts, r"\x00", "\x01")  # `lower` would stop at a NUL; no term contains either
        return texts, tf.strings.lower(tf.strings.regex_replace(texts, f"[{BLANKS}]", " "), "utf-8")

    def _words(self, texts):
        """The words of texts in lower case, a ragged tensor (B, None)."""
        texts, lower = self._lower(texts)
        apart = tf.strings.regex_replace(lower, f"([{CHARACTERS}])", r" \1 ")
        parted = tf.strings.regex_replace(apart, r"([\pL\pN_]+|[^\pL\pN_ ])", r" \1 ")
        composed = tensorflow_text.normalize_utf8(lower, "NFC")
        composed = tf.strings.regex_replace(composed, rf"([{CHARACTERS}][\p{{Mn}}\p{{Mc}}]*)", r" \1 ")
        parted_by_letters = tf.strings.regex_replace(composed, r"((?:[\pL\pN_][\p{Mn}\p{Mc}]*)+|[^ ])", r" \1 ")
        unselected = tf.strings.regex_replace(texts, f"[{VARIATION_SELECTORS}]", "")
        combining = tf.strings.regex_full_match(unselected, r"(?s).*[\p{Mn}\p{Mc}].*")
        parted = tf.where(combining, parted_by_letters, parted)
        words = tf.strings.split(parted, " ")
        return tf.ragged.boolean_mask(words, tf.not_equal(words, ""))


README = """{name} as a TensorFlow SavedModel: text in, answers out. It needs tensorflow and tensorflow-text.

    import tensorflow as tf
    import tensorflow_text  # registers the operations that read the text

    model = tf.saved_model.load("{name}")
    answers = model.signatures["serving_default"]({inputs})
    print({shown})

{sizes}

{listing}

{settings}Written by keras_attention {version}, TensorFlow {tensorflow}.
"""


def _in_python(given):
    """An argument of an exported function as Python code: a text, a number, or zeros with the shape of an array."""
    if isinstance(given, np.ndarray):
        return f'tf.zeros({given.shape}, "{given.dtype}")'
    return f"tf.constant([{given!r}])" if isinstance(given, str) else f"tf.constant({given})"


def write_graph(folder, graph, function, signature, *, name, examples, shown, sizes, settings="", readme=README):
    """Writes a graph with its function as "serving_default" and README.txt; returns the signature."""
    try:
        tf.saved_model.save(graph, str(folder), signatures={"serving_default": function})
    except tf.errors.OpError as error:
        raise UserError(f"TensorFlow cannot write the model: {error.message}") from error
    text = readme.format(
        name=name,
        inputs=", ".join(f"{key}={_in_python(given)}" for key, given in examples.items()),
        shown=shown,
        sizes=sizes,
        settings=settings,
        listing=listing(signature),
        version=__version__,
        tensorflow=tf.__version__,
    )
    (folder / "README.txt").write_text(text, encoding="utf-8")
    return signature
