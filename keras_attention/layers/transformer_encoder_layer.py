"""One layer of the Transformer's encoder (Vaswani et al. 2017)."""

import keras
from keras import ops

from keras_attention.layers.dropout import Dropout
from keras_attention.layers.feed_forward import FeedForward
from keras_attention.layers.masks import combined_mask, keras_mask, with_keras_mask
from keras_attention.layers.multi_head_attention import MultiHeadAttention, positive


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerEncoderLayer(keras.layers.Layer):
    """Every position looks at all others, then passes through a small network of its own.

        x = norm(x + attention(x, x))    x = norm(x + feed_forward(x))        post-norm, as in the paper
        x = x + attention(norm(x), norm(x))    x = x + feed_forward(norm(x))  pre-norm

    Args:
        intermediate_dim: int > 0. Inner width of the feed-forward network (d_ff in the paper).
        num_heads: int > 0, a divisor of the width D of the inputs.
        dropout: float in [0, 1), on what either part adds.
        activation: str or callable, of the feed-forward network.
        layer_norm_epsilon: float > 0, added to the variance.
        normalize_first: bool. Pre-norm instead of post-norm.
        attention_dropout: float in [0, 1), on attention weights; None: as `dropout`.
        kernel_initializer: how the kernels start, or None for Glorot & Bengio (2010).

    Call arguments:
        inputs: float tensor (B, T, D).
        padding_mask: bool tensor (B, T) or None. True at real tokens.
        attention_mask: bool tensor that broadcasts to (B, T, T) or None. True means "may be attended to".
        return_attention_scores: bool. Whether to return the weights too.
        training: bool. Whether to apply dropout.
        query_positions: int tensor (B, P), in [0, T), or None. Only these positions are computed; they look at all.

    Returns:
        Tensor (B, T, D), or the pair of it and the weights (B, H, T, T); with `query_positions` P stands for the first
        T.

    Raises:
        ValueError: if an argument is out of range, or `num_heads` does not divide D.

    Source: Vaswani et al. (2017), section 3.1, https://arxiv.org/abs/1706.03762; pre-norm: Xiong et al. (2020), figure
    1, https://arxiv.org/abs/2002.04745. Names and order of weights are those of `keras_hub.layers.TransformerEncoder`.

    Example:
        layer = TransformerEncoderLayer(intermediate_dim=256, num_heads=4)
        outputs = layer(inputs, padding_mask=token_ids != 0)
    """

    def __init__(
        self,
        intermediate_dim,
        num_heads,
        dropout=0.0,
        activation="relu",
        layer_norm_epsilon=1e-5,
        normalize_first=False,
        attention_dropout=None,
        kernel_initializer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.intermediate_dim = positive(intermediate_dim, "intermediate_dim")
        self.num_heads = positive(num_heads, "num_heads")
        self.dropout = dropout
        self.attention_dropout = dropout if attention_dropout is None else attention_dropout
        self.activation = keras.activations.get(activation)
        self.layer_norm_epsilon = layer_norm_epsilon
        self.normalize_first = normalize_first
        self.kernel_initializer = None if kernel_initializer is None else keras.initializers.get(kernel_initializer)
        self.supports_masking = True
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy, name="dropout_layer")

    def build(self, input_shape):
        def norm(name):
            return keras.layers.LayerNormalization(epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name)

        start = self.kernel_initializer
        self.self_attention = attention_for(
            input_shape[-1], self.num_heads, self.attention_dropout, self.dtype_policy, "self", start
        )
        self.self_attention.build(input_shape, input_shape)
        self.self_attention_norm = norm("self_attention_norm")
        self.feed_forward_norm = norm("feed_forward_norm")
        self.feed_forward = FeedForward(
            self.intermediate_dim,
            self.activation,
            kernel_initializer=start or "glorot_uniform",
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        for part in (self.self_attention_norm, self.feed_forward_norm, self.feed_forward):
            part.build(input_shape)
        self.built = True

    def call(
        self,
        inputs,
        padding_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        query_positions=None,
    ):
        # Keras's implicit mask of `inputs` reaches the attention along with x.
        mask = combined_mask(value_mask=padding_mask, attention_mask=attention_mask)
        inputs_mask = keras_mask(inputs)
        x = queries = self.self_attention_norm(inputs) if self.normalize_first else inputs
        if query_positions is not None:
            queries = at_positions(x, query_positions)  # (B, P, D)
            inputs = at_positions(inputs, query_positions) if self.normalize_first else queries
            if attention_mask is not None:
                square = (*ops.shape(x)[:2], ops.shape(x)[1])
                mask = at_positions(ops.broadcast_to(mask, square), query_positions)  # (B, P, T)
        x = self.self_attention(
            queries, x, attention_mask=mask, return_attention_scores=return_attention_scores, training=training
        )
        x, weights = x if return_attention_scores else (x, None)
        x = inputs + self.dropout_layer(x, training=training)  # (B, T, D)
        if not self.normalize_first:
            x = self.self_attention_norm(x)
        added = self.feed_forward(self.feed_forward_norm(x) if self.normalize_first else x)
        x = x + self.dropout_layer(added, training=training)
        if not self.normalize_first:
            x = self.feed_forward_norm(x)
        if query_positions is not None:
            x = with_mask_at_positions(x, inputs_mask, query_positions)
        return (x, weights) if return_attention_scores else x

    def compute_output_spec(self, inputs, *args, **kwargs):
        outputs = keras.Operation.compute_output_spec(self, inputs, *args, **kwargs)
        if kwargs.get("query_positions") is not None:
            with_mask_at_positions(keras.tree.flatten(outputs)[0], keras_mask(inputs), kwargs["query_positions"])
        return outputs

    def get_config(self):
        start = self.kernel_initializer
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "num_heads": self.num_heads,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation": keras.activations.serialize(self.activation),
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "normalize_first": self.normalize_first,
            "kernel_initializer": start and keras.initializers.serialize(start),
        }


def attention_for(width, num_heads, dropout, dtype, what, kernel_initializer=None):
    """Multi-head attention whose heads share the width D among them.

    By default its kernels start as Glorot & Bengio (2010) have it for the (D, D) matrix that they are: Keras, which
    sees three axes, would make them several times smaller.
    """
    if width % num_heads:
        raise ValueError(f"`num_heads` must divide the width {width} of the inputs. Received: num_heads={num_heads}")
    limit = (3 / width) ** 0.5
    return MultiHeadAttention(
        num_heads,
        width // num_heads,
        dropout=dropout,
        kernel_initializer=kernel_initializer or keras.initializers.RandomUniform(-limit, limit),
        dtype=dtype,
        name=f"{what}_attention",
    )


def at_positions(x, positions):
    """The vectors (B, P, D) of x (B, T, D) at `positions` (B, P)."""
    return ops.take_along_axis(x, positions[:, :, None], axis=1)


def with_mask_at_positions(x, mask, positions):
    """x (B, P, D), with the part of Keras's implicit mask (B, T), if there is one, that is about `positions`."""
    return x if mask is None else with_keras_mask(x, ops.take_along_axis(mask, positions, axis=1))
