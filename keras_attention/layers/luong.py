"""Multiplicative and local attention (Luong et al. 2015)."""

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

SCORES = ("dot", "general", "concat")
MODES = ("global", "local_m", "local_p")


@keras.saving.register_keras_serializable(package="keras_attention")
class LuongAttention(keras.layers.Layer):
    """Multiplicative or concat attention to all keys (global) or to a window of them (local).

        score(q, k) = q . k                       "dot"
                      q . W_a k                   "general"
                      v_a . tanh(W_a [q; k])      "concat"

        weights = softmax(scores)                                              "global"
        weights = softmax(scores in the window)                                "local_m", p = t
        weights = softmax(scores in the window) exp(-(s - p)^2 / (2 sigma^2))  "local_p", sigma = D / 2,
                                                                               p = S sigmoid(v_p . tanh(W_p q))

    The window around the aligned position p contains the keys s with p - D <= s <= p + D, counted from 0.
    Shapes: B batch, T queries, S keys. In a decoder loop, compute `projected_key = layer.project_keys(key)` once and
    pass it to every step; with "local_m", also pass the `position` of each step.

    Args:
        score: "dot", "general" or "concat".
        mode: "global", "local_m" (monotonic alignment) or "local_p" (predictive alignment).
        window: int > 0, keys. Half the width of the local window (D in the paper). Not used by "global".
        units: int > 0. Width of the networks of "concat" and "local_p", by default the width of the query.
        dropout: float in [0, 1). Share of attention weights dropped in training.

    Call arguments:
        query: float tensor (B, T, Dq) (h_t in the paper).
        value: float tensor (B, S, Dv) (h_s in the paper).
        key: float tensor (B, S, Dk), by default `value`.
        attention_mask: bool tensor that broadcasts to (B, T, S). True means "may be attended to". Keys and values
            masked for every query have no effect, not even if they are NaN.
        query_mask, value_mask, key_mask, projected_key_mask: bool tensors (B, T) for the query, else (B, S), or None:
            padding masks. Keras passes the implicit masks of the inputs.
        return_attention_scores: bool. Whether to return the weights too.
        training: bool. Whether to apply dropout.
        projected_key: tensor (B, S, ...), the result of `project_keys`; `key` is then not used.
        position: tensor that broadcasts to (B, T), in keys. The aligned position p of each query in a local mode. By
            default t for "local_m" and the prediction for "local_p", where S is the number of unmasked keys.

    Returns:
        Context (B, T, Dv), or the pair of context and weights (B, T, S). The weights are float32, without dropout. They
        sum to 1 over S; with "local_p" to less, because the paper does not renormalize after the Gaussian. If all keys
        of a query are masked or outside the window, its weights and its context are exactly 0.

    Raises:
        TypeError: if `attention_mask` is not boolean.
        ValueError: if an argument is out of range, if query and key have different widths with "dot", or if
            `attention_mask` does not have three axes.

    Source: Luong, Pham & Manning (2015), sections 3.1 and 3.2 (scores: equation 8; local-p: equations 9 and
    10), https://arxiv.org/abs/1508.04025. Weight dropout is not in the paper. W_a of "concat" is stored as two blocks,
    `query_projection` and `key_projection`.

    Example:
        layer = LuongAttention(score="general", mode="local_p", window=5)
        context, weights = layer(query, value, attention_mask=mask, return_attention_scores=True)
    """

    def __init__(
        self,
        score: str = "general",
        mode: str = "global",
        window: int = 10,
        units: int | None = None,
        dropout: float = 0.0,
        **kwargs: Any,
    ):
        # Without autocast, because half precision cannot represent every `position`.
        super().__init__(autocast=False, **kwargs)
        if score not in SCORES:
            raise ValueError(f"`score` must be one of {SCORES}. Received: score={score}")
        if mode not in MODES:
            raise ValueError(f"`mode` must be one of {MODES}. Received: mode={mode}")
        if not is_positive_integer(window):
            raise ValueError(f"`window` must be a positive integer. Received: window={window}")
        if units is not None and not is_positive_integer(units):
            raise ValueError(f"`units` must be a positive integer or None. Received: units={units}")
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout}")
        self.score = score
        self.mode = mode
        self.window = window
        self.units = units
        self.supports_masking = True
        self.dropout = dropout
        self.score_dtype = keras.backend.result_type(self.compute_dtype, "float32")
        self.weight_dropout = Dropout(dropout, dtype=self.score_dtype, name="weight_dropout")

    def build(self, query_shape, value_shape, key_shape=None):
        query_dim, key_dim = query_shape[-1], (key_shape or value_shape)[-1]
        units = self.units or query_dim
        if self.score == "dot" and query_dim != key_dim:
            raise ValueError(
                "The 'dot' score needs a query and a key of the same width. "
                f"Received: query width {query_dim}, key width {key_dim}"
            )
        if self.score == "general":
            self.key_projection = self._dense(query_dim, key_dim, "key_projection")  # W_a
        if self.score == "concat":
            self.query_projection = self._dense(units, query_dim, "query_projection")
            self.key_projection = self._dense(units, key_dim, "key_projection")
            self.score_projection = ScoreProjection(dtype=self.score_dtype, name="score_projection")  # v_a
            self.score_projection.build((None, None, None, units))
        if self.mode == "local_p":
            self.position_hidden = self._dense(units, query_dim, "position_hidden", self.score_dtype)  # W_p
            self.position_projection = self._dense(1, units, "position_projection", self.score_dtype)  # v_p
        self.built = True

    def _dense(self, units, input_dim, name, dtype=None):
        layer = keras.layers.Dense(units, use_bias=False, dtype=dtype or self.dtype_policy, name=name)
        layer.build((None, None, input_dim))
        return layer

    def project_keys(self, key: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Returns W_a k, or k itself for "dot", to reuse as `projected_key` in calls with the same keys k (B, S, Dk).

        The layer must be built. The mask is needed only if masked keys may be NaN or infinite.
        """
        keys = zero_masked(ops.cast(key, self.compute_dtype), used_keys(attention_mask))
        keys = keys if self.score == "dot" else self.key_projection(keys)
        return with_keras_mask(keys, keras_mask(key))

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        projected_key: Tensor | None = None,
        position: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        projected_key_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        attention_mask = combined_mask(query_mask, value_mask, key_mask, attention_mask)
        attention_mask = combined_mask(key_mask=projected_key_mask, attention_mask=attention_mask)
        if projected_key is None:
            projected_key = self.project_keys(value if key is None else key, attention_mask)  # (B, S, ...)
        query, keys, value = (ops.cast(x, self.compute_dtype) for x in (query, projected_key, value))
        query, keys, value = zero_unused(query, keys, value, attention_mask)
        scores = self._scores(query, keys)  # (B, T, S)
        if self.mode == "global":
            weights = masked_softmax(scores, attention_mask)
        else:
            weights = self._local_weights(query, scores, attention_mask, position)
        dropped = self.weight_dropout(weights, training=training)
        context = ops.matmul(ops.cast(dropped, value.dtype), value)  # (B, T, Dv)
        return (context, weights) if return_attention_scores else context

    def _scores(self, query, keys):
        if self.score == "concat":
            queries = self.query_projection(query)  # (B, T, units)
            hidden = ops.tanh(queries[:, :, None, :] + keys[:, None, :, :])  # (B, T, S, units)
            return self.score_projection(hidden)  # (B, T, S)
        query, keys = ops.cast(query, self.score_dtype), ops.cast(keys, self.score_dtype)
        return ops.einsum("btd,bsd->bts", query, keys)

    def _local_weights(self, query, scores, attention_mask, position):
        num_queries, num_keys = ops.shape(scores)[1:]
        if position is None and self.mode == "local_m":
            position = ops.arange(num_queries, dtype="int32")[None, :]  # (1, T)
        elif position is None:
            position = self._predict_position(query, attention_mask, num_keys)  # (B, T)
        elif len(position.shape) != 2:
            raise ValueError(
                "`position` must have two axes and broadcast to (batch, queries). "
                f"Received: position.shape={tuple(position.shape)}"
            )
        position = ops.cast(position, self.score_dtype)[:, :, None]  # (B, T, 1)
        distance = ops.arange(num_keys, dtype=self.score_dtype) - position  # (B, T, S)
        mask = ops.abs(distance) <= self.window
        weights = masked_softmax(scores, mask if attention_mask is None else ops.logical_and(mask, attention_mask))
        if self.mode == "local_p":
            weights = weights * ops.exp(-ops.square(distance) / (2 * (self.window / 2) ** 2))
        return weights

    def _predict_position(self, query, attention_mask, num_keys):
        share = ops.sigmoid(self.position_projection(ops.tanh(self.position_hidden(query))))  # (B, T, 1)
        mask = ops.ones((1, 1, num_keys), dtype="bool")
        if attention_mask is not None:
            mask = ops.logical_and(mask, attention_mask)
        return ops.sum(share * ops.cast(mask, share.dtype), axis=2)  # (B, T)

    def compute_output_shape(self, query_shape, value_shape, key_shape=None, return_attention_scores=False):
        context_shape = (*query_shape[:-1], value_shape[-1])
        weights_shape = (*query_shape[:-1], value_shape[-2])
        return (context_shape, weights_shape) if return_attention_scores else context_shape

    def compute_output_spec(self, *args, **kwargs):
        # Traced from `call`: Keras's default uses `compute_output_shape` and assumes one dtype for all outputs.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "score": self.score,
            "mode": self.mode,
            "window": self.window,
            "units": self.units,
            "dropout": self.dropout,
        }


def is_positive_integer(number):
    return isinstance(number, int) and not isinstance(number, bool) and number > 0
