"""The simpler simple recurrent unit (Kim et al. 2019), and the decoder layer that has it in place of self-attention."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attention.layers.dropout import Dropout
from keras_attention.layers.feed_forward import FeedForward
from keras_attention.layers.masks import Tensor, combined_mask, zero_masked
from keras_attention.layers.transformer_layers import attend_to_source, attention_for


@keras.saving.register_keras_serializable(package="keras_attention")
class SSRU(keras.layers.Layer):
    """Simpler simple recurrent unit: a running mean of the inputs, whose gate depends on the current input only.

        f_t = sigmoid(W_f x_t + b_f)        c_t = f_t * c_(t-1) + (1 - f_t) * W x_t        y_t = relu(c_t)

    No matrix is multiplied with the last state. So a decoder has to keep only the vector c of each sequence from one
    step to the next, and in training all steps are computed in about log2 T parallel operations (`step` computes one).

    Shapes: B batch, T steps, D width of inputs, state and outputs.

    Call arguments:
        inputs: float tensor (B, T, D).
        mask: bool tensor (B, T) or None. Steps where it is False leave the state unchanged.

    Returns:
        Tensor (B, T, D).

    Source: Kim et al. (2019), "From Research to Production and Back: Ludicrously Fast Neural Machine Translation",
    section 3.1, https://aclanthology.org/D19-5632; a simplification of SRU (Lei et al. 2018). The state before the
    first step is 0. No differences; the state is computed in at least float32.

    Example:
        outputs = SSRU()(inputs)
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape):
        width = input_shape[-1]
        self.projection = keras.layers.Dense(width, use_bias=False, dtype=self.dtype_policy, name="projection")
        self.gate = keras.layers.Dense(width, dtype=self.dtype_policy, name="gate")
        self.projection.build(input_shape)
        self.gate.build(input_shape)
        self.built = True

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        kept, added = self._gated(zero_masked(inputs, mask))
        if mask is not None:
            mask = ops.cast(mask, "bool")[..., None]  # (B, T, 1)
            kept, added = ops.where(mask, kept, ops.ones_like(kept)), ops.where(mask, added, ops.zeros_like(added))
        return ops.cast(ops.relu(linear_recurrence(kept, added)), self.compute_dtype)  # (B, T, D)

    def step(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step: inputs and state c_(t-1) (..., D) -> outputs (..., D) and the new state."""
        kept, added = self._gated(inputs)
        state = kept * state + added
        return ops.cast(ops.relu(state), self.compute_dtype), state

    def _gated(self, inputs):
        """f_t and (1 - f_t) * W x_t, in at least float32."""
        dtype = keras.backend.result_type(self.compute_dtype, "float32")
        kept = ops.sigmoid(ops.cast(self.gate(inputs), dtype))
        return kept, (1 - kept) * ops.cast(self.projection(inputs), dtype)

    def compute_output_shape(self, input_shape):
        return input_shape


def linear_recurrence(kept: Tensor, added: Tensor) -> Tensor:
    """All states of c_t = kept_t * c_(t-1) + added_t, with c = 0 before the first step.

    Two steps in a row are one step of the same form, with kept = kept_1 kept_2 and added = kept_2 added_1 + added_2. So
    a first pass combines each step with the one before, a second pass with the two before, and so on: log2 T passes
    (Hillis & Steele 1986, https://doi.org/10.1145/7902.7903).

    Args:
        kept, added: float tensors (B, T, D).

    Returns:
        Tensor (B, T, D).
    """
    length = ops.shape(added)[1]

    def before(x, distance, first):
        """x_(t - distance), or `first` at the first steps."""
        places = ops.arange(length, dtype="int32") - distance
        return ops.where((places >= 0)[:, None], ops.take(x, ops.maximum(places, 0), axis=1), first)

    def combined(distance, kept, added):
        added = kept * before(added, distance, 0.0) + added
        return 2 * distance, kept * before(kept, distance, 1.0), added

    if isinstance(length, int):
        distance = 1
        while distance < length:
            distance, kept, added = combined(distance, kept, added)
        return added
    start = (ops.ones((), "int32"), kept, added)
    return ops.while_loop(lambda distance, *_: distance < length, combined, start)[2]


@keras.saving.register_keras_serializable(package="keras_attention")
class SSRUDecoderLayer(keras.layers.Layer):
    """Transformer decoder layer with an SSRU in place of self-attention.

        y = LayerNorm(x + SSRU(x))    z = LayerNorm(y + Attention(y, source))    output = LayerNorm(z + FeedForward(z))

    With `normalize_first`, each norm is applied to the input of its sub-layer instead.
    Shapes: B batch, T target positions, S source positions, D width, H heads.

    Args:
        intermediate_dim: int > 0. Inner width of the feed-forward network.
        num_heads: int > 0, heads of the cross-attention, a divisor of D.
        dropout: float in [0, 1), on the output of each sub-layer.
        activation: str or callable, activation of the feed-forward network.
        layer_norm_epsilon: float > 0, added to the variance.
        normalize_first: bool. Pre-norm instead of post-norm.
        attention_dropout: float in [0, 1), on attention weights.

    Call arguments:
        decoder_sequence: float tensor (B, T, D). With a `state`, the inputs (B, k, D) of one step for k hypotheses of
            each source.
        encoder_sequence: float tensor (B, S, D), or None with a `cross_attention_cache`.
        decoder_padding_mask: bool tensor (B, T) or None. True at real tokens.
        encoder_padding_mask: bool tensor (B, S) or None.
        cross_attention_cache: `project_source(encoder_sequence)`, or None.
        state: float32 tensor (B, k, D), the state of the SSRU after the last step, or None.
        return_attention_scores: bool. Whether to return the weights of the cross-attention too.
        training: bool. Whether to apply dropout.

    Returns:
        Tensor (B, T, D), or a tuple that starts with it. With `return_attention_scores`, weights (B, H, T, S) follow;
        with a state, the new state is last.

    Raises:
        ValueError: if an argument is out of range, or `num_heads` does not divide D.

    Source: Kim et al. (2019), section 3.1, https://aclanthology.org/D19-5632; the other sub-layers are those of
    `TransformerDecoderLayer`.

    Example:
        layer = SSRUDecoderLayer(intermediate_dim=256, num_heads=4)
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
        attention_dropout: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.intermediate_dim, self.num_heads = intermediate_dim, num_heads
        self.dropout, self.attention_dropout = dropout, attention_dropout
        self.activation = keras.activations.get(activation)
        self.layer_norm_epsilon, self.normalize_first = layer_norm_epsilon, normalize_first
        self.kernel_initializer = None
        self.supports_masking = True
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy, name="dropout_layer")
        self.ssru = SSRU(dtype=self.dtype_policy, name="ssru")
        self.feed_forward = FeedForward(intermediate_dim, self.activation, dtype=self.dtype_policy, name="feed_forward")

    def build(self, decoder_sequence_shape, encoder_sequence_shape=None):
        def norm(name):
            layer = keras.layers.LayerNormalization(epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name)
            layer.build(decoder_sequence_shape)
            return layer

        self.ssru.build(decoder_sequence_shape)
        self.ssru_norm = norm("ssru_norm")
        self.cross_attention = attention_for(self, decoder_sequence_shape[-1], "cross")
        self.cross_attention.build(decoder_sequence_shape, encoder_sequence_shape or decoder_sequence_shape)
        self.cross_attention_norm = norm("cross_attention_norm")
        self.feed_forward.build(decoder_sequence_shape)
        self.feed_forward_norm = norm("feed_forward_norm")
        self.built = True

    def project_source(self, encoder_sequence: Tensor) -> tuple[Tensor, Tensor]:
        """Returns keys and values of the source (B, S, D), to reuse as `cross_attention_cache` in many calls."""
        return self.cross_attention.project_keys_values(encoder_sequence)

    def call(
        self,
        decoder_sequence: Tensor,
        encoder_sequence: Tensor | None = None,
        decoder_padding_mask: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        cross_attention_cache: tuple[Tensor, Tensor] | None = None,
        state: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple:
        options = {"return_attention_scores": return_attention_scores, "training": training}
        new_state = weights = None

        residual = decoder_sequence
        x = self.ssru_norm(residual) if self.normalize_first else residual
        if state is None:
            x = self.ssru(x, mask=decoder_padding_mask)
        else:
            x, new_state = self.ssru.step(x, state)
        x = residual + self.dropout_layer(x, training=training)
        x = x if self.normalize_first else self.ssru_norm(x)

        residual = x
        x = self.cross_attention_norm(x) if self.normalize_first else x
        mask = combined_mask(value_mask=encoder_padding_mask)
        x = attend_to_source(self.cross_attention, x, encoder_sequence, mask, cross_attention_cache, options)
        x, weights = x if return_attention_scores else (x, None)
        x = residual + self.dropout_layer(x, training=training)
        x = x if self.normalize_first else self.cross_attention_norm(x)

        residual = x
        x = self.feed_forward_norm(x) if self.normalize_first else x
        x = residual + self.dropout_layer(self.feed_forward(x), training=training)
        x = x if self.normalize_first else self.feed_forward_norm(x)

        results = (x, *([weights] if return_attention_scores else []), *([] if state is None else [new_state]))
        return results if len(results) > 1 else x

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
