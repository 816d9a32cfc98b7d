"""Cuts words into the longest pieces of a vocabulary: with tensorflow-text, and from memory."""

import numpy as np

from keras_attention.tokenizers.wordpiece_training import CONTINUATION, SPECIALS

UNKNOWN = SPECIALS[1]
MAX_WORD_CHARACTERS = 100  # longer words are UNKNOWN, as in the reference
MAX_WORD_BYTES = 4 * MAX_WORD_CHARACTERS
SHORT_CHARACTERS = 1 << 12  # for texts of no more, all together, a call of TensorFlow takes longer than all the rest
MAX_KNOWN_WORDS = 1 << 14


class PieceCutter:
    """Cuts the words of texts, which blanks part, and remembers those of short texts.

    Args:
        vocabulary: list of str, the pieces in the order of their ids; "##" marks those that continue a word.

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
        known = {word: self._known.get(word) for of_text in words for word in of_text}
        if new := [word for word, ids in known.items() if ids is None]:
            found = {word: ids.tolist() for word, ids in zip(new, self._cut_all(new), strict=True)}
            known |= found
            self._remember(found)
        return [np.array([i for word in of_text for i in known[word]], np.int32) for of_text in words]

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

        if self._compiled is None:  # as single operations it takes milliseconds for the shortest text
            signature = [tf.TensorSpec([None], tf.string)]
            self._compiled = tf.function(self.cut_in_graph, input_signature=signature, autograph=False)
        pieces = self._compiled(tf.constant(texts, tf.string))
        return np.split(pieces.values.numpy(), pieces.row_splits.numpy()[1:-1])

    def _remember(self, found):
        """Keeps the ids of words; several threads may do so at a time."""
        if len(self._known) + len(found) > MAX_KNOWN_WORDS:
            self._known = {}
        self._known.update((word, ids) for word, ids in found.items() if len(word) <= MAX_WORD_CHARACTERS)

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
