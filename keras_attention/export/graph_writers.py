"""Translators and language models as one TensorFlow graph and SavedModel each: text in, text out."""

import re

import tensorflow as tf

from keras_attention.decoding.sampling import draw_within, forbid, most_probable, soften, uniform
from keras_attention.decoding.token_loop import grow_one_sequence
from keras_attention.export.graph_texts import blank_as_empty, in_graph, strip, write_graph
from keras_attention.export.signatures import CONTINUED, TEXT
from keras_attention.pipelines.translator import CHARACTERS_PER_TOKEN
from keras_attention.runtime.buckets import BATCH_SIZES, answer_limit
from keras_attention.runtime.compiled_search import SEARCH_OPTIONS, search_function
from keras_attention.runtime.compiled_steps import Sampling
from keras_attention.support.errors import UserError, quoted
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID
from keras_attention.zoo.decoding_settings import DECODING


def map_chunks(function, tensors, outputs):
    """Applies a function to chunks of tensors and concatenates the results, in a graph.

    Args:
        function: takes tensors whose leading size n is static, one of BATCH_SIZES, and returns a tuple of tensors with
            the same leading size. The last chunk is padded with zeros.
        tensors: list of tensors (B, ...), B >= 0.
        outputs: list of tf.TensorSpec (None, ...), one for each result of `function`. If an axis is None, chunks
            may differ in size, and smaller ones are padded with zeros.

    Returns:
        List of tensors (B, ...).
    """
    count = tf.shape(tensors[0])[0]

    def body(start, *kept):
        waiting = count - start
        index = tf.reduce_sum(tf.cast(waiting > BATCH_SIZES[:-1], tf.int32))  # the smallest size that fits
        branches = [lambda size=size: function(*(chunk_from(x, start, size) for x in tensors)) for size in BATCH_SIZES]
        results = tf.switch_case(index, branches)
        grown = [tf.ensure_shape(append(*pair), spec.shape) for *pair, spec in zip(kept, results, outputs, strict=True)]
        return start + tf.gather(BATCH_SIZES, index), *grown

    nothing = [tf.zeros([size or 0 for size in spec.shape], spec.dtype) for spec in outputs]
    _, *results = tf.while_loop(
        lambda start, *_: start < count,
        body,
        (tf.constant(0), *nothing),
        shape_invariants=(tf.TensorShape([]), *(spec.shape for spec in outputs)),
    )
    return [result[:count] for result in results]


def chunk_from(tensor, start, size):
    """`size` (static) elements of a tensor from `start` on, padded with zeros."""
    chunk = tensor[start : start + size]
    filled = tf.pad(chunk, [[0, size - tf.shape(chunk)[0]]] + [[0, 0]] * (len(tensor.shape) - 1))
    return tf.ensure_shape(filled, (size, *tensor.shape[1:]))


def append(first, second):
    """Concatenates two tensors along the first axis; the other axes are padded with zeros to the same size."""
    sizes = tf.maximum(tf.shape(first), tf.shape(second))[1:]

    def filled(tensor):
        missing = tf.concat([[0], sizes - tf.shape(tensor)[1:]], axis=0)
        return tf.pad(tensor, tf.stack([tf.zeros_like(missing), missing], axis=1))

    return tf.concat([filled(first), filled(second)], axis=0)


class GraphTranslator(tf.Module):
    """`Translator.translate` as a graph that TensorFlow can save and run without this package.

    Sentences are sorted by length and searched in chunks of at most 32, so memory does not grow with their number.
    Padding and the other sentences of a batch change an answer only by float32 rounding.

    Shapes: B sentences, T tokens of the longest answer, S tokens of the longest sentence, both with END and at least 1.

    Args:
        translator: Translator.
        beam_size: int > 0 or None for the model's setting.
        length_penalty: float >= 0 or None for the model's setting.

    Call arguments:
        texts: string tensor (B,), B >= 0, UTF-8. Invalid bytes become U+FFFD.

    Returns:
        Dict of tensors, each with one element per text:
        text: string (B,), the best answer; "" for an empty sentence.
        score: float32 (B,), log probability after penalties, which the search maximizes; 0 for an empty sentence.
        log_prob: float32 (B,), summed natural log probability of the tokens.
        tokens: string (B, T), tokens of the answer, ending with "</s>" unless truncated, padded with "".
        source_tokens: string (B, S), tokens of the source, ending with "</s>", padded with "".
        truncated: bool (B,), whether the sentence was too long and was truncated.
        attention: float32 (B, T, S), cross-attention weights, mean over layers and heads; 0 at padding. Missing if the
            model has no attention.

    Raises:
        UserError: if a setting is out of range.
    """

    def __init__(self, translator, beam_size=None, length_penalty=None):
        super().__init__()
        given = {"beam_size": beam_size, "length_penalty": length_penalty}
        self.settings = dict(translator.decoding)
        for name, value in given.items():
            what, holds = DECODING[name]
            if value is not None and not holds(value):
                raise UserError(f"`{name}` must be {what}. Received: {name}={quoted(value)}")
            self.settings[name] = translator.decoding[name] if value is None else value
        self._longest = self.settings["max_source_length"]
        self._limits = [0] + [answer_limit(length, self.settings) for length in range(1, self._longest + 1)]
        self._has_attention = translator.has_attention
        self._find_model = lambda: translator.model  # not an attribute: TensorFlow would save all of Keras's objects
        self._weights = [variable.value for variable in translator.model.variables]
        self._source_tokenizer = in_graph(translator.source_tokenizer)
        self._target_tokenizer = in_graph(translator.target_tokenizer)
        signature = [tf.TensorSpec([None], tf.string, name="texts")]
        self.translate = tf.function(self._translate, input_signature=signature, autograph=False)

    def _translate(self, texts):
        source_ids, source_lengths, truncated = self._read(texts)
        order = tf.argsort(source_lengths, stable=True)
        back = tf.argsort(order, stable=True)
        outputs = [tf.TensorSpec((None, None), tf.int32)] + [tf.TensorSpec((None,), tf.float32)] * 2
        if self._has_attention:
            outputs.append(tf.TensorSpec((None, None, None), tf.float32))
        results = map_chunks(self._search, [tf.gather(source_ids, order), tf.gather(source_lengths, order)], outputs)
        token_ids, scores, log_probs, *weights = (tf.gather(result, back) for result in results)
        answers = {
            "text": self._target_tokenizer.detokenize(token_ids),
            "score": scores,
            "log_prob": log_probs,
            "tokens": self._target_tokenizer.tokens(token_ids),
            "source_tokens": self._source_tokenizer.tokens(source_ids),
            "truncated": truncated,
        }
        return {**answers, "attention": weights[0]} if weights else answers

    def _read(self, texts):
        """Ids (B, S) with END, padded; their lengths (B,), 0 for an empty sentence; and whether each was cut."""
        texts = strip(blank_as_empty(tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")))
        cut = tf.strings.substr(texts, 0, self._longest * CHARACTERS_PER_TOKEN, unit="UTF8_CHAR")
        shortened = tf.strings.length(cut) < tf.strings.length(texts)
        ids = self._source_tokenizer.tokenize(cut)
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        truncated = tf.logical_and(lengths > 0, tf.logical_or(lengths >= self._longest, shortened))
        lengths = tf.where(lengths > 0, tf.minimum(lengths, self._longest - 1) + 1, 0)
        padded = ids[:, : self._longest - 1].to_tensor(PAD_ID, shape=(None, self._longest))
        ends = tf.equal(tf.range(self._longest), lengths[:, None] - 1)  # (B, longest)
        return tf.where(ends, END_ID, padded)[:, : longest_of(lengths)], lengths, truncated  # (B, S)

    def _search(self, source_ids, source_lengths):
        """The best answers of n (static) sentences: ids (n, T), scores, log probabilities, and weights (n, T, S)."""
        model, settings = self._find_model(), self.settings
        source_ids = source_ids[:, : longest_of(source_lengths)]
        if settings["coverage_penalty"]:  # the penalty needs a static length
            missing = self._longest - tf.shape(source_ids)[1]
            source_ids = tf.pad(source_ids, [[0, 0], [0, missing]], constant_values=PAD_ID)
            source_ids = tf.ensure_shape(source_ids, (source_ids.shape[0], self._longest))
        options = {name: settings[name] for name in SEARCH_OPTIONS}
        search = search_function(model, max(self._limits), unknowns=False, **options)
        hypotheses = search(source_ids, tf.gather(self._limits, source_lengths))
        token_ids = hypotheses.token_ids[:, 0, : longest_of(hypotheses.lengths)]  # (n, T)
        results = token_ids, hypotheses.scores[:, 0], hypotheses.log_probs[:, 0]
        if not self._has_attention:
            return results
        starts = tf.fill((token_ids.shape[0], 1), START_ID)
        targets = tf.concat([starts, token_ids[:, :-1]], axis=1)  # (n, T)
        weights = model.cross_attention({"source_ids": source_ids, "target_ids": targets})  # (n, layers, heads, T, S)
        written = tf.not_equal(token_ids, PAD_ID)[:, :, None]
        weights = tf.where(written, tf.reduce_mean(weights, axis=(1, 2)), 0.0)  # (n, T, S)
        return *results, weights[:, :, : longest_of(source_lengths)]


def longest_of(lengths):
    """The largest of some lengths, but at least 1, so that no loop is empty."""
    return tf.maximum(tf.reduce_max(lengths), 1)


NO_TOKEN = -1  # as start token, `GPT.step` replaces it by the last token of the prompt


class GraphWriter(tf.Module):
    """`TextGenerator.generate` as a graph that TensorFlow can save and run without this package.

    The graph has no sliding window: it reads at most the last half window of a prompt, and writes at most as many
    tokens.

    Shapes: B texts, T tokens of half a window.

    Args:
        generator: TextGenerator with a SentencePiece or character tokenizer.

    Call arguments:
        texts: string tensor (B,), B >= 0, UTF-8. Invalid bytes become U+FFFD.
        max_tokens: int32 scalar > 0.
        temperature: float32 scalar >= 0; 0 writes the most probable token at each step.
        seed: int32 scalar. With the same seed, the pipeline gives the same answer; `top_p` is its default.

    Returns:
        Dict of tensors:
        text: string (B,), the continuation of each prompt.
        log_prob: float32 (B,), summed natural log probability of its tokens under the model.
        truncated: bool (B,), whether the prompt was too long and only its end was read.

    Raises:
        UserError: if the tokenizer cannot be part of a graph.
    """

    def __init__(self, generator):
        super().__init__()
        self.room = max(1, generator.window // 2)
        self._tokenizer = in_graph(generator.tokenizer)
        self._line_break, self._never = generator.line_break, generator.steps.never
        self._end_id, (self._first,) = generator.end_id, generator.token_ids_of([""])[0]
        self._is_always_first = generator.begins_with != "nothing"
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
        """Ids (B, T), padded on the left; their lengths (B,); and whether each prompt was cut."""
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
        if self._line_break:
            texts = tf.strings.regex_replace(texts, "\r\n|\n", self._line_break)
        ids = tf.cast(self._tokenizer.tokenize(texts), tf.int32)
        counts = tf.cast(tf.logical_or(self._is_always_first, ids.row_lengths() == 0), tf.int64)  # (B,)
        first = tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(counts)], self._first), counts)
        ids = tf.concat([first, ids], axis=1)
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        kept = ids[:, -self.room :]
        backwards = tf.reverse(kept, [1]).to_tensor(PAD_ID, shape=(None, self.room))
        return tf.reverse(backwards, [1]), tf.minimum(lengths, self.room), lengths > self.room

    def _write(self, token_ids, lengths, limit, temperature, seed):
        """Continues n (static) prompts: ids (n, T) with padding after the end, and log probabilities (n,)."""
        model, count = self._find_model(), token_ids.shape[0]
        mask = tf.range(self.room) >= self.room - lengths[:, None]  # (n, T)
        memory = model.encode(token_ids, mask)

        def choose(logits, index):
            numbers = uniform(seed, tf.zeros([count], tf.int32), index)
            drawn = lambda: draw_within(soften(logits, temperature), numbers, 0, 0, tf.constant(Sampling().top_p))  # noqa: E731
            return tf.cond(temperature > 0, drawn, lambda: most_probable(logits, index))

        def step(token_ids, state):
            logits, state = model.step(token_ids, state, memory)
            return logits, state

        hypotheses = grow_one_sequence(
            step,
            model.initial_state(memory, self.room),
            count,
            lambda logits, index: choose(forbid(logits, self._never), index),
            start_id=NO_TOKEN,
            end_id=self._end_id,
            pad_id=PAD_ID,
            unknown_id=None,
            max_length=tf.where(lengths > 0, limit, 0),
            max_steps=self.room,
            min_length=0,
        )
        return hypotheses.token_ids[:, 0], hypotheses.log_probs[:, 0]

    def _text(self, token_ids):
        texts = self._tokenizer.detokenize(token_ids)
        return tf.strings.regex_replace(texts, re.escape(self._line_break), "\n") if self._line_break else texts


def export_saved_model(folder, translator, name, **search):
    """Writes the SavedModel of `export.WRITERS`; README.txt translates the first example of the card."""
    examples = translator.entry.metrics["examples"] if translator.entry else ()
    texts = [example["source"] for example in examples] or ["A dog runs."]
    return write_saved_model(folder, translator, name=name, example=texts[0], **search)


def write_saved_model(folder, translator, *, name, example="A dog runs.", beam_size=None, length_penalty=None):
    """Writes a translator with the signature "serving_default", and a README.txt that explains it.

    Args:
        folder: Path, created if missing; existing content is replaced.
        translator: Translator.
        name: str, name of the folder in README.txt.
        example: str, the sentence that README.txt translates.
        beam_size, length_penalty: see `GraphTranslator`.

    Returns:
        Dict like `export.signatures.TEXT`, of the tensors that this model has.

    Raises:
        UserError: if a setting is out of range, or TensorFlow cannot write.

    Example:
        write_saved_model(Path("model"), keras_attention.load("rnn_attention_dates"), name="model", example="3.4.05")
    """
    graph = GraphTranslator(translator, beam_size, length_penalty)
    written = graph.translate.get_concrete_function().structured_outputs
    signature = {**TEXT, "outputs": {key: value for key, value in TEXT["outputs"].items() if key in written}}
    return write_graph(
        folder,
        graph,
        graph.translate,
        signature,
        name=name,
        examples={"texts": example},
        shown='answers["text"].numpy()[0].decode(), answers["score"].numpy()[0]',
        sizes="B sentences, T tokens of the longest answer, S tokens of the longest sentence.",
        settings="Beam size {beam_size}, length penalty {length_penalty}. ".format(**graph.settings),
    )


def export_writer(folder, generator, name):
    """Writes a TextGenerator, see `GraphWriter`; returns its signature."""
    graph = GraphWriter(generator)
    shown, sizes = 'answers["text"].numpy()[0].decode()', f"B texts. At most {graph.room} tokens are read and written."
    examples = {"texts": "The", "max_tokens": 20, "temperature": 0.8, "seed": 0}
    return write_graph(folder, graph, graph.answer, CONTINUED, name=name, examples=examples, shown=shown, sizes=sizes)
