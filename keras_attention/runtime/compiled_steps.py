"""The sampling settings of a text generator, and the compiled programs that generate its tokens."""

import threading
import time
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_attention.decoding.sampling import (
    SMALLEST,
    allowed_logits,
    draw_within,
    most_probable,
    soften,
    top_tokens,
    uniform,
)
from keras_attention.decoding.token_loop import grow
from keras_attention.runtime.buckets import SOURCE_LENGTHS, source_bucket
from keras_attention.runtime.compiled_search import specs_of
from keras_attention.runtime.stored_programs import stored_program
from keras_attention.runtime.work_budget import cache_bytes, memory, most_memory, stop_if_unwanted
from keras_attention.support.compile_cache import programs_fit
from keras_attention.support.errors import UserError, quoted
from keras_attention.tokenizers.special_tokens import PAD_ID

MAX_TOKENS, MAX_STOPS = 100_000, 16
MOST_TEMPERATURE = 100.0
BATCH_SIZES = (1, 4, 32)
TOP_K_SIZES = (16, 128, 1024)  # a program finds this many most probable tokens and uses the first `top_k`
ALTERNATIVES = 5  # number of most probable tokens returned with each generated token
CHUNK = 32  # maximum number of tokens that one call of a program generates
PIECE_SECONDS = 0.05  # target for the time between two chunks of tokens in streaming (`patient=False`)
CHUNK_SECONDS = 1.0  # the same without streaming: work that nobody waits for any more ends after the chunk
START = -1  # stands for the last token of the prompt, see `GPT.step`


class Sampling(NamedTuple):
    """How tokens are chosen: see `TextGenerator.generate`."""

    max_tokens: int = 200
    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 0.9
    repetition_penalty: float = 1.0
    seed: int = 0
    stop: tuple = ()

    def checked(self):
        """Returns the settings with `stop` as a tuple; raises UserError if one is out of range."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        if len(stop) > MAX_STOPS or not all(isinstance(text, str) and text for text in stop):
            raise UserError(
                f"`stop` must be up to {MAX_STOPS} texts, none of them empty. Received: {quoted(self.stop)}"
            )
        check_whole("max_tokens", self.max_tokens, 1, MAX_TOKENS)
        check_number("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
        check_drawing(self.temperature, self.top_k, self.top_p, self.seed)
        return self._replace(stop=stop, temperature=in_float32(self.temperature))


def in_float32(temperature):
    """A temperature, but 0 (greedy search) if it is so small that it is 0 in float32."""
    return temperature if temperature >= SMALLEST else 0.0


def check_whole(name, value, low, high):
    if type(value) is not int or not low <= value <= high:
        raise UserError(f"`{name}` must be an integer from {low:,} to {high:,}. Received: {name}={quoted(value)}")


def check_drawing(temperature, top_k, top_p, seed):
    """Raises UserError for a setting of `decoding.sample` that is out of range; a temperature may be 0."""
    check_number("temperature", temperature, 0.0, MOST_TEMPERATURE)
    check_whole("top_k", top_k, 0, 2**31 - 1)
    check_number("top_p", top_p, 0.0, 1.0)
    if not top_p:
        raise UserError(f"`top_p` must be greater than 0. Received: top_p={top_p!r}")
    check_whole("seed", seed, 0, 2**31 - 1)


def check_number(name, value, low, high):
    if type(value) not in (int, float) or not low <= value <= high:
        raise UserError(f"`{name}` must be a number from {low:g} to {high:g}. Received: {name}={quoted(value)}")


class Written(NamedTuple):
    """The next few tokens of each sequence.

    Attributes:
        tokens: int array (steps, N).
        log_probs: float32 array (steps, N), under the model itself.
        top_ids, top_log_probs: arrays (steps, N, ALTERNATIVES), the most probable tokens at each step; zeros if not
            requested.
    """

    tokens: np.ndarray
    log_probs: np.ndarray
    top_ids: np.ndarray
    top_log_probs: np.ndarray


class Chunk(NamedTuple):
    """The tokens that one call of a program generates for N sequences.

    Attributes:
        made: int32 scalar, the number of steps so far.
        last_ids: int32 (N,), the newest token of each sequence.
        seen: bool (N, V), the tokens to which the repetition penalty applies.
        done: bool (N,), whether a sequence has ended.
        written: tuple of the fields of `Written`, tensors (N, CHUNK, ...).
    """

    made: Any
    last_ids: Any
    seen: Any
    done: Any
    written: tuple


class CompiledSteps:
    """Runs the step function of a causal language model as XLA programs, many tokens per call.

    TensorFlow never frees a compiled program, so there are only a few: one for each combination of batch size, length
    and number of most probable tokens. All other settings are inputs, and a prompt is padded to the number of tokens
    that may follow it. If the process has no room for more programs (see `programs_fit`), further functions run
    uncompiled: slower, with the same answers.

    Shapes: N sequences, V vocabulary.

    Args:
        model: GPT, built.
        never: list of int, the ids that are never generated.
        end_id: int, the token that ends a sequence.

    Attributes:
        programs: int, the number of programs so far.
    """

    def __init__(self, model, never, end_id):
        self.model, self.never, self.end_id = model, never, end_id
        self._programs = {}
        self._tracing = threading.Lock()

    @property
    def programs(self):
        return len(self._programs)

    def write(self, beginnings, steps, first_step, seen, keys, sampling, alternatives=False, patient=True):
        """Continues prompts, each of which must fit into the model's window together with the new tokens.

        Args:
            beginnings: list of N lists of int, the prompts; N <= 32. The batch is filled up to the next of
                `BATCH_SIZES`.
            steps: int > 0, number of tokens to generate; fewer if all sequences end before.
            first_step: int, the index of the first step; each step draws its own random number.
            seen: list of lists of int, the tokens of each sequence to which the repetition penalty applies.
            keys: list of N int, see `sentence_keys` of `decoding.sample`.
            sampling: Sampling.
            alternatives: bool. Whether to return the most probable tokens of each step as well.
            patient: bool. Whether to yield as many tokens as possible at once. If False, the first chunk has one token,
                and later chunks grow as long as one takes at most `PIECE_SECONDS`.

        Yields:
            Written, for 1 to `CHUNK` steps. Tokens after the END of a sequence are meaningless.

        Raises:
            Unwanted: see `work.working`.
        """
        size = next(size for size in BATCH_SIZES if size >= len(beginnings))
        with memory(self._bytes(size, self._room(max(map(len, beginnings)), steps))):
            yield from self._write(beginnings, steps, first_step, seen, keys, sampling, alternatives, patient)

    def largest_batch(self, longest, steps):
        """The largest of `BATCH_SIZES` within the memory limit of `work`, for prompts of up to `longest` tokens."""
        room = self._room(min(longest, self.model.max_length), steps)
        return max(size for size in BATCH_SIZES if size == 1 or self._bytes(size, room) <= most_memory())

    def _room(self, length, steps):
        """The padded number of tokens of a prompt, and of the tokens that may follow it."""
        longest = min(self.model.max_length, SOURCE_LENGTHS[-1])
        return source_bucket(min(longest, max(source_bucket(min(length, longest), longest), steps)), longest)

    def _bytes(self, size, room):
        return cache_bytes(self.model, size, 2 * room - 1)

    def _write(self, beginnings, steps, first_step, seen, keys, sampling, alternatives, patient):
        sequences, longest = len(beginnings), min(self.model.max_length, SOURCE_LENGTHS[-1])
        size = next(size for size in BATCH_SIZES if size >= sequences)
        length = source_bucket(max(map(len, beginnings)), longest)
        token_ids, mask = np.full((size, length), PAD_ID, "int32"), np.zeros((size, length), bool)
        was_there = np.zeros((size, self.model.vocabulary_size), bool)
        for i in range(size):  # padded on the left; copies of the first sequence fill the batch
            beginning = beginnings[i if i < sequences else 0]
            token_ids[i, length - len(beginning) :], mask[i, length - len(beginning) :] = beginning, True
            was_there[i, seen[i if i < sequences else 0]] = True
        room = self._room(length, steps)
        prompts = tf.constant(token_ids), tf.constant(mask)
        memory = self._program(("read", size, length), self._read, prompts)(*prompts)
        memory = self.model.widened(memory, room)
        state = self.model.initial_state(memory, room)
        memory = {name: memory[name] for name in ("mask", "last_ids")}
        kept = self._kept(sampling)
        done = tf.constant([False] * sequences + [True] * (size - sequences))
        tokens, was_there = tf.constant([START] * size), tf.constant(was_there)
        fixed = self._inputs(sampling, [*keys, *[0] * (size - sequences)], alternatives)
        index, last = first_step, first_step + steps
        count, seconds = (CHUNK, CHUNK_SECONDS) if patient else (1, PIECE_SECONDS)
        inputs = tokens, state, memory, was_there, done, tf.constant(index), tf.constant(count), fixed
        program = self._program(("write", size, room, kept), self._writing(size, kept), inputs)
        while index < last:
            stop_if_unwanted()
            began, count = time.perf_counter(), min(count, last - index)
            results = program(tokens, state, memory, was_there, done, tf.constant(index), tf.constant(count), fixed)
            (made, tokens, was_there, done, written), state = results
            made = int(made)
            fitting = int(seconds * made / (time.perf_counter() - began))
            yield Written(*(np.swapaxes(part.numpy()[:sequences, :made], 0, 1) for part in written))
            if bool(tf.reduce_all(done)):
                return
            index += made
            count = max(1, min(2 * count, fitting, CHUNK))

    def compiling(self):
        """List of callables that compile the programs for short and long answers to usual prompts, without `top_k`."""
        longest = min(self.model.max_length, SOURCE_LENGTHS[-1])
        short, usual = (source_bucket(min(length, longest), longest) for length in SOURCE_LENGTHS[:2])

        def compile_one(length, steps, temperature):
            for _ in self.write([[self.end_id] * length], steps, 0, [[]], [0], Sampling(temperature=temperature)):
                return  # after the first chunk

        needed = {(short, 1), (usual, longest - usual + 1)}
        return [partial(compile_one, *one, temperature) for one in sorted(needed) for temperature in (0.0, 1.0)]

    def _kept(self, sampling):
        """The number of most probable tokens to draw from: None for greedy search, 0 for all tokens."""
        if sampling.temperature == 0:
            return None
        size = self.model.vocabulary_size
        if not 0 < sampling.top_k < size:
            return 0
        return next((kept for kept in TOP_K_SIZES if sampling.top_k <= kept < size), size)

    def _inputs(self, sampling, keys, alternatives):
        """The inputs of a program that stay the same for all tokens."""
        numbers = (sampling.temperature or 1.0, sampling.repetition_penalty, sampling.top_p)
        temperature, penalty, top_p = (tf.constant(number, tf.float32) for number in numbers)
        return {
            "keys": tf.constant(keys, tf.int32),
            "seed": tf.constant(sampling.seed),
            "temperature": temperature,
            "penalty": penalty,
            "top_k": tf.constant(sampling.top_k),
            "top_p": top_p,
            "alternatives": tf.constant(alternatives),
        }

    def _program(self, key, function, inputs):
        """The program of a function for inputs like these."""
        with self._tracing:  # threads that need the same program trace it once
            stop_if_unwanted()
            if key not in self._programs:
                facts, specs = repr((key, self.never, self.end_id)), [specs_of(one) for one in inputs]
                self._programs[key] = stored_program(function, specs, self.model, facts, jit_compile=programs_fit())
            return self._programs[key]

    def _read(self, token_ids, mask):
        return self.model.encode(token_ids, mask)

    def _writing(self, size, kept):
        """The function that generates up to CHUNK tokens. It returns a Chunk and the new state."""
        width = min(ALTERNATIVES, self.model.vocabulary_size)

        def write(tokens, state, memory, seen, done, index, count, fixed):
            def unfinished(chunk):
                return tf.logical_and(chunk.made < count, tf.logical_not(tf.reduce_all(chunk.done)))

            def choose(chunk, logits, _):  # (N, V)
                made, tokens, seen, done, written = chunk
                seen = tf.logical_or(seen, tf.one_hot(tokens, logits.shape[-1], True, False, dtype=tf.bool))
                tokens = self._chosen(logits, seen, index + made, kept, fixed)
                total = tf.reduce_logsumexp(logits, axis=-1, keepdims=True)  # (N, 1)
                log_probs = tf.gather(logits, tokens, axis=-1, batch_dims=1) - total[:, 0]
                top, top_ids = tf.cond(
                    fixed["alternatives"],
                    lambda: top_tokens(logits - total, width),
                    lambda: (tf.zeros((size, width)), tf.zeros((size, width), tf.int32)),
                )
                here = tf.equal(tf.range(CHUNK), made)  # (CHUNK,)
                written = tuple(
                    tf.where(tf.reshape(here, [1, -1, *[1] * (part.shape.rank - 2)]), new[:, None], part)
                    for part, new in zip(written, (tokens, log_probs, top_ids, top), strict=True)
                )
                return Chunk(made + 1, tokens, seen, tf.logical_or(done, tokens == self.end_id), written), None

            places = [[size, CHUNK], [size, CHUNK], [size, CHUNK, width], [size, CHUNK, width]]
            dtypes = (tf.int32, tf.float32, tf.int32, tf.float32)
            written = tuple(tf.zeros(place, dtype) for place, dtype in zip(places, dtypes, strict=True))
            start = Chunk(tf.constant(0), tokens, seen, done, written)
            return grow(self.model.step, choose, start, state, unfinished, memory)

        return write

    def _chosen(self, logits, seen, index, kept, fixed):
        """Chooses the next tokens (N,) by logits (N, V), never one of `never`."""
        penalty = fixed["penalty"]  # 1 changes nothing
        penalized = tf.where(logits > 0, logits / penalty, logits * penalty)
        allowed = allowed_logits(tf.where(seen, penalized, logits), self.never)
        if kept is None:
            return most_probable(allowed, index)
        numbers = uniform(fixed["seed"], fixed["keys"], index)  # (N,)
        return draw_within(soften(allowed, fixed["temperature"]), numbers, kept, fixed["top_k"], fixed["top_p"])
