"""Batches across requests, with TensorFlow's batching op."""

import itertools
import threading
from functools import partial

import numpy as np
import tensorflow as tf

from keras_attention.decoding import Hypotheses
from keras_attention.runtime.buckets import SOURCE_LENGTHS, answer_limit
from keras_attention.runtime.compiled_search import SEARCH_OPTIONS
from keras_attention.support.compile_cache import is_eager
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID

# Limits of the op, set so high that it never refuses; `Workers` limits the requests.
MAX_SEQUENCES = 4096
MAX_WAITING_BATCHES = 1_000_000
_numbers = itertools.count(1)


class Batcher:
    """Computes the simultaneous requests of different threads as one batch.

    A single sequence is computed immediately. Sequences that arrive while a batch is computed form the next batch.

    Args:
        function: callable(tensors (N, ...)) -> list of tensors (N, ...).
        specs: list of tf.TensorSpec of tensors with any number of sequences.
        sizes: list of int, ascending. Batches are padded to one of these sizes; larger batches are split.
    """

    def __init__(self, function, specs, sizes):
        def compute(*sequences):
            size = tf.shape(sequences[0])[0]
            return (*function(*sequences), tf.fill([size], size))

        batched = tf.nondifferentiable_batch_function(
            num_batch_threads=1,
            max_batch_size=MAX_SEQUENCES,
            batch_timeout_micros=0,
            allowed_batch_sizes=sizes,
            max_enqueued_batches=MAX_WAITING_BATCHES,
            autograph=False,
        )(compute)

        @tf.function(input_signature=specs, autograph=False)
        def program(*sequences):
            with tf.name_scope(f"batcher_{next(_numbers)}"):  # batching ops with the same name would share a queue
                return batched(*sequences)

        self._program = program.get_concrete_function()

    def __call__(self, *sequences):
        """Computes some sequences, together with those of other threads.

        Args:
            sequences: arrays (N, ...), 0 < N <= MAX_SEQUENCES, see `specs`.

        Returns:
            Pair: list of NumPy arrays, the results of `function`; int array (N,), the size of the batch in which each
            sequence was computed, including padding.
        """
        *results, together = (result.numpy() for result in self._program(*map(tf.constant, sequences)))
        return results, together


def by_size(programs):
    """Returns a function that runs the program for the size of its batch.

    Args:
        programs: dict from int, the batch size, to callable(tensors of this many sequences).
    """
    sizes = sorted(programs)

    def compute(*sequences):
        def branch(size):
            return lambda: [*programs[size](*(tf.ensure_shape(one, (size, *one.shape[1:])) for one in sequences))]

        index = tf.searchsorted(tf.constant(sizes), tf.shape(sequences[0])[:1])[0]
        return tf.switch_case(index, [branch(size) for size in sizes])

    return compute


def share_batches(pipeline, settings, observe):
    """Lets a pipeline compute the sequences of several requests together, by the method named in its `batching`.

    Args:
        pipeline: Pipeline, changed in place.
        settings: ServerSettings.
        observe: callable (int), called for each sequence with the number of sequences in its batch.

    Returns:
        List of callables that together compute every shape once; none in eager mode, which compiles no batches.
    """
    if is_eager():
        return []
    ways = {"search": _batch_searches, "sequences": _batch_sequences, "alone": _compile_steps}
    return ways[pipeline.batching](pipeline, settings, observe) if pipeline.batching else []


def _batch_searches(translator, settings, observe):
    translator.decoding["beam_size"] = settings.beam or translator.decoding["beam_size"]
    translator.compiled = BatchedSearch(translator, settings.max_batch, observe)
    return translator.compiled.steps()


def _compile_steps(generator, settings, observe):
    """Requests for generated texts are not batched; only the programs for one answer are compiled beforehand."""
    return generator.steps.compiling()


def _batch_sequences(pipeline, settings, observe):
    """Adds one queue per padded length before the model.

    Args:
        pipeline: Classifier, MaskFiller or TextEncoder; its `compiled` is changed.
        settings: ServerSettings.
        observe: callable (int), called for each sequence with the number of sequences in its batch.

    Returns:
        List of callables that together compute every shape once.
    """
    compiled, sizes = pipeline.compiled, settings.batch_sizes
    compiled.trace = partial(_trace, sizes, observe)

    def step(compute):
        for size in sizes:
            compute(size)

    return [partial(step, compute) for compute in compiled.compiling(pipeline.example_inputs, SOURCE_LENGTHS)]


def _trace(sizes, observe, function, specs):
    """Puts a function behind a batching queue; see `CompiledForward.trace`."""
    names = list(specs)

    def compute(*sequences):
        return tf.nest.flatten(function(dict(zip(names, sequences, strict=True))))

    batcher = Batcher(compute, list(specs.values()), sizes)

    def run(inputs):
        results, together = batcher(*(inputs[name] for name in names))
        for size in together:
            observe(int(size))
        return results

    return run


USUAL_LENGTH = 32  # tokens, enough for nearly every sentence; padding a shorter one to it takes 6 % more time

ONE_BY_ONE = (2, 3)  # batch sizes without a program of their own


class BatchedSearch:
    """Replaces the `CompiledSearch` or other engine of a translator; each source length has its programs and a queue.

    Compiling a program takes 10 to 20 seconds, so there are few: for two lengths, each with the batch sizes 1, 8 (if
    `most` allows it) and `most`. Two or three waiting sentences are searched one after the other, which is faster than
    a batch that is mostly padding. The programs search with the model's beam size; requests for fewer translations get
    the best ones.

    Args:
        translator: Translator. Its search settings apply to every search.
        most: int > 0, maximum number of sequences in a batch.
        observe: callable (int), called for each sequence with the number of sequences in its batch.
    """

    def __init__(self, translator, most, observe):
        self._settings = translator.settings(1, False)
        self._compiled = translator.compiled
        self._sizes = sorted({1, min(8, most), most})
        self._observe = observe
        longest = self._settings["max_source_length"]
        self._lengths = sorted({min(USUAL_LENGTH, longest), longest})
        self._batchers = {}
        self._making = threading.Lock()

    def search(self, source_ids, limits, max_steps, *, n_best, no_repeat_ngram_size=0, **others):
        """See `CompiledSearch.search`; `max_steps` and the other options are taken from the settings instead.

        The rare searches with `no_repeat_ngram_size` are not batched.
        """
        if no_repeat_ngram_size:
            others |= {"n_best": n_best, "no_repeat_ngram_size": no_repeat_ngram_size}
            return self._compiled.search(source_ids, limits, max_steps, **others)
        places = np.flatnonzero(limits)  # without the padding of the caller's batch
        length = next(length for length in self._lengths if length >= source_ids.shape[1])
        sources = np.full((len(places), length), PAD_ID, "int32")
        sources[:, : source_ids.shape[1]] = source_ids[places]
        batcher = self._batcher(length)
        self._compiled.refresh()
        fields, batch_sizes = batcher(sources, limits[places])
        for size in batch_sizes:
            self._observe(int(size))
        return Hypotheses(*(_spread(field[:, :n_best], places, len(limits)) for field in fields))

    def attention(self, source_ids, token_ids):
        """See `CompiledSearch.attention`; not batched."""
        return self._compiled.attention(source_ids, token_ids)

    def stepper(self, source_ids, max_steps, beam_size):
        """See `CompiledSearch.stepper`; not batched."""
        return self._compiled.stepper(source_ids, max_steps, beam_size)

    def steps(self):
        """List of callables that compile the programs for the usual length; longer sentences are compiled on demand."""

        def step(size):
            source_ids = np.zeros((size, self._lengths[0]), "int32")
            source_ids[:, 0] = END_ID
            self._batcher(self._lengths[0])(source_ids, np.ones(size, "int32"))

        return [partial(step, size) for size in self._sizes]

    def _batcher(self, length):
        if length not in self._batchers:
            with self._making:
                if length not in self._batchers:
                    self._batchers[length] = self._new_batcher(length)
        return self._batchers[length]

    def _new_batcher(self, length):
        settings = self._settings
        options = {name: settings[name] for name in SEARCH_OPTIONS}
        options |= {"n_best": settings["beam_size"], "unknowns": False}
        program = self._compiled.in_graph(answer_limit(length, settings), **options)
        programs = {size: _one_by_one(program, size) for size in ONE_BY_ONE if size < self._sizes[-1]}
        programs |= dict.fromkeys(self._sizes, program)
        specs = [tf.TensorSpec((None, length), tf.int32), tf.TensorSpec((None,), tf.int32)]
        return Batcher(by_size(programs), specs, sorted(programs))


def _one_by_one(program, size):
    """A program for `size` sequences that runs the program for a single sequence on each of them."""

    def compute(*sequences):
        results = [program(*(sequence[i : i + 1] for sequence in sequences)) for i in range(size)]
        return [tf.concat(fields, axis=0) for fields in zip(*results, strict=True)]

    return compute


def _spread(field, places, size):
    """An array of length `size` with the elements of `field` at `places`, and 0 elsewhere."""
    spread = np.zeros((size, *field.shape[1:]), field.dtype)
    spread[places] = field
    return spread
