import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import assert_all_close, check_gradients, outputs_and_gradients, random_array

from keras_attention.layers import LSTMNCell
from keras_attention.layers.lstmn import fill_tape, longer_tape, read_with_tape

B, T, D, H, A = 2, 7, 3, 5, 11


def make_cell(**options):
    cell = LSTMNCell(H, A, **options)
    cell.build((None, D))
    for i, weight in enumerate(cell.weights):
        weight.assign(random_array(*weight.shape, seed=i))
    return cell


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_equations(cell, inputs):
    """Outputs (T, units) and weights (T, T) of one sequence: equations 4 to 9 of the paper, in loops."""
    W, bias, U, W_h, W_s, v = (np.asarray(weight, "float64") for weight in cell.weights)
    units, tape, weights, outputs = len(U), [], np.zeros((len(inputs), len(inputs))), []
    summary = np.zeros(units)
    for t, x in enumerate(inputs):
        from_input = x @ W + bias
        scores = [v[:, 0] @ np.tanh(h @ W_h + from_input[4 * units :] + summary @ W_s) for h, _ in tape]
        shares = np.exp(scores) / np.exp(scores).sum()
        weights[t, :t] = shares
        summary = sum((share * h for share, (h, _) in zip(shares, tape, strict=True)), np.zeros(units))
        memory = sum((share * c for share, (_, c) in zip(shares, tape, strict=True)), np.zeros(units))
        i, f, g, o = np.split(from_input[: 4 * units] + summary @ U, 4)
        memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
        tape.append((sigmoid(o) * np.tanh(memory), memory))
        outputs.append(tape[-1][0])
    return np.array(outputs), weights


def step_by_step(cell, sequence):
    states, outputs, weights = cell.empty_tape(B, T), [], []
    for t in range(T):
        output, states, shares = cell(cell.project(sequence[:, t]), states)
        outputs.append(output)
        weights.append(shares)
    return tf.stack(outputs, axis=1), tf.stack(weights, axis=1)


@pytest.mark.parametrize("function", [step_by_step, read_with_tape])
def test_equals_its_equations(function):
    cell, inputs = make_cell(), random_array(B, T, D, seed=7)
    outputs, weights = function(cell, inputs)
    for b in range(B):
        assert_all_close([outputs[b], weights[b]], by_equations(cell, inputs[b]), 1e-5)
    assert not np.triu(np.asarray(weights)).any()


class Reader(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.cell = LSTMNCell(H, A, dtype=self.dtype_policy)

    def build(self, input_shape):
        self.cell.build(input_shape)

    def call(self, inputs):
        return read_with_tape(self.cell, inputs)[0]


def test_the_written_gradient_is_the_gradient():
    check_gradients(lambda: Reader(dtype="float64"), {"inputs": random_array(B, T, D, seed=7)})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("execution", ["graph", "xla"])
def test_graph_and_xla_compute_the_same(execution):
    keras.utils.set_random_seed(1)
    layer, inputs = Reader(), {"inputs": random_array(B, T, D, seed=7)}
    for actual, expected in zip(
        outputs_and_gradients(layer, inputs, execution), outputs_and_gradients(layer, inputs), strict=True
    ):
        assert_all_close(actual, expected, 1e-5)


def test_masked_steps_are_not_recalled():
    cell, inputs = make_cell(), random_array(B, T, D, seed=7)
    mask = np.arange(T) >= np.array([[3], [0]])
    outputs, states = fill_tape(cell, inputs, mask)
    expected, _ = read_with_tape(cell, inputs[:1, 3:])
    assert_all_close([outputs[:1, 3:-1]], [expected[:, :-1]], 1e-5)
    last = cell.project(inputs[:, -1])
    output, _, weights = cell(last, longer_tape(states, 4, 2))
    assert_all_close([output[0], output[1]], [expected[0, -1], read_with_tape(cell, inputs)[0][1, -1]], 1e-5)
    assert not np.asarray(weights)[0, :7].any()
    untouched = cell(last, states, step_mask=np.array([[False], [True]]))[1]
    np.testing.assert_array_equal(untouched[3][0], states[3][0])
    np.testing.assert_array_equal(untouched[4][0], states[4][0])
    assert (np.asarray(untouched[4][1]) != np.asarray(states[4][1])).all()


def test_the_forget_gate_starts_open():
    cell = LSTMNCell(H, A)
    cell.build((None, D))
    expected = np.repeat([0.0, 1.0, 0.0], [H, H, 2 * H + A])
    np.testing.assert_array_equal(cell.input_projection.bias, expected)


def test_settings_are_kept():
    for cell in (LSTMNCell(H, A), LSTMNCell(H)):
        again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(cell))
        assert again.get_config() == cell.get_config()
    assert LSTMNCell(H).attention_units == H


@pytest.mark.parametrize(("sizes", "message"), [((0, 3), "units=0"), ((5, 2.5), "attention_units=2.5")])
def test_a_wrong_size_is_named(sizes, message):
    with pytest.raises(ValueError, match=f"must be a positive integer. Received: {message}"):
        LSTMNCell(*sizes)
