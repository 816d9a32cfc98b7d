import keras
import numpy as np
import pytest
from layer_checks import assert_all_close, random_array
from models.seq2seq_equations import gru, lstm

from keras_attention.layers.recurrence import run_over_time
from keras_attention.layers.recurrent_cells import GRUCell, LSTMCell

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


@CELLS
@pytest.mark.parametrize("units", [0, -3, 2.5, "5", True])
def test_errors_name_the_value(cell_class, units):
    with pytest.raises(ValueError, match=rf"`units` must be a positive integer. Received: units={units}"):
        cell_class(units)
