"""Multi-head attention (Vaswani et al. 2017)."""

import functools
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attention.layers.attention import attend
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.fast.blocks import AllowedPairs, four_axes, with_batch_axis
from keras_attention.layers.fast.chunked_attention import is_large
from keras_attention.layers.fast.heads_first import (
    HeadProjection,
    attend_in_chunks,
    attend_to_long_cache,
    average_by_head,
    fold,
    fold_attention_mask,
    fold_padding_mask,
    heads_first,
    is_long,
    mask_in_cache,
    other_axes,
    project,
    similarity_by_head,
    standard_axes,
    unfold,
    unfold_weights,
    write_to_cache,
    zero_masked_by_head,
)
from keras_attention.layers.masks import Tensor, zero_masked
from keras_attention.layers.positions import rotate
from keras_attention.layers.relative_positions import RelativeScores
from keras_attention.layers.sparse_patterns import pattern_of_attention


@keras.saving.register_keras_serializable(package="keras_attention")
class MultiHeadAttention(keras.layers.Layer):
    """Scaled dot-product attention in several heads, each with its own projections of query, key and value.

        head_h = softmax(Q_h K_h^T / sqrt(key_dim)) V_h,  Q_h = query W^Q_h, K_h = key W^K_h, V_h = value W^V_h
        output = sum over h of head_h W^O_h

    A drop-in replacement for `keras.layers.MultiHeadAttention`: it has the same arguments, and
    `set_weights(keras_layer.get_weights())` copies the weights. Differences: `use_gate` and `flash_attention` are not
    supported (no paper of this package has a gate, and TensorFlow has no flash attention; long sequences are computed
    in chunks instead). Masks must be boolean; Keras also accepts 0/1 masks, which are easily confused with additive
    masks. If all keys of a query are masked, its output is 0; in Keras, it depends on the code path.

    Shapes: B batch, T queries, S keys, H heads, K `key_dim`, V `value_dim`, L cache length.
    If H T S exceeds 2^22 (2^20 with a sparse pattern) and the weights are not requested, attention is computed in
    chunks, with memory proportional to T + S (see `chunked_attention`).

    Args:
        num_heads: int > 0 (h in the paper).
        key_dim: int > 0. Width of each head's queries and keys (d_k in the paper).
        value_dim: int > 0. Width of each head's values (d_v in the paper), by default `key_dim`.
        dropout: float in [0, 1). Share of attention weights dropped in training.
        use_bias: bool. Whether the projections have biases.
        output_shape: int > 0 or tuple of them. Shape of each output, by default the width of the query.
        attention_axes: int or tuple of int, the axes of inputs (B, ..., D) to attend along, by default all between B
            and D. The other axes between B and D count as batch.
        sliding_window: int > 0, tokens, or None. If set, a query may attend only to keys less than this many positions
            away.
        kernel_initializer, bias_initializer: initializers of the projections.
        kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint, bias_constraint: as in
            `keras.layers.Dense`, for each of the four projections.
        seed: int or None, the dropout seed.
        num_key_value_heads: int > 0, Hkv, a divisor of `num_heads` and by default equal to it. Each head of keys and
            values is shared by a group of adjacent query heads (grouped-query attention).
        attention_pattern: str or None, a sparse pattern such as "bigbird:block=64,length=4096" (`sparse_patterns`).
        max_relative_distance: int > 0, tokens, or None. If set, `RelativeScores` are added to the scores, which needs a
            causal mask or a cache, and no attention in chunks: memory is proportional to T S.

    Call arguments:
        query: float tensor (B, T, Dq), or (B, ..., Dq) with more axes.
        value: float tensor (B, S, Dv), or (B, ..., Dv); None with `projected_key_value`.
        key: float tensor (B, S, Dk), by default `value`.
        query_mask, value_mask, key_mask: bool tensors (B, T), (B, S), (B, S): padding masks. Keras passes the implicit
            masks of the inputs. With a cache, `value_mask` and `key_mask` cover the new positions only.
        attention_mask: bool tensor (T, S), or one that broadcasts to (B, T, S) or (B, H, T, S). True means "may be
            attended to". Keys and values masked for every query have no effect, even if they are NaN. For inputs with
            more axes, the last axes of the mask are the attended axes of the query and then those of the key.
        return_attention_scores: bool. Whether to return the weights too.
        training: bool. Whether to apply dropout.
        use_causal_mask: bool. Whether a query may attend only to keys up to its own position.
        projected_key_value: pair of tensors (B Hkv, K, S), (B Hkv, S, V), the result of `project_keys_values`, for
            many calls with the same keys and values. It does not carry the implicit mask of the value.
        cache: pair of tensors (B Hkv, K, L), (B Hkv, L, V), the projected keys and values of earlier calls, initially
            `empty_cache(B, L)`. The keys and values of this call are written at the positions from `cache_index` on,
            which are also the positions of the queries. Each query attends to the cached positions up to its own, so
            S = L.
        cache_index: int or scalar int tensor, at most L - T.
        rotation: float tensor (1, T, K/2) or (B, T, K/2), the `rotary_angles` by which queries and keys are rotated, or
            None. For self-attention only.
        positions: pair of int tensors (B, T), (B, S), the positions of queries and keys for `attention_pattern` or
            `sliding_window`; or None for 0, 1, 2 ... (queries: from `cache_index`). If given, no blocks are skipped.

    Returns:
        Output (B, T, D); or a tuple of the output, the weights (B, H, T, S) if requested, and the updated cache if one
        was given. The weights are float32, without dropout, and sum to 1 over S. If all keys of a query are masked, its
        weights and its output are exactly 0.

    Raises:
        TypeError: if `attention_mask` is not boolean.
        ValueError: if arguments are out of range or do not fit together.

    Source: Vaswani et al. (2017), section 3.2, https://arxiv.org/abs/1706.03762. Not in the paper: biases, dropout on
    the weights (which is in the authors' code), `num_key_value_heads` (Ainslie et al. 2023,
    https://arxiv.org/abs/2305.13245) and `sliding_window` (Beltagy et al. 2020, section 3.1,
    https://arxiv.org/abs/2004.05150).

    Example:
        layer = MultiHeadAttention(num_heads=8, key_dim=64)
        output, weights = layer(query, value, attention_mask=mask, return_attention_scores=True)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: int | Sequence[int] | None = None,
        attention_axes: int | Sequence[int] | None = None,
        sliding_window: int | None = None,
        kernel_initializer: str | keras.Initializer = "glorot_uniform",
        bias_initializer: str | keras.Initializer = "zeros",
        kernel_regularizer: str | keras.Regularizer | None = None,
        bias_regularizer: str | keras.Regularizer | None = None,
        activity_regularizer: str | keras.Regularizer | None = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        seed: int | None = None,
        num_key_value_heads: int | None = None,
        attention_pattern: str | None = None,
        max_relative_distance: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_heads = positive(num_heads, "num_heads")
        self.key_dim = positive(key_dim, "key_dim")
        self.value_dim = key_dim if value_dim is None else positive(value_dim, "value_dim")
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout}")
        self.dropout = dropout
        self.use_bias = use_bias
        # Not named `output_shape`, because Keras's `Model.summary` reads an attribute of that name.
        self._output_dims = output_dims(output_shape)
        attention_axes = (attention_axes,) if isinstance(attention_axes, int) else attention_axes
        self.attention_axes = None if attention_axes is None else tuple(attention_axes)
        self.sliding_window = None if sliding_window is None else positive(sliding_window, "sliding_window")
        self.attention_pattern = attention_pattern
        self._pattern = pattern_of_attention(attention_pattern, self.sliding_window)
        self.num_key_value_heads = num_heads
        if num_key_value_heads is not None:
            self.num_key_value_heads = positive(num_key_value_heads, "num_key_value_heads")
        if num_heads % self.num_key_value_heads:
            raise ValueError(
                "`num_key_value_heads` must divide `num_heads`. "
                f"Received: num_key_value_heads={num_key_value_heads}, num_heads={num_heads}"
            )
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        # For all projections. Not attributes of this layer, because Keras would apply an attribute
        # `activity_regularizer` to the output of this layer too.
        self._projection_options = {
            "kernel_regularizer": keras.regularizers.get(kernel_regularizer),
            "bias_regularizer": keras.regularizers.get(bias_regularizer),
            "activity_regularizer": keras.regularizers.get(activity_regularizer),
            "kernel_constraint": keras.constraints.get(kernel_constraint),
            "bias_constraint": keras.constraints.get(bias_constraint),
        }
        self.seed = seed
        self.supports_masking = True
        # Scores and softmax in at least float32: in half precision, scores overflow or become equal.
        self.score_dtype = keras.backend.result_type(self.compute_dtype, "float32")
        self.query_projection = self._projection("btd,dhk->bthk", (num_heads, key_dim), "query")
        self.key_projection = self._projection("bsd,dhk->bshk", (self.num_key_value_heads, key_dim), "key")
        self.value_projection = self._projection("bsd,dhv->bshv", (self.num_key_value_heads, self.value_dim), "value")
        self.max_relative_distance = max_relative_distance
        self.relative_scores = None
        if max_relative_distance is not None:
            positive(max_relative_distance, "max_relative_distance")
            options = {"embeddings_initializer": self.kernel_initializer.clone(), "dtype": self.dtype_policy}
            self.relative_scores = RelativeScores(max_relative_distance, name="relative", **options)
        self.weight_dropout = Dropout(dropout, seed=seed, dtype=self.score_dtype, name="weight_dropout")

    def _projection(self, equation, output_shape, name):
        return HeadProjection(
            equation,
            output_shape=(None, *output_shape),
            bias_axes=equation[-len(output_shape) :] if self.use_bias else None,
            # One clone for each, because a shared initializer would give kernels of equal shape equal values.
            kernel_initializer=self.kernel_initializer.clone(),
            bias_initializer=self.bias_initializer.clone(),
            **self._projection_options,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, query_shape, value_shape=None, key_shape=None):
        standard_axes(self.attention_axes, len(query_shape))  # raises an error if they do not fit
        self.query_projection.build((None, None, query_shape[-1]))
        for projection, shape in (
            (self.key_projection, key_shape or value_shape),
            (self.value_projection, value_shape),
        ):
            if not projection.built:  # `project_keys_values` may have built it
                if shape is None:
                    raise ValueError("The first call needs a `value`, because its width is not known yet.")
                projection.build((None, None, shape[-1]))
        if self.relative_scores is not None:
            self.relative_scores.build((None, None, self.num_heads, self.key_dim))
        dims = self._output_dims or (query_shape[-1],)
        letters = "defgijlmnopqrsuwxyz"[: len(dims)]
        self.output_projection = self._projection(f"bthv,hv{letters}->bt{letters}", dims, "attention_output")
        self.output_projection.build((None, None, self.num_heads, self.value_dim))
        self.built = True

    def project_keys_values(self, value: Tensor, key: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns keys (B Hkv, K, S) and values (B Hkv, S, V), to reuse as `projected_key_value` in many calls.

        If masked positions of `value` (B, S, Dv) or `key` (B, S, Dk) may be NaN, set them to 0 first.
        """
        return heads_first(self.key_projection(value if key is None else key), self.value_projection(value))

    def empty_cache(self, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Returns an empty `cache` for up to `length` tokens: two tensors of zeros in the compute dtype."""
        heads, dtype = batch * self.num_key_value_heads, self.compute_dtype
        return ops.zeros((heads, self.key_dim, length), dtype), ops.zeros((heads, length, self.value_dim), dtype)

    def call(
        self,
        query: Tensor,
        value: Tensor | None,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        projected_key_value: tuple[Tensor, Tensor] | None = None,
        cache: tuple[Tensor, Tensor] | None = None,
        cache_index: int | Tensor | None = None,
        rotation: Tensor | None = None,
        positions: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor | tuple:
        known = projected_key_value if cache is None else cache
        masks = query_mask, value_mask, key_mask, attention_mask
        options = {"return_attention_scores": return_attention_scores, "use_causal_mask": use_causal_mask}
        self._check_call(query, value, projected_key_value, cache, cache_index, rotation, use_causal_mask, positions)
        if known is None and len(query.shape) > 3:
            return self._attend_along_axes(query, value, key, masks, positions, training, **options)
        lengths = num_queries, num_keys = ops.shape(query)[1], ops.shape(value if known is None else known[1])[1]
        prepared = self._prepare_masks(query, lengths, masks, positions, cache, cache_index, **options)
        pairs, in_chunks, queries_used, keys_used = prepared

        # Project
        if cache is not None:  # one product: what is not used is set to 0 afterwards
            query, key, value = self._project(query, value, key, None, joined=True)
            new_used = pairs.used_new(num_queries)
            key, value = zero_masked(key, new_used), zero_masked(value, new_used)
        else:
            query = zero_masked(query, queries_used)
            if projected_key_value is not None:
                (query,) = project((self.query_projection,), (query,), joined=True)  # (B, T, H, K)
                key, value = zero_masked_by_head(*projected_key_value, keys_used, self.num_key_value_heads)
            else:
                query, key, value = self._project(query, value, key, keys_used, joined=False)
        if rotation is not None:
            query, key = rotate(query, rotation), rotate(key, rotation)
        relative = None if self.relative_scores is None else self.relative_scores(query, positions)  # (B, H, T, S)

        # Attend
        drop, weights = functools.partial(self.weight_dropout, training=training), None
        by_head = known is not None or relative is not None or self.num_key_value_heads < self.num_heads
        if by_head or in_chunks:
            key, value = (key, value) if projected_key_value is not None else heads_first(key, value)
            if cache is not None:
                key, value = cache = write_to_cache(cache, cache_index, key, value)
        else:
            key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (key, value))  # (B, H, S, K), (B, H, S, V)
        if in_chunks:
            dropout = self.weight_dropout.next_draw(training)
            options = self.num_key_value_heads, pairs, dropout, self.score_dtype
            context, queries_used = attend_in_chunks(query, key, value, *options)
        else:
            query = ops.transpose(query, (0, 2, 1, 3))  # (B, H, T, K)
            attended = query, key, value, pairs.all(num_queries, num_keys), drop
            if cache is not None and is_long(cache) and not (return_attention_scores or training):
                context = attend_to_long_cache(*attended, relative, written=cache_index + num_queries)
            elif by_head:
                similarity = functools.partial(similarity_by_head, relative=relative)
                context, weights = attend(*attended, similarity, average_by_head)
            else:
                context, weights = attend(*attended)
            context = ops.transpose(context, (0, 2, 1, 3))  # (B, T, H, V)

        # Join
        output = zero_masked(self.output_projection(context), queries_used)  # (B, T, D)
        results = (output, *([weights] if return_attention_scores else []), *([] if cache is None else [cache]))
        return results if len(results) > 1 else output

    def _prepare_masks(
        self, query, lengths, masks, positions, cache, cache_index, return_attention_scores, use_causal_mask
    ):
        """The AllowedPairs, whether they are computed in chunks, and which queries (B, T) and keys (B, S) are used."""
        query_mask, value_mask, key_mask, attention_mask = masks
        if cache is not None:
            value_mask, key_mask = (mask_in_cache(mask, cache, cache_index) for mask in (value_mask, key_mask))
        masks = four_axes(query_mask, value_mask, key_mask, with_batch_axis(attention_mask, query.shape[1]))
        causal, start = use_causal_mask or cache is not None, 0 if cache_index is None else cache_index
        pairs = AllowedPairs(masks, causal, self._pattern, start, positions)
        in_chunks = not return_attention_scores and is_large(query, lengths[1], self.num_heads, pairs.pattern)
        in_chunks = in_chunks and self.relative_scores is None
        only_by_position = cache is not None and pairs.every_query_sees_itself
        used = pairs.used(*lengths, roughly=in_chunks or only_by_position)
        return pairs, in_chunks, *used

    def _project(self, query, value, key, used, joined):
        """Queries (B, T, H, K), keys (B, S, Hkv, K), values (B, S, Hkv, V); sets keys and values not `used` to 0."""
        value = zero_masked(value, used)
        key = value if key is None else zero_masked(key, used)
        projections = self.query_projection, self.key_projection, self.value_projection
        return project(projections, (query, key, value), joined)

    def _attend_along_axes(
        self, query, value, key, masks, positions, training, return_attention_scores, use_causal_mask
    ):
        """`call` for inputs (B, ..., D) with more axes: folds them into three axes, attends, unfolds the result."""
        if positions is not None:
            raise ValueError("`positions` are for inputs of three axes. Received: inputs with more axes")
        axes = standard_axes(self.attention_axes, len(query.shape))
        query_mask, value_mask, key_mask, attention_mask = masks
        result = self.call(
            fold(query, axes),
            fold(value, axes),
            None if key is None else fold(key, axes),
            query_mask=fold_padding_mask(query_mask, axes),
            value_mask=fold_padding_mask(value_mask, axes),
            key_mask=fold_padding_mask(key_mask, axes),
            attention_mask=fold_attention_mask(attention_mask, query, value, axes),
            return_attention_scores=return_attention_scores,
            training=training,
            use_causal_mask=use_causal_mask,
        )
        if not return_attention_scores:
            return unfold(result, query, axes)
        return unfold(result[0], query, axes), unfold_weights(result[1], query, value, axes)

    def _check_call(self, query, value, projected_key_value, cache, cache_index, rotation, use_causal_mask, positions):
        if projected_key_value is not None and cache is not None:
            raise ValueError("`cache` needs a `value` to write. Received: `projected_key_value`")
        if (cache is None) != (cache_index is None):
            raise ValueError(f"`cache` and `cache_index` must be given together. Received: cache_index={cache_index}")
        if (value is None) != (projected_key_value is not None):
            received = "neither" if value is None else "both"
            raise ValueError(f"Either `value` or `projected_key_value` must be given. Received: {received}")
        if rotation is not None and (projected_key_value is not None or len(query.shape) > 3):
            raise ValueError("`rotation` is for `query` and `value` of three axes. Received: other inputs")
        if self.relative_scores is not None and (
            projected_key_value is not None or len(query.shape) > 3 or not (use_causal_mask or cache is not None)
        ):
            raise ValueError(
                "`max_relative_distance` is for causal self-attention with three axes: pass use_causal_mask=True or a "
                f"cache. Received: query.shape={tuple(query.shape)}, use_causal_mask={use_causal_mask}"
            )
        if self.relative_scores is not None and cache is not None and positions is None:
            raise ValueError("With `max_relative_distance`, a cache needs `positions`. Received: positions=None")

    def compute_output_shape(self, query_shape, value_shape, key_shape=None, return_attention_scores=False):
        output_shape = (*query_shape[:-1], *(self._output_dims or query_shape[-1:]))
        if not return_attention_scores:
            return output_shape
        axes = standard_axes(self.attention_axes, len(query_shape))
        batch = [query_shape[axis] for axis in (0, *other_axes(len(query_shape), axes))]
        attended = [shape[axis] for shape in (query_shape, value_shape) for axis in axes]
        return output_shape, (*batch, self.num_heads, *attended)

    def compute_output_spec(self, *args, **kwargs):
        # Traced from `call`: Keras's default uses `compute_output_shape` and assumes one dtype for all outputs.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        options = self._projection_options
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self._output_dims,
            "attention_axes": self.attention_axes,
            "sliding_window": self.sliding_window,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            **{name: keras.regularizers.serialize(options[name]) for name in options if "regularizer" in name},
            **{name: keras.constraints.serialize(options[name]) for name in options if "constraint" in name},
            "seed": self.seed,
            "num_key_value_heads": self.num_key_value_heads,
            "attention_pattern": self.attention_pattern,
            "max_relative_distance": self.max_relative_distance,
        }


def positive(number, name):
    """Returns the number if it is a positive integer, else raises ValueError."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received: {name}={number}")
    return number


def output_dims(output_shape):
    """Returns `output_shape` as a tuple; None stays None."""
    if output_shape is None:
        return None
    dims = tuple(output_shape) if isinstance(output_shape, (tuple, list)) else (output_shape,)
    return tuple(positive(dim, "output_shape") for dim in dims)
