"""The captioner: equal to the equations of its paper, step by step as in one call, with beams and with samples."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import assert_all_close, random_array

from keras_attention.decoding import beam_search, repeat_beams
from keras_attention.models import AttentionCaptioner

B, T, V = 3, 5, 13
SIZES = {"annotation_dim": 7, "embedding_dim": 11, "hidden_dim": 17, "num_halvings": 1, "num_convolutions": 2}
SIZE, GRID = (4, 6, 3), (2, 3)
KINDS = pytest.mark.parametrize("attention", ["soft", "hard"])


def make(attention, seed=0, **settings):
    model = AttentionCaptioner(V, SIZE, attention=attention, **{**SIZES, **settings})
    model.build()
    for i, weight in enumerate(model.trainable_weights):
        weight.assign(random_array(*weight.shape, seed=(seed, i), low=-0.6, high=0.6))
    return model


def make_inputs(seed=1):
    target_ids = np.random.default_rng(seed).integers(4, V, (B, T)).astype("int32")
    target_ids[:, 0] = 2
    target_ids[1, 3:] = 0
    return {"values": random_array(B, *SIZE, seed=seed), "target_ids": target_ids}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def convolution(x, kernel, bias):
    """3 x 3, zeros around the picture (height, width, channels), ReLU."""
    height, width, _ = x.shape
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    outputs = np.zeros((height, width, kernel.shape[-1]))
    for i in range(height):
        for j in range(width):
            outputs[i, j] = np.einsum("abc,abcd->d", padded[i : i + 3, j : j + 3], kernel) + bias
    return np.maximum(outputs, 0)


def by_the_equations(model, values, target_ids):
    """Logits (T, V) and weights (T, S) of one picture in float64, from sections 3.1 and 4 of the paper."""
    weights = {w.path.partition("/")[2]: np.asarray(w, "float64") for w in model.weights}

    def dense(name, x):
        return x @ weights[f"{name}/kernel"] + weights.get(f"{name}/bias", 0)

    x = values.astype("float64")
    for i in range(3):
        x = convolution(x, weights[f"convolution_{i}/kernel"], weights[f"convolution_{i}/bias"])
        if i == 0:  # max pooling
            x = np.array([[x[2 * r : 2 * r + 2, 2 * c : 2 * c + 2].max((0, 1)) for c in range(3)] for r in range(2)])
    a = np.maximum(dense("annotation_projection", x.reshape(6, 7)), 0) + weights["positions/embeddings"]  # (S, D)
    h, c = (np.tanh(dense(f"initial_{name}", a.mean(axis=0))) for name in ("hidden", "memory"))
    scorer = "attention/attention" if model.attention == "hard" else "attention"
    logits, alphas = [], []
    for token in target_ids:
        scores = [
            np.tanh(dense(f"{scorer}/query_projection", h) + dense(f"{scorer}/key_projection", a_i))
            @ weights[f"{scorer}/score_projection/kernel"][:, 0]
            for a_i in a
        ]
        alpha = np.exp(scores) / np.exp(scores).sum()
        z = a[alpha.argmax()] if model.attention == "hard" else sigmoid(dense("gate", h)) * (alpha @ a)
        embedded = weights["token_embedding/embeddings"][token]
        gates = dense("decoder/input_projection", np.concatenate([embedded, z]))
        gates = gates + h @ weights["decoder/recurrent_projection/kernel"]
        i, f, g, o = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        logits.append(
            dense("output_projection", embedded + dense("hidden_projection", h) + dense("context_projection", z))
        )
        alphas.append(alpha)
    return np.array(logits), np.array(alphas)


@KINDS
def test_it_equals_the_equations_of_the_paper(attention):
    model, inputs = make(attention), make_inputs()
    logits, weights, choices = model(inputs, return_choices=True)
    assert logits.shape == (B, T, V)
    for b in range(B):
        expected = by_the_equations(model, inputs["values"][b], inputs["target_ids"][b])
        assert_all_close([logits[b], weights[b]], expected, 1e-5)
    best = np.eye(6)[np.asarray(weights).argmax(axis=-1)]
    np.testing.assert_array_equal(choices, best if attention == "hard" else np.zeros_like(best))


@KINDS
def test_steps_equal_the_full_pass(attention):
    model, inputs = make(attention), make_inputs()
    logits, weights = model(inputs, return_attention_scores=True)
    memory = model.encode(inputs["values"])
    state = model.initial_state(memory)
    assert all(tensor.shape[0] == B for tensor in tf.nest.flatten((memory, state)))
    for t in range(T):
        actual, new = model.step(inputs["target_ids"][:, t], state, memory)
        tf.nest.assert_same_structure(new, state)
        state = new
        assert_all_close([actual, state["attention"]], [logits[:, t], weights[:, t]], 1e-5)


@KINDS
def test_beams_have_the_probabilities_of_the_full_pass(attention):
    model, values, beams, length = make(attention), make_inputs()["values"], 4, 6
    memory = model.encode(values)
    hypotheses = beam_search(
        lambda ids, state: model.step(ids, state, memory),
        model.initial_state(memory),
        B,
        beam_size=beams,
        n_best=beams,
        max_length=length,
        start_id=2,
        end_id=3,
        pad_id=0,
    )
    ids = np.asarray(hypotheses.token_ids).reshape(B * beams, length)
    targets = np.concatenate([np.full((B * beams, 1), 2), ids[:, :-1]], axis=1).astype("int32")
    inputs = {"values": np.repeat(values, beams, axis=0), "target_ids": targets}
    logits = np.asarray(model(inputs), "float64")
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    each = np.take_along_axis(log_probs, ids[:, :, None], axis=-1)[..., 0] * (ids != 0)
    assert_all_close([hypotheses.log_probs], [each.sum(axis=-1).reshape(B, beams)], 1e-4)
    assert repeat_beams(memory, 1)["value"].shape == (B, 6, 7)


def test_training_samples_for_about_half_of_the_pictures():
    model = make("hard")
    inputs = {name: np.repeat(array, 101, axis=0) for name, array in make_inputs().items()}
    _, weights, choices = model(inputs, training=True, return_choices=True)
    counts = np.asarray(choices).sum(axis=-1)  # (303, T)
    assert (counts == counts[:, :1]).all()  # of one picture, all words sample or none
    assert 0.35 < counts[:, 0].mean() < 0.65
    assert (
        np.asarray(choices)[counts[:, 0] == 1].argmax(-1) != np.asarray(weights)[counts[:, 0] == 1].argmax(-1)
    ).any()


@pytest.mark.slow
@KINDS
def test_it_learns_with_fit_and_is_saved(attention, tmp_path):
    inputs = make_inputs()
    labels = np.concatenate([inputs["target_ids"][:, 1:], np.full((B, 1), 3)], axis=1)
    model = make(attention)
    model.compile(keras.optimizers.Adam(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = model.fit(inputs, labels, epochs=9, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.settings == model.settings
    assert_all_close([loaded(inputs)], [model(inputs)], 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_dim": 0}, "hidden_dim=0"),
        ({"attention": "both"}, "attention=both"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"num_halvings": 2}, "multiples of 4, as num_halvings=2"),
        ({"input_size": (4, 6)}, "`input_size` must be"),
        ({"input_size": (4, 0, 3)}, r"input_size\[1\]=0"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        AttentionCaptioner(**{"vocabulary_size": V, "input_size": SIZE, **SIZES, **settings})
