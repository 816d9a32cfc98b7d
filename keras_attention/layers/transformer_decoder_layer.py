"""One layer of the Transformer's decoder (Vaswani et al. 2017)."""

import keras
from keras import ops

from keras_attention.layers.dropout import Dropout
from keras_attention.layers.feed_forward import FeedForward
from keras_attention.layers.masks import combined_mask
from keras_attention.layers.multi_head_attention import positive
from keras_attention.layers.transformer_encoder_layer import attention_for


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerDecoderLayer(keras.layers.Layer):
    """Every position looks at those before it, then at the source, then passes through a small network of its own.

        x = norm(x + attention(x, x))    x = norm(x + attention(x, source))    x = norm(x + feed_forward(x))

    The first attention is causal. With `normalize_first` each norm stands before its part instead of behind the sum.
    Without `encoder_sequence` in the first call the layer has no second attention.

    Args:
        intermediate_dim: int > 0. Inner width of the feed-forward network (d_ff in the paper).
        num_heads: int > 0, a divisor of the width D of the inputs.
        dropout: float in [0, 1), on what each part adds.
        activation: str or callable, of the feed-forward network.
        layer_norm_epsilon: float > 0, added to the variance.
        normalize_first: bool. Pre-norm instead of post-norm.
        attention_dropout: float in [0, 1), on attention weights; None: as `dropout`.

    Call arguments:
        decoder_sequence: float tensor (B, T, D).
        encoder_sequence: float tensor (B, S, D) or None.
        decoder_padding_mask: bool tensor (B, T) or None. True at real tokens.
        decoder_attention_mask: bool tensor that broadcasts to (B, T, T) or None, beside the causal one.
        encoder_padding_mask: bool tensor (B, S) or None.
        encoder_attention_mask: bool tensor that broadcasts to (B, T, S) or None.
        self_attention_cache: keys and values of the positions before, see `MultiHeadAttention`, or None.
        self_attention_cache_update_index: int or scalar int tensor, the position of the first input in the cache.
        cross_attention_cache: `project_source(encoder_sequence)`, in place of `encoder_sequence`, or None. The decoder
            may have k times as many rows, k hypotheses of each source; `encoder_padding_mask` stays (B, S).
        use_causal_mask: bool. Whether positions see none behind them; with a cache they never do.
        return_attention_scores: bool. Whether to return the weights too.
        training: bool. Whether to apply dropout.

    Returns:
        Tensor (B, T, D). With `return_attention_scores` behind it the weights (B, H, T, T) on the target and
        (B, H, T, S) on the source (None without one); with a cache, last, the cache with the new positions.

    Raises:
        ValueError: if an argument is out of range, or `num_heads` does not divide D.

    Source: Vaswani et al. (2017), section 3.1, https://arxiv.org/abs/1706.03762; pre-norm: Xiong et al. (2020), figure
    1. Names and order of weights are those of `keras_hub.layers.TransformerDecoder`, which returns no weights.

    Example:
        layer = TransformerDecoderLayer(intermediate_dim=256, num_heads=4)
        outputs = layer(targets, sources, encoder_padding_mask=source_ids != 0)
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
        self.supports_masking = True
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy, name="dropout_layer")

    def build(self, decoder_sequence_shape, encoder_sequence_shape=None):
        def norm(name):
            layer = keras.layers.LayerNormalization(epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name)
            layer.build(decoder_sequence_shape)
            return layer

        width = decoder_sequence_shape[-1]
        self.self_attention = attention_for(width, self.num_heads, self.attention_dropout, self.dtype_policy, "self")
        self.self_attention.build(decoder_sequence_shape, decoder_sequence_shape)
        self.self_attention_norm = norm("self_attention_norm")
        self.cross_attention = None
        if encoder_sequence_shape is not None:
            self.cross_attention = attention_for(
                width, self.num_heads, self.attention_dropout, self.dtype_policy, "cross"
            )
            self.cross_attention.build(decoder_sequence_shape, encoder_sequence_shape)
            self.cross_attention_norm = norm("cross_attention_norm")
        self.feed_forward = FeedForward(
            self.intermediate_dim, self.activation, dtype=self.dtype_policy, name="feed_forward"
        )
        self.feed_forward.build(decoder_sequence_shape)
        self.feed_forward_norm = norm("feed_forward_norm")
        self.built = True

    def project_source(self, encoder_sequence):
        """The keys and values of the source (B, S, D), for the `cross_attention_cache` of many calls."""
        return self.cross_attention.project_keys_values(encoder_sequence)

    def call(
        self,
        decoder_sequence,
        encoder_sequence=None,
        decoder_padding_mask=None,
        decoder_attention_mask=None,
        encoder_padding_mask=None,
        encoder_attention_mask=None,
        self_attention_cache=None,
        self_attention_cache_update_index=None,
        cross_attention_cache=None,
        use_causal_mask=True,
        return_attention_scores=False,
        training=None,
    ):
        if self.cross_attention is None and encoder_sequence is not None:
            raise ValueError("A layer first called without `encoder_sequence` has no attention to it.")
        options = {"return_attention_scores": return_attention_scores, "training": training}
        own, cross = [], []  # what the attentions return beside their output

        def attend_to_itself(x):
            x, *own[:] = _as_tuple(
                self.self_attention(
                    x,
                    x,
                    attention_mask=combined_mask(value_mask=decoder_padding_mask, attention_mask=decoder_attention_mask),
                    use_causal_mask=use_causal_mask,
                    cache=self_attention_cache,
                    cache_index=self_attention_cache_update_index,
                    **options,
                )
            )
            return x

        def attend_to_source(x):
            shape = ops.shape(x)
            if cross_attention_cache is not None:  # the hypotheses of a source ask it together
                sources = ops.shape(cross_attention_cache[0])[0] // self.num_heads
                x = ops.reshape(x, (sources, -1, shape[-1]))  # (B, kT, D)
            x, *cross[:] = _as_tuple(
                self.cross_attention(
                    x,
                    encoder_sequence,
                    attention_mask=combined_mask(value_mask=encoder_padding_mask, attention_mask=encoder_attention_mask),
                    projected_key_value=cross_attention_cache,
                    **options,
                )
            )
            if cross:
                cross[0] = _of_each_row(cross[0], shape)
            return ops.reshape(x, shape)

        x = self._added(attend_to_itself, self.self_attention_norm, decoder_sequence, training)
        if self.cross_attention is not None:
            x = self._added(attend_to_source, self.cross_attention_norm, x, training)
        x = self._added(self.feed_forward, self.feed_forward_norm, x, training)
        cache = [] if self_attention_cache is None else [own.pop()]
        if return_attention_scores:
            return (x, own[0], cross[0] if cross else None, *cache)
        return (x, *cache) if cache else x

    def _added(self, part, norm, x, training):
        """x + part(x) with its dropout, and the norm before or behind."""
        if self.normalize_first:
            return x + self.dropout_layer(part(norm(x)), training=training)
        return norm(x + self.dropout_layer(part(x), training=training))

    def compute_output_spec(self, *args, **kwargs):
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "num_heads": self.num_heads,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation": keras.activations.serialize(self.activation),
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "normalize_first": self.normalize_first,
        }


def _of_each_row(weights, shape):
    """Weights (B, H, kT, S) of k hypotheses a source as (B k, H, T, S)."""
    batch, heads, _, length = ops.shape(weights)
    weights = ops.reshape(weights, (batch, heads, -1, shape[1], length))  # (B, H, k, T, S)
    return ops.reshape(ops.transpose(weights, (0, 2, 1, 3, 4)), (shape[0], heads, shape[1], length))


def _as_tuple(result):
    return result if isinstance(result, tuple) else (result,)
