"""Additive attention (Bahdanau et al. 2015)."""

from typing import Any

import keras
from keras import ops

from keras_attention.layers.attention import masked_softmax
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.fast.blocks import AllowedPairs, four_axes
from keras_attention.layers.fast.chunked_attention import AdditiveScore, chunked_attention, is_large
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
class AdditiveAttention(keras.layers.Layer):
    """Scores every key with a small network, then averages the values.

        score(q, k) = v_a . tanh(W_a q + U_a k)
        context = sum over s of softmax(scores)[s] * value[s]

    Shapes: B batch, T queries, S keys. In a decoder loop, compute `projected_key = layer.project_keys(key)` once and
    pass it to every step. If T S units exceeds 2^22 and the weights are not requested, attention is computed in chunks,
    with memory proportional to T + S (see `chunked_attention`).

    Args:
        units: int > 0. Width of the scoring network (n' in the paper).
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

    Returns:
        Context (B, T, Dv), or the pair of context and weights (B, T, S). The weights are float32, without dropout, and
        sum to 1 over S. If all keys of a query are masked, its weights and its context are exactly 0.

    Raises:
        TypeError: if `attention_mask` is not boolean.
        ValueError: if `units` or `dropout` is out of range, or `attention_mask` does not have three axes.

    Source: Bahdanau, Cho & Bengio (2015), section 3.1 and appendix A.1.2, https://arxiv.org/abs/1409.0473. Weight
    dropout is not in the paper. Unlike `keras.layers.AdditiveAttention`, query and key are projected.

    Example:
        layer = AdditiveAttention(units=64)
        context, weights = layer(query, value, attention_mask=mask, return_attention_scores=True)
    """

    def __init__(self, units: int, dropout: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(units, int) or isinstance(units, bool) or units < 1:
            raise ValueError(f"`units` must be a positive integer. Received: units={units}")
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout}")
        self.units = units
        self.supports_masking = True
        self.dropout = dropout
        # Scores and softmax in at least float32: in half precision, scores overflow or become equal.
        score_dtype = keras.backend.result_type(self.compute_dtype, "float32")
        self.query_projection = keras.layers.Dense(
            units, use_bias=False, dtype=self.dtype_policy, name="query_projection"
        )
        self.key_projection = keras.layers.Dense(units, use_bias=False, dtype=self.dtype_policy, name="key_projection")
        self.score_projection = ScoreProjection(dtype=score_dtype, name="score_projection")
        self.weight_dropout = Dropout(dropout, dtype=score_dtype, name="weight_dropout")

    def build(self, query_shape, value_shape, key_shape=None):
        self.query_projection.build(query_shape)
        if not self.key_projection.built:  # `project_keys` may have built it
            self.key_projection.build(key_shape or value_shape)
        self.score_projection.build((None, None, None, self.units))
        self.built = True

    def project_keys(self, key: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Returns U_a k (B, S, units), to reuse as `projected_key` in many calls with the same keys (B, S, Dk).

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
        queries = self.query_projection(query)  # (B, T, units)
        if not return_attention_scores and is_large(queries, keys.shape[1], self.units):
            return self._attend_in_chunks(queries, keys, value, attention_mask, training)
        hidden = ops.tanh(queries[:, :, None, :] + keys[:, None, :, :])  # (B, T, S, units)
        scores = self.score_projection(hidden)  # (B, T, S)
        weights = masked_softmax(scores, attention_mask)
        dropped = self.weight_dropout(weights, training=training)
        context = ops.matmul(ops.cast(dropped, value.dtype), value)  # (B, T, Dv)
        return (context, weights) if return_attention_scores else context

    def _attend_in_chunks(self, queries, keys, value, attention_mask, training):
        # Read v_a through its layer: the variable would be cast to this layer's compute dtype, perhaps half precision.
        vector = self.score_projection(ops.eye(self.units, dtype="float32")[None, None])[0, 0]  # (units,)
        context, _ = chunked_attention(
            *(x[:, None] for x in (queries, keys, value)),  # (B, 1, T, units), (B, 1, S, units), (B, 1, S, Dv)
            score=AdditiveScore(),
            parameters=(vector,),
            pairs=AllowedPairs(four_axes(attention_mask=attention_mask)),
            dropout=self.weight_dropout.next_draw(training),
            numbers_per_pair=self.units,
        )
        return context[:, 0]  # (B, T, Dv)

    def compute_output_shape(self, query_shape, value_shape, key_shape=None, return_attention_scores=False):
        context_shape = (*query_shape[:-1], value_shape[-1])
        weights_shape = (*query_shape[:-1], value_shape[-2])
        return (context_shape, weights_shape) if return_attention_scores else context_shape

    def compute_output_spec(self, *args, **kwargs):
        # Traced from `call`: Keras's default uses `compute_output_shape` and assumes one dtype for all outputs.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        return {**super().get_config(), "units": self.units, "dropout": self.dropout}


@keras.saving.register_keras_serializable(package="keras_attention")
class ScoreProjection(keras.layers.Layer):
    """Computes scores from the hidden layer of the scoring network.

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
        # One product per example: XLA on CPU computes the gradient of v several times slower in a single product.
        vectors = ops.broadcast_to(self.kernel, (batch, units, 1))
        return ops.reshape(ops.matmul(hidden, vectors), (batch, num_queries, num_keys))  # (B, T, S)

    def compute_output_shape(self, input_shape):
        return input_shape[:-1]
