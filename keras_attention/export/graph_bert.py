"""A classifier, text encoder or mask filler as one TensorFlow graph and SavedModel: strings in, answers out."""

import numpy as np
import tensorflow as tf

from keras_attention.export.graph_inputs import label_tensors
from keras_attention.export.graph_texts import SequencesInGraph, WordsInGraph, as_utf8, write_graph
from keras_attention.export.graph_writers import map_chunks
from keras_attention.export.signatures import FILLINGS, VECTORS, classes
from keras_attention.pipelines.mask_filler import ANY_CASE, MASK, MAX_MASKS

TEXTS = tf.TensorSpec([None], tf.string, name="texts")
SECOND_TEXTS = tf.TensorSpec([None], tf.string, name="texts_b")
TOP = 5  # fillings of a text


class GraphBert(tf.Module):
    """Base class: runs the network over sequences sorted by length, in chunks of at most 32.

    Padding and the other texts of a batch change an answer only by float32 rounding, and memory
    grows only with the size of the inputs and answers.

    Args:
        pipeline: TextEncoder or a subclass.
        reader: SequencesInGraph, or None for that of single texts and pairs.
    """

    def __init__(self, pipeline, reader=None):
        super().__init__()
        self._find_model = lambda: pipeline.model  # not an attribute: TensorFlow would save all of Keras's objects
        self._find_encoder = lambda: pipeline.encoder
        self._weights = [variable.value for variable in pipeline.model.variables]
        self._segments = pipeline.encoder.num_segments > 1
        self._reader = reader or SequencesInGraph(pipeline.tokenizer, pipeline.max_tokens, pipeline.long_texts)

    def over_sequences(self, function, sequences, outputs):
        """Applies a function of the network's inputs to any number of Sequences; see `map_chunks` for `outputs`."""
        order = tf.argsort(sequences.lengths, stable=True)
        tensors = [
            tf.gather(tensor, order) for tensor in (sequences.token_ids, sequences.segment_ids, sequences.lengths)
        ]

        def compute(token_ids, segment_ids, lengths):
            longest = tf.maximum(tf.reduce_max(lengths), 1)
            inputs = {"token_ids": token_ids[:, :longest]}
            if self._segments:
                inputs["segment_ids"] = segment_ids[:, :longest]
            return function(inputs, lengths)

        back = tf.argsort(order, stable=True)
        return [tf.gather(result, back) for result in map_chunks(compute, tensors, outputs)]


class GraphClassifier(GraphBert):
    """`Classifier.classify` as a graph that TensorFlow can save and run without this package.

    Args:
        classifier: Classifier, with its bag of words if it has one.
        reader: see `GraphBert`.

    Call arguments:
        texts: string tensor (B,), UTF-8; invalid bytes become U+FFFD.
        texts_b: string tensor (B,), the second texts, if the model classifies pairs.

    Returns:
        Dict of tensors, see `export.signatures.classes`.
    """

    def __init__(self, classifier, reader=None):
        super().__init__(classifier, reader)
        self._task = classifier.task
        self._words = classifier.blend and WordsInGraph(classifier.blend.words)
        self._weight = classifier.blend and classifier.blend.weight
        signature = [TEXTS, SECOND_TEXTS] if self._task["pair"] else [TEXTS]
        self.answer = tf.function(self._answer, input_signature=signature, autograph=False)

    def _answer(self, texts, texts_b=None):
        texts, texts_b = as_utf8(texts), None if texts_b is None else as_utf8(texts_b)
        sequences, truncated = self._reader.sequences(texts, texts_b)
        width = max(1, len(self._task["label_names"]))

        def logits_of(inputs, lengths):
            return (self._find_model()(inputs, training=False),)

        (all_logits,) = self.over_sequences(logits_of, sequences, [tf.TensorSpec((None, width), tf.float32)])
        logits = tf.math.unsorted_segment_mean(all_logits, sequences.owners, tf.shape(texts)[0])  # (B, K)
        if self._words is not None:
            logits = (1 - self._weight) * logits + self._weight * self._words.logits(texts, texts_b)
        return {**label_tensors(logits, self._task), "truncated": truncated}


class GraphEncoder(GraphBert):
    """`TextEncoder.encode` as a graph: string tensor (B,) -> dict of tensors, see `export.signatures.VECTORS`."""

    def __init__(self, encoder):
        super().__init__(encoder)
        self._pooling, self._normalize = encoder.pooling, encoder.normalize
        self._width = encoder.encoder.hidden_dim
        self.answer = tf.function(self._answer, input_signature=[TEXTS], autograph=False)

    def _answer(self, texts):
        sequences, truncated = self._reader.sequences(as_utf8(texts))
        (vectors,) = self.over_sequences(self._pooled, sequences, [tf.TensorSpec((None, self._width), tf.float32)])
        if self._normalize:
            vectors /= tf.maximum(tf.norm(vectors, axis=-1, keepdims=True), 1e-12)
        return {"vectors": vectors, "truncated": truncated}

    def _pooled(self, inputs, lengths):
        x = tf.cast(self._find_encoder()(inputs, training=False), tf.float32)  # (n, T, D)
        if self._pooling == "cls":
            return (x[:, 0],)
        read = tf.sequence_mask(lengths, tf.shape(x)[1])[:, :, None]
        total = tf.reduce_sum(tf.where(read, x, 0.0), axis=1)
        return (total / tf.cast(tf.maximum(lengths, 1), tf.float32)[:, None],)


class GraphFiller(GraphBert):
    """`MaskFiller.fill_mask` with its default settings as a graph, see `export.FILLINGS`.

    Returns the five best fillings of each text, or empty strings where `fill_mask` has none (an empty text) or
    raises an error (no gap, more than 32 gaps, or a gap beyond the model's limit).
    """

    def __init__(self, filler):
        super().__init__(filler)
        tokenizer = filler.tokenizer
        self._mask_id = tokenizer.mask_id
        self._stands = filler.can_stand  # (V,)
        self._words = [tokenizer.decode([[piece]])[0] for piece in range(tokenizer.vocabulary_size)]
        self.answer = tf.function(self._answer, input_signature=[TEXTS], autograph=False)

    def _answer(self, texts):
        texts = tf.strings.regex_replace(as_utf8(texts), ANY_CASE, MASK)
        sequences, truncated = self._reader.sequences(texts, masks=True)
        parts = tf.strings.split(texts, MASK)  # (B, gaps + 1)
        gaps = tf.cast(parts.row_lengths(), tf.int32) - 1
        read = tf.math.count_nonzero(tf.equal(sequences.token_ids, self._mask_id), axis=1, dtype=tf.int32)
        good = (gaps >= 1) & (gaps <= MAX_MASKS) & tf.equal(gaps, read)
        each = tf.TensorSpec((None, TOP, MAX_MASKS), tf.float32)
        pieces, log_probs = self.over_sequences(self._search, sequences, [tf.TensorSpec(each.shape, tf.int32), each])
        most = tf.reduce_max(tf.concat([[0], tf.where(good, gaps, 0)], axis=0))
        pieces, log_probs = pieces[:, :, :most], log_probs[:, :, :most]
        written = tf.sequence_mask(tf.where(good, gaps, 0), most)[:, None, :]  # (B, 1, gaps)
        words = tf.where(written, tf.gather(tf.constant(self._words), pieces), "")  # (B, TOP, gaps)
        padded = parts.to_tensor("", shape=(None, None))
        padded = tf.pad(padded, [[0, 0], [0, tf.maximum(0, most + 1 - tf.shape(padded)[1])]], constant_values="")
        behind = tf.repeat(padded[:, None, 1 : most + 1], TOP, axis=1)
        filled = tf.strings.join([words, behind])  # (B, TOP, gaps)
        filled = tf.strings.join([tf.repeat(padded[:, :1], TOP, axis=1), tf.strings.reduce_join(filled, axis=-1)])
        scores = tf.exp(tf.reduce_sum(tf.where(written, log_probs, 0.0), axis=-1))
        return {
            "fillings": tf.where(good[:, None], filled, ""),
            "words": words,
            "scores": tf.where(good[:, None], scores, 0.0),
            "truncated": truncated,
        }

    def _search(self, inputs, lengths):
        """Fills the gaps of n texts from left to right: pieces (n, TOP, MAX_MASKS) and their log probabilities."""
        ids = inputs["token_ids"]  # (n, T)
        count, longest = ids.shape[0], tf.shape(ids)[1]
        beams = tf.repeat(ids[:, None, :], TOP, axis=1)  # (n, TOP, T)
        scores = tf.constant([[0.0] + [-np.inf] * (TOP - 1)] * count, tf.float64)  # (n, TOP)
        pieces = tf.zeros((count, TOP, MAX_MASKS), tf.int32)
        log_probs = tf.zeros((count, TOP, MAX_MASKS), tf.float64)
        gaps = tf.math.count_nonzero(tf.equal(ids, self._mask_id), axis=1, dtype=tf.int32)

        def fill(gap, beams, scores, pieces, log_probs):
            open_gaps = tf.equal(beams, self._mask_id)
            place = tf.argmax(tf.cast(open_gaps, tf.int32), axis=2, output_type=tf.int32)  # (n, TOP)
            allowed = self._next(tf.reshape(beams, (-1, longest)), tf.reshape(place, (-1, 1)))
            best, chosen = tf.math.top_k(tf.reshape(allowed, (count, TOP, -1)), TOP)  # (n, TOP, TOP)
            total, index = tf.math.top_k(tf.reshape(scores[:, :, None] + best, (count, -1)), TOP)  # (n, TOP)
            beam = index // TOP
            piece = tf.gather(tf.reshape(chosen, (count, -1)), index, batch_dims=1)
            log_prob = tf.gather(tf.reshape(best, (count, -1)), index, batch_dims=1)
            now = tf.equal(tf.range(MAX_MASKS), gap)
            here = tf.equal(tf.range(longest), tf.gather(place, beam, batch_dims=1)[:, :, None])  # (n, TOP, T)
            new = (
                tf.where(here, piece[:, :, None], tf.gather(beams, beam, batch_dims=1)),
                total,
                tf.where(now, piece[:, :, None], tf.gather(pieces, beam, batch_dims=1)),
                tf.where(now, log_prob[:, :, None], tf.gather(log_probs, beam, batch_dims=1)),
            )
            more = gap < gaps  # (n,)
            old = beams, scores, pieces, log_probs
            kept = [
                tf.where(tf.reshape(more, (-1,) + (1,) * (len(a.shape) - 1)), a, b)
                for a, b in zip(new, old, strict=True)
            ]
            return gap + 1, *kept

        most = tf.minimum(tf.reduce_max(gaps), MAX_MASKS)
        start = tf.constant(0), beams, scores, pieces, log_probs
        shapes = tuple(tensor.shape for tensor in start)
        *_, pieces, log_probs = tf.while_loop(lambda gap, *_: gap < most, fill, start, shape_invariants=shapes)
        return pieces, tf.cast(log_probs, tf.float32)

    def _next(self, token_ids, places):
        """Log probabilities (N, V) of the pieces at `places` (N, 1); -infinity for pieces not allowed there."""
        inputs = {"token_ids": token_ids, "masked_positions": places}
        if self._segments:
            inputs["segment_ids"] = tf.zeros_like(token_ids)
        logits = tf.cast(self._find_model()(inputs, training=False)[:, 0], tf.float64)
        return tf.where(self._stands, tf.nn.log_softmax(logits), tf.constant(-np.inf, tf.float64))


def export_classifier(folder, classifier, name, reader=None):
    """Writes a Classifier, see `GraphClassifier`; returns its signature."""
    graph, task = GraphClassifier(classifier, reader), classifier.task
    if task["kind"] == "regression":
        shown = 'answers["value"].numpy()'
    else:
        shown = 'answers["label"].numpy()[0].decode(), answers["probabilities"].numpy()[0, 0]'
    sizes, examples = "B texts, K labels.", _examples(classifier)
    given = {"name": name, "examples": examples, "shown": shown, "sizes": sizes}
    return write_graph(folder, graph, graph.answer, classes(task, classifier.input), **given)


def export_encoder(folder, encoder, name):
    """Writes a TextEncoder, see `GraphEncoder`; returns its signature."""
    graph = GraphEncoder(encoder)
    shown, sizes = 'answers["vectors"].numpy().shape', f"B texts, D = {encoder.encoder.hidden_dim} numbers."
    given = {"name": name, "examples": {"texts": "A dog runs."}, "shown": shown, "sizes": sizes}
    return write_graph(folder, graph, graph.answer, VECTORS, **given)


def export_filler(folder, filler, name):
    """Writes a MaskFiller, see `GraphFiller`; returns its signature."""
    graph = GraphFiller(filler)
    shown, sizes = 'answers["fillings"].numpy()[0, 0].decode()', "B texts, G gaps of the text with the most."
    text = "MKV[MASK]LA" if filler.reads_proteins else "A [MASK] runs."
    given = {"name": name, "examples": {"texts": text}, "shown": shown, "sizes": sizes}
    return write_graph(folder, graph, graph.answer, FILLINGS, **given)


def _examples(classifier):
    """Dict from input name to text: the first example of the card, or a default."""
    examples = (classifier.entry.metrics["examples"] if classifier.entry else []) or [{"source": "A dog runs."}]
    given = {"texts": examples[0]["source"]}
    return given | {"texts_b": examples[0].get("source_b", "A cat sits.")} if classifier.task["pair"] else given
