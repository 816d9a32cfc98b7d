"""A model's weights as compiled programs read them fastest: in few variables, with what follows from weights alone."""

import math
import threading
from functools import cached_property

import keras
import tensorflow as tf

from keras_attention.support.compile_cache import is_eager

SMALL = 1024  # values; smaller weights, such as biases, are copied into one variable


class PreparedWeights:
    """Copies of the small weights of an encoder-decoder in one variable, and of its `derived_weights`, one in each.

    A call of a program takes 1.5 us for each variable that it reads, and a Transformer with 4 + 4 layers has 169. With
    the copies, a program reads 67. Large weights are read from the model itself.

    The copies must never be older than the weights, and TensorFlow does not tell when a variable changes. As long as
    nobody else has the model, its weights cannot change. Otherwise they are copied again before each call, which takes
    a millisecond or two.

    Args:
        model: AttentionSeq2Seq or Transformer, built.

    Attributes:
        private: bool. Whether nobody else has the model; False at first. A maker of a model and its pipeline who keeps
            no reference to the model sets it to True. Reading `model` sets it to False.
    """

    def __init__(self, model):
        self._model, self.private, self._copying = model, False, threading.Lock()
        self._small = [w for w in model.weights if w.dtype == "float32" and math.prod(w.shape) <= SMALL]
        self._copy = tf.function(self._assign, autograph=False)

    @property
    def model(self):
        """The model, for any use."""
        self.private = False
        return self._model

    @property
    def network(self):
        """The model, for code that neither changes it nor gives it away."""
        return self._model

    @property
    def variables(self):
        """List of tf.Variable, all copies; none in eager mode."""
        return [] if is_eager() else tf.nest.flatten(self._copies)

    def copies(self):
        """Context in which the model reads the copies of its small weights.

        Enter it outside of XLA, which takes a second longer to compile a program with so many slices of a variable.
        """
        joined, _ = self._copies
        parts = tf.split(joined.read_value(), [math.prod(weight.shape) for weight in self._small])
        values = [(weight, tf.reshape(part, weight.shape)) for weight, part in zip(self._small, parts, strict=True)]
        return keras.StatelessScope(state_mapping=values)

    def derived(self):
        """The copies of the model's `derived_weights`, in eager mode these themselves: dict of tensors."""
        if is_eager():
            return self._model.derived_weights()
        return {name: copy.read_value() for name, copy in self._copies[1].items()}

    def refresh(self):
        """Makes the copies equal to the weights, unless a graph is being traced: its runs need it, then."""
        if not self.private and tf.executing_eagerly() and not is_eager():
            with self._copying:
                self._copy()

    @cached_property
    def _copies(self):
        with tf.init_scope():
            joined, derived = self._values()
            return tf.Variable(joined), {name: tf.Variable(value) for name, value in derived.items()}

    def _values(self):
        """The small weights as one vector, and the derived weights."""
        return tf.concat([tf.reshape(w.value, [-1]) for w in self._small], axis=0), self._model.derived_weights()

    def _assign(self):
        for copy, value in zip(tf.nest.flatten(self._copies), tf.nest.flatten(self._values()), strict=True):
            copy.assign(value)
