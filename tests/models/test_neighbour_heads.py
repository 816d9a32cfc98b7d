"""Heads that begin with a look at the neighbours, and nothing else of the model changed."""

import keras
import numpy as np
import pytest

from keras_attention.models import BertEncoder
from keras_attention.models.bert_initialization import OFFSETS, start_with_neighbour_heads

V, T = 211, 48


def make_encoder(num_layers=3, num_heads=5, hidden_dim=240):
    keras.utils.set_random_seed(7)
    encoder = BertEncoder(V, hidden_dim, 31, num_heads, num_layers, max_length=T, dropout=0.0, normalize_first=True)
    encoder.build()
    return encoder


def share_on(offset, weights):
    """Mean weight (T, T) -> float of what lies `offset` away from each token that has such a neighbour."""
    return np.diagonal(weights, offset).mean()


def test_each_head_attends_to_an_adjacent_token():
    encoder = make_encoder()
    start_with_neighbour_heads(encoder)
    token_ids = np.random.default_rng(3).integers(5, V, (1, T)).astype("int32")
    _, weights = encoder({"token_ids": token_ids}, return_attention_scores=True)
    weights = np.array(weights)[0]  # (layers, H, T, T)
    for layer, offsets in enumerate((OFFSETS, OFFSETS[:2], ())):
        for head in range(5):
            shares = {offset: share_on(offset, weights[layer, head]) for offset in range(-4, 5)}
            if head < len(offsets):
                assert max(shares, key=shares.get) == offsets[head]
                assert shares[offsets[head]] > 0.2
            else:
                assert max(shares.values()) < 2 / T


def test_nothing_else_changes():
    plain, started = make_encoder(), make_encoder()
    start_with_neighbour_heads(started)
    changed = {one.path for one, other in zip(plain.weights, started.weights, strict=True) if np.any(one != other)}
    names = {path.split("/", 1)[1] for path in changed}
    kernels = {f"self_attention/{name}/kernel" for name in ("query", "key", "value", "attention_output")}
    assert names == {"position_embedding/embeddings"} | {f"layer_{i}/{name}" for i in (0, 1) for name in kernels}
    one, other = (encoder.encoder_layers[1].self_attention.query_projection.kernel for encoder in (plain, started))
    np.testing.assert_array_equal(one[:, 2:], other[:, 2:])


def test_the_same_seed_gives_the_same_weights():
    one, same, other = (make_encoder() for _ in range(3))
    for encoder, seed in ((one, 5), (same, 5), (other, 6)):
        start_with_neighbour_heads(encoder, seed)
    kernel = lambda encoder: np.array(encoder.encoder_layers[0].self_attention.value_projection.kernel)  # noqa: E731
    np.testing.assert_array_equal(kernel(one), kernel(same))
    assert np.any(kernel(one) != kernel(other))


@pytest.mark.parametrize(
    "sizes", [{"num_layers": 1, "num_heads": 1, "hidden_dim": 7}, {"num_heads": 7, "hidden_dim": 21}]
)
def test_odd_sizes(sizes):
    encoder = make_encoder(**sizes)
    start_with_neighbour_heads(encoder)
    outputs = encoder({"token_ids": np.full((1, T), 9, "int32")})
    assert np.isfinite(outputs).all()
