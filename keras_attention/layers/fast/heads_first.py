"""Layouts of multi-head attention: more axes folded into one, and heads first, with projections, caches and groups."""

import math
from functools import partial

import keras
import numpy as np
from keras import ops

from keras_attention.layers.attention import attend
from keras_attention.layers.fast.chunked_attention import DotScore, chunked_attention
from keras_attention.layers.masks import zero_masked
from keras_attention.support.keras_private import adding_weights

LONG_CACHE = 64  # from this length on, it is faster to read only the written part of a cache


def heads_first(key, value):
    """Returns key (B, S, Hkv, K) as (B Hkv, K, S) and value (B, S, Hkv, V) as (B Hkv, S, V).

    The matrix products of attention take this layout directly. With other layouts, XLA makes a copy at every step of a
    decoder. If B and Hkv are separate axes and B = 1, XLA also copies the cache instead of updating it in place.
    """
    keys, values = ops.transpose(key, (0, 2, 3, 1)), ops.transpose(value, (0, 2, 1, 3))
    batch, heads = ops.shape(keys)[:2]
    size = batch * heads if isinstance(batch, int) else -1  # with -1, a graph of sources of any length forgets the size
    return tuple(ops.reshape(x, (size, *ops.shape(x)[2:])) for x in (keys, values))


def zero_masked_by_head(key, value, mask, heads):
    """`zero_masked` for key (B Hkv, K, S) and value (B Hkv, S, V); the mask broadcasts to (B, S), or is None."""
    if mask is None:
        return key, value
    groups, num_keys = ops.shape(value)[:2]
    mask = ops.repeat(ops.broadcast_to(mask, (groups // heads, num_keys)), heads, axis=0)  # (B Hkv, S)
    return ops.where(mask[:, None, :], key, ops.zeros_like(key)), zero_masked(value, mask)


def write_to_cache(cache, index, key, value):
    """Writes `heads_first` keys and values into the cache (B Hkv, K, L), (B Hkv, L, V), starting at `index`."""
    return ops.slice_update(cache[0], (0, 0, index), key), ops.slice_update(cache[1], (0, index, 0), value)


def mask_in_cache(mask, cache, index):
    """Extends a mask (B, T) for the positions from `index` on to a mask (B, L) of the cache; None stays None."""
    if mask is None:
        return None
    everywhere = ops.ones((ops.shape(mask)[0], ops.shape(cache[1])[1]), "bool")
    return ops.slice_update(everywhere, (0, index), ops.cast(mask, "bool"))


def similarity_by_head(query, key, relative=None):
    """The `similarity` of `attend` for keys in the layout of `heads_first`, with grouped heads.

    Args:
        query: float tensor (B, H, T, K), divided by sqrt(K).
        key: float tensor (B Hkv, K, S); H / Hkv query heads share each of its heads.
        relative: float tensor (B, H, T, S) that is added to the products of queries and keys, or None.

    Returns:
        Scores (B, H, T, S).
    """
    by_query, (groups, width, num_keys) = ops.shape(query)[:3], ops.shape(key)
    scores = ops.matmul(ops.reshape(query, (groups, -1, width)), key)  # (B Hkv, H/Hkv T, S)
    scores = ops.reshape(scores, (*by_query, num_keys))
    return scores if relative is None else scores + ops.cast(relative, scores.dtype) / width**0.5


def average_by_head(weights, value):
    """The `average` of `attend`: weights (B, H, T, S) times values (B Hkv, S, V), the context (B, H, T, V)."""
    by_query, (groups, num_keys, width) = ops.shape(weights)[:3], ops.shape(value)
    context = ops.matmul(ops.reshape(weights, (groups, -1, num_keys)), value)  # (B Hkv, H/Hkv T, V)
    return ops.reshape(context, (*by_query, width))


def attend_to_long_cache(query, key, value, mask, drop, relative=None, *, written):
    """The context of `attend`, which reads only a quarter of the cache as long as no more is written.

    Args:
        query: float tensor (B, H, T, K).
        key, value: the cache, float tensors (B Hkv, K, S), (B Hkv, S, V); S is static.
        mask, drop: see `attend`.
        relative: see `similarity_by_head`.
        written: int or scalar int tensor. The mask allows at most the first `written` keys.
    """
    quarter = -(-ops.shape(value)[1] // 4)

    def read_quarter():
        some = key[..., :quarter], value[:, :quarter], None if mask is None else mask[..., :quarter]
        near = partial(similarity_by_head, relative=None if relative is None else relative[..., :quarter])
        return attend(query, *some, drop, near, average_by_head)[0]

    def read_all():
        return attend(query, key, value, mask, drop, partial(similarity_by_head, relative=relative), average_by_head)[0]

    return ops.cond(ops.convert_to_tensor(written) <= quarter, read_quarter, read_all)


def is_long(cache):
    """Whether a cache (B Hkv, K, L), (B Hkv, L, V) is so long that reading only its written part is faster."""
    length = ops.shape(cache[1])[1]
    return isinstance(length, int) and length >= LONG_CACHE


def attend_in_chunks(query, key, value, key_heads, pairs, dropout, score_dtype):
    """Equals `attend` with `AllowedPairs` as mask; needs memory proportional to T + S instead of T S.

    Args:
        query: float tensor (B, T, H, K).
        key, value: float tensors (B Hkv, K, S), (B Hkv, S, V), the layout of `heads_first`.
        key_heads: int, Hkv. It must be static where B is not.
        pairs: AllowedPairs.
        dropout: result of `Dropout.next_draw`, or None.
        score_dtype: dtype of scores and weights.

    Returns:
        Context (B, T, H, V), and a bool tensor (B, T) that is False for queries whose keys are masked in all heads.
    """
    query = ops.transpose(ops.cast(query, score_dtype) / query.shape[-1] ** 0.5, (0, 2, 1, 3))  # (B, H, T, K)
    key = ops.transpose(ops.cast(key, score_dtype), (0, 2, 1))  # (B Hkv, S, K)
    key, value = (ops.reshape(x, (ops.shape(query)[0], key_heads, *ops.shape(x)[1:])) for x in (key, value))
    context, seen = chunked_attention(query, key, value, DotScore(), pairs=pairs, dropout=dropout)
    return ops.transpose(context, (0, 2, 1, 3)), ops.any(seen, axis=1)


@keras.saving.register_keras_serializable(package="keras_attention")
class HeadProjection(keras.layers.EinsumDense):
    """`keras.layers.EinsumDense` as one matrix product, with a bias that is correct for all sizes.

    The product sums over the last axes of the input (B, T, ...) and the first axes of the kernel. It avoids two faults
    of Keras 3.15 on TensorFlow. `keras.ops.einsum` multiplies each of the B sequences separately, so that the gradient
    of the kernel is computed B times and then summed. And `keras.ops.add` may broadcast a bias (H, 1) along axis 1 of
    (B, H, H, 1), so that heads of width 1 get a wrong bias if there are as many positions as heads.

    `enable_lora` adds a product of two small matrices to the kernel, which are trained in its place:

        kernel = W + (lora_alpha / rank) A B        A: (width of the input, rank), B: (rank, width of all heads)

    Source: Hu et al. (2021), section 4.1, https://arxiv.org/abs/2106.09685. Differences: A starts as "he_uniform", and
    lora_alpha is `rank` by default. `EinsumDense.enable_lora` instead has one A for each head, and one B for all.
    """

    _low_rank = None  # A, B and their factor

    @property
    def kernel(self):
        """The kernel of the equation: the variable W, or with LoRA a tensor, the sum."""
        if self._low_rank is None:
            return super().kernel
        down, up, factor = self._low_rank
        product = ops.reshape(ops.matmul(down, up), self._kernel.shape)
        return self._kernel + ops.cast(factor * product, self._kernel.dtype)

    def enable_lora(self, rank, lora_alpha=None, a_initializer="he_uniform", b_initializer="zeros"):
        """Freezes kernel and bias, and adds the small matrices; raises ValueError if LoRA is enabled or `rank` < 1."""
        if self._low_rank is not None:
            raise ValueError("LoRA is enabled already. Call `merge_lora` first.")
        if type(rank) is not int or rank < 1:
            raise ValueError(f"`rank` must be a positive integer. Received: rank={rank!r}")
        inner = len(self._kernel.shape) - len(self.partial_output_shape) + 1
        sizes = math.prod(self._kernel.shape[:inner]), math.prod(self._kernel.shape[inner:])
        with adding_weights(self):
            down = self.add_weight(name="lora_a", shape=(sizes[0], rank), initializer=a_initializer, dtype="float32")
            up = self.add_weight(name="lora_b", shape=(rank, sizes[1]), initializer=b_initializer, dtype="float32")
        self._low_rank = down, up, (rank if lora_alpha is None else lora_alpha) / rank
        for weight in self.weights:
            weight.trainable = weight is down or weight is up

    def merge_lora(self):
        """Adds the product to the kernel, and removes the small matrices. Kernel and bias can be trained again."""
        if self._low_rank is None:
            return
        down, up, _ = self._low_rank
        self._kernel.assign(self.kernel)
        up.assign(ops.zeros_like(up))  # for functions that are traced already
        self._low_rank = None
        for weight in (down, up):
            self._untrack_variable(weight)
        for weight in self.weights:
            weight.trainable = True

    def compute_mask(self, inputs, previous_mask):
        return None  # the enclosing layer applies the mask

    def call(self, inputs, training=None):
        kernel = ops.convert_to_tensor(self.kernel)
        inner, outer = kernel.shape[: len(inputs.shape) - 2], kernel.shape[len(inputs.shape) - 2 :]
        width = math.prod(inner)
        outputs = ops.matmul(ops.reshape(inputs, (-1, width)), ops.reshape(kernel, (width, -1)))  # (B T, ...)
        outputs = ops.reshape(outputs, (*ops.shape(inputs)[:2], *outer))
        return outputs if self.bias is None else outputs + ops.convert_to_tensor(self.bias)


def project(projections, inputs, joined):
    """Applies each projection to its input (B, T, D); returns their outputs (B, T, H, K).

    With `joined`, and if all inputs are the same tensor, the projections are one matrix product. In a decoder loop, XLA
    concatenates the kernels before the loop. A single vector (B = T = 1) is projected as [x 1] [[W], [b]], which is
    five times as fast on a CPU: XLA uses no vector instructions for a kernel that is reshaped in the loop.
    """
    if not (joined and all(x is inputs[0] for x in inputs)):
        return [projection(x) for projection, x in zip(projections, inputs, strict=True)]
    x = inputs[0]
    matrices = [ops.reshape(projection.kernel, (x.shape[-1], -1)) for projection in projections]
    biases = [ops.reshape(projection.bias, (1, -1)) for projection in projections if projection.bias is not None]
    if biases and tuple(x.shape[:2]) == (1, 1):  # None in a graph if it is not known
        matrices = [ops.concatenate(pair, axis=0) for pair in zip(matrices, biases, strict=True)]
        x, biases = ops.pad(x, ((0, 0), (0, 0), (0, 1)), constant_values=1), []  # (1, 1, D + 1)
    outputs = ops.matmul(x, ops.concatenate(matrices, axis=1))  # (B, T, sum of H K)
    if biases:
        outputs += ops.concatenate(biases, axis=1)
    ends = np.cumsum([matrix.shape[1] for matrix in matrices])[:-1].tolist()
    parts = ops.split(outputs, ends, axis=-1) if ends else [outputs]
    return [
        ops.reshape(part, (*ops.shape(x)[:2], *projection.kernel.shape[1:]))
        for part, projection in zip(parts, projections, strict=True)
    ]


def standard_axes(attention_axes, rank):
    """Returns `attention_axes` as non-negative axes of inputs (B, ..., D) with `rank` axes; None: all except B and D.

    Raises:
        ValueError: if there are no axes, or one is that of the batch or the width.
    """
    axes = tuple(range(1, rank - 1)) if attention_axes is None else tuple(attention_axes)
    counted = tuple(axis + rank if axis < 0 else axis for axis in axes)
    if not counted or not all(0 < axis < rank - 1 for axis in counted):
        raise ValueError(
            f"`attention_axes` must lie between the batch and the width of inputs with {rank} axes. "
            f"Received: attention_axes={axes}"
        )
    return counted


def fold(inputs, axes):
    """Reshapes inputs (B, ..., D) to (B O, T, D), where T joins `axes` and O joins the other axes between B and D."""
    sizes = ops.shape(inputs)
    others = other_axes(len(sizes), axes)
    inputs = ops.transpose(inputs, (0, *others, *axes, len(sizes) - 1))
    batch_size, length = math.prod(sizes[axis] for axis in (0, *others)), math.prod(sizes[axis] for axis in axes)
    return ops.reshape(inputs, (batch_size, length, sizes[-1]))


def fold_padding_mask(mask, axes):
    """Reshapes a padding mask (B, ...) to (B O, T); None stays None."""
    return None if mask is None else fold(ops.cast(mask, "bool")[..., None], axes)[..., 0]


def fold_attention_mask(mask, query, key, axes):
    """Reshapes an attention mask to (B O, H or 1, T, S); None stays None.

    The last axes of the mask are the attended axes of the query and then of the key. Before them come B, the other axes
    and H, of which the last ones may be missing. Query and key are the inputs (B, ..., D).
    """
    if mask is None:
        return None
    sizes = ops.shape(query)
    batch = [sizes[axis] for axis in (0, *other_axes(len(sizes), axes))]
    attended = [ops.shape(x)[axis] for x in (query, key) for axis in axes]
    first = len(mask.shape) - len(attended)
    if not 0 <= first <= len(batch) + 1:
        raise ValueError(
            f"`attention_mask` must end with the {len(attended)} attended axes of query and key, with at most "
            f"{len(batch) + 1} axes before them. Received: attention_mask.shape={tuple(mask.shape)}"
        )
    leading = ops.shape(mask)[:first]
    leading = (*leading, *[1] * (len(batch) + 1 - first))
    mask = ops.reshape(mask, (*leading, *ops.shape(mask)[first:]))
    mask = ops.broadcast_to(mask, (*batch, leading[-1], *attended))  # (B, O, H or 1, T axes, S axes)
    lengths = math.prod(attended[: len(axes)]), math.prod(attended[len(axes) :])
    return ops.reshape(mask, (math.prod(batch), leading[-1], *lengths))


def unfold(outputs, query, axes):
    """Reshapes outputs (B O, T, D, ...) to the axes of the query (B, ..., D)."""
    sizes = ops.shape(query)
    others = other_axes(len(sizes), axes)
    order = (0, *others, *axes)
    width = ops.shape(outputs)[2:]
    outputs = ops.reshape(outputs, (*(sizes[axis] for axis in order), *width))
    back = [order.index(axis) for axis in range(len(order))]
    return ops.transpose(outputs, (*back, *range(len(order), len(order) + len(width))))


def unfold_weights(weights, query, key, axes):
    """Reshapes weights (B O, H, T, S) to (B, O, H, attended axes of the query, attended axes of the key)."""
    sizes = ops.shape(query)
    batch = [sizes[axis] for axis in (0, *other_axes(len(sizes), axes))]
    attended = [ops.shape(x)[axis] for x in (query, key) for axis in axes]
    return ops.reshape(weights, (*batch, ops.shape(weights)[1], *attended))


def other_axes(rank, axes):
    return [axis for axis in range(1, rank - 1) if axis not in axes]
