"""A language model as one TensorFlow graph: the beginning of a text in, what may follow out."""

import re

import tensorflow as tf

from keras_attention.decoding.greedy import grow_one_sequence, most_probable
from keras_attention.decoding.next_tokens import forbid
from keras_attention.decoding.sampling import draw_within, uniform
from keras_attention.export.graph_texts import in_graph
from keras_attention.export.graph_translator import map_chunks
from keras_attention.tokenizers.special_tokens import PAD_ID

START = -1  # for the step function: the last token of the beginning


class GraphWriter(tf.Module):
    """`TextGenerator.generate` as a graph that TensorFlow can save and run without this package.

    A graph does not slide: it reads the last half of the window of a long beginning, and writes at most as much.

    Shapes: B texts, T tokens of half a window.

    Args:
        generator: TextGenerator with a SentencePiece or character tokenizer.

    Call arguments:
        texts: string tensor (B,), B >= 0, UTF-8. Invalid bytes become U+FFFD.
        max_tokens: int32 scalar > 0.
        temperature: float32 scalar >= 0; 0 writes the most probable token at each step.
        seed: int32 scalar. The same seed gives the answer of the pipeline with this seed.

    Returns:
        Dict of tensors:
        text: string (B,), what follows each beginning.
        log_prob: float32 (B,), summed natural log probability of its tokens under the model.
        truncated: bool (B,), whether the beginning was too long and only its end was read.

    Raises:
        UserError: if the tokenizer cannot be part of a graph.
    """

    def __init__(self, generator):
        super().__init__()
        self.room = max(1, generator.window // 2)
        self._tokenizer = in_graph(generator.tokenizer)
        self._line_break, self._never = generator.line_break, generator.steps.never
        self._end_id, self._first = generator.end_id, generator._beginnings([""])[0]
        self._find_model = lambda: generator.model  # not an attribute: TensorFlow would save all of Keras's objects
        self._weights = [variable.value for variable in generator.model.variables]
        scalars = {"max_tokens": tf.int32, "temperature": tf.float32, "seed": tf.int32}
        signature = [tf.TensorSpec([None], tf.string, name="texts")]
        signature += [tf.TensorSpec([], dtype, name=name) for name, dtype in scalars.items()]
        self.answer = tf.function(self._answer, input_signature=signature, autograph=False)

    def _answer(self, texts, max_tokens, temperature, seed):
        token_ids, lengths, truncated = self._read(texts)
        limit = tf.clip_by_value(max_tokens, 1, self.room)

        def write(token_ids, lengths):
            return self._write(token_ids, lengths, limit, temperature, seed)

        outputs = [tf.TensorSpec((None, self.room), tf.int32), tf.TensorSpec((None,), tf.float32)]
        written, log_probs = map_chunks(write, [token_ids, lengths], outputs)
        before = self._text(token_ids)
        whole = self._text(tf.concat([token_ids, written], axis=1))
        characters = tf.strings.length(before, "UTF8_CHAR")
        text = tf.strings.substr(whole, characters, tf.strings.length(whole), "UTF8_CHAR")
        return {"text": text, "log_prob": log_probs, "truncated": truncated}

    def _read(self, texts):
        """Ids (B, T), filled up on the left; their numbers (B,); and whether each beginning was cut."""
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
        if self._line_break:
            texts = tf.strings.regex_replace(texts, "\r\n|\n", self._line_break)
        ids = self._tokenizer.tokenize(texts)
        first = tf.fill([tf.shape(texts)[0], len(self._first)], 0) + tf.constant(self._first)
        ids = tf.concat([tf.RaggedTensor.from_tensor(first), tf.cast(ids, tf.int32)], axis=1)
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        kept = ids[:, -self.room :]
        backwards = tf.reverse(kept, [1]).to_tensor(PAD_ID, shape=(None, self.room))
        return tf.reverse(backwards, [1]), tf.minimum(lengths, self.room), lengths > self.room

    def _write(self, token_ids, lengths, limit, temperature, seed):
        """What follows n (static) beginnings: ids (n, T) with padding behind the end, and log probabilities (n,)."""
        model, count = self._find_model(), token_ids.shape[0]
        mask = tf.range(self.room) >= self.room - lengths[:, None]  # (n, T)
        memory = model.encode(token_ids, mask)

        def choose(logits, index):
            numbers = uniform(seed, tf.zeros([count], tf.int32), index)
            drawn = lambda: draw_within(logits / temperature, numbers, 0, 0, tf.constant(1.0))  # noqa: E731
            return tf.cond(temperature > 0, drawn, lambda: most_probable(logits, index))

        def step(token_ids, state):
            logits, state = model.step(token_ids, state, memory)
            return logits, state

        found = grow_one_sequence(
            step,
            model.initial_state(memory, self.room),
            count,
            lambda logits, index: choose(forbid(logits, self._never), index),
            start_id=START,
            end_id=self._end_id,
            pad_id=PAD_ID,
            unknown_id=None,
            max_length=tf.where(lengths > 0, limit, 0),
            max_steps=self.room,
            min_length=0,
        )
        return found.token_ids[:, 0], found.log_probs[:, 0]

    def _text(self, token_ids):
        texts = self._tokenizer.detokenize(token_ids)
        return tf.strings.regex_replace(texts, re.escape(self._line_break), "\n") if self._line_break else texts
