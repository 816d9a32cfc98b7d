"""Attention in chunks (Rabe & Staats 2021), for long sequences, and its score functions.

A score function `score(query, key, *parameters)` takes query (B, H, T, K) and key (B, Hkv, S, K), where each key head
is shared by H / Hkv adjacent query heads, and returns (B, H, T, S). Its `gradient(upstream, query, key, *parameters)`
returns the gradients of query, key and each parameter.
"""

import keras
import numpy as np
from keras import ops

from keras_attention.layers.fast.blocks import AllowedPairs, add_to_chunk, blocks_for, in_order, read_chunk, write_chunk
from keras_attention.layers.masks import Tensor


class DotScore:
    """score(q, k) = q . k, without parameters."""

    def __call__(self, query, key):
        return matmul_by_head(query, ops.transpose(key, (0, 1, 3, 2)))  # (B, H, T, S)

    def gradient(self, upstream, query, key):
        return matmul_by_head(upstream, key), transposed_matmul_by_head(upstream, query, ops.shape(key)[1])


class AdditiveScore:
    """score(q, k) = v . tanh(q + k), with a parameter v of shape (K,)."""

    def __call__(self, query, key, vector):
        return ops.sum(self._hidden(query, key, vector) * vector, axis=-1)  # (B, H, T, S)

    def gradient(self, upstream, query, key, vector):
        hidden = self._hidden(query, key, vector)  # (B, H, T, S, K)
        upstream = upstream[..., None]
        inner = upstream * vector * (1 - ops.square(hidden))  # (B, H, T, S, K)
        return ops.sum(inner, axis=3), ops.sum(inner, axis=2), ops.sum(upstream * hidden, axis=(0, 1, 2, 3))

    def _hidden(self, query, key, vector):
        return ops.cast(ops.tanh(query[:, :, :, None, :] + key[:, :, None, :, :]), vector.dtype)


def matmul_by_head(left, right):
    """The product of left (B, H, M, N) and right (B, Hkv, N, P): (B, H, M, P)."""
    batch, heads, rows, _ = ops.shape(left)
    product = ops.matmul(group_heads(left, ops.shape(right)[1]), right)  # (B, Hkv, H/Hkv M, P)
    return ops.reshape(product, (batch, heads, rows, ops.shape(right)[-1]))


def transposed_matmul_by_head(left, right, groups):
    """The product of left (B, H, N, M) transposed and right (B, H, N, P), summed over each group: (B, Hkv, M, P).

    Computed as (right^T left)^T, because `left` is a block of scores, and on CPU, XLA takes as long to transpose it as
    to multiply.
    """
    left, right = group_heads(left, groups), group_heads(right, groups)
    return ops.transpose(ops.matmul(ops.transpose(right, (0, 1, 3, 2)), left), (0, 1, 3, 2))


def group_heads(inputs, groups):
    """Concatenates the heads of each group of (B, H, M, N) along the third axis: (B, Hkv, H/Hkv M, N)."""
    batch, heads, rows, width = ops.shape(inputs)
    return inputs if heads == groups else ops.reshape(inputs, (batch, groups, heads // groups * rows, width))


# Attention is computed in chunks if the largest tensor (the scores of all heads, or the hidden layer of an additive
# score) has more values per example than this limit.
MOST_AT_ONCE = 2**22
MOST_AT_ONCE_OF_PATTERN = 2**20  # lower for sparse patterns, because chunks skip most of their pairs
LOWEST = -1e30


def is_large(query, num_keys, numbers_per_pair, pattern=None):
    """Whether to compute attention in chunks. False if a length is unknown when the graph is traced, or B is 0."""
    most = MOST_AT_ONCE if pattern is None else min(MOST_AT_ONCE, MOST_AT_ONCE_OF_PATTERN)
    rows, num_queries = query.shape[:2]
    static = rows != 0 and isinstance(num_queries, int) and isinstance(num_keys, int)
    return static and num_queries * num_keys * numbers_per_pair > most


def chunked_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: DotScore | AdditiveScore,
    parameters: tuple[Tensor, ...] = (),
    pairs: AllowedPairs | None = None,
    dropout: tuple[float, Tensor] | None = None,
    numbers_per_pair: int = 1,
) -> tuple[Tensor, Tensor]:
    """Averages the values, weighted by the softmax of the scores, without the matrix of all scores in memory.

        for each chunk of queries, for each chunk of keys:
            m' = max(m, scores), total = total e^(m - m') + sum e^(scores - m')
            context = context e^(m - m') + e^(scores - m') value
        context / total

    The gradient recomputes the scores chunk by chunk. Blocks without any pair that the causal mask and the pattern
    allow are skipped, also in the gradient. On PyTorch, Keras's custom gradients support only one output, so training
    stores all chunks.

    Args:
        query: float tensor (B, H, T, K); T and S must be static.
        key, value: float tensors (B, Hkv, S, K), (B, Hkv, S, V).
        score: `DotScore` or `AdditiveScore`.
        parameters: tensors (not variables), the parameters of the score. They determine the dtype of the scores,
            float32 or float64; without parameters, `query` does.
        pairs: `AllowedPairs`.
        dropout: None, or the pair of dropout rate and seed.
        numbers_per_pair: int. Number of values that the score computes for one pair in one head.

    Returns:
        Context (B, H, T, V) in the dtype of `value`, and a bool tensor (B, H, T) that is False if all keys of a query
        are masked. There the context is 0.

    Source: Rabe & Staats (2021), https://arxiv.org/abs/2112.05682. The gradient is that of Dao et al. (2022), appendix
    B.2, https://arxiv.org/abs/2205.14135, which stores only the log of the sum of exponentials for each query.
    """
    score_dtype = parameters[0].dtype if parameters else query.dtype
    blocks = blocks_for(query, key, numbers_per_pair, pairs or AllowedPairs(), dropout)
    orders = blocks.query_order, blocks.key_order, blocks.key_order
    back = tuple(None if order is None else np.argsort(order) for order in orders)

    @ops.custom_gradient
    def attend(*inputs):
        # Otherwise, in eager mode, TensorFlow's tape keeps all blocks.
        query, key, value, *parameters = (ops.stop_gradient(x) for x in inputs)
        query, key, value = (in_order(x, order) for x, order in zip((query, key, value), orders, strict=True))
        context, log_total, total = forward(blocks, score, score_dtype, query, key, value, parameters)

        def gradient(*upstream_and_rest, upstream=None):
            # TensorFlow passes the gradients of the outputs as separate arguments, JAX as a tuple.
            upstream = in_order(keras.tree.flatten(upstream_and_rest or upstream)[0], blocks.query_order)
            delta = ops.sum(ops.cast(upstream, score_dtype) * ops.cast(context, score_dtype), axis=-1)  # (B, H, T)
            by_input = backward(blocks, score, (query, upstream, log_total, delta), key, value, parameters)
            return *(in_order(x, order) for x, order in zip(by_input[:3], back, strict=True)), *by_input[3:]

        return (in_order(context, back[0]), in_order(total, back[0])), gradient

    if keras.backend.backend() == "torch":
        query, key, value = (in_order(x, order) for x, order in zip((query, key, value), orders, strict=True))
        context, _, total = forward(blocks, score, score_dtype, query, key, value, parameters)
        context, total = in_order(context, back[0]), in_order(total, back[0])
    else:
        context, total = attend(query, key, value, *parameters)
    return context, total > 0


def forward(blocks, score, dtype, query, key, value, parameters):
    """Returns the context (B, H, T, V), and for each query (B, H, T) the log of the sum of exponentials and a total.

    The total is this sum divided by its largest term. If every key is masked, it is 0 and the log is arbitrary.
    """
    batch, heads, num_queries, _ = ops.shape(query)
    row_of_block = (batch, heads, blocks.query_length)

    def query_step(i, context, log_total, total):
        query_start = blocks.query_start(i)
        queries = read_chunk(query, query_start, blocks.query_length)

        def key_step(j, block_context, highest, block_total):
            keys, values = blocks.read_keys(key, j), blocks.read_keys(value, j)
            allowed = blocks.allowed(i, j)
            scores = ops.cast(score(queries, keys, *parameters), dtype)  # (B, H, Tc, Sc)
            if allowed is not None:
                scores = ops.where(allowed, scores, ops.cast(LOWEST, dtype))
            new_highest = ops.maximum(highest, ops.max(scores, axis=-1))
            exponentials = ops.exp(scores - new_highest[..., None])
            if allowed is not None:
                exponentials = ops.where(allowed, exponentials, ops.cast(0, dtype))
            scale = ops.exp(highest - new_highest)
            block_total = block_total * scale + ops.sum(exponentials, axis=-1)
            kept = exponentials if blocks.dropout is None else exponentials * blocks.kept(i, j, dtype)
            part = ops.cast(matmul_by_head(ops.cast(kept, value.dtype), values), dtype)
            return j + 1, block_context * scale[..., None] + part, new_highest, block_total

        zeros = ops.zeros(row_of_block, dtype)
        start = (ops.zeros((*row_of_block, ops.shape(value)[-1]), dtype), zeros + ops.cast(LOWEST, dtype), zeros)
        block_context, highest, block_total = loop(*blocks.key_steps(i), key_step, start)
        divisor = ops.where(block_total > 0, block_total, ops.ones_like(block_total))
        block_context = ops.cast(block_context / divisor[..., None], value.dtype)
        return (
            i + 1,
            write_chunk(context, query_start, block_context),
            write_chunk(log_total, query_start, highest + ops.log(divisor)),
            write_chunk(total, query_start, block_total),
        )

    zeros = ops.zeros((batch, heads, num_queries), dtype)
    context = ops.zeros((batch, heads, num_queries, ops.shape(value)[-1]), value.dtype)
    return loop(0, blocks.num_query_chunks, query_step, (context, zeros, zeros))


def backward(blocks, score, by_query, key, value, parameters):
    """Returns the gradients of query, key, value and each parameter.

    `by_query` has query (B, H, T, K), the context's gradient (B, H, T, V), the log of the sum of exponentials (B, H, T)
    and the sum over V of gradient times context (B, H, T).
    """
    query, log_total = by_query[0], by_query[2]
    dtype, groups = log_total.dtype, ops.shape(key)[1]

    def query_step(i, query_gradient, *by_key):
        query_start = blocks.query_start(i)
        queries, upstream, log_totals, delta = (read_chunk(x, query_start, blocks.query_length) for x in by_query)

        def key_step(j, block_gradient, key_gradient, value_gradient, *parameter_gradients):
            keys, values = blocks.read_keys(key, j), blocks.read_keys(value, j)
            allowed = blocks.allowed(i, j, each_query_once=True)
            weights = ops.exp(ops.cast(score(queries, keys, *parameters), dtype) - log_totals[..., None])
            if allowed is not None:
                weights = ops.where(allowed, weights, ops.cast(0, dtype))
            weight_gradient = ops.cast(matmul_by_head(upstream, ops.transpose(values, (0, 1, 3, 2))), dtype)
            kept = weights
            if blocks.dropout is not None:
                factor = blocks.kept(i, j, dtype)
                kept, weight_gradient = kept * factor, weight_gradient * factor
            block_value = transposed_matmul_by_head(ops.cast(kept, upstream.dtype), upstream, groups)
            score_gradient = weights * (weight_gradient - delta[..., None])  # (B, H, Tc, Sc)
            block_query, block_key, *block_parameters = score.gradient(score_gradient, queries, keys, *parameters)
            return (
                j + 1,
                block_gradient + block_query,
                blocks.add_to_keys(key_gradient, j, block_key),
                blocks.add_to_keys(value_gradient, j, ops.cast(block_value, dtype)),
                *(total + part for total, part in zip(parameter_gradients, block_parameters, strict=True)),
            )

        start = (ops.zeros(ops.shape(queries), dtype), *by_key)
        block_gradient, *by_key = loop(*blocks.key_steps(i), key_step, start)
        return (i + 1, add_to_chunk(query_gradient, query_start, block_gradient), *by_key)

    inputs = (query, key, value, *parameters)
    gradients = loop(0, blocks.num_query_chunks, query_step, tuple(ops.zeros(ops.shape(x), dtype) for x in inputs))
    return tuple(ops.cast(gradient, x.dtype) for gradient, x in zip(gradients, inputs, strict=True))


def loop(first, last, step, variables):
    """Runs `i, *variables = step(i, *variables)` for i from `first` to `last` - 1 and returns the variables."""

    def step_in_turn(i, *variables):
        # i depends on the variables: otherwise TensorFlow would start all blocks at once and hold them in memory.
        i, *variables = step(i, *variables)
        total = ops.sum(variables[0][..., :1])
        never = ops.logical_and(total > 0, total < 0)
        return i + ops.cast(never, "int32"), *variables

    first, last = ops.cast(first, "int32"), ops.cast(last, "int32")
    return ops.while_loop(lambda i, *_: i < last, step_in_turn, (first, *variables))[1:]
