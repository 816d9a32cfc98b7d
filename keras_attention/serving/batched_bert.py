"""A BERT that computes the rows of several requests together."""

from functools import partial

import numpy as np
import tensorflow as tf

from keras_attention.serving.batching import Batcher
from keras_attention.zoo.lengths import SOURCE_LENGTHS, source_bucket
from keras_attention.zoo.text_rows import Row


def batch_bert(pipeline, settings, observe):
    """Puts a queue for each length of rows before the model.

    Args:
        pipeline: Classifier, MaskFiller or TextEncoder; its `compiled` is changed.
        settings: ServerSettings.
        observe: callable (int), told of each row how many rows were computed together.

    Returns:
        List of callables that together compute every shape once.
    """
    compiled, sizes = pipeline.compiled, settings.batch_sizes
    compiled.trace = partial(_trace, sizes, observe)
    gap = {"masked_positions": 1} if hasattr(pipeline, "fill_mask") else {}

    def step(length):
        for size in sizes:
            row = Row(np.ones(length, "int32"), np.zeros(length, "int32"), False)
            compiled.run([row] * size, **{name: np.zeros((size, at), "int32") for name, at in gap.items()})

    longest = pipeline.max_tokens
    lengths = {source_bucket(min(length, longest), longest) for length in SOURCE_LENGTHS}
    return [partial(step, length) for length in sorted(lengths)]


def _trace(sizes, observe, function, specs):
    """The function behind a queue; see `CompiledBert.trace`."""
    names = list(specs)

    def compute(*rows):
        return tf.nest.flatten(function(dict(zip(names, rows, strict=True))))

    batcher = Batcher(compute, list(specs.values()), sizes)

    def run(inputs):
        results, together = batcher(*(inputs[name].astype("int32") for name in names))
        for size in together:
            observe(int(size))
        return results

    return run
