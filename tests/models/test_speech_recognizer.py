"""The speech recognizer: equal to its equations, step by step as in one call, and blind to padding."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import assert_all_close, random_array

from keras_attention.decoding import beam_search
from keras_attention.inputs.speech import MULTIPLE
from keras_attention.inputs.speech import PADDING as FILLED
from keras_attention.models import SpeechRecognizer
from keras_attention.models.speech_recognizer import FRAMES_PER_CELL, PADDING

B, T, V, FRAMES, BANDS = 3, 5, 13, 28, 7
SIZES = {"num_bands": BANDS, "convolution_dim": 5, "encoder_dim": 3, "embedding_dim": 11, "hidden_dim": 17}
SIZES |= {"num_filters": 2, "filter_width": 3}
LENGTHS = (28, 17, 4)
KINDS = pytest.mark.parametrize("attention", ["location", "content"])


def make(attention="location", seed=0, **settings):
    model = SpeechRecognizer(V, attention=attention, **{**SIZES, **settings})
    model.build()
    for i, weight in enumerate(model.trainable_weights):
        weight.assign(random_array(*weight.shape, seed=(seed, i), low=-0.6, high=0.6))
    return model


def make_inputs(seed=1):
    values = random_array(B, FRAMES, BANDS, seed=seed)
    for row, length in zip(values, LENGTHS, strict=True):
        row[length:] = PADDING
    target_ids = np.random.default_rng(seed).integers(4, V, (B, T)).astype("int32")
    target_ids[:, 0] = 2
    target_ids[1, 3:] = 0
    return {"values": values, "target_ids": target_ids}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def dense(weights, name, x):
    return x @ weights[f"{name}/kernel"] + weights.get(f"{name}/bias", 0)


def read(x, weights, name):
    """The states of a GRU over x (S, D), one step at a time."""
    h, states = np.zeros(3), []
    for x_t in x:
        zx, rx, nx = np.split(dense(weights, f"{name}/input_projection", x_t), 3)
        zh, rh, nh = np.split(dense(weights, f"{name}/recurrent_projection", h), 3)
        z, n = sigmoid(zx + zh), np.tanh(nx + sigmoid(rx + rh) * nh)
        h = z * h + (1 - z) * n
        states.append(h)
    return np.array(states)


def convolution(x, kernel, bias):
    """Every second position of a convolution over time with ReLU; one zero before the start, two after the end."""
    padded = np.pad(x, ((1, 4), (0, 0)))
    cells = [np.einsum("tb,tbc->c", padded[2 * t : 2 * t + 5], kernel) + bias for t in range(-(-len(x) // 2))]
    return np.maximum(cells, 0)


def by_the_equations(model, values, length, target_ids):
    """Logits (T, V) and weights (T, S) of one recording in float64."""
    weights = {w.path.partition("/")[2]: np.asarray(w, "float64") for w in model.weights}
    x = values[:length].astype("float64")
    for i in range(2):
        x = convolution(x, weights[f"convolution_{i}/kernel"], weights[f"convolution_{i}/bias"])
    a = np.concatenate([read(x, weights, "forward_cell"), read(x[::-1], weights, "backward_cell")[::-1]], axis=1)
    h = c = np.zeros(17)
    previous, logits, results = np.zeros(len(a)), [], []
    for token in target_ids:
        hidden = dense(weights, "attention/query_projection", h) + dense(
            weights, "attention/key_projection", a
        )  # (S, H)
        if model.attention == "location":
            around = np.pad(previous, 1)
            kernel = weights["attention/location_convolution/kernel"][:, 0]  # (3, filters)
            located = np.array([around[s : s + 3] @ kernel for s in range(len(a))])
            hidden = hidden + dense(weights, "attention/location_projection", located)
        scores = np.tanh(hidden) @ weights["attention/score_projection/kernel"][:, 0]
        previous = np.exp(scores) / np.exp(scores).sum()
        z = previous @ a
        gates = dense(
            weights, "decoder/input_projection", np.concatenate([weights["token_embedding/embeddings"][token], z])
        )
        i, f, g, o = np.split(gates + h @ weights["decoder/recurrent_projection/kernel"], 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        logits.append(dense(weights, "output_projection", np.concatenate([h, z])))
        results.append(previous)
    return np.array(logits), np.array(results)


@KINDS
def test_it_equals_its_equations(attention):
    model, inputs = make(attention), make_inputs()
    logits, weights = model(inputs, return_attention_scores=True)
    assert (logits.shape, weights.shape) == ((B, T, V), (B, T, FRAMES // FRAMES_PER_CELL))
    for b, length in enumerate(LENGTHS):
        expected = by_the_equations(model, inputs["values"][b], length, inputs["target_ids"][b])
        cells = expected[1].shape[1]
        assert_all_close([logits[b], weights[b, :, :cells]], expected, 1e-5)
        assert (np.asarray(weights[b, :, cells:]) == 0).all()


@KINDS
def test_more_padding_changes_nothing(attention):
    model, inputs = make(attention), make_inputs()
    longer = np.pad(inputs["values"], ((0, 0), (0, 12), (0, 0)), constant_values=PADDING)
    assert_all_close([model({**inputs, "values": longer})], [model(inputs)], 1e-6)


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
    options = {"beam_size": beams, "n_best": beams, "max_length": length, "start_id": 2, "end_id": 3, "pad_id": 0}
    best = beam_search(lambda ids, state: model.step(ids, state, memory), model.initial_state(memory), B, **options)
    ids = np.asarray(best.token_ids).reshape(B * beams, length)
    targets = np.concatenate([np.full((B * beams, 1), 2), ids[:, :-1]], axis=1).astype("int32")
    logits = np.asarray(model({"values": np.repeat(values, beams, axis=0), "target_ids": targets}), "float64")
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    each = np.take_along_axis(log_probs, ids[:, :, None], axis=-1)[..., 0] * (ids != 0)
    assert_all_close([best.log_probs], [each.sum(axis=-1).reshape(B, beams)], 1e-4)


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


def test_its_input_gives_what_it_reads():
    assert (FILLED, MULTIPLE) == (PADDING, FRAMES_PER_CELL)
    with pytest.raises(ValueError, match="The number of frames must be a multiple of 4. Received: 27"):
        make().encode(make_inputs()["values"][:, :27])


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"hidden_dim": 0}, "hidden_dim=0"), ({"attention": "both"}, "attention=both"), ({"dropout": 1.0}, "dropout=1.0")],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)
