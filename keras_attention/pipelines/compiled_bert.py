"""The forward pass of a BERT over rows of any length, traced once for each padded length."""

import numpy as np
import tensorflow as tf

from keras_attention.pipelines.static_shapes import source_bucket
from keras_attention.tokenizers.special_tokens import PAD_ID

TOKENS_PER_BATCH = 4096


class CompiledBert:
    """Runs a function of token and segment ids over many rows.

    A row is padded to one of few lengths, which depends on the row alone, and computed together with others of the
    same length.

    Args:
        function: callable(inputs) -> tensor or tuple of tensors whose first axis is the batch; `inputs` is a dict of
            int32 tensors (B, T) `token_ids` and `segment_ids`, and of what else `run` was given.
        max_tokens: int, of a row.
        num_segments: int, that the model knows. With fewer than two it gets no `segment_ids`.

    Attributes:
        trace: callable (function, specs) -> callable(inputs) -> tuple of NumPy arrays, used once for each padded
            length; `specs` is a dict of tf.TensorSpec of any number of rows. Others may put theirs in its place.
    """

    def __init__(self, function, max_tokens, num_segments):
        self.max_tokens = max_tokens
        self._names = ("token_ids", "segment_ids") if num_segments > 1 else ("token_ids",)
        self.trace = traced
        self._function = function
        self._traced = {}

    def run(self, rows, progress=None, **more):
        """Computes all rows.

        Args:
            rows: list of Row.
            progress: callable (rows done, rows in all) or None.
            more: further inputs by name, int32 arrays (N, ...) with an entry for each row.

        Returns:
            List of one tuple of NumPy arrays for each row, without the batch axis. Axes of T tokens are padded.
        """
        results, done = [None] * len(rows), 0
        groups = {}
        for position, row in enumerate(rows):
            groups.setdefault(source_bucket(len(row.token_ids), self.max_tokens), []).append(position)
        for length, positions in sorted(groups.items()):
            size = max(1, TOKENS_PER_BATCH // length)
            for start in range(0, len(positions), size):
                some = positions[start : start + size]
                inputs = padded([rows[position] for position in some], length, self._names)
                outputs = self._call(inputs | {name: values[some] for name, values in more.items()})
                for i, position in enumerate(some):
                    results[position] = tuple(output[i] for output in outputs)
                done += len(some)
                if progress:
                    progress(done, len(rows))
        return results

    def _call(self, inputs):
        key = tuple((name, value.shape[1:]) for name, value in inputs.items())
        if key not in self._traced:
            specs = {name: tf.TensorSpec((None, *value.shape[1:]), tf.int32) for name, value in inputs.items()}
            self._traced[key] = self.trace(self._function, specs)
        return self._traced[key](inputs)


def traced(function, specs):
    """The function as a graph for inputs of the given shapes; see `CompiledBert.trace`."""
    program = tf.function(function, autograph=False).get_concrete_function(specs)

    def run(inputs):
        outputs = program({name: tf.constant(value, tf.int32) for name, value in inputs.items()})
        return tuple(output.numpy() for output in tf.nest.flatten(outputs))

    return run


def padded(rows, length, names):
    """The dict of the named parts (B, `length`) of some rows."""
    inputs = {name: np.full((len(rows), length), PAD_ID, "int32") for name in names}
    for i, row in enumerate(rows):
        for name, values in inputs.items():
            values[i, : len(row.token_ids)] = getattr(row, name)
    return inputs
