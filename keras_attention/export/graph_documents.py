"""A classifier of documents as one TensorFlow graph and SavedModel: strings in, labels out."""

import tensorflow as tf

from keras_attention.export.graph_bert import export_classifier
from keras_attention.export.graph_texts import BLANKS, Sequences, SequencesInGraph, cut
from keras_attention.inputs.token_sequences import WHOLE

# `inputs.document.BREAK` and `NO_END` for RE2, which looks neither ahead nor behind: MARK stands behind each end mark
# with a blank after it, and is taken away behind abbreviations. Tokenizers drop this control character.
MARK = "\x01"
LINE_BREAKS = r"(?i)<br[BLANKS]*/?>|[\r\n]+".replace("BLANKS", BLANKS)
END_MARKS = r"([.!?…]+[\"'»”’)\]]*)([BLANKS])".replace("BLANKS", BLANKS)
NO_ENDS = (
    r"(?i)((?:^|[^\pL\pN_])(?:mr|mrs|ms|dr|st|vs|prof|jr|sr|etc|e\.g|i\.e|cf|no|[\pL\p{Nl}\p{No}])\.)" + MARK
)  # fmt: skip


class DocumentsInGraph(SequencesInGraph):
    """`DocumentClassifier.sequences` in a graph.

    Args:
        classifier: DocumentClassifier.
    """

    def __init__(self, classifier):
        self._width, self._most_rows = classifier.row_length, classifier.most_rows
        super().__init__(classifier.tokenizer, self._width * self._most_rows, classifier.long_texts)

    def sequences(self, texts, texts_b=None, masks=False):
        texts, truncated = self._shortened(texts)
        rows, owners = self._rows(texts)  # (R, W), (R,)
        count, unknown = tf.shape(rows)[0], tf.one_hot([0], self._width, self._tokenizer.unknown_id, 0, dtype=tf.int32)
        rows = tf.concat([rows, unknown, tf.zeros_like(unknown)], axis=0)  # of a blank text, and padding
        numbers = tf.RaggedTensor.from_value_rowids(
            tf.range(count), owners, nrows=tf.shape(texts, out_type=tf.int64)[0]
        )
        counts = tf.cast(numbers.row_lengths(), tf.int32)  # (B,)
        blank = tf.RaggedTensor.from_row_lengths(
            tf.fill([tf.reduce_sum(tf.cast(counts == 0, tf.int32))], count), tf.cast(counts == 0, tf.int64)
        )
        numbers, counts = tf.concat([numbers, blank], axis=1), tf.maximum(counts, 1)
        if self._long_texts == WHOLE:
            numbers, owners = self._overlapping(numbers, self._most_rows)
        else:
            kept = tf.minimum(counts, self._most_rows)
            numbers, owners = cut(numbers, kept, self._long_texts), tf.range(tf.shape(texts)[0])
            truncated |= kept < counts
        lengths = tf.cast(numbers.row_lengths(), tf.int32) * self._width
        places = numbers.to_tensor(count + 1, shape=(None, self._most_rows))  # (N, S)
        token_ids = tf.reshape(tf.gather(rows, places), (-1, self._max_tokens))
        return Sequences(token_ids, tf.zeros_like(token_ids), lengths, owners), truncated

    def _rows(self, texts):
        """The rows of all texts (R, W), filled up with padding, and the number of the text of each (R,)."""
        texts = tf.strings.regex_replace(tf.strings.regex_replace(texts, MARK, ""), LINE_BREAKS, "\n")
        texts = tf.strings.regex_replace(tf.strings.regex_replace(texts, END_MARKS, rf"\1{MARK}\2"), NO_ENDS, r"\1")
        sentences = tf.strings.split(tf.strings.regex_replace(texts, MARK, "\n"), "\n")
        ids = self._tokenize(sentences.flat_values)  # (sentences, None)
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        counts = -(-lengths // self._width)
        parts = tf.repeat(tf.range(tf.shape(counts)[0]), counts)  # (R,), the sentence of each row
        start = tf.ragged.range(counts).flat_values * self._width
        size = tf.minimum(tf.gather(lengths, parts) - start, self._width)
        places = tf.ragged.range(start, start + size) + tf.gather(tf.cast(ids.row_starts(), tf.int32), parts)[:, None]
        rows = places.with_flat_values(tf.gather(ids.flat_values, places.flat_values))
        return rows.to_tensor(shape=(None, self._width)), tf.gather(sentences.value_rowids(), parts)


def export_documents(folder, classifier, name):
    """Writes a DocumentClassifier, see `graph_bert.GraphClassifier`; returns its signature."""
    return export_classifier(folder, classifier, name, DocumentsInGraph(classifier))
