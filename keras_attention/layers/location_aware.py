"""Location-aware attention (Chorowski et al. 2015): the last weights are part of the next scores."""

from typing import Any

import keras
from keras import ops

from keras_attention.layers.additive import ScoreProjection
from keras_attention.layers.attention import masked_softmax
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.masks import (
    Tensor,
    combined_mask,
    keras_mask,
    used_keys,
    with_keras_mask,
    zero_masked,
    zero_unused,
)


@keras.saving.register_keras_serializable(package="keras_attention")
class LocationAwareAttention(keras.layers.Layer):
    """Additive attention whose scores also depend on where it looked before, so that it can move on from there.

        f = F * previous_weights        (a convolution over the keys, `num_filters` filters of width `kernel_size`)
        score(q, k_s) = v . tanh(W q + V k_s + U f_s)
        context = sum over s of softmax(scores)[s] * value[s]

    Content alone cannot tell two equal sounds apart, such as the two threes in "3 3"; the place can. Shapes: B batch,
    T queries, S keys. In a decoder loop, compute `projected_key = layer.project_keys(key)` once and pass it to every
    step, with the weights of the last step.

    Args:
        units: int > 0. Width of the scoring network.
        num_filters: int > 0 (k in the paper).
        kernel_size: int > 0, keys that a filter covers (r in the paper); an odd number has as many on both sides.
        dropout: float in [0, 1). Share of attention weights dropped while training.

    Call arguments:
        query: float tensor (B, T, Dq) (the decoder state s in the paper).
        value: float tensor (B, S, Dv) (the annotations h in the paper).
        key: float tensor (B, S, Dk), by default `value`.
        attention_mask: bool tensor that broadcasts to (B, T, S). True means "may be attended to". Keys and values
            masked for every query have no effect, even if they are NaN.
        query_mask, value_mask, key_mask, projected_key_mask: bool tensors (B, T) for the query, else (B, S), or None:
            padding masks. Keras passes the implicit masks of the inputs.
        return_attention_scores: bool. Whether to return the weights too.
        training: bool. Whether to apply dropout.
        projected_key: float tensor (B, S, units), the result of `project_keys`; `key` is then not used.
        previous_weights: float tensor (B, T, S), the weights of the last step for each query; those of masked pairs
            have no effect. None before the first step, which is the same as zeros.

    Returns:
        Context (B, T, Dv), or the pair of context and weights (B, T, S). The weights are float32, without dropout, and
        sum to 1 over S. If all keys of a query are masked, its weights and its context are exactly 0.

    Raises:
        TypeError: if `attention_mask` is not boolean.
        ValueError: if an argument is out of range, or `attention_mask` or `previous_weights` has another shape.

    Source: Chorowski et al. (2015), section 2.1, equations 8 and 9, https://arxiv.org/abs/1506.07503. Differences: no
    bias b, as in `AdditiveAttention`; weight dropout; neither sharpening nor smoothing (section 2.2).

    Example:
        layer = LocationAwareAttention(units=64, num_filters=8, kernel_size=15)
        context, weights = layer(query, value, return_attention_scores=True)
        context, weights = layer(query, value, previous_weights=weights, return_attention_scores=True)
    """

    def __init__(self, units: int, num_filters: int = 10, kernel_size: int = 15, dropout: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        for name, value in (("units", units), ("num_filters", num_filters), ("kernel_size", kernel_size)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value}")
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout}")
        self.units, self.num_filters, self.kernel_size, self.dropout = units, num_filters, kernel_size, dropout
        self.supports_masking = True
        # Scores and softmax in at least float32: in half precision, scores overflow or become equal.
        score_dtype = keras.backend.result_type(self.compute_dtype, "float32")

        def dense(name):
            return keras.layers.Dense(units, use_bias=False, dtype=self.dtype_policy, name=name)

        self.query_projection = dense("query_projection")
        self.key_projection = dense("key_projection")
        self.location_projection = dense("location_projection")
        self.location_convolution = keras.layers.Conv1D(
            num_filters,
            kernel_size,
            padding="same",
            use_bias=False,
            data_format="channels_last",
            dtype=self.dtype_policy,
            name="location_convolution",
        )
        self.score_projection = ScoreProjection(dtype=score_dtype, name="score_projection")
        self.weight_dropout = Dropout(dropout, dtype=score_dtype, name="weight_dropout")

    def build(self, query_shape, value_shape, key_shape=None):
        self.query_projection.build(query_shape)
        if not self.key_projection.built:  # `project_keys` may have built it
            self.key_projection.build(key_shape or value_shape)
        self.location_convolution.build((None, None, 1))
        self.location_projection.build((None, None, self.num_filters))
        self.score_projection.build((None, None, None, self.units))
        self.built = True

    def project_keys(self, key: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Returns V k (B, S, units), to reuse as `projected_key` in many calls with the same keys (B, S, Dk).

        The mask is needed only if masked keys may be NaN or infinite.
        """
        projected = self.key_projection(zero_masked(key, used_keys(attention_mask)))
        return with_keras_mask(projected, keras_mask(key))

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        projected_key: Tensor | None = None,
        previous_weights: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        projected_key_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        attention_mask = combined_mask(query_mask, value_mask, key_mask, attention_mask)
        attention_mask = combined_mask(key_mask=projected_key_mask, attention_mask=attention_mask)
        if projected_key is None:
            projected_key = self.project_keys(value if key is None else key, attention_mask)  # (B, S, units)
        query, keys, value = zero_unused(query, projected_key, value, attention_mask)
        hidden = self.query_projection(query)[:, :, None, :] + keys[:, None, :, :]  # (B, T, S, units)
        if previous_weights is not None and 0 not in hidden.shape:
            hidden = hidden + self._locations(previous_weights, hidden, attention_mask)
        scores = self.score_projection(ops.tanh(hidden))  # (B, T, S)
        weights = masked_softmax(scores, attention_mask)
        dropped = self.weight_dropout(weights, training=training)
        context = ops.matmul(ops.cast(dropped, value.dtype), value)  # (B, T, Dv)
        return (context, weights) if return_attention_scores else context

    def _locations(self, previous_weights, hidden, attention_mask):
        """U f (B, T, S, units) from the last weights (B, T, S); `hidden` has the shape of the result."""
        given, expected = tuple(previous_weights.shape), tuple(hidden.shape[:3])
        if len(given) != 3 or any(
            None not in both and both[0] != both[1] for both in zip(given, expected, strict=True)
        ):
            raise ValueError(f"`previous_weights` must have the shape (B, T, S) = {expected}. Received: {given}")
        weights = ops.cast(previous_weights, self.compute_dtype)
        if attention_mask is not None:
            weights = ops.where(attention_mask, weights, 0)
        batch, queries, keys = ops.shape(weights)
        weights = ops.reshape(weights, (-1, keys, 1))  # (B T, S, 1)
        located = self.location_projection(self.location_convolution(weights))  # (B T, S, units)
        return ops.reshape(located, (-1, queries, keys, self.units))

    def compute_output_shape(self, query_shape, value_shape, key_shape=None, return_attention_scores=False):
        context_shape = (*query_shape[:-1], value_shape[-1])
        weights_shape = (*query_shape[:-1], value_shape[-2])
        return (context_shape, weights_shape) if return_attention_scores else context_shape

    def compute_output_spec(self, *args, **kwargs):
        # Traced from `call`: Keras's default uses `compute_output_shape` and assumes one dtype for all outputs.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        names = ("units", "num_filters", "kernel_size", "dropout")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
