"""The layers of the Transformer's encoder and decoder (Vaswani et al. 2017)."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attention.layers.dropout import Dropout
from keras_attention.layers.feed_forward import FeedForward
from keras_attention.layers.masks import Tensor, combined_mask, keras_mask
from keras_attention.layers.multi_head import MultiHeadAttention, positive
from keras_attention.layers.positions import at_positions, pair_of_positions, with_mask_at_positions


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerEncoderLayer(keras.layers.Layer):
    """Transformer encoder layer: self-attention, then a feed-forward network.

        x = norm(x + attention(x, x))    x = norm(x + feed_forward(x))        post-norm, as in the paper
        x = x + attention(norm(x), norm(x))    x = x + feed_forward(norm(x))  pre-norm

    Args:
        intermediate_dim: int > 0. Inner width of the feed-forward network (d_ff in the paper).
        num_heads: int > 0, a divisor of the width D of the inputs.
        dropout: float in [0, 1), on the output of each sub-layer.
        activation: str or callable, activation of the feed-forward network.
        layer_norm_epsilon: float > 0, added to the variance.
        normalize_first: bool. Pre-norm instead of post-norm.
        attention_dropout: float in [0, 1), on attention weights; None: the value of `dropout`.
        kernel_initializer: initializer of the kernels; None: Glorot & Bengio (2010).
        attention_pattern: str or None, a sparse pattern for self-attention (`sparse_patterns`).

    Call arguments:
        inputs: float tensor (B, T, D).
        padding_mask: bool tensor (B, T) or None. True at real tokens.
        attention_mask: bool tensor that broadcasts to (B, T, T) or None. True means "may be attended to".
        return_attention_scores: bool. Whether to return the weights too.
        training: bool. Whether to apply dropout.
        query_positions: int tensor (B, P), in [0, T), or None. Computes the output at these positions only; they attend
            to all positions.
        positions: int tensor (B, T), the positions of the tokens for `attention_pattern`; None: 0, 1, 2 ...

    Returns:
        Tensor (B, T, D), or the pair of this tensor and the weights (B, H, T, T). With `query_positions`: (B, P, D) and
        (B, H, P, T).

    Raises:
        ValueError: if an argument is out of range, or `num_heads` does not divide D.

    Source: Vaswani et al. (2017), section 3.1, https://arxiv.org/abs/1706.03762; pre-norm: Xiong et al. (2020), figure
    1, https://arxiv.org/abs/2002.04745. The weights have the names and order of `keras_hub.layers.TransformerEncoder`.

    Example:
        layer = TransformerEncoderLayer(intermediate_dim=256, num_heads=4)
        outputs = layer(inputs, padding_mask=token_ids != 0)
    """

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        activation: str | Callable | None = "relu",
        layer_norm_epsilon: float = 1e-5,
        normalize_first: bool = False,
        attention_dropout: float | None = None,
        kernel_initializer: str | keras.Initializer | None = None,
        attention_pattern: str | None = None,
        **kwargs: Any,
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
        self.attention_pattern = attention_pattern
        self.supports_masking = True
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy, name="dropout_layer")

    def build(self, input_shape):
        def norm(name):
            return keras.layers.LayerNormalization(epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name)

        start = self.kernel_initializer
        self.self_attention = attention_for(self, input_shape[-1], "self", self.attention_pattern)
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
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        query_positions: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        implicit_mask = keras_mask(inputs)  # the attention layer receives it with its input
        mask = combined_mask(value_mask=padding_mask, attention_mask=attention_mask)

        residual = inputs
        x = queries = self.self_attention_norm(inputs) if self.normalize_first else inputs
        if query_positions is not None:
            residual, queries = at_positions(inputs, query_positions), at_positions(x, query_positions)  # (B, P, D)
            if attention_mask is not None:
                square = (*ops.shape(x)[:2], ops.shape(x)[1])
                mask = at_positions(ops.broadcast_to(mask, square), query_positions)  # (B, P, T)
        x = self.self_attention(
            queries,
            x,
            attention_mask=mask,
            return_attention_scores=return_attention_scores,
            training=training,
            positions=pair_of_positions(positions, query_positions, ops.shape(x)[1]),
        )
        x, weights = x if return_attention_scores else (x, None)
        x = residual + self.dropout_layer(x, training=training)
        if not self.normalize_first:
            x = self.self_attention_norm(x)

        residual = x
        if self.normalize_first:
            x = self.feed_forward_norm(x)
        x = residual + self.dropout_layer(self.feed_forward(x), training=training)
        if not self.normalize_first:
            x = self.feed_forward_norm(x)

        if query_positions is not None:
            x = with_mask_at_positions(x, implicit_mask, query_positions)
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
            "attention_pattern": self.attention_pattern,
        }


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerDecoderLayer(keras.layers.Layer):
    """Transformer decoder layer: causal self-attention, cross-attention to the source, then a feed-forward network.

        x = norm(x + attention(x, x))    x = norm(x + attention(x, source))    x = norm(x + feed_forward(x))

    With `normalize_first`, each norm is applied before its sub-layer instead of after the sum. If the first call has no
    `encoder_sequence`, the layer has no cross-attention.

    Args:
        intermediate_dim: int > 0. Inner width of the feed-forward network (d_ff in the paper).
        num_heads: int > 0, a divisor of the width D of the inputs.
        dropout: float in [0, 1), on the output of each sub-layer.
        activation: str or callable, activation of the feed-forward network.
        layer_norm_epsilon: float > 0, added to the variance.
        normalize_first: bool. Pre-norm instead of post-norm.
        attention_dropout: float in [0, 1), on attention weights; None: the value of `dropout`.
        kernel_initializer: initializer of the kernels; None: Glorot & Bengio (2010).
        attention_pattern: str or None, a sparse pattern for self-attention (`sparse_patterns`).
        max_relative_distance: int > 0 or None, for self-attention, see `MultiHeadAttention`.

    Call arguments:
        decoder_sequence: float tensor (B, T, D).
        encoder_sequence: float tensor (B, S, D) or None.
        decoder_padding_mask: bool tensor (B, T) or None. True at real tokens.
        decoder_attention_mask: bool tensor that broadcasts to (B, T, T) or None, in addition to the causal mask.
        encoder_padding_mask: bool tensor (B, S) or None.
        encoder_attention_mask: bool tensor that broadcasts to (B, T, S) or None.
        self_attention_cache: keys and values of earlier positions, see `MultiHeadAttention`, or None.
        self_attention_cache_update_index: int or scalar int tensor, the position of the first input in the cache.
        cross_attention_cache: `project_source(encoder_sequence)`, in place of `encoder_sequence`, or None. The decoder
            may have a batch size of k B for k hypotheses of each source; `encoder_padding_mask` stays (B, S).
        use_causal_mask: bool. Whether self-attention is causal; with a cache, it always is.
        rotation, positions: for self-attention, see `MultiHeadAttention`, or None.
        return_attention_scores: bool. Whether to return the weights too.
        training: bool. Whether to apply dropout.

    Returns:
        Tensor (B, T, D), or a tuple that starts with it. With `return_attention_scores`, the self-attention weights
        (B, H, T, T) and the cross-attention weights (B, H, T, S) or None follow; with a cache, the updated cache is
        last.

    Raises:
        ValueError: if an argument is out of range, or `num_heads` does not divide D.

    Source: Vaswani et al. (2017), section 3.1, https://arxiv.org/abs/1706.03762; pre-norm: Xiong et al. (2020), figure
    1. The weights have the names and order of `keras_hub.layers.TransformerDecoder`.

    Example:
        layer = TransformerDecoderLayer(intermediate_dim=256, num_heads=4)
        outputs = layer(targets, sources, encoder_padding_mask=source_ids != 0)
    """

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        activation: str | Callable | None = "relu",
        layer_norm_epsilon: float = 1e-5,
        normalize_first: bool = False,
        attention_dropout: float | None = None,
        kernel_initializer: str | keras.Initializer | None = None,
        attention_pattern: str | None = None,
        max_relative_distance: int | None = None,
        **kwargs: Any,
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
        self.attention_pattern = attention_pattern
        self.max_relative_distance = max_relative_distance
        self.supports_masking = True
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy, name="dropout_layer")

    def build(self, decoder_sequence_shape, encoder_sequence_shape=None):
        def norm(name):
            layer = keras.layers.LayerNormalization(epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name)
            layer.build(decoder_sequence_shape)
            return layer

        start = self.kernel_initializer
        width = decoder_sequence_shape[-1]
        self.self_attention = attention_for(self, width, "self", self.attention_pattern, self.max_relative_distance)
        self.self_attention.build(decoder_sequence_shape, decoder_sequence_shape)
        self.self_attention_norm = norm("self_attention_norm")
        self.cross_attention = None
        if encoder_sequence_shape is not None:
            self.cross_attention = attention_for(self, width, "cross")
            self.cross_attention.build(decoder_sequence_shape, encoder_sequence_shape)
            self.cross_attention_norm = norm("cross_attention_norm")
        self.feed_forward = FeedForward(
            self.intermediate_dim,
            self.activation,
            kernel_initializer=start or "glorot_uniform",
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward.build(decoder_sequence_shape)
        self.feed_forward_norm = norm("feed_forward_norm")
        self.built = True

    def project_source(self, encoder_sequence: Tensor) -> tuple[Tensor, Tensor]:
        """Returns keys and values of the source (B, S, D), to reuse as `cross_attention_cache` in many calls."""
        if self.cross_attention is None:
            raise ValueError("The first call had no `encoder_sequence`, so this layer has no cross-attention.")
        return self.cross_attention.project_keys_values(encoder_sequence)

    def call(
        self,
        decoder_sequence: Tensor,
        encoder_sequence: Tensor | None = None,
        decoder_padding_mask: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        self_attention_cache: tuple[Tensor, Tensor] | None = None,
        self_attention_cache_update_index: int | Tensor | None = None,
        cross_attention_cache: tuple[Tensor, Tensor] | None = None,
        use_causal_mask: bool = True,
        rotation: Tensor | None = None,
        positions: tuple[Tensor, Tensor] | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple:
        if self.cross_attention is None and encoder_sequence is not None:
            raise ValueError("The first call had no `encoder_sequence`, so this layer has no cross-attention.")
        options = {"return_attention_scores": return_attention_scores, "training": training}
        own_weights = cross_weights = cache = None

        residual = decoder_sequence
        x = self.self_attention_norm(residual) if self.normalize_first else residual
        x = self.self_attention(
            x,
            x,
            attention_mask=combined_mask(value_mask=decoder_padding_mask, attention_mask=decoder_attention_mask),
            use_causal_mask=use_causal_mask,
            cache=self_attention_cache,
            cache_index=self_attention_cache_update_index,
            rotation=rotation,
            positions=positions,
            **options,
        )
        if self_attention_cache is not None:
            *x, cache = x
            x = x if return_attention_scores else x[0]
        x, own_weights = x if return_attention_scores else (x, None)
        x = residual + self.dropout_layer(x, training=training)
        x = x if self.normalize_first else self.self_attention_norm(x)

        if self.cross_attention is not None:
            residual = x
            x = self.cross_attention_norm(x) if self.normalize_first else x
            mask = combined_mask(value_mask=encoder_padding_mask, attention_mask=encoder_attention_mask)
            x = attend_to_source(self.cross_attention, x, encoder_sequence, mask, cross_attention_cache, options)
            x, cross_weights = x if return_attention_scores else (x, None)
            x = residual + self.dropout_layer(x, training=training)
            x = x if self.normalize_first else self.cross_attention_norm(x)

        residual = x
        x = self.feed_forward_norm(x) if self.normalize_first else x
        x = residual + self.dropout_layer(self.feed_forward(x), training=training)
        x = x if self.normalize_first else self.feed_forward_norm(x)

        results = (x, *([own_weights, cross_weights] if return_attention_scores else []))
        results += () if cache is None else (cache,)
        return results if len(results) > 1 else x

    def compute_output_spec(self, *args, **kwargs):
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

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
            "attention_pattern": self.attention_pattern,
            "max_relative_distance": self.max_relative_distance,
        }


def attention_for(layer, width, what, attention_pattern=None, max_relative_distance=None):
    """Multi-head attention of an encoder or decoder layer, with heads of width D / H.

    The default initializer is that of Glorot & Bengio (2010) for a (D, D) matrix. Keras computes the fans of the kernel
    (D, H, K) from its three axes, which makes the initial values several times smaller.
    """
    num_heads = layer.num_heads
    if width % num_heads:
        raise ValueError(f"`num_heads` must divide the width {width} of the inputs. Received: num_heads={num_heads}")
    limit = (3 / width) ** 0.5
    return MultiHeadAttention(
        num_heads,
        width // num_heads,
        dropout=layer.attention_dropout,
        kernel_initializer=layer.kernel_initializer or keras.initializers.RandomUniform(-limit, limit),
        attention_pattern=attention_pattern,
        max_relative_distance=max_relative_distance,
        dtype=layer.dtype_policy,
        name=f"{what}_attention",
    )


def attend_to_source(attention, x, source, mask, projected, options):
    """Cross-attention. If the source is already projected, the k hypotheses of a source become k queries."""
    if projected is None:
        return attention(x, source, attention_mask=mask, **options)
    shape = ops.shape(x)  # (B k, T, D)
    x = ops.reshape(x, (ops.shape(projected[0])[0] // attention.num_heads, -1, shape[-1]))  # (B, k T, D)
    x = attention(x, source, attention_mask=mask, projected_key_value=projected, **options)
    if not options["return_attention_scores"]:
        return ops.reshape(x, shape)
    return ops.reshape(x[0], shape), weights_of_hypotheses(x[1], shape)


def weights_of_hypotheses(weights, shape):
    """Reshapes weights (B, H, k T, S) for k hypotheses of each source to (B k, H, T, S)."""
    batch, heads, _, length = ops.shape(weights)
    weights = ops.reshape(weights, (batch, heads, -1, shape[1], length))  # (B, H, k, T, S)
    return ops.reshape(ops.transpose(weights, (0, 2, 1, 3, 4)), (shape[0], heads, shape[1], length))
