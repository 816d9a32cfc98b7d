"""Multi-head attention (Vaswani et al. 2017)."""

import keras
from keras import ops

from keras_attention.layers.allowed_pairs import AllowedPairs, four_axes
from keras_attention.layers.chunked_attention import is_large
from keras_attention.layers.dot_product_attention import attend, attend_in_chunks, heads_first, zero_masked_by_head
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.head_projection import HeadProjection, project
from keras_attention.layers.masks import zero_masked


@keras.saving.register_keras_serializable(package="keras_attention")
class MultiHeadAttention(keras.layers.Layer):
    """Lets every head look at the keys in a projection of its own, and joins what the heads found.

        head_h = softmax(Q_h K_h^T / sqrt(key_dim)) V_h,  Q_h = query W^Q_h, K_h = key W^K_h, V_h = value W^V_h
        output = sum over h of head_h W^O_h

    Takes the place of `keras.layers.MultiHeadAttention`: same names, and `set_weights(keras_layer.get_weights())`.
    Shapes: B batch, T queries, S keys, H heads, K `key_dim`, V `value_dim`, L cache length.
    Where H T S exceeds 2^22 and the weights are not asked for, the pairs are computed in chunks, in memory that grows
    with T + S (see `chunked_attention`).

    Args:
        num_heads: int > 0 (h in the paper).
        key_dim: int > 0. Width of each head's queries and keys (d_k in the paper).
        value_dim: int > 0. Width of each head's values (d_v in the paper), by default `key_dim`.
        dropout: float in [0, 1). Share of attention weights dropped while training.
        use_bias: bool. Whether the projections have biases.
        output_shape: int > 0. Width of the output, by default the width of the query.
        num_key_value_heads: int > 0 that divides `num_heads`, by default `num_heads`. Fewer heads of keys and values,
            each shared by a group of neighbouring query heads.
        sliding_window: int > 0, tokens, or None. If set, a query sees only keys less than this many positions away.
        kernel_initializer, bias_initializer: how the projections start.

    Call arguments:
        query: float tensor (B, T, Dq).
        value: float tensor (B, S, Dv); None with `projected_key_value`.
        key: float tensor (B, S, Dk), by default `value`.
        query_mask, value_mask, key_mask: bool tensors (B, T), (B, S), (B, S): padding masks. Keras fills them in where
            its own masks arrive with the inputs. With a cache, the last two speak of the new positions only.
        attention_mask: bool tensor that broadcasts to (B, T, S) or (B, H, T, S). True means "may be attended to". Keys
            and values masked for every query have no effect, not even if they are NaN.
        return_attention_scores: bool. Whether to return the weights too.
        training: bool. Whether to apply dropout.
        use_causal_mask: bool. Whether a query sees only the keys up to its own position.
        projected_key_value: pair of tensors (B Hkv, K, S), (B Hkv, S, V), the result of `project_keys_values`, for
            many calls with the same keys and values.
        cache: pair of tensors (B Hkv, K, L), (B Hkv, L, V), the projected keys and values of earlier calls, which
            starts as `empty_cache(B, L)`. Those of `value` are written at the positions from `cache_index` on, where
            the queries stand too, and each query attends to the cached positions up to its own: S is then L.
        cache_index: int or scalar int tensor, at most L - T.

    Returns:
        Output (B, T, D), followed by the weights (B, H, T, S) if asked for and by the updated cache if one was given,
        as a tuple. The weights are float32, without dropout, and each row sums to 1; a row with every key masked is
        exactly 0, as is its output.

    Raises:
        TypeError: if `attention_mask` is not boolean.
        ValueError: if an argument is out of range or does not go with another.

    Source: Vaswani et al. (2017), section 3.2, https://arxiv.org/abs/1706.03762. Not in the paper: biases, dropout of
    the weights (in its code), `num_key_value_heads` (Ainslie et al. 2023, https://arxiv.org/abs/2305.13245) and
    `sliding_window` (Beltagy et al. 2020, section 3.1, https://arxiv.org/abs/2004.05150).

    Example:
        layer = MultiHeadAttention(num_heads=8, key_dim=64)
        output, weights = layer(query, value, attention_mask=mask, return_attention_scores=True)
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        dropout=0.0,
        use_bias=True,
        output_shape=None,
        num_key_value_heads=None,
        sliding_window=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = positive(num_heads, "num_heads")
        self.key_dim = positive(key_dim, "key_dim")
        self.value_dim = key_dim if value_dim is None else positive(value_dim, "value_dim")
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout}")
        self.dropout = dropout
        self.use_bias = use_bias
        # Not under its own name, which Keras's `Model.summary` gives another meaning.
        self._output_width = None if output_shape is None else positive(output_shape, "output_shape")
        self.num_key_value_heads = num_heads
        if num_key_value_heads is not None:
            self.num_key_value_heads = positive(num_key_value_heads, "num_key_value_heads")
        if num_heads % self.num_key_value_heads:
            raise ValueError(
                "`num_key_value_heads` must divide `num_heads`. "
                f"Received: num_key_value_heads={num_key_value_heads}, num_heads={num_heads}"
            )
        self.sliding_window = None if sliding_window is None else positive(sliding_window, "sliding_window")
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.supports_masking = True
        # Scores and softmax in at least float32: half precision overflows and ties.
        self.score_dtype = keras.backend.result_type(self.compute_dtype, "float32")
        self.query_projection = self._projection("btd,dhk->bthk", (num_heads, key_dim), "query")
        self.key_projection = self._projection("bsd,dhk->bshk", (self.num_key_value_heads, key_dim), "key")
        self.value_projection = self._projection("bsd,dhv->bshv", (self.num_key_value_heads, self.value_dim), "value")
        self.weight_dropout = Dropout(dropout, dtype=self.score_dtype, name="weight_dropout")

    def _projection(self, equation, output_shape, name):
        return HeadProjection(
            equation,
            output_shape=(None, *output_shape),
            bias_axes=equation[-len(output_shape) :] if self.use_bias else None,
            # A clone for each, because one initializer gives every kernel of a shape the same numbers.
            kernel_initializer=self.kernel_initializer.clone(),
            bias_initializer=self.bias_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, query_shape, value_shape=None, key_shape=None):
        self.query_projection.build(query_shape)
        for projection, shape in (
            (self.key_projection, key_shape or value_shape),
            (self.value_projection, value_shape),
        ):
            if not projection.built:  # `project_keys_values` may have come first
                if shape is None:
                    raise ValueError("The first call must have a `value`, whose width is not known yet.")
                projection.build(shape)
        width = self._output_width or query_shape[-1]
        self.output_projection = self._projection("bthv,hvd->btd", (width,), "attention_output")
        self.output_projection.build((*query_shape[:-1], self.num_heads, self.value_dim))
        self.built = True

    def project_keys_values(self, value, key=None):
        """Returns keys (B Hkv, K, S) and values (B Hkv, S, V), the `projected_key_value` of many calls.

        Where masked positions of `value` (B, S, Dv) or `key` (B, S, Dk) may be NaN, put 0 there before.
        """
        return heads_first(self.key_projection(value if key is None else key), self.value_projection(value))

    def empty_cache(self, batch, length):
        """Returns the `cache` for sequences of up to `length` tokens: two tensors of zeros in the compute dtype."""
        heads, dtype = batch * self.num_key_value_heads, self.compute_dtype
        return ops.zeros((heads, self.key_dim, length), dtype), ops.zeros((heads, length, self.value_dim), dtype)

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
        projected_key_value=None,
        cache=None,
        cache_index=None,
    ):
        self._check_call(value, projected_key_value, cache, cache_index)
        if cache is not None:
            value_mask, key_mask = (in_cache(mask, cache, cache_index) for mask in (value_mask, key_mask))
        masks = four_axes(query_mask, value_mask, key_mask, attention_mask)
        causal, start = use_causal_mask or cache is not None, 0 if cache is None else cache_index
        pairs = AllowedPairs(masks, causal, self.sliding_window, start)
        num_queries = ops.shape(query)[1]
        known = projected_key_value if cache is None else cache
        num_keys = ops.shape(value)[1] if known is None else ops.shape(known[1])[1]
        in_chunks = not return_attention_scores and is_large(query, num_keys, self.num_heads)
        only_by_position = cache is not None and not masks  # then a query sees at least itself
        queries_used, keys_used = pairs.used(num_queries, num_keys, roughly=in_chunks or only_by_position)
        query = zero_masked(query, queries_used)
        if projected_key_value is not None:
            keys, values = zero_masked_by_head(*projected_key_value, keys_used, self.num_key_value_heads)
            query = self.query_projection(query)  # (B, T, H, K)
        else:
            new_used = keys_used if cache is None else pairs.used_new(num_queries)
            value = zero_masked(value, new_used)
            key = value if key is None else zero_masked(key, new_used)
            projections = self.query_projection, self.key_projection, self.value_projection
            query, key, value = project(projections, (query, key, value), joined=cache is not None)
            keys, values = heads_first(key, value)
        if cache is not None:
            keys = ops.slice_update(cache[0], (0, 0, cache_index), keys)  # (B Hkv, K, L)
            values = ops.slice_update(cache[1], (0, cache_index, 0), values)  # (B Hkv, L, V)
        if in_chunks:
            context, queries_used = attend_in_chunks(query, keys, values, pairs, self.weight_dropout, training)
        else:
            mask = pairs.all(num_queries, num_keys)
            written = None if cache is None or return_attention_scores else cache_index + num_queries
            context, weights = attend(query, keys, values, mask, self.weight_dropout, training, written)
        output = zero_masked(self.output_projection(context), queries_used)  # (B, T, D)
        results = [
            output,
            *([weights] if return_attention_scores else []),
            *([] if cache is None else [(keys, values)]),
        ]
        return output if len(results) == 1 else tuple(results)

    def _check_call(self, value, projected_key_value, cache, cache_index):
        if projected_key_value is not None and cache is not None:
            raise ValueError("`cache` needs a `value` to add to it. Received: `projected_key_value`")
        if (cache is None) != (cache_index is None):
            raise ValueError(f"`cache` and `cache_index` go together. Received: cache_index={cache_index}")
        if (value is None) != (projected_key_value is not None):
            received = "neither" if value is None else "both"
            raise ValueError(f"Either `value` or `projected_key_value` must be given. Received: {received}")

    def compute_output_shape(self, query_shape, value_shape, key_shape=None, return_attention_scores=False):
        output_shape = (*query_shape[:-1], self._output_width or query_shape[-1])
        weights_shape = (query_shape[0], self.num_heads, query_shape[1], value_shape[1])
        return (output_shape, weights_shape) if return_attention_scores else output_shape

    def compute_output_spec(self, *args, **kwargs):
        # Traced from `call`: Keras's shortcut through the output shape knows one dtype and no second output.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self._output_width,
            "num_key_value_heads": self.num_key_value_heads,
            "sliding_window": self.sliding_window,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }


def positive(number, name):
    """Returns the integer if it is above 0."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received: {name}={number}")
    return number


def in_cache(mask, cache, cache_index):
    """The mask (B, L) of a cache of which `mask` (B, T) marks the positions from `cache_index` on, or None for all."""
    if mask is None:
        return None
    everywhere = ops.ones((ops.shape(mask)[0], ops.shape(cache[1])[1]), "bool")
    return ops.slice_update(everywhere, (0, cache_index), ops.cast(mask, "bool"))
