"""The written gradients of the recurrences against those that TensorFlow finds by itself."""

import numpy as np
import pytest
import tensorflow as tf
from layer_checks import EXECUTIONS, assert_all_close, random_array, weighted_sum

from keras_attention.layers.recurrent import GRUCell, LSTMCell, read_forwards, run_over_time, time_first

pytestmark = pytest.mark.sampled(3)

B, T, D, UNITS = 2, 7, 3, 5
CELLS = pytest.mark.parametrize("cell_class", [GRUCell, LSTMCell])


def make_cell(cell_class):
    cell = cell_class(UNITS)
    cell.build((None, D))
    for i, weight in enumerate(cell.weights):
        weight.assign(random_array(*weight.shape, seed=i))
    return cell


def step_by_step(cell, sequence):
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
def test_outputs_and_gradients_are_those_of_the_cell(cell_class, execution):
    cell, sequence = make_cell(cell_class), random_array(B, T, D, seed=7)
    expected = outputs_and_gradients(step_by_step, cell, sequence)
    assert_all_close(outputs_and_gradients(read_forwards, cell, sequence, execution), expected, 1e-5)


@CELLS
def test_one_step_is_a_sequence(cell_class):
    cell, sequence = make_cell(cell_class), random_array(B, 1, D, seed=7)
    expected = outputs_and_gradients(step_by_step, cell, sequence)
    assert_all_close(outputs_and_gradients(read_forwards, cell, sequence), expected, 1e-5)
