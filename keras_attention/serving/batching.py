"""Rows of several requests computed together, by TensorFlow's own batching op."""

import itertools

import tensorflow as tf

# What one call may bring, and how much may wait at the op: that is decided before, see `workers`.
MAX_ROWS = 4096
MAX_WAITING_BATCHES = 1_000_000
_numbers = itertools.count(1)


class Batcher:
    """Computes rows that different threads ask for at the same time as one batch.

    A row that comes alone is computed at once. While a batch is computed, the rows that come wait and are the next one.

    Args:
        function: callable(tensors (N, ...), the rows) -> sequence of tensors with an entry for each row.
        specs: list of tf.TensorSpec of int32 tensors with any number of rows.
        sizes: list of int, ascending: a batch is filled up to one of them, and more rows are divided.
    """

    def __init__(self, function, specs, sizes):
        def compute(*rows):
            size = tf.shape(rows[0])[0]
            return (*function(*rows), tf.fill([size], size))

        batched = tf.nondifferentiable_batch_function(
            num_batch_threads=1,
            max_batch_size=MAX_ROWS,
            batch_timeout_micros=0,
            allowed_batch_sizes=sizes,
            max_enqueued_batches=MAX_WAITING_BATCHES,
            autograph=False,
        )(compute)

        @tf.function(input_signature=specs, autograph=False)
        def program(*rows):
            with tf.name_scope(f"batcher_{next(_numbers)}"):  # the op shares its queue with those of equal scope
                return batched(*rows)

        self._program = program.get_concrete_function()

    def __call__(self, *rows):
        """Computes some rows, together with those of other threads.

        Args:
            rows: int32 arrays (N, ...), 0 < N <= MAX_ROWS, see `specs`.

        Returns:
            (list of NumPy arrays, what `function` returns; int array (N,), how many rows were computed together with
            each row, those that fill up a batch among them).
        """
        *results, together = (result.numpy() for result in self._program(*map(tf.constant, rows)))
        return results, together


def by_size(function, sizes):
    """A function of rows whose number is one of `sizes`, with a branch for each: its shapes are static there."""

    def compute(*rows):
        def branch(size):
            return lambda: function(*(tf.ensure_shape(row, (size, *row.shape[1:])) for row in rows))

        index = tf.searchsorted(tf.constant(sizes), tf.shape(rows[0])[:1])[0]
        return tf.switch_case(index, [branch(size) for size in sizes])

    return compute
