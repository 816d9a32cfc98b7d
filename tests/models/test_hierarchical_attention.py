"""HierarchicalAttentionClassifier against its equations in float64, and its masks."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from equations import additive_attention
from layer_checks import assert_all_close
from models.seq2seq_equations import gru

from keras_attention.models import HierarchicalAttentionClassifier

V, E, H, K, W = 23, 5, 3, 2, 7
SIZES = {"vocabulary_size": V, "embedding_dim": E, "hidden_dim": H, "num_labels": K, "sentence_length": W}
LENGTHS = ((7, 2, 5), (4, 0, 0))  # words of each sentence


def make_model(**settings):
    keras.utils.set_random_seed(11)
    model = HierarchicalAttentionClassifier(**SIZES, **settings)
    model.build()
    for weight in model.weights:
        if "bias" in weight.path:
            weight.assign(np.random.default_rng(13).normal(size=weight.shape))
    return model


def make_batch(width=W, sentences=3):
    random = np.random.default_rng(3)
    rows = [[random.integers(1, V, size=n) for n in document] for document in LENGTHS]
    rows = [[np.pad(row, (0, width - len(row))) for row in document] for document in rows]
    rows = np.pad(np.array(rows, "int32"), ((0, 0), (0, sentences - 3), (0, 0)))
    return rows.reshape(len(LENGTHS), -1)


def gru_by_equations(cell, x):
    """The outputs (T, H) of a GRU cell for inputs (T, D)."""
    kernel, bias, recurrent, recurrent_bias = (np.asarray(weight, "float64") for weight in cell.weights)
    hidden, outputs = np.zeros(cell.units), []
    for step in x:
        from_input, from_state = step @ kernel + bias, hidden @ recurrent + recurrent_bias
        hidden = gru(np.split(from_input, 3), np.split(from_state, 3), hidden)
        outputs.append(hidden)
    return np.array(outputs)


def both_ways(cells, x):
    """The outputs (T, 2H) of two GRUs, the second of which reads from right to left."""
    forward, backward = (gru_by_equations(cell, inputs) for cell, inputs in zip(cells, (x, x[::-1]), strict=True))
    return np.concatenate([forward, backward[::-1]], axis=-1)


def attended(layer, states):
    """The average of the states (T, D) by AdditiveAttention with the query 1, and its weights (T,)."""
    kernels = [layer.query_projection.kernel, layer.key_projection.kernel, layer.score_projection.kernel]
    W_a, U_a, v_a = (np.asarray(kernel, "float64") for kernel in kernels)
    mask = np.ones((1, 1, len(states)), bool)
    context, weights = additive_attention(np.ones((1, 1, 1)), states[None], states[None], mask, W_a.T, U_a.T, v_a[:, 0])
    return context[0, 0], weights[0, 0]


def as_in_the_paper(layer, states):
    """Yang et al. (2016), equations 5 to 7, as a loop: the average of the states (T, D) and the weights (T,)."""
    W_w, b_w, u_w = (
        np.asarray(x, "float64")
        for x in (layer.key_projection.kernel, layer.query_projection.kernel[0], layer.score_projection.kernel[:, 0])
    )
    exponentials = []
    for h in states:
        u = np.array([np.tanh(sum(W_w[i, j] * h[i] for i in range(len(h))) + b_w[j]) for j in range(len(b_w))])
        exponentials.append(np.exp(sum(u[j] * u_w[j] for j in range(len(u)))))
    weights = np.array([each / sum(exponentials) for each in exponentials])
    return sum(weight * h for weight, h in zip(weights, states, strict=True)), weights


POOLINGS = {
    "attention": as_in_the_paper,
    "mean": lambda _, states: (states.mean(axis=0), None),
    "max": lambda _, states: (states.max(axis=0), None),
}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_equals_its_equations(pooling):
    model, pool = make_model(pooling=pooling), POOLINGS[pooling]
    logits = np.asarray(model(make_batch()))
    table, kernel, bias = (
        np.asarray(x, "float64") for x in (model.token_embedding.embeddings, *model.output_dense.weights)
    )
    for ids, lengths, row in zip(make_batch().reshape(2, 3, W), LENGTHS, logits, strict=True):
        sentences = [
            pool(model.word_attention, both_ways(model.word_cells, table[words[:length]]))[0]
            for words, length in zip(ids, lengths, strict=True)
            if length
        ]
        vector, _ = pool(model.sentence_attention, both_ways(model.sentence_cells, np.array(sentences)))
        assert_all_close([row], [vector @ kernel + bias], 1e-5)


def test_attention_of_the_paper_is_additive_attention_with_a_constant_query():
    layer = make_model().word_attention
    states = np.random.default_rng(5).normal(size=(11, 2 * H))
    assert_all_close(as_in_the_paper(layer, states), attended(layer, states), 1e-12)
    context, weights = layer(
        np.ones((1, 1, 1), "float32"), states[None].astype("float32"), return_attention_scores=True
    )
    assert_all_close([context[0, 0], weights[0, 0]], as_in_the_paper(layer, states), 1e-5)


def test_weights_of_padding_are_0_and_the_others_sum_to_1():
    logits, weights = make_model()(make_batch(), return_attention_scores=True)
    words, sentences = np.asarray(weights["words"]), np.asarray(weights["sentences"])
    assert logits.shape == (2, K)
    assert words.shape == (2, 3, W)
    assert sentences.shape == (2, 3)
    for document, lengths in enumerate(LENGTHS):
        for number, length in enumerate(lengths):
            assert (words[document, number, length:] == 0).all()
            assert words[document, number].sum() == pytest.approx(float(length > 0), abs=1e-6)
    assert (sentences[1, 1:] == 0).all()
    assert_all_close([sentences.sum(axis=-1)], [np.ones(2)], 1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_changes_nothing(pooling):
    model = make_model(pooling=pooling)
    logits = np.asarray(model(make_batch()))
    assert_all_close([model(make_batch(sentences=5))], [logits], 1e-6)
    assert_all_close([model(make_batch()[:1, : 2 * W + 5])], [logits[:1]], 1e-6)  # the last sentence has 5 words
    of_any_length = tf.function(model, input_signature=[tf.TensorSpec([None, None], "int32")])
    assert_all_close([of_any_length(make_batch()[:1, : 2 * W + 5])], [logits[:1]], 1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_gradients_are_finite_where_all_is_padding(pooling):
    model, ids = make_model(pooling=pooling), make_batch()
    ids[1] = 0
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(ids) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    assert all(np.isfinite(tf.convert_to_tensor(gradient).numpy()).all() for gradient in gradients)
    assert np.abs(gradients[1].numpy()).max() > 0


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match='pooling="sum"|pooling=sum'):
        make_model(pooling="sum")
    with pytest.raises(ValueError, match="hidden_dim=0"):
        HierarchicalAttentionClassifier(**SIZES | {"hidden_dim": 0})
    with pytest.raises(ValueError, match='pooling="max"'):
        make_model(pooling="max")(make_batch(), return_attention_scores=True)


def test_a_trained_network_gives_its_layers_to_a_new_classifier():
    trained = make_model()
    new = HierarchicalAttentionClassifier.from_trained(trained, 5, dropout=0.1)
    assert new.settings == trained.settings | {"num_labels": 5, "dropout": 0.1}
    assert_all_close([new.pooled(make_batch())], [trained.pooled(make_batch())], 0)
    same = HierarchicalAttentionClassifier.from_trained(trained, K, head="kept")
    assert_all_close([same(make_batch())], [trained(make_batch())], 0)
