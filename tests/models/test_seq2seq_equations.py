"""The model against independent recurrences in float64 that hold the same weights."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from layer_checks import assert_all_close, weighted_sum
from models.seq2seq_equations import seq2seq
from models.tiny_models import ATTENTIONS, FORMS, B, S, make_batch, make_model, outputs_of, shared_model

pytestmark = pytest.mark.sampled(4)

TIES = ("none", "target", "all")


def settings_of_every_kind():
    """Every attention with and without input feeding; cells, layers and ties take turns."""
    for i, (name, feeding) in enumerate(itertools.product(ATTENTIONS, (True, False))):
        cell, num_layers, tie = ("gru", "lstm")[(i + i // 4) % 2], 1 + (i // 2) % 2, TIES[i % 3]
        settings = {"cell": cell, "num_layers": num_layers, "tie_embeddings": tie, "input_feeding": feeding}
        if tie == "all":
            settings["source_vocabulary_size"] = 17
        yield pytest.param({**ATTENTIONS[name], **settings}, id=f"{name}-{cell}-{num_layers}-{tie}-fed={feeding}")


@pytest.mark.parametrize("settings", settings_of_every_kind())
def test_equals_its_equations(settings):
    model, batch = make_model(**settings), make_batch()
    logits, attention = outputs_of(model, batch)
    weights = {weight.path.split("/", 1)[1]: weight.numpy() for weight in model.weights if "seed" not in weight.path}
    for row in range(B):
        source_ids = [token for token in batch["source_ids"][row] if token]
        expected, weights_of_row = seq2seq(weights, model.get_config(), source_ids, batch["target_ids"][row])
        assert_all_close([logits[row]], [expected], 1e-5)
        if settings["attention"] != "none":
            padded = np.pad(weights_of_row, ((0, 0), (0, S - len(source_ids))))
            assert_all_close([attention[row]], [padded], 1e-5)


def number_of_weights(
    source_vocabulary_size,
    target_vocabulary_size,
    embedding_dim,
    hidden_dim,
    num_layers,
    cell,
    attention,
    attention_mode,
    input_feeding,
    tie_embeddings,
    **others,
):
    """Counted by hand."""
    D, H, L, V = embedding_dim, hidden_dim, num_layers, target_vocabulary_size

    def cell_weights(inputs, units):
        return 3 * units * (inputs + units + 2) if cell == "gru" else 4 * units * (inputs + units + 1)

    embeddings = {"none": 2 * V * D + source_vocabulary_size * D, "target": (V + source_vocabulary_size) * D}
    total = embeddings.get(tie_embeddings, V * D) + V
    total += 2 * cell_weights(D, H // 2) + 2 * (L - 1) * cell_weights(H, H // 2)
    total += cell_weights(D, H) + (L - 1) * cell_weights(H, H) + L * (H + 1) * H
    total += {"additive": 2 * H * H + H, "concat": 2 * H * H + H, "general": H * H}.get(attention, 0)
    total += H * H + H if attention_mode == "local_p" else 0
    total += D * H * (3 if cell == "gru" else 4) if input_feeding else 0
    return total + 2 * H * D + D


@pytest.mark.parametrize("form", FORMS)
def test_the_number_of_weights(form):
    model = shared_model(form)
    config = model.get_config()
    assert number_of_weights(**config) == sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    names = [weight.path for weight in model.weights]
    assert len(set(names)) == len(names)


def gradients(model, batch, training):
    with tf.GradientTape() as tape:
        loss = weighted_sum(model(batch, training=training))
    return [np.asarray(tf.convert_to_tensor(x)) for x in tape.gradient(loss, model.trainable_weights)]


@pytest.mark.parametrize("form", FORMS)
def test_gradients_reach_every_weight(form):
    """While training the loop over time is unrolled; without dropout the gradient is that of the scan."""
    model, batch = shared_model(form), make_batch()
    unrolled = gradients(model, batch, training=True)
    for weight, gradient in zip(model.trainable_weights, unrolled, strict=True):
        assert np.isfinite(gradient).all(), weight.path
        assert np.abs(gradient).max() > 1e-4, weight.path
    assert_all_close(gradients(model, batch, training=False), unrolled, 1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_finite_where_a_row_is_all_padding(form):
    model, batch = shared_model(form), make_batch()
    batch["source_ids"][2] = batch["target_ids"][2] = 0
    assert all(np.isfinite(gradient).all() for gradient in gradients(model, batch, training=True))
