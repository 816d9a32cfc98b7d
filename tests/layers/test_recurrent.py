import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_checks import EXECUTIONS, assert_all_close, random_array, weighted_sum
from models.seq2seq_equations import gru, lstm

from keras_attention.layers import TransformerEncoderLayer
from keras_attention.layers.fast.recurrent_gradients import read_both_ways_fast, read_forwards
from keras_attention.layers.recurrent import GRUCell, LSTMCell, read_both_ways, run_over_time, time_first

pytestmark = pytest.mark.sampled(3)

B, S, D, UNITS = 2, 7, 3, 5
CELLS = pytest.mark.parametrize("cell_class", [GRUCell, LSTMCell])


def make_cell(cell_class):
    cell = cell_class(UNITS)
    cell.build((None, D))
    for i, weight in enumerate(cell.weights):
        weight.assign(random_array(*weight.shape, seed=i))
    return cell


def make_states(cell):
    return tuple(random_array(B, UNITS, seed=10 + i) for i in range(cell.num_states))


@CELLS
def test_equals_its_equations(cell_class):
    cell, inputs = make_cell(cell_class), random_array(B, D, seed=3)
    states = make_states(cell)
    output, new_states = cell(cell.project(inputs), states)
    kernel, bias, recurrent_kernel = (np.asarray(weight, "float64") for weight in cell.weights[:3])
    for b in range(B):
        from_input, from_state = inputs[b] @ kernel + bias, states[0][b] @ recurrent_kernel
        if cell_class is GRUCell:
            from_state = from_state + np.asarray(cell.weights[3])
            expected = (gru(np.split(from_input, 3), np.split(from_state, 3), states[0][b]),)
        else:
            expected = lstm(np.split(from_input + from_state, 4), states[1][b])
        assert_all_close([x[b] for x in new_states], expected, 1e-6)
        assert_all_close([output[b]], expected[:1], 1e-6)


@CELLS
def test_equals_the_layer_of_keras(cell_class):
    cell, inputs = make_cell(cell_class), random_array(B, S, D, seed=3)
    states = make_states(cell)
    if cell_class is GRUCell:
        layer = keras.layers.GRU(UNITS, reset_after=True, return_sequences=True)
        kernel, bias, recurrent_kernel, recurrent_bias = cell.get_weights()
        weights = [kernel, recurrent_kernel, np.stack([bias, recurrent_bias])]
    else:
        layer = keras.layers.LSTM(UNITS, return_sequences=True)
        kernel, bias, recurrent_kernel = cell.get_weights()
        weights = [kernel, recurrent_kernel, bias]
    layer.build((B, S, D))
    layer.set_weights(weights)
    projected = np.moveaxis(np.asarray(cell.project(inputs)), 1, 0)  # (S, B, gates)
    _, carries = run_over_time(lambda carry, x: cell(x, carry)[1], projected, states)
    expected = layer(inputs, initial_state=list(states))
    assert_all_close([np.moveaxis(np.asarray(carries[0]), 0, 1)], [expected], 1e-5)


@CELLS
def test_masked_rows_keep_their_states(cell_class):
    cell, states = make_cell(cell_class), make_states(make_cell(cell_class))
    projected = cell.project(np.full((B, D), np.nan, "float32"))
    output, new_states = cell(projected, states, step_mask=np.array([[False], [False]]))
    assert_all_close([output, *new_states], [states[0], *states], 0)
    projected = cell.project(random_array(B, D, seed=3))
    _, mixed = cell(projected, states, step_mask=np.array([[True], [False]]))
    _, free = cell(projected, states)
    for new, old, unmasked in zip(mixed, states, free, strict=True):
        np.testing.assert_array_equal(new[0], unmasked[0])
        np.testing.assert_array_equal(new[1], old[1])
        assert (np.asarray(new[0]) != old[0]).all()


def test_the_forget_gate_starts_open():
    cell = LSTMCell(UNITS)
    cell.build((None, D))
    bias = np.asarray(cell.input_projection.bias)
    np.testing.assert_array_equal(np.split(bias, 4), np.outer([0, 1, 0, 0], np.ones(UNITS)))


@keras.saving.register_keras_serializable(package="keras_attention.tests")
class OneStep(keras.layers.Layer):
    """One step from the state zero, so that a cell can stand in a functional model."""

    def __init__(self, cell, **kwargs):
        super().__init__(**kwargs)
        self.cell = keras.saving.deserialize_keras_object(cell) if isinstance(cell, dict) else cell

    def build(self, input_shape):
        if not self.cell.built:  # loading may have built it
            self.cell.build(input_shape)

    def call(self, inputs):
        zeros = keras.ops.zeros((keras.ops.shape(inputs)[0], self.cell.units))
        return self.cell(self.cell.project(inputs), (zeros,) * self.cell.num_states)[0]

    def get_config(self):
        return {**super().get_config(), "cell": keras.saving.serialize_keras_object(self.cell)}


@CELLS
def test_saving_keeps_units_and_outputs(cell_class, tmp_path):
    inputs = random_array(B, D, seed=3)
    symbols = keras.Input((D,))
    model = keras.Model(symbols, OneStep(cell_class(UNITS))(symbols))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_all_close([loaded(inputs)], [model(inputs)], 0)
    cell = loaded.layers[1].cell
    assert type(cell) is cell_class
    assert cell.units == cell_class.from_config(cell.get_config()).units == UNITS


@pytest.mark.sampled(1)
@CELLS
@pytest.mark.parametrize("units", [0, -3, 2.5, "5", True])
def test_errors_name_the_value(cell_class, units):
    with pytest.raises(ValueError, match=rf"`units` must be a positive integer. Received: units={units}"):
        cell_class(units)


def nested_step(carry, inputs):
    """A recurrence on nested structures in which the order of time matters."""
    x, (scale, keep) = inputs["x"], inputs["pair"]
    total = tf.where(keep, carry["sums"][0] * scale + x, carry["sums"][0])
    return {"sums": (total, carry["sums"][1] - total), "count": carry["count"] + 1}


def nested_inputs():
    return {
        "x": random_array(S, B, D, seed=1),
        "pair": (random_array(S, B, 1, seed=2), np.random.default_rng(3).random((S, B, 1)) < 0.7),
    }


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("unroll", [False, True], ids=["scan", "unrolled"])
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_equals_a_plain_loop(reverse, unroll, execution):
    inputs = nested_inputs()
    start = {"sums": (random_array(B, D, seed=4), random_array(B, D, seed=5)), "count": np.float32(0)}

    @EXECUTIONS[execution]
    def run(inputs, start):
        return run_over_time(nested_step, inputs, start, reverse=reverse, unroll=unroll)

    last, carries = run(*tf.nest.map_structure(tf.constant, (inputs, start)))
    expected = [None] * S
    carry = start
    for t in sorted(range(S), reverse=reverse):
        carry = nested_step(carry, tf.nest.map_structure(lambda x, t=t: x[t], inputs))
        expected[t] = carry
    assert_all_close(tf.nest.flatten(last), tf.nest.flatten(carry), 1e-6)
    stacked = tf.nest.map_structure(lambda *steps: np.stack(steps), *expected)
    assert_all_close(tf.nest.flatten(carries), tf.nest.flatten(stacked), 1e-6)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("unroll", [False, True], ids=["scan", "unrolled"])
def test_a_length_known_only_when_run(unroll, reverse):
    specification = tf.TensorSpec((None, B)), tf.TensorSpec((None, B))

    def step(carry, inputs):
        return carry * inputs[0] + inputs[1]

    @tf.function(input_signature=specification)
    def run(*inputs):
        return run_over_time(step, inputs, tf.zeros((B,)), reverse=reverse, unroll=unroll)[1]

    for length in (1, S):
        inputs = [random_array(length, B, seed=seed) for seed in (6, 7)]
        expected, carry = [None] * length, np.zeros(B)
        for t in sorted(range(length), reverse=reverse):
            expected[t] = carry = step(carry, [x[t] for x in inputs])
        assert_all_close([run(*inputs)], [expected], 1e-6)


@pytest.mark.parametrize("unroll", [False, True], ids=["scan", "unrolled"])
@pytest.mark.parametrize("cell_class", [GRUCell, LSTMCell])
def test_padding_changes_nothing(cell_class, unroll):
    cells = [cell_class(UNITS), cell_class(UNITS)]
    for i, cell in enumerate(cells):
        cell.build((None, D))
        for j, weight in enumerate(cell.weights):
            weight.assign(random_array(*weight.shape, seed=(i, j)))
    lengths = (S, 4)
    sequence, mask = random_array(B, S, D, seed=7), np.arange(S) < np.array(lengths)[:, None]
    sequence[~mask] = 1e3
    outputs, ends = read_both_ways(sequence, mask, *cells, unroll=unroll)
    assert outputs.shape == (B, S, 2 * UNITS)
    assert ends.shape == (B, 2 * UNITS)
    for row, length in enumerate(lengths):
        alone = read_both_ways(sequence[row : row + 1, :length], mask[row : row + 1, :length], *cells, unroll=unroll)
        assert_all_close([outputs[row : row + 1, :length], ends[row : row + 1]], alone, 1e-5)
        # The last outputs: of the forward cell at the last token, of the backward cell at the first.
        forward, backward = outputs[row, length - 1, :UNITS], outputs[row, 0, UNITS:]
        assert_all_close([ends[row]], [np.concatenate([forward, backward])], 0)


def test_the_two_directions_mirror_each_other():
    cells = [GRUCell(UNITS), GRUCell(UNITS)]
    for cell in cells:
        cell.build((None, D))
    cells[1].set_weights(cells[0].get_weights())
    sequence, mask = random_array(B, S, D, seed=8), np.ones((B, S), bool)
    outputs, _ = read_both_ways(sequence, mask, *cells)
    mirrored, _ = read_both_ways(sequence[:, ::-1], mask, *cells)
    assert_all_close([outputs[..., :UNITS]], [mirrored[:, ::-1, UNITS:]], 1e-6)


def test_time_first_swaps_two_axes_and_back():
    tensor = random_array(B, S, D, seed=9)
    np.testing.assert_array_equal(time_first(tensor), np.swapaxes(tensor, 0, 1))
    np.testing.assert_array_equal(time_first(time_first(tensor[..., 0])), tensor[..., 0])


def test_each_step_of_an_unrolled_gradient_is_as_large_as_a_step():
    """Slices had gradients as large as the whole sequence, which made training quadratic in its length."""

    @tf.function
    def gradient(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            last, _ = run_over_time(lambda carry, x: tf.tanh(carry + x), inputs, tf.zeros((B, D)), unroll=True)
        return tape.gradient(last, inputs)

    graph = gradient.get_concrete_function(tf.TensorSpec((S, B, D))).graph
    whole = [op.type for op in graph.get_operations() for tensor in op.outputs if tensor.shape.rank == 3]
    assert whole.count("StridedSliceGrad") == 0
    assert len(whole) < S, whole


@CELLS
@pytest.mark.parametrize("masked", [False, True])
def test_keras_rnn_runs_the_cell_over_projected_inputs(cell_class, masked):
    cell, inputs = make_cell(cell_class), random_array(B, S, D, seed=3)
    mask = np.arange(S) < np.array([S, 3 if masked else S])[:, None]  # (B, S)
    rnn = keras.layers.RNN(cell, return_sequences=True, return_state=True)
    outputs, *states = rnn(cell.project(inputs), mask=mask)
    expected, ends = read_both_ways(inputs, mask, cell, cell)
    assert len(states) == cell.num_states
    assert_all_close([outputs, states[0]], [expected[..., :UNITS], ends[:, :UNITS]], 1e-6)


@CELLS
@pytest.mark.parametrize("execution", ["eager", "graph"])
def test_keras_rnn_over_our_layers_obeys_the_mask(cell_class, execution):
    ids = np.array([[3, 1, 4, 1, 5], [9, 2, 0, 0, 0]])
    keras.utils.set_random_seed(1)
    embedding = keras.layers.Embedding(11, D, mask_zero=True)
    encoder = TransformerEncoderLayer(13, 1)
    cell = make_cell(cell_class)
    rnn = keras.layers.RNN(cell)

    def read(ids):
        return rnn(cell.project(encoder(embedding(ids))))

    alone = read(ids[1:, :2])
    assert_all_close([EXECUTIONS[execution](read)(ids)[1:]], [alone], 1e-5)


def step_by_step(cell, sequence):
    """What `read_forwards` computes, with the gradient that TensorFlow finds by itself."""
    start = (tf.zeros((B, UNITS)),) * cell.num_states
    steps = time_first(cell.project(sequence))
    _, states = run_over_time(lambda carry, x: cell(x, carry)[1], steps, start, unroll=True)
    return time_first(states[0])


def outputs_and_gradients(function, cell, sequence, execution="eager"):
    @EXECUTIONS[execution]
    def compute(sequence):
        with tf.GradientTape() as tape:
            tape.watch(sequence)
            outputs = function(cell, sequence)
            loss = weighted_sum(outputs)
        return [outputs, *tape.gradient(loss, [sequence, *(weight.value for weight in cell.trainable_weights)])]

    return [np.asarray(x) for x in compute(tf.constant(sequence))]


@CELLS
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_read_forwards_has_outputs_and_gradients_of_the_cell(cell_class, execution):
    cell, sequence = make_cell(cell_class), random_array(B, S, D, seed=7)
    expected = outputs_and_gradients(step_by_step, cell, sequence)
    assert_all_close(outputs_and_gradients(read_forwards, cell, sequence, execution), expected, 1e-5)


@CELLS
def test_read_forwards_takes_one_step(cell_class):
    cell, sequence = make_cell(cell_class), random_array(B, 1, D, seed=7)
    expected = outputs_and_gradients(step_by_step, cell, sequence)
    assert_all_close(outputs_and_gradients(read_forwards, cell, sequence), expected, 1e-5)


@CELLS
def test_read_forwards_reads_with_a_frozen_cell(cell_class):
    cell, sequence = make_cell(cell_class), random_array(B, S, D, seed=7)
    expected = read_forwards(cell, sequence)
    cell.trainable = False
    assert_all_close([read_forwards(cell, sequence)], [expected], 0)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_reading_both_ways_fast_has_outputs_and_gradients_of_the_loop_with_masks(execution):
    cells = [make_cell(GRUCell), make_cell(GRUCell)]
    cells[1].set_weights([weight[::-1].copy() for weight in cells[0].get_weights()])
    sequence, mask = random_array(3, S, D, seed=7), np.arange(S) < np.array([[S], [2], [0]])  # the last one: padding

    def compute(function, sequence):
        with tf.GradientTape() as tape:
            tape.watch(sequence)
            outputs = tf.where(mask[:, :, None], function(sequence, tf.constant(mask), *cells), 0.0)
            loss = weighted_sum(outputs)
        variables = [weight.value for cell in cells for weight in cell.trainable_weights]
        return [outputs, *tape.gradient(loss, [sequence, *variables])]

    expected = compute(lambda *inputs: read_both_ways(*inputs)[0], tf.constant(sequence))
    actual = EXECUTIONS[execution](lambda x: compute(read_both_ways_fast, x))(tf.constant(sequence))
    assert_all_close(actual, expected, 1e-5)
