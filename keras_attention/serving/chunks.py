"""Rows of any number, worked on in chunks of few static sizes."""

import tensorflow as tf

from keras_attention.zoo.lengths import BATCH_SIZES


def map_chunks(function, tensors, outputs):
    """Applies a function to chunks of rows and puts its results together, in a graph.

    Args:
        function: takes tensors whose leading size n is static, one of BATCH_SIZES, and returns a tuple of tensors with
            the same leading size. Rows that fill up the last chunk are all zeros.
        tensors: list of tensors (B, ...), B >= 0.
        outputs: list of tf.TensorSpec (None, ...), one for each result of `function`. Where an axis is None, chunks
            may differ, and the smaller ones are filled up with zeros.

    Returns:
        List of tensors (B, ...).
    """
    count = tf.shape(tensors[0])[0]

    def body(start, *kept):
        waiting = count - start
        index = tf.reduce_sum(tf.cast(waiting > BATCH_SIZES[:-1], tf.int32))  # of the smallest size that holds them
        branches = [lambda size=size: function(*(rows_from(x, start, size) for x in tensors)) for size in BATCH_SIZES]
        results = tf.switch_case(index, branches)
        return start + tf.gather(BATCH_SIZES, index), *map(append, kept, results)

    nothing = [tf.zeros([size or 0 for size in spec.shape], spec.dtype) for spec in outputs]
    _, *results = tf.while_loop(
        lambda start, *_: start < count,
        body,
        (tf.constant(0), *nothing),
        shape_invariants=(tf.TensorShape([]), *(spec.shape for spec in outputs)),
    )
    return [result[:count] for result in results]


def rows_from(tensor, start, size):
    """`size` (static) rows of a tensor from `start` on, zeros where it ends."""
    rows = tensor[start : start + size]
    filled = tf.pad(rows, [[0, size - tf.shape(rows)[0]]] + [[0, 0]] * (len(tensor.shape) - 1))
    return tf.ensure_shape(filled, (size, *tensor.shape[1:]))


def append(first, second):
    """Puts two tensors above each other, both filled up with zeros to the same sizes behind the first axis."""
    sizes = tf.maximum(tf.shape(first), tf.shape(second))[1:]

    def filled(tensor):
        missing = tf.concat([[0], sizes - tf.shape(tensor)[1:]], axis=0)
        return tf.pad(tensor, tf.stack([tf.zeros_like(missing), missing], axis=1))

    return tf.concat([filled(first), filled(second)], axis=0)
