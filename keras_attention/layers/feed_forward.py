"""The position-wise network of the Transformer."""

import keras


@keras.saving.register_keras_serializable(package="keras_attention")
class FeedForward(keras.layers.Layer):
    """Two dense layers, the same at every position.

        output = W_2 activation(W_1 x + b_1) + b_2

    Args:
        intermediate_dim: int > 0. Width of the inner layer (d_ff in the paper).
        activation: str or callable, between the two.
        kernel_initializer: how W_1 and W_2 start.

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

    def __init__(self, intermediate_dim, activation="relu", kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        if not isinstance(intermediate_dim, int) or isinstance(intermediate_dim, bool) or intermediate_dim < 1:
            raise ValueError(
                f"`intermediate_dim` must be a positive integer. Received: intermediate_dim={intermediate_dim}"
            )
        self.supports_masking = True
        self.intermediate_dim = intermediate_dim
        self.activation = keras.activations.get(activation)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, input_shape):
        def dense(width, activation, name):
            start = self.kernel_initializer.clone()  # one initializer gives every kernel of a shape the same numbers
            options = {"kernel_initializer": start, "dtype": self.dtype_policy, "name": name}
            return keras.layers.Dense(width, activation=activation, **options)

        self.intermediate_dense = dense(self.intermediate_dim, self.activation, "intermediate_dense")
        self.output_dense = dense(input_shape[-1], None, "output_dense")
        self.intermediate_dense.build(input_shape)
        self.output_dense.build((*input_shape[:-1], self.intermediate_dim))
        self.built = True

    def call(self, inputs):
        return self.output_dense(self.intermediate_dense(inputs))  # (B, T, D)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "activation": keras.activations.serialize(self.activation),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
