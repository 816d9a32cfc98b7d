"""The beam search of a translator over the rows of several requests."""

from functools import partial

import numpy as np
import tensorflow as tf

from keras_attention.decoding import Hypotheses
from keras_attention.serving.batching import Batcher, by_size
from keras_attention.tokenizers.special_tokens import END_ID
from keras_attention.zoo.compiled_search import SEARCH_OPTIONS, search_function
from keras_attention.zoo.lengths import SOURCE_LENGTHS, answer_limit, source_bucket


class BatchedSearch:
    """Stands where a translator has its `CompiledSearch`; each length of sources has one program and one queue.

    The programs search all the model's beams; an answer that wants fewer takes the first ones.

    Args:
        translator: Translator. Its search settings are those of each search.
        sizes: list of int, ascending: rows of a batch.
        observe: callable (int), told of each row how many rows were computed together.
    """

    def __init__(self, translator, sizes, observe):
        self._settings = translator.settings(1, False)
        self._sizes = sizes
        self._observe = observe
        longest = self._settings["max_source_length"]
        self._batchers = {
            length: self._batcher(translator.model, length)
            for length in sorted({source_bucket(min(length, longest), longest) for length in SOURCE_LENGTHS})
        }

    def search(self, source_ids, limits, max_steps, *, n_best, **_):
        """See `CompiledSearch.search`; `max_steps` and the options are those of the settings."""
        batcher = self._batchers[source_ids.shape[1]]
        rows = np.flatnonzero(limits)  # not those that fill up the caller's batch
        found, together = batcher(source_ids[rows], limits[rows])
        for size in together:
            self._observe(int(size))
        return Hypotheses(*(_spread(field[:, :n_best], rows, len(limits)) for field in found))

    def steps(self):
        """List of callables that together run every program once, so that none is compiled later."""

        def step(length, size):
            source_ids = np.zeros((size, length), "int32")
            source_ids[:, 0] = END_ID
            self._batchers[length](source_ids, np.ones(size, "int32"))

        return [partial(step, length, size) for length in self._batchers for size in self._sizes]

    def _batcher(self, model, length):
        settings = self._settings
        options = {name: settings[name] for name in SEARCH_OPTIONS}
        search = search_function(
            model, answer_limit(length, settings), n_best=settings["beam_size"], unknowns=False, **options
        )
        program = tf.function(search, jit_compile=True, autograph=False)
        specs = [tf.TensorSpec((None, length), tf.int32), tf.TensorSpec((None,), tf.int32)]
        return Batcher(by_size(program, self._sizes), specs, self._sizes)


def _spread(field, rows, size):
    """The entries of `field` at their places `rows` among `size`; the others are 0."""
    spread = np.zeros((size, *field.shape[1:]), field.dtype)
    spread[rows] = field
    return spread
