"""Relative attention: scores that depend on the distance of query and key (Shaw et al. 2018, Huang et al. 2018)."""

from typing import Any

import keras
from keras import ops

from keras_attention.layers.masks import Tensor


@keras.saving.register_keras_serializable(package="keras_attention")
class RelativeScores(keras.layers.Layer):
    """What causal self-attention adds to its scores for the distance of query and key, with learned vectors.

        S[h, t, s] = Q_h[t] . E_h[min(t - s, max_distance - 1)]        weights_h = softmax((Q_h K_h^T + S[h]) / sqrt(K))

    Without positions, the scores of all distances (B, H, T, T) become S by the skewing of the paper, so no vectors
    (T, T, K) are ever in memory.

    Args:
        max_distance: int > 0, tokens, R. Keys further away have the vector of distance R - 1.
        embeddings_initializer: initializer of E (R, H, K).

    Call arguments:
        query: float tensor (B, T, H, K), the projected queries.
        positions: pair of int tensors (B, T), (B, S), the positions of queries and keys; None: 0, 1, 2 ... for both.

    Returns:
        S (B, H, T, S) in float32 (float64 if the query is). Its values at keys after the query, which the causal mask
        leaves out, have no meaning.

    Raises:
        ValueError: if `max_distance` is not a positive integer.

    Source: Huang et al. (2018), section 3.4 and figure 1, https://arxiv.org/abs/1809.04281, after Shaw et al. (2018),
    https://arxiv.org/abs/1803.02155. As in the paper, relative vectors are added to keys only, and each head has its
    own. Difference: the vectors are in the order of distances 0, 1, 2 ..., the reverse of the paper's.

    Example:
        query = ops.ones((2, 3, 4, 8))  # two texts of three tokens, four heads of width 8
        scores = RelativeScores(max_distance=512)(query)  # (2, 4, 3, 3)
    """

    def __init__(self, max_distance: int, embeddings_initializer: str | keras.Initializer = "uniform", **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(max_distance, int) or isinstance(max_distance, bool) or max_distance < 1:
            raise ValueError(f"`max_distance` must be a positive integer. Received: max_distance={max_distance}")
        self.max_distance = max_distance
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, query_shape):
        shape = (self.max_distance, *query_shape[2:])
        self.embeddings = self.add_weight(shape=shape, initializer=self.embeddings_initializer, name="embeddings")
        self.built = True

    def call(self, query: Tensor, positions: tuple[Tensor, Tensor] | None = None) -> Tensor:
        dtype = keras.backend.result_type(query.dtype, "float32")
        query = ops.transpose(ops.cast(query, dtype), (0, 2, 1, 3))  # (B, H, T, K)
        vectors = ops.transpose(ops.cast(ops.convert_to_tensor(self.embeddings), dtype), (1, 2, 0))  # (H, K, R)
        if positions is None:
            return self._skewed(query, vectors)
        by_distance = ops.matmul(query, vectors)  # (B, H, T, R)
        distances = positions[0][:, :, None] - positions[1][:, None, :]  # (B, T, S)
        distances = ops.clip(distances, 0, self.max_distance - 1)[:, None]
        heads = ops.shape(query)[1]
        return ops.take_along_axis(by_distance, ops.repeat(distances, heads, axis=1), axis=-1)  # (B, H, T, S)

    def _skewed(self, query, vectors):
        """Column s of row t is the product with the vector of distance t - s: each row is shifted by its number."""
        batch, heads, length, _ = ops.shape(query)
        near = vectors[:, :, : min(length, self.max_distance)]
        far = ops.repeat(vectors[:, :, -1:], max(0, length - self.max_distance), axis=2)
        vectors = ops.flip(ops.concatenate([near, far], axis=2), axis=2)  # (H, K, T), distance T - 1 first
        scores = ops.pad(ops.matmul(query, vectors), ((0, 0), (0, 0), (0, 0), (1, 0)))  # (B, H, T, 1 + T)
        scores = ops.reshape(scores, (batch, heads, length + 1, length))
        return scores[:, :, 1:]  # (B, H, T, T)

    def compute_output_shape(self, query_shape, positions=None):
        batch, length, heads, _ = query_shape
        return batch, heads, length, length

    def get_config(self):
        initializer = keras.initializers.serialize(self.embeddings_initializer)
        return {**super().get_config(), "max_distance": self.max_distance, "embeddings_initializer": initializer}
