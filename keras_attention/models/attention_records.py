"""The attention weights of a network for one text, and the queries and keys that they come from."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.layers.attention import AttentionRecord, record_attention


def recorded_weights(network: Any, inputs: dict) -> tuple[Any, list[AttentionRecord]]:
    """The attention weights that a network returns for its inputs, and what its layers attended with.

    Args:
        network: a model whose call takes `return_attention_scores`.
        inputs: dict of int arrays (1, T), see the network.

    Returns:
        The weights, as the network returns them, and a list of `AttentionRecord` in the order of the calls.
    """
    with record_attention() as records:
        _, weights = network(inputs, training=False, return_attention_scores=True)
    return weights, records


def projections_of(records: Sequence[AttentionRecord], weights: np.ndarray) -> dict[str, Any]:
    """The queries and keys of one text, if the weights are the softmax of their scaled products and of nothing else.

    Args:
        records: list of `AttentionRecord`, one of each layer, with a batch of one.
        weights: float array (L, H, T, S).

    Returns:
        Dict: "queries", a float array (L, H, T, d), and "keys" (L, H, S, d). An empty dict if the records are of
        something else, for example of two texts, of grouped heads, or of scores to which others are added.
    """
    layers, heads, num_queries, num_keys = weights.shape
    if len(records) != layers:
        return {}
    queries = np.stack([np.asarray(one.query, "float32")[0] for one in records])
    keys = [np.asarray(one.key, "float32") for one in records]  # (1, H, S, d), or heads first (H, d, S)
    keys = np.stack([key[0] if key.ndim == queries.ndim else key.swapaxes(-1, -2) for key in keys])
    width = queries.shape[-1]
    if queries.shape != (layers, heads, num_queries, width) or keys.shape != (layers, heads, num_keys, width):
        return {}
    scores = queries @ keys.swapaxes(-1, -2) / width**0.5
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True)) * (weights > 0)
    sums = exponentials.sum(axis=-1, keepdims=True)
    explained = np.allclose(exponentials / np.where(sums > 0, sums, 1), weights, atol=1e-3)
    return {"queries": queries, "keys": keys} if explained else {}
