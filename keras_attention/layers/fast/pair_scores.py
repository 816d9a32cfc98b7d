"""Scores of pairs of a query and a key, with the gradient that `chunked_attention` needs to recompute them.

A score is called as `score(query, key, *parameters)` with query (B, H, T, K) and key (B, Hkv, S, K), where each head of
keys serves H / Hkv neighbouring heads of queries, and gives (B, H, T, S). Its `gradient(upstream, query, key,
*parameters)` gives the gradients of query, key and each of the parameters.
"""

from keras import ops


class DotScore:
    """score(q, k) = q . k, without parameters."""

    def __call__(self, query, key):
        return matmul_by_head(query, ops.transpose(key, (0, 1, 3, 2)))  # (B, H, T, S)

    def gradient(self, upstream, query, key):
        return matmul_by_head(upstream, key), transposed_matmul_by_head(upstream, query, ops.shape(key)[1])


class AdditiveScore:
    """score(q, k) = v . tanh(q + k), whose parameter v has the shape (K,)."""

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
    """The product (B, H, M, P) of left (B, H, M, N) and right (B, Hkv, N, P)."""
    batch, heads, rows, _ = ops.shape(left)
    product = ops.matmul(group_heads(left, ops.shape(right)[1]), right)  # (B, Hkv, H/Hkv M, P)
    return ops.reshape(product, (batch, heads, rows, ops.shape(right)[-1]))


def transposed_matmul_by_head(left, right, groups):
    """The product (B, Hkv, M, P) of left (B, H, N, M) transposed and right (B, H, N, P), summed in each group.

    Computed as (right^T left)^T: left is a block of scores, and XLA on CPU takes as long to transpose one as to use it.
    """
    left, right = group_heads(left, groups), group_heads(right, groups)
    return ops.transpose(ops.matmul(ops.transpose(right, (0, 1, 3, 2)), left), (0, 1, 3, 2))


def group_heads(inputs, groups):
    """Writes neighbouring heads of (B, H, M, N) below each other: (B, Hkv, H/Hkv M, N)."""
    batch, heads, rows, width = ops.shape(inputs)
    return inputs if heads == groups else ops.reshape(inputs, (batch, groups, heads // groups * rows, width))
