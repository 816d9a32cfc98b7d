"""The position-wise network of the Transformer."""

import keras


@keras.saving.register_keras_serializable(package="keras_attention")
class FeedForward(keras.layers.Layer):
    """Two dense layers, the same at every position.

        output = W_2 activation(W_1 x + b_1) + b_2

    Args:
        intermediate_dim: int > 0. Width of the inner layer (d_ff in the paper).
        activation: str or callable, between the two.

    Call arguments:
        inputs: float tensor (B, T, D).

    Returns:
        Tensor (B, T, D).

    Raises:
        ValueError: if `intermediate_dim` is not a positive integer.

    Source: Vaswani et al. (2017), section 3.3, https://arxiv.org/abs/1706.03762. No differences.

    Example:
        outputs = FeedForward(intermediate_dim=256)(inputs)
    """

    def __init__(self, intermediate_dim, activation="relu", **kwargs):
        super().__init__(**kwargs)
        if not isinstance(intermediate_dim, int) or isinstance(intermediate_dim, bool) or intermediate_dim < 1:
            raise ValueError(
                f"`intermediate_dim` must be a positive integer. Received: intermediate_dim={intermediate_dim}"
            )
        self.intermediate_dim = intermediate_dim
        self.activation = keras.activations.get(activation)

    def build(self, input_shape):
        self.intermediate_dense = keras.layers.Dense(
            self.intermediate_dim, activation=self.activation, dtype=self.dtype_policy, name="intermediate_dense"
        )
        self.output_dense = keras.layers.Dense(input_shape[-1], dtype=self.dtype_policy, name="output_dense")
        self.intermediate_dense.build(input_shape)
        self.output_dense.build((*input_shape[:-1], self.intermediate_dim))
        self.built = True

    def call(self, inputs):
        return self.output_dense(self.intermediate_dense(inputs))  # (B, T, D)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        activation = keras.activations.serialize(self.activation)
        return {**super().get_config(), "intermediate_dim": self.intermediate_dim, "activation": activation}
