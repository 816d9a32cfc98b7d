"""The search of an encoder-decoder as compiled programs, and running several of them at the same time."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import tensorflow as tf

from keras_attention.decoding import Hypotheses, beam_search
from keras_attention.decoding.sampling import most_probable, sampler
from keras_attention.decoding.token_loop import Sequences, extend, first_sequences, next_tokens
from keras_attention.runtime.stored_programs import call_compiled, stored_program
from keras_attention.runtime.work_budget import in_this_context
from keras_attention.support.cores import available_cores
from keras_attention.support.errors import check_finite
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID, UNKNOWN_ID

MAX_PROGRAMS = 64
SEARCH_OPTIONS = ("beam_size", "length_penalty", "coverage_penalty", "patience", "ranking", "force_end")  # of DECODING


class CompiledSearch:
    """Runs a model's decoding as XLA programs.

    Shapes: B sentences, S source tokens, N hypotheses, L tokens of an answer.

    Args:
        weights: PreparedWeights of an AttentionSeq2Seq, Transformer or AttentionCaptioner.
        source: str, the name of the sources among the inputs of the network. Sources other than token ids, such as
            float32 pictures (B, height, width, channels), have no padding.
    """

    def __init__(self, weights, source="source_ids"):
        self._weights = weights
        self._source = source
        self._programs = {}
        self._tracing = threading.Lock()

    def search(self, source_ids, limits, max_steps, **options):
        """Finds the best answers.

        Args:
            source_ids: int32 array (B, S), END at the end, then padding. Sequences of only padding fill up the batch.
            limits: int32 array (B,), the maximum number of tokens of each answer; 0 for sequences of only padding.
            max_steps: int, at least the largest limit.
            options: beam_size, n_best, length_penalty, coverage_penalty, no_repeat_ngram_size, see `beam_search`; and
                `unknowns`, whether the unknown token may be generated.

        Returns:
            Hypotheses of NumPy arrays.
        """
        key = ("search", tuple(source_ids.shape), max_steps, *sorted(options.items()))
        with self._tracing:  # threads that need the same program trace it once
            program = self._programs.get(key)
            if program is None:
                with tf.init_scope():  # outside of the graph that calls it
                    signature = [_spec_of(source_ids), tf.TensorSpec(source_ids.shape[:1], tf.int32)]
                    model, derived = self._weights.network, self._weights.derived
                    function = search_function(model, max_steps, derived_weights=derived, **options)
                    program = self._compiled(function, signature, repr(key))
                program = self._keep(key, program)
        self.refresh()
        hypotheses = program(tf.convert_to_tensor(source_ids), tf.convert_to_tensor(limits))
        return Hypotheses(*(field.numpy() if tf.executing_eagerly() else field for field in hypotheses))

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
        begin = self._program(("begin", *key[1:3]), lambda: self._compile_beginning(source_ids, max_steps))
        memory, state = begin(tf.constant(source_ids))
        sequences = first_sequences(tf.constant([limit]), max_steps, START_ID, PAD_ID)
        go_on = self._program(key, lambda: self._compile_step(key, sequences, memory, state, sampling))
        limits, seed = tf.constant([limit]), tf.constant(0 if sampling is None else sampling["seed"])
        while not sequences.done.numpy()[0]:  # an index into a tensor would run an operation
            self.refresh()
            sequences, state = go_on(sequences, state, memory, limits, seed)
            sequences = Sequences(*sequences)  # from a plain tuple
            check_finite(sequences.log_probs.numpy(), "a logit")
            yield int(sequences.last_ids.numpy()[0])

    def stepper(self, source_ids, max_steps, beam_size):
        """The decoder step of K beams of one sentence, for a search in Python.

        Args:
            source_ids: int32 array (1, S).
            max_steps: int, the most steps.
            beam_size: int > 0, K.

        Returns:
            Function (token_ids int32 (K,), parents int32 (K,)) -> log probabilities, float32 array (K, V). It keeps
            the states of the beams; `parents` says which one each beam continues.
        """
        self.refresh()
        key = ("beams", source_ids.shape, max_steps, beam_size)
        begin = self._program(("first", *key[1:]), lambda: self._compile_beams(source_ids, max_steps, beam_size))
        memory, state = begin(tf.constant(source_ids))
        program = self._program(key, lambda: self._compile_beam_step(key, memory, state, beam_size))

        def step(token_ids, parents):
            nonlocal state
            self.refresh()
            log_probs, state = program(tf.constant(token_ids), tf.constant(parents), state, memory)
            check_finite(float(tf.reduce_max(log_probs)), "a log probability")
            return log_probs.numpy()

        return step

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
        program = self._program(key, lambda: self._compile_attention(sources, targets))
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
            return call_compiled(function, *inputs)

    def _compile_beginning(self, sources, max_steps):
        model = self._weights.network

        def begin(source_ids):
            memory = model.encode(source_ids)
            return memory, model.initial_state(memory, max_steps)

        return self._compiled(begin, [_spec_of(sources)], repr(max_steps))

    def _compile_step(self, key, sequences, memory, state, sampling):
        never = [START_ID, PAD_ID, UNKNOWN_ID]

        def go_on(sequences, state, memory, limits, seed):
            pick_token = most_probable
            if sampling is not None:
                pick_token = sampler(**{**sampling, "seed": seed}, batch_size=1)
            step = partial(self._weights.network.step, **self._weights.derived())
            rules = {"limits": limits, "never": never, "end_id": END_ID, "pad_id": PAD_ID}
            return next_tokens(step, partial(extend, pick_token=pick_token, **rules), (memory,), sequences, state)

        specs = [*map(specs_of, (sequences, state, memory)), tf.TensorSpec((1,), tf.int32), tf.TensorSpec((), tf.int32)]
        return self._compiled(go_on, specs, repr(key))

    def _compile_beams(self, sources, max_steps, beam_size):
        model = self._weights.network

        def begin(source_ids):
            memory = model.encode(tf.repeat(source_ids, beam_size, axis=0))
            return memory, model.initial_state(memory, max_steps, False)

        return self._compiled(begin, [_spec_of(sources)], f"beams {max_steps} {beam_size}")

    def _compile_beam_step(self, key, memory, state, beam_size):
        """Each beam counts as a sentence of its own: a program of several beams of one would be compiled at each step.

        As everywhere, the leading axis of a state is the number of sentences or a multiple.
        """

        def taken(parents, tensor):
            size = tensor.shape[0] // beam_size
            return tf.gather(tensor, tf.reshape(parents[:, None] * size + tf.range(size), [-1]))

        def go_on(token_ids, parents, state, memory):
            state = tf.nest.map_structure(partial(taken, parents), state)
            logits, new = self._weights.network.step(token_ids, state, memory, **self._weights.derived())
            return tf.nn.log_softmax(tf.cast(logits, "float32")), {name: new[name] for name in state}

        specs = [tf.TensorSpec((beam_size,), tf.int32)] * 2 + [specs_of(state), specs_of(memory)]
        return self._compiled(go_on, specs, repr(key))

    def _compile_attention(self, sources, targets):
        def program(source_ids, target_ids):
            return self._weights.network.cross_attention({self._source: source_ids, "target_ids": target_ids})

        return self._compiled(program, [_spec_of(sources), _spec_of(targets)], "")


def _spec_of(array):
    return tf.TensorSpec(array.shape, array.dtype)


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
    return map(function, items) if len(items) == 1 else _in_threads(in_this_context(function), items)


def _in_threads(function, items):
    with ThreadPoolExecutor(available_cores()) as threads:
        yield from threads.map(function, items)
