"""Compiled networks. Inputs are padded to a few static shapes, so that only a few programs are compiled, each once."""

import threading
from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import tensorflow as tf

from keras_attention.cores import available_cores
from keras_attention.decoding import Hypotheses, beam_search
from keras_attention.decoding.sampling import forbid, most_probable, sampler
from keras_attention.pipelines.stored_programs import stored_program
from keras_attention.pipelines.texts import TokenSequence
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID, UNKNOWN_ID

SOURCE_LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
USUAL_LENGTHS = SOURCE_LENGTHS[:3]  # tokens of a sentence or two
BATCH_SIZES = (1, 8, 32)


def source_bucket(length, longest):
    """The padded length of one source.

    Args:
        length: int in [1, longest], tokens including END.
        longest: int, the model's maximum.

    Returns:
        int.
    """
    longer = 1 << (length - 1).bit_length()  # with sparse attention, a model may read more than the largest of them
    return min(longest, next((size for size in SOURCE_LENGTHS if size >= length), longer))


def answer_limit(source_length, decoding):
    """The maximum number of tokens, including END, of the answer to a source.

    Args:
        source_length: int, tokens including END.
        decoding: dict, see `schema.DECODING`.

    Returns:
        int >= 1.
    """
    ratio_limit = int(decoding["length_ratio"] * source_length) + decoding["length_offset"]
    return max(1, min(decoding["max_length"], ratio_limit))


def batches(lengths, longest):
    """Groups sources of similar length into batches of a few sizes.

    A batch has the padded length of its longest source. If the sources of that length do not fill it, the longest
    remaining sources do.

    Args:
        lengths: list of int, tokens of each source including END.
        longest: int, the model's maximum.

    Yields:
        (positions, batch size, padded length): at most "batch size" positions in `lengths`. Batches of long sources
            come first: if batches run in parallel, a slow one should not start last.
    """
    waiting = sorted(range(len(lengths)), key=lengths.__getitem__)
    buckets = [source_bucket(lengths[position], longest) for position in waiting]
    while waiting:
        padded = buckets[-1]
        same = len(buckets) - bisect_left(buckets, padded)
        size = next((size for size in BATCH_SIZES if size >= same), BATCH_SIZES[-1])
        yield waiting[-size:], size, padded
        del waiting[-size:], buckets[-size:]


TOKENS_PER_BATCH = 2048  # with long texts about 10 % faster on a CPU than 4,096: fewer pages of memory are allocated


class CompiledBert:
    """Runs a function of token and segment ids over many sequences.

    Each sequence is padded to one of a few lengths, which depends only on the sequence itself, and computed in a batch
    of sequences with the same padded length.

    Args:
        function: callable(inputs) -> tensor or tuple of tensors whose first axis is the batch. `inputs` is a dict of
            int32 tensors (B, T) `token_ids` and `segment_ids`, and of the further inputs given to `run`.
        max_tokens: int, limit of a sequence.
        num_segments: int, segments of the model. With fewer than two, `segment_ids` is left out.
        model: layer or model that `function` calls in inference mode, so that its graphs can be stored on disk; or
            None.

    Attributes:
        trace: callable (function, specs) -> callable(inputs) -> tuple of NumPy arrays, called once for each padded
            length. `specs` is a dict of tf.TensorSpec for any number of sequences. The server replaces it.
    """

    def __init__(self, function, max_tokens, num_segments, model=None):
        self.max_tokens = max_tokens
        self._names = ("token_ids", "segment_ids") if num_segments > 1 else ("token_ids",)
        self.trace = partial(traced, model=model)
        self._function = function
        self._traced = {}

    def run(self, sequences, progress=None, **more) -> list[tuple[np.ndarray, ...]]:
        """Computes all sequences.

        Args:
            sequences: list of N TokenSequence.
            progress: callable (sequences done, number of sequences) or None.
            more: further inputs by name, int32 arrays (N, ...).

        Returns:
            List of N tuples of NumPy arrays without the batch axis. Axes of T tokens are padded.
        """
        results: list = [None] * len(sequences)
        done = 0
        groups = {}
        for position, sequence in enumerate(sequences):
            groups.setdefault(source_bucket(len(sequence.token_ids), self.max_tokens), []).append(position)
        for length, positions in sorted(groups.items()):
            size = max(1, TOKENS_PER_BATCH // length)
            for start in range(0, len(positions), size):
                some = positions[start : start + size]
                inputs = padded([sequences[position] for position in some], length, self._names)
                outputs = self._call(inputs | {name: values[some] for name, values in more.items()})
                for i, position in enumerate(some):
                    results[position] = tuple(output[i] for output in outputs)
                done += len(some)
                if progress:
                    progress(done, len(sequences))
        return results

    def compiling(self, lengths=USUAL_LENGTHS, **more):
        """List of callables that compute sequences of the usual padded lengths once.

        Args:
            lengths: sequence of int.
            more: the number of int32 values per sequence in each further input, by name.
        """

        def compute(length):
            sequence = TokenSequence(np.ones(length, "int32"), np.zeros(length, "int32"), False)
            self.run([sequence], **{name: np.zeros((1, number), "int32") for name, number in more.items()})

        padded_lengths = {source_bucket(min(length, self.max_tokens), self.max_tokens) for length in lengths}
        return [partial(compute, length) for length in sorted(padded_lengths)]

    def _call(self, inputs):
        key = tuple((name, value.shape[1:]) for name, value in inputs.items())
        if key not in self._traced:
            specs = {name: tf.TensorSpec((None, *value.shape[1:]), tf.int32) for name, value in inputs.items()}
            self._traced[key] = self.trace(self._function, specs)
        return self._traced[key](inputs)


def traced(function, specs, model=None):
    """Traces the function for inputs of the given shapes, or reads its graph; see `CompiledBert`."""
    names = list(specs)

    def call(*inputs):
        return function(dict(zip(names, inputs, strict=True)))

    program = stored_program(call, list(specs.values()), model, repr(names))

    def run(inputs):
        outputs = program(*(tf.constant(inputs[name], tf.int32) for name in names))
        return tuple(output.numpy() for output in tf.nest.flatten(outputs))

    return run


def padded(sequences, length, names):
    """Pads the named arrays of several sequences to `length`: dict from name to array (B, `length`)."""
    inputs = {name: np.full((len(sequences), length), PAD_ID, "int32") for name in names}
    for i, sequence in enumerate(sequences):
        for name, values in inputs.items():
            values[i, : len(sequence.token_ids)] = getattr(sequence, name)
    return inputs


MAX_PROGRAMS = 64
SEARCH_OPTIONS = ("beam_size", "length_penalty", "coverage_penalty", "patience")  # keys of `schema.DECODING`


class CompiledSearch:
    """Runs a model's decoding as XLA programs.

    Shapes: B sentences, S source tokens, N hypotheses, L tokens of an answer.

    Args:
        weights: PreparedWeights of an AttentionSeq2Seq or Transformer.
    """

    def __init__(self, weights):
        self._weights = weights
        self._programs = {}
        self._tracing = threading.Lock()

    def search(self, source_ids, limits, max_steps, **options):
        """Finds the best answers.

        Args:
            source_ids: int32 array (B, S), END at the end, then padding. Sequences of only padding fill up the batch.
            limits: int32 array (B,), the maximum number of tokens of each answer; 0 for sequences of only padding.
            max_steps: int, at least the largest limit.
            options: beam_size, n_best, length_penalty, coverage_penalty, see `beam_search`; and `unknowns`, whether
                the unknown token may be generated.

        Returns:
            Hypotheses of NumPy arrays.
        """
        key = ("search", tuple(source_ids.shape), max_steps, *sorted(options.items()))
        with self._tracing:  # threads that need the same program trace it once
            program = self._programs.get(key)
            if program is None:
                with tf.init_scope():  # outside of the graph that calls it
                    signature = [tf.TensorSpec(shape, tf.int32) for shape in (source_ids.shape, source_ids.shape[:1])]
                    model, derived = self._weights.network, self._weights.derived
                    function = search_function(model, max_steps, derived_weights=derived, **options)
                    program = self._compiled(function, signature, repr(key))
                program = self._keep(key, program)
        self.refresh()
        found = program(tf.convert_to_tensor(source_ids), tf.convert_to_tensor(limits))
        return Hypotheses(*(field.numpy() if tf.executing_eagerly() else field for field in found))

    def in_graph(self, max_steps, **options):
        """`search` as a function of tensors (source_ids, limits) with static shapes, for a larger graph.

        Call `refresh` before each run of that graph.
        """
        return partial(self.search, max_steps=max_steps, **options)

    def refresh(self):
        """Makes the programs use the current weights of the model, see `PreparedWeights.refresh`."""
        self._weights.refresh()

    def stream(self, source_ids, limit, max_steps, sampling=None):
        """Generates one answer token by token.

        Args:
            source_ids: int32 array (1, S).
            limit: int, the maximum number of tokens.
            max_steps: int, at least `limit`.
            sampling: dict with seed, temperature, top_k and top_p, see `sample`; None for greedy search.

        Yields:
            int, each token as soon as it is generated. The last is END, unless the limit was reached.
        """
        settings = () if sampling is None else tuple(sorted((k, v) for k, v in sampling.items() if k != "seed"))
        key = ("stream", source_ids.shape, max_steps, settings)
        self.refresh()
        begin = self._program(("begin", *key[1:3]), lambda: self._compile_beginning(source_ids.shape, max_steps))
        memory, state = begin(tf.constant(source_ids))
        go_on = self._program(key, lambda: self._compile_step(key, memory, state, sampling))
        token, seed = tf.constant([START_ID]), tf.constant(0 if sampling is None else sampling["seed"])
        for index in range(limit):
            self.refresh()
            token, state = go_on(token, state, memory, tf.constant(index), seed)
            yield int(token[0])
            if token[0] == END_ID:
                return

    def attention(self, source_ids, token_ids):
        """Computes the cross-attention weights of the given answers.

        Args:
            source_ids: int32 array (B, S).
            token_ids: int32 array (B, N, L), the answers.

        Returns:
            float32 array (B, N, layers, heads, L, S). Index t of L is the step that generated token t.
        """
        batch, n_best, length = token_ids.shape
        sources = np.repeat(source_ids, n_best, axis=0)  # (B * N, S)
        starts = np.full((batch * n_best, 1), START_ID, dtype="int32")
        targets = np.concatenate([starts, token_ids.reshape(batch * n_best, length)[:, :-1]], axis=1)  # (B * N, L)
        key = ("attention", sources.shape, targets.shape)
        program = self._program(key, lambda: self._compile_attention(sources.shape, targets.shape))
        self.refresh()
        weights = program(tf.constant(sources), tf.constant(targets)).numpy()
        return weights.reshape(batch, n_best, *weights.shape[1:])

    def _program(self, key, compile_it):
        with self._tracing:
            return self._programs[key] if key in self._programs else self._keep(key, compile_it())

    def _keep(self, key, program):
        if len(self._programs) >= MAX_PROGRAMS:
            self._programs.pop(next(iter(self._programs)))
        self._programs[key] = program
        return program

    def _compiled(self, function, specs, key):
        """Compiles a function of the model; see `stored_program` for the arguments."""
        further = {"variables": self._weights.variables, "call": self._call_with_copies}
        return stored_program(function, specs, self._weights.network, key, jit_compile=True, **further)

    def _call_with_copies(self, function, *inputs):
        with self._weights.copies():
            return tf.function(function, jit_compile=True, autograph=False)(*inputs)

    def _compile_beginning(self, shape, max_steps):
        model = self._weights.network

        def begin(source_ids):
            memory = model.encode(source_ids)
            return memory, model.initial_state(memory, max_steps)

        return self._compiled(begin, [tf.TensorSpec(shape, tf.int32)], repr(max_steps))

    def _compile_step(self, key, memory, state, sampling):
        def go_on(token_ids, state, memory, index, seed):
            choose = most_probable
            if sampling is not None:
                choose = sampler(**{**sampling, "seed": seed}, batch_size=1)
            logits, new = self._weights.network.step(token_ids, state, memory, **self._weights.derived())
            allowed = forbid(tf.cast(logits, "float32"), [START_ID, PAD_ID, UNKNOWN_ID])
            return choose(allowed, index), {name: new[name] for name in state}

        index = seed = tf.TensorSpec((), tf.int32)
        specs = [tf.TensorSpec((1,), tf.int32), specs_of(state), specs_of(memory), index, seed]
        return self._compiled(go_on, specs, repr(key))

    def _compile_attention(self, source_shape, target_shape):
        def program(source_ids, target_ids):
            return self._weights.network.cross_attention({"source_ids": source_ids, "target_ids": target_ids})

        specs = [tf.TensorSpec(source_shape, tf.int32), tf.TensorSpec(target_shape, tf.int32)]
        return self._compiled(program, specs, "")


def specs_of(tensors):
    """The tf.TensorSpec of each of some nested tensors."""
    return tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), tensors)


def search_function(model, max_steps, *, derived_weights=None, beam_size, coverage_penalty, unknowns, **options):
    """Returns the beam search of a model, for compilation.

    Args:
        model: AttentionSeq2Seq or Transformer, built.
        max_steps: int, at least the largest limit.
        derived_weights: callable that returns what `model.derived_weights` returns; None for `model.derived_weights`.
        beam_size, coverage_penalty, unknowns, options: see `CompiledSearch.search`.

    Returns:
        Function (source_ids int32 (B, S), limits int32 (B,)) -> Hypotheses; the shapes must be static.
    """
    derived_weights = derived_weights or model.derived_weights

    def search(source_ids, limits):
        memory = model.encode(source_ids)
        return beam_search(
            partial(model.step, **derived_weights()),
            model.initial_state(memory, max_steps, bool(coverage_penalty), beam_size),
            source_ids.shape[0],
            memory=memory,
            beam_size=beam_size,
            coverage_penalty=coverage_penalty,
            start_id=START_ID,
            end_id=END_ID,
            pad_id=PAD_ID,
            unknown_id=None if unknowns else UNKNOWN_ID,
            max_length=limits,
            max_steps=max_steps,
            source_mask=memory["mask"] if coverage_penalty else None,
            **options,
        )

    return search


def map_in_threads(function, items):
    """Iterates over `function(item)` for the items of a list, in order, computed in one thread per core.

    XLA runs the matrix products of a program on all cores but everything else on one core, so two programs in parallel
    keep two cores busy. A single item is computed in the calling thread.
    """
    return map(function, items) if len(items) == 1 else _in_threads(function, items)


def _in_threads(function, items):
    with ThreadPoolExecutor(available_cores()) as threads:
        yield from threads.map(function, items)
