"""How the tokens of a text are chosen, and the compiled steps that write them."""

import threading
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_attention.decoding.greedy import most_probable
from keras_attention.decoding.next_tokens import forbid
from keras_attention.decoding.sampling import sampler
from keras_attention.errors import UserError
from keras_attention.pipelines.compiled import MAX_PROGRAMS, SOURCE_LENGTHS, source_bucket
from keras_attention.tokenizers.special_tokens import PAD_ID

MAX_TOKENS, MAX_STOPS = 100_000, 16
BATCH_SIZES = (1, 2, 4, 8, 16, 32)
START = -1  # for a step function: the last token of the beginning


class Sampling(NamedTuple):
    """How tokens are chosen: see `TextGenerator.generate`."""

    max_tokens: int = 200
    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0
    stop: tuple = ()

    def checked(self):
        """Itself; raises UserError for what is out of range."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        if len(stop) > MAX_STOPS or not all(isinstance(text, str) and text for text in stop):
            raise UserError(f"`stop` must be up to {MAX_STOPS} texts, none of them empty. Received: {self.stop!r:.80}")
        check_whole("max_tokens", self.max_tokens, 1, MAX_TOKENS)
        check_whole("top_k", self.top_k, 0, 2**31 - 1)
        check_whole("seed", self.seed, 0, 2**31 - 1)
        _check_number("temperature", self.temperature, 0.0, 100.0)
        _check_number("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
        _check_number("top_p", self.top_p, 0.0, 1.0)
        if not self.top_p:
            raise UserError("`top_p` must be greater than 0. Received: top_p=0")
        return self._replace(stop=stop)


def check_whole(name, value, low, high):
    if type(value) is not int or not low <= value <= high:
        raise UserError(f"`{name}` must be an integer from {low:,} to {high:,}. Received: {name}={value!r}")


def _check_number(name, value, low, high):
    if type(value) not in (int, float) or not low <= value <= high:
        raise UserError(f"`{name}` must be a number from {low:g} to {high:g}. Received: {name}={value!r}")


class CompiledSteps:
    """Runs the step function of a causal language model as XLA programs of few shapes.

    Shapes: N sequences, P tokens of a beginning, V vocabulary.

    Args:
        model: GPT, built.
        never: list of int, the ids that are never written.
    """

    def __init__(self, model, never):
        self.model, self.never = model, never
        self._programs = {}
        self._tracing = threading.Lock()

    def write(self, beginnings, steps, first_step, seen, keys, sampling):
        """Writes token by token behind beginnings that all fit into the model's window, together with the steps.

        Args:
            beginnings: list of lists of int, at most 32; N is the next of `BATCH_SIZES`.
            steps: int > 0, tokens to write.
            first_step: int, the number of the first one; each draws a random number of its own.
            seen: list of lists of int, the tokens of each sequence that the repetition penalty is for.
            keys: list of int for each sequence, see `decoding.sample`.
            sampling: Sampling.

        Yields:
            (list of int, list of float): a token for each sequence, and its log probability under the model.
        """
        count, longest = len(beginnings), min(self.model.max_length, SOURCE_LENGTHS[-1])
        size = next(size for size in BATCH_SIZES if size >= count)
        shape = size, source_bucket(max(map(len, beginnings)), longest)
        token_ids, mask = np.full(shape, PAD_ID, "int32"), np.zeros(shape, bool)
        was_there = np.zeros((size, self.model.vocabulary_size), bool)
        for i in range(size):  # filled up on the left; those that fill the batch are like the first one
            beginning = beginnings[i if i < count else 0]
            token_ids[i, shape[1] - len(beginning) :], mask[i, shape[1] - len(beginning) :] = beginning, True
            was_there[i, seen[i if i < count else 0]] = True
        rules = sampling.temperature > 0, sampling.top_k, sampling.top_p, sampling.repetition_penalty != 1
        begin, go_on = self._program(shape, source_bucket(steps, longest), rules)
        memory, state = begin(tf.constant(token_ids), tf.constant(mask))
        numbers = [tf.constant(x, tf.float32) for x in (sampling.temperature, sampling.repetition_penalty)]
        numbers = [tf.constant(sampling.seed), tf.constant([*keys, *[0] * (size - count)]), *numbers]
        tokens, was_there = tf.constant([START] * size), tf.constant(was_there)
        for index in range(first_step, first_step + steps):
            tokens, log_probs, state, was_there = go_on(tokens, state, memory, was_there, tf.constant(index), *numbers)
            yield tokens.numpy()[:count].tolist(), log_probs.numpy()[:count].tolist()

    def _program(self, shape, max_steps, rules):
        key = (shape, max_steps, rules)
        with self._tracing:  # threads that need the same program trace it once
            if key not in self._programs:
                if len(self._programs) >= MAX_PROGRAMS:
                    self._programs.pop(next(iter(self._programs)))
                self._programs[key] = self._compile(max_steps, *rules)
            return self._programs[key]

    def _compile(self, max_steps, draws, top_k, top_p, penalize):
        model, never = self.model, self.never

        @tf.function(jit_compile=True, autograph=False)
        def begin(token_ids, mask):
            memory = model.encode(token_ids, mask)
            state = model.initial_state(memory, max_steps)
            return {name: memory[name] for name in ("mask", "last_ids")}, state

        @tf.function(jit_compile=True, autograph=False)
        def go_on(tokens, state, memory, seen, index, seed, keys, temperature, penalty):
            logits, state = model.step(tokens, state, memory)  # (N, V)
            allowed = logits
            if penalize:
                seen = tf.logical_or(seen, tf.one_hot(tokens, logits.shape[-1], True, False, dtype=tf.bool))
                allowed = tf.where(seen, tf.where(logits > 0, logits / penalty, logits * penalty), logits)
            allowed = forbid(allowed, never)
            if draws:
                choose = sampler(seed, logits.shape[0], keys, 1.0, top_k, top_p)
                tokens = choose(allowed / temperature, index)
            else:
                tokens = most_probable(allowed, index)
            log_probs = tf.gather(logits, tokens, axis=-1, batch_dims=1) - tf.reduce_logsumexp(logits, axis=-1)
            return tokens, log_probs, state, seen

        return begin, go_on
