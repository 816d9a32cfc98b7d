"""Batches across requests, with TensorFlow's batching op."""

import itertools
from functools import partial

import numpy as np
import tensorflow as tf

from keras_attention.decoding import Hypotheses
from keras_attention.pipelines.compiled import (
    SEARCH_OPTIONS,
    SOURCE_LENGTHS,
    answer_limit,
    source_bucket,
)
from keras_attention.pipelines.texts import TokenSequence
from keras_attention.tokenizers.special_tokens import END_ID

# Limits of the op, set so high that it never refuses; `Workers` limits the requests.
MAX_SEQUENCES = 4096
MAX_WAITING_BATCHES = 1_000_000
_numbers = itertools.count(1)


class Batcher:
    """Computes the simultaneous requests of different threads as one batch.

    A single sequence is computed immediately. Those that arrive while a batch is computed wait and form the next batch.

    Args:
        function: callable(tensors (N, ...)) -> list of tensors with an entry for each sequence.
        specs: list of tf.TensorSpec of int32 tensors with any number of sequences.
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
            with tf.name_scope(f"batcher_{next(_numbers)}"):  # the op shares its queue with those of equal scope
                return batched(*sequences)

        self._program = program.get_concrete_function()

    def __call__(self, *sequences):
        """Computes some sequences, together with those of other threads.

        Args:
            sequences: int32 arrays (N, ...), 0 < N <= MAX_SEQUENCES, see `specs`.

        Returns:
            (list of NumPy arrays, what `function` returns; int array (N,), how many sequences were computed together
            with each sequence, those that fill up a batch among them).
        """
        *results, together = (result.numpy() for result in self._program(*map(tf.constant, sequences)))
        return results, together


def by_size(function, sizes):
    """A function with one branch per batch size in `sizes`, so that the shapes in each branch are static."""

    def compute(*sequences):
        def branch(size):
            return lambda: function(*(tf.ensure_shape(sequence, (size, *sequence.shape[1:])) for sequence in sequences))

        index = tf.searchsorted(tf.constant(sizes), tf.shape(sequences[0])[:1])[0]
        return tf.switch_case(index, [branch(size) for size in sizes])

    return compute


def share_batches(pipeline, settings, observe):
    """Lets a pipeline compute the sequences of several requests together, in the way that its `batching` names.

    Args:
        pipeline: Pipeline, changed.
        settings: ServerSettings.
        observe: callable (int), called for each sequence with the number of sequences in its batch.

    Returns:
        List of callables that together compute every shape once.
    """
    ways = {"search": _batch_searches, "sequences": _batch_sequences, "alone": _compile_steps}
    return ways[pipeline.batching](pipeline, settings, observe) if pipeline.batching else []


def _batch_searches(translator, settings, observe):
    translator.decoding["beam_size"] = settings.beam or translator.decoding["beam_size"]
    translator.compiled = BatchedSearch(translator, settings.batch_sizes, observe)
    return translator.compiled.steps()


def _compile_steps(generator, settings, observe):
    """Each request is written by itself; compiled before are the programs for one answer."""
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

    def step(length):
        for size in sizes:
            sequence = TokenSequence(np.ones(length, "int32"), np.zeros(length, "int32"), False)
            compiled.run(
                [sequence] * size, **{name: np.zeros((size, at), "int32") for name, at in pipeline.extra_inputs.items()}
            )

    longest = pipeline.max_tokens
    lengths = {source_bucket(min(length, longest), longest) for length in SOURCE_LENGTHS}
    return [partial(step, length) for length in sorted(lengths)]


def _trace(sizes, observe, function, specs):
    """The function behind a queue; see `CompiledBert.trace`."""
    names = list(specs)

    def compute(*sequences):
        return tf.nest.flatten(function(dict(zip(names, sequences, strict=True))))

    batcher = Batcher(compute, list(specs.values()), sizes)

    def run(inputs):
        results, together = batcher(*(inputs[name].astype("int32") for name in names))
        for size in together:
            observe(int(size))
        return results

    return run


class BatchedSearch:
    """Replaces the `CompiledSearch` or other engine of a translator; each source length has one program and one queue.

    The programs search with the model's beam size; requests for fewer translations take the first ones.

    Args:
        translator: Translator. Its search settings apply to every search.
        sizes: list of int, ascending: sequences of a batch.
        observe: callable (int), called for each sequence with the number of sequences in its batch.
    """

    def __init__(self, translator, sizes, observe):
        self._settings = translator.settings(1, False)
        self._sizes = sizes
        self._observe = observe
        longest = self._settings["max_source_length"]
        self._batchers = {
            length: self._batcher(translator.compiled, length)
            for length in sorted({source_bucket(min(length, longest), longest) for length in SOURCE_LENGTHS})
        }

    def search(self, source_ids, limits, max_steps, *, n_best, **_):
        """See `CompiledSearch.search`; `max_steps` and the options are those of the settings."""
        batcher = self._batchers[source_ids.shape[1]]
        places = np.flatnonzero(limits)  # not those that fill up the caller's batch
        found, together = batcher(source_ids[places], limits[places])
        for size in together:
            self._observe(int(size))
        return Hypotheses(*(_spread(field[:, :n_best], places, len(limits)) for field in found))

    def steps(self):
        """List of callables that run every program once, so that nothing is compiled later."""

        def step(length, size):
            source_ids = np.zeros((size, length), "int32")
            source_ids[:, 0] = END_ID
            self._batchers[length](source_ids, np.ones(size, "int32"))

        return [partial(step, length, size) for length in self._batchers for size in self._sizes]

    def _batcher(self, compiled, length):
        settings = self._settings
        options = {name: settings[name] for name in SEARCH_OPTIONS}
        program = compiled.in_graph(
            answer_limit(length, settings), n_best=settings["beam_size"], unknowns=False, **options
        )
        specs = [tf.TensorSpec((None, length), tf.int32), tf.TensorSpec((None,), tf.int32)]
        return Batcher(by_size(program, self._sizes), specs, self._sizes)


def _spread(field, places, size):
    """An array of length `size` with the entries of `field` at `places`, and 0 elsewhere."""
    spread = np.zeros((size, *field.shape[1:]), field.dtype)
    spread[places] = field
    return spread
