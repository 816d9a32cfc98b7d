"""The forward pass of a network for many examples. Inputs have few static shapes, so that few graphs are traced."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from keras_attention.runtime.buckets import USUAL_LENGTHS, source_bucket
from keras_attention.runtime.stored_programs import stored_program
from keras_attention.runtime.work_budget import activation_bytes, memory

Example = Mapping[str, np.ndarray]  # name of an input -> its array for one example, without the batch axis

STEPS_PER_BATCH = 2048  # with long texts about 10 % faster on a CPU than 4,096: fewer pages of memory are allocated
NUMBERS_PER_BATCH = 1 << 18  # of examples without a padded axis, such as images


class CompiledForward:
    """Runs a function of named arrays over many examples.

    Each example is padded to one of a few lengths, which depends only on the example itself, and computed in a batch
    of examples with the same shapes. Arrays may have any type and any rank.

    Args:
        function: callable(inputs) -> tensor or nested tensors whose first axis is the batch. `inputs` is a dict of
            tensors (B, ...) with the names of the examples.
        padding: dict from the name of each input whose first axis varies, such as the tokens of a text, to the number
            that fills it up. These axes are equally long in one example. Empty for inputs of fixed shapes.
        longest: int > 0, limit of that axis.
        model: layer or model that `function` calls in inference mode, so that its graphs can be stored on disk; or
            None.
        steps_per_batch: int > 0, the padded axes of a batch together, or None for 2,048. Loops over time are faster in
            large batches.

    Attributes:
        trace: callable (function, specs) -> callable(inputs) -> tuple of NumPy arrays, called once for each set of
            shapes. `specs` is a dict of tf.TensorSpec for any number of examples. The server replaces it.
    """

    def __init__(
        self,
        function: Callable,
        padding: Mapping[str, float] | None = None,
        longest: int = 1,
        model: Any = None,
        steps_per_batch: int | None = None,
    ):
        self.padding, self.longest = dict(padding or {}), longest
        self.steps_per_batch = steps_per_batch or STEPS_PER_BATCH
        self.trace: Callable = partial(traced, model=model)
        self._function, self._model = function, model
        self._traced: dict = {}

    def run(
        self, examples: Sequence[Example], progress: Callable[[int, int], None] | None = None
    ) -> list[tuple[np.ndarray, ...]]:
        """Computes all examples.

        Args:
            examples: N Examples with the same names and types.
            progress: callable (examples done, number of examples) or None.

        Returns:
            List of N tuples of NumPy arrays without the batch axis. Axes of padded inputs are padded.
        """
        results: list = [None] * len(examples)
        done = 0
        groups: dict = {}
        for position, example in enumerate(examples):
            groups.setdefault(self._shapes(example), []).append(position)
        for shapes, positions in sorted(groups.items()):
            size = self._batch_size(shapes)
            for start in range(0, len(positions), size):
                some = positions[start : start + size]
                with memory(self._bytes(len(some), shapes)):
                    outputs = self._call(stacked([examples[position] for position in some], dict(shapes), self.padding))
                for i, position in enumerate(some):
                    results[position] = tuple(output[i] for output in outputs)
                done += len(some)
                if progress:
                    progress(done, len(examples))
        return results

    def compiling(self, example: Callable[[int], Example], lengths: Sequence[int] = USUAL_LENGTHS) -> list[Callable]:
        """List of callables(size=1) that compute examples of each padded length once.

        Args:
            example: callable (length) -> Example whose padded axis has this length.
            lengths: sequence of int.
        """

        def compute(length, size=1):
            self.run([example(length)] * size)

        padded_lengths = {source_bucket(min(length, self.longest), self.longest) for length in lengths}
        return [partial(compute, length) for length in sorted(padded_lengths)]

    def _shapes(self, example):
        """The shape of each input, with the padded length as first axis where it varies."""
        return tuple(
            (name, (source_bucket(len(value), self.longest), *value.shape[1:]) if name in self.padding else value.shape)
            for name, value in example.items()
        )

    def _bytes(self, size, shapes):
        """About the memory that a batch takes."""
        length = next((shape[0] for name, shape in shapes if name in self.padding), 1)
        return 0 if self._model is None else activation_bytes(self._model, size, length)

    def _batch_size(self, shapes):
        lengths = [shape[0] for name, shape in shapes if name in self.padding]
        if lengths:
            return max(1, self.steps_per_batch // lengths[0])
        return max(1, NUMBERS_PER_BATCH // max(1, sum(int(np.prod(shape)) for _, shape in shapes)))

    def _call(self, inputs):
        key = tuple((name, value.shape[1:], value.dtype.name) for name, value in inputs.items())
        if key not in self._traced:
            specs = {name: tf.TensorSpec((None, *value.shape[1:]), value.dtype) for name, value in inputs.items()}
            self._traced[key] = self.trace(self._function, specs)
        return self._traced[key](inputs)


def traced(function, specs, model=None):
    """Traces the function for inputs of the given shapes, or reads its graph; see `CompiledForward`."""
    names = list(specs)

    def call(*inputs):
        return function(dict(zip(names, inputs, strict=True)))

    program = stored_program(call, list(specs.values()), model, repr(names))

    def run(inputs):
        outputs = program(*(tf.constant(inputs[name], spec.dtype) for name, spec in specs.items()))
        return tuple(output.numpy() for output in tf.nest.flatten(outputs))

    return run


def stacked(examples, shapes, padding):
    """Several examples as one batch, each array filled up at its end.

    Args:
        examples: list of B Examples.
        shapes: dict from the name of each input to its shape, without the batch axis.
        padding: dict from the names of the inputs that are filled up to the number that fills them.

    Returns:
        Dict from name to array (B, ...).
    """
    inputs = {}
    for name, shape in shapes.items():
        inputs[name] = np.full((len(examples), *shape), padding.get(name, 0), examples[0][name].dtype)
        for i, example in enumerate(examples):
            part = slice(len(example[name])) if name in padding else ...
            inputs[name][i, part] = example[name]
    return inputs
