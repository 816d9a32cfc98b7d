"""The BERT models against those of keras-hub that hold the same weights, and against the equations."""

import keras
import keras_hub
import numpy as np
import pytest
from layer_checks import assert_all_close
from models.tiny_bert import (
    EVERY_FORM,
    FORMS,
    LABELS,
    B,
    T,
    check_rows,
    make_classifier,
    make_encoder,
    make_masked_lm,
    make_texts,
    outputs_of,
)
from models.transformer_equations import feed_forward, lookers, normalized, part

pytestmark = pytest.mark.sampled(3)


def hub_backbone(encoder, pooler=None):
    """keras-hub's encoder with our weights, and our exact GELU in place of its tanh."""
    names = ("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim")
    sizes = {name: getattr(encoder, name) for name in names}
    backbone = keras_hub.models.BertBackbone(**sizes, dropout=0.0, max_sequence_length=encoder.max_length)
    for layer in backbone.transformer_layers:
        layer._feedforward_intermediate_dense.activation = keras.activations.gelu
    pooler = pooler or backbone.pooled_dense
    ours = {weight.path.split("encoder/")[-1].split(encoder.name + "/")[-1]: weight for weight in encoder.weights}
    order = ("token_embedding", "position_embedding", "segment_embedding", "embedding_norm", "layer_")
    for prefix, places in zip(order, hub_places(backbone), strict=True):
        weights = [weight for path, weight in ours.items() if path.startswith(prefix) and weight.trainable]
        assert len(weights) == len(places), prefix
        for place, weight in zip(places, weights, strict=True):
            place.assign(weight)
    backbone.pooled_dense.set_weights(pooler.get_weights())
    return backbone


def hub_places(backbone):
    yield backbone.token_embedding.trainable_weights
    yield backbone.position_embedding.trainable_weights
    yield backbone.segment_embedding.trainable_weights
    yield backbone.embeddings_layer_norm.trainable_weights
    yield [weight for layer in backbone.transformer_layers for weight in layer.trainable_weights]


def hub_inputs(texts):
    return {**texts, "padding_mask": texts["token_ids"] != 0}


def test_encoder_equals_keras_hub():
    encoder, texts = make_encoder(), make_texts()
    expected = hub_backbone(encoder)(hub_inputs(texts))["sequence_output"]
    check_rows(encoder(texts), expected, texts)


def test_masked_lm_equals_keras_hub():
    model, texts = make_masked_lm(), make_texts()
    other = keras_hub.models.BertMaskedLM(hub_backbone(model.encoder))
    head = other.masked_lm_head
    head._intermediate_layer_norm.epsilon = 1e-12
    head._intermediate_dense.set_weights(model.head_dense.get_weights())
    head._intermediate_layer_norm.set_weights(model.head_norm.get_weights())
    head._bias.assign(model.output_bias)
    positions = np.tile(np.arange(T), (B, 1))
    check_rows(model(texts), other({**hub_inputs(texts), "mask_positions": positions}), texts)


def test_classifier_equals_keras_hub():
    model, texts = make_classifier(), make_texts()
    backbone = hub_backbone(model.encoder, model.pooler_dense)
    other = keras_hub.models.BertTextClassifier(backbone, num_classes=LABELS)
    other.output_dense.set_weights(model.output_dense.get_weights())
    assert_all_close([model(texts)], [other(hub_inputs(texts))], 1e-5)


def equations(weights, settings, token_ids, segment_ids):
    """Vectors (T, D) and weights (L, H, T, T) of one text without padding, in float64, a position at a time."""
    weights = {path: np.asarray(weight, "float64") for path, weight in weights.items()}
    tables = [weights[f"{what}_embedding/embeddings"] for what in ("token", "segment", "position")]
    rows = zip(token_ids, segment_ids, range(len(token_ids)), strict=True)
    x = [sum(table[i] for table, i in zip(tables, row, strict=True)) for row in rows]
    x, results = normalized(weights, "embedding_norm", x), []
    for i in range(settings["num_layers"]):
        x = part(weights, settings, f"layer_{i}/self_attention", x, lookers(results))
        x = part(weights, settings, f"layer_{i}/feed_forward", x, feed_forward)
    return normalized(weights, "final_norm", x) if settings["normalize_first"] else x, results


@EVERY_FORM
@pytest.mark.parametrize("activation", ["gelu", "relu", "silu"])
def test_encoder_equals_its_equations(form, activation):
    encoder, texts = make_encoder(**FORMS[form], activation=activation, layer_norm_epsilon=1e-5), make_texts()
    vectors, weights = outputs_of(encoder, texts)
    paths = {weight.path.split("/", 1)[1]: weight for weight in encoder.trainable_weights}
    for row in range(B):
        length = np.count_nonzero(texts["token_ids"][row])
        text = [texts[name][row, :length] for name in ("token_ids", "segment_ids")]
        expected, actual = equations(paths, encoder.get_config(), *text)
        assert_all_close([vectors[row, :length], weights[row][:, :, :length, :length]], [expected, actual], 1e-5)
        assert not weights[row][..., length:].any()
    assert_all_close([weights.sum(axis=-1)], [np.ones(weights.shape[:-1])], 1e-5)
