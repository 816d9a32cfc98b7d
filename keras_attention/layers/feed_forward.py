"""The position-wise network of the Transformer."""

from collections.abc import Callable
from typing import Any

import keras

from keras_attention.layers.dropout import Dropout
from keras_attention.layers.masks import Tensor


@keras.saving.register_keras_serializable(package="keras_attention")
class FeedForward(keras.layers.Layer):
    """Two dense layers, the same at every position.

        output = W_2 activation(W_1 x + b_1) + b_2

    Args:
        intermediate_dim: int > 0. Width of the inner layer (d_ff in the paper).
        activation: str or callable, the activation of the inner layer.
        kernel_initializer: initializer of W_1 and W_2.
        dropout: float in [0, 1). Share of the inner layer dropped in training.

    Call arguments:
        inputs: float tensor (B, T, D).
        training: bool. Whether to apply dropout.

    Returns:
        Tensor (B, T, D).

    Raises:
        ValueError: if `intermediate_dim` is not a positive integer, or `dropout` is out of range.

    Source: Vaswani et al. (2017), section 3.3, https://arxiv.org/abs/1706.03762. Dropout of the inner layer is not
    in the paper (it is in the authors' code).

    Example:
        outputs = FeedForward(intermediate_dim=256)(inputs)
    """

    def __init__(
        self,
        intermediate_dim: int,
        activation: str | Callable | None = "relu",
        kernel_initializer: str | keras.Initializer = "glorot_uniform",
        dropout: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if not isinstance(intermediate_dim, int) or isinstance(intermediate_dim, bool) or intermediate_dim < 1:
            raise ValueError(
                f"`intermediate_dim` must be a positive integer. Received: intermediate_dim={intermediate_dim}"
            )
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout}")
        self.supports_masking = True
        self.intermediate_dim = intermediate_dim
        self.activation = keras.activations.get(activation)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.dropout = dropout
        # Created only if needed, because its random generator is a variable, which is saved with the model.
        self.inner_dropout = Dropout(dropout, dtype=self.dtype_policy, name="inner_dropout") if dropout else None

    def build(self, input_shape):
        def dense(width, activation, name):
            start = self.kernel_initializer.clone()  # a shared one would give kernels of equal shape equal values
            options = {"kernel_initializer": start, "dtype": self.dtype_policy, "name": name}
            return keras.layers.Dense(width, activation=activation, **options)

        self.intermediate_dense = dense(self.intermediate_dim, self.activation, "intermediate_dense")
        self.output_dense = dense(input_shape[-1], None, "output_dense")
        self.intermediate_dense.build(input_shape)
        self.output_dense.build((*input_shape[:-1], self.intermediate_dim))
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        inner = self.intermediate_dense(inputs)  # (B, T, intermediate_dim)
        if self.inner_dropout is not None:
            inner = self.inner_dropout(inner, training=training)
        return self.output_dense(inner)  # (B, T, D)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "activation": keras.activations.serialize(self.activation),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "dropout": self.dropout,
        }
