"""The update on TensorFlow: a traced function with a gradient tape."""

import keras
import tensorflow as tf

from keras_attention.training.update import Update, clip_by_norm, global_norm, split_labels


class TensorFlowUpdate:
    """`update(batch) -> Update`; see `backends.compile_update`.

    Attributes:
        any_length: bool. Whether one program, traced once, serves batches of all lengths. XLA cannot, and models that
            unroll a loop over the tokens cannot.
    """

    def __init__(self, model, optimizer, loss, clip_norm, jit_compile):
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.clip_norm = clip_norm
        self._function = tf.function(self._update, jit_compile=jit_compile, autograph=False)
        self._apply = tf.function(self._apply, autograph=False)  # traced once, for all batch shapes
        self.any_length = False
        self._compiled = {}  # one function for each batch shape

    def __call__(self, batch):
        shapes = tuple((name, self._shape(value)) for name, value in batch.items())
        if shapes not in self._compiled:
            specs = {name: tf.TensorSpec(self._shape(value), value.dtype) for name, value in batch.items()}
            self._compiled[shapes] = self._function.get_concrete_function(specs)
        return Update(*self._compiled[shapes]({name: tf.convert_to_tensor(value) for name, value in batch.items()}))

    def _shape(self, value):
        return (value.shape[0], *(None if self.any_length else length for length in value.shape[1:]))

    def sync(self):
        """TensorFlow's variables are always up to date."""

    def _update(self, batch):
        """Forward pass, loss, gradient, clipping, optimizer."""
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            loss = self.loss(self.model, *split_labels(batch))
            mean = loss.mean()
            scaled = self.optimizer.scale_loss(mean)
        gradients = tape.gradient(scaled, [v.value for v in variables])
        # A dense gradient adds up the rows of a token that occurs twice, without which the norm is wrong.
        gradients = [
            tf.zeros(v.shape, v.dtype) if gradient is None else tf.convert_to_tensor(gradient)
            for gradient, v in zip(gradients, variables, strict=True)
        ]
        norm = global_norm(gradients) / self.optimizer.scale_loss(tf.constant(1.0))
        gradients = clip_by_norm(gradients, norm, self.clip_norm)
        may_apply = tf.math.is_finite(mean)
        if not isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):  # which looks at the gradients itself
            may_apply = tf.logical_and(may_apply, tf.math.is_finite(norm))
        tf.cond(may_apply, lambda: self._apply(gradients), lambda: None)
        return loss.total, loss.count, loss.correct, norm, global_norm([v.value for v in variables])

    def _apply(self, gradients):
        self.optimizer.apply(gradients, self.model.trainable_variables)
