"""The BERT models' settings: how weights start, the published sizes, and what is refused."""

import numpy as np
import pytest
from models.tiny_bert import LABELS, TINY, make_masked_lm, make_texts

from keras_attention.models import BERT_PRESETS, BertClassifier, BertEncoder


def test_weights_start_as_published():
    encoder = BertEncoder(**{**TINY, "vocabulary_size": 1009, "hidden_dim": 96})
    encoder.build()
    kernels = [weight for weight in encoder.weights if weight.name in ("kernel", "embeddings")]
    assert len(kernels) == 3 + 6 * TINY["num_layers"]
    for weight in kernels:
        assert np.abs(weight).max() <= 0.04 + 1e-6, weight.path
    values = np.concatenate([np.ravel(weight) for weight in kernels])
    assert np.std(values) == pytest.approx(0.02 * 0.88, rel=0.01)  # 0.88: of a normal cut off at two deviations
    assert len(np.unique(values)) > 0.99 * len(values)


# With the pooler, for 30,522 pieces: Turc et al. (2019) and the models that its authors published; base and large are
# 110 M and 340 M in Devlin et al. (2019).
PUBLISHED = {
    "tiny": 4_385_920,
    "mini": 11_170_560,
    "small": 28_763_648,
    "medium": 41_373_184,
    "base": 109_482_240,
    "large": 335_141_888,
}


def count(hidden_dim, intermediate_dim, num_layers, num_heads, vocabulary_size):
    """Weights of encoder and pooler, counted by hand."""
    D, inner, norm = hidden_dim, intermediate_dim, 2 * hidden_dim
    layer = 4 * (D * D + D) + (2 * D * inner + inner + D) + 2 * norm
    return (vocabulary_size + 512 + 2) * D + norm + num_layers * layer + D * D + D


@pytest.mark.parametrize("preset", BERT_PRESETS)
def test_presets_have_the_published_sizes(preset):
    assert count(**BERT_PRESETS[preset], vocabulary_size=30_522) == PUBLISHED[preset]
    assert BERT_PRESETS[preset]["hidden_dim"] // BERT_PRESETS[preset]["num_heads"] == 64


@pytest.mark.parametrize("preset", ["tiny", "mini", "small"])
def test_presets_are_counted_right(preset):
    model = BertClassifier(vocabulary_size=31, **BERT_PRESETS[preset], num_labels=1)
    model.build()
    built = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    assert built - (BERT_PRESETS[preset]["hidden_dim"] + 1) == count(**BERT_PRESETS[preset], vocabulary_size=31)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 5}, "`num_heads` must divide `hidden_dim`. Received: num_heads=5, hidden_dim=12"),
        ({"num_layers": 0}, "`num_layers` must be a positive integer. Received: num_layers=0"),
        ({"num_segments": -1}, "`num_segments` must be an integer, 0 or more. Received: num_segments=-1"),
        ({"activation": "tanh"}, "`activation` must be one of gelu, .*. Received: activation=tanh"),
        ({"dropout": 1}, r"`dropout` must be in \[0, 1\). Received: dropout=1"),
        ({"layer_norm_epsilon": 0}, "must be between 0 and 1. Received: layer_norm_epsilon=0"),
        ({"num_labels": 0}, "`num_labels` must be a positive integer. Received: num_labels=0"),
        ({"pooling": "max"}, "`pooling` must be one of cls, mean, both, pair. Received: pooling=max"),
        ({"pooler_activation": "gelu"}, "must be tanh or relu. Received: pooler_activation=gelu"),
    ],
)
def test_errors_name_what_was_received(settings, message):
    with pytest.raises(ValueError, match=message):
        BertClassifier(**{**TINY, "num_labels": LABELS, **settings})


def test_errors_name_the_input():
    texts, model = make_texts(), make_masked_lm()
    with pytest.raises(ValueError, match="masked_positions. Received: mask_positions"):
        model({**texts, "mask_positions": texts["token_ids"]})
    with pytest.raises(ValueError, match="must have `token_ids`. Received: segment_ids"):
        model({"segment_ids": texts["segment_ids"]})
    with pytest.raises(ValueError, match="must end within `max_length`=23"):
        model({"token_ids": np.ones((2, 29), "int32")})
