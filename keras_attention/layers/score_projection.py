"""The last step of an additive score."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_attention")
class ScoreProjection(keras.layers.Layer):
    """Makes a score of the scoring network's hidden layer.

        score = v . hidden

    Call arguments:
        hidden: float tensor (B, T, S, units).

    Returns:
        Scores (B, T, S).

    Source: Bahdanau, Cho & Bengio (2015), appendix A.1.2, https://arxiv.org/abs/1409.0473 (v_a in the paper).
    """

    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(input_shape[-1], 1), name="kernel")
        self.built = True

    def call(self, hidden):
        batch, num_queries, num_keys, units = ops.shape(hidden)
        hidden = ops.reshape(hidden, (batch, num_queries * num_keys, units))
        # A product for each row of the batch: XLA on CPU is several times slower at the gradient of v in one product.
        vectors = ops.broadcast_to(self.kernel, (batch, units, 1))
        return ops.reshape(ops.matmul(hidden, vectors), (batch, num_queries, num_keys))  # (B, T, S)

    def compute_output_shape(self, input_shape):
        return input_shape[:-1]
