"""GRU and LSTM over a whole sequence, with gradients that are loops, too."""

from keras import ops, tree

from keras_attention.layers.recurrent import LSTMCell, run_over_time, time_first


def read_forwards(cell, sequence):
    """Runs a cell over sequences from left to right, starting with the state zero.

    TensorFlow can compile the gradient of a loop with XLA only if the loop is unrolled: for 128 steps that takes
    minutes. Here the gradient is written down instead (backpropagation through time, Werbos 1990). It is a second
    loop, from right to left, behind which the gradient of the recurrent kernel is a single product for all steps.

    Args:
        cell: built GRUCell or LSTMCell with H units.
        sequence: float tensor (B, T, D) of static length.

    Returns:
        The outputs (B, T, H).
    """
    function, dense = _lstm if isinstance(cell, LSTMCell) else _gru, cell.recurrent_projection
    weights = [ops.cast(weight, cell.compute_dtype) for weight in dense.trainable_weights]
    return time_first(function(time_first(cell.project(sequence)), *weights))  # (B, T, H)


@ops.custom_gradient
def _lstm(projected, kernel):
    """Outputs (T, B, H) for the projected inputs (T, B, 4H) of an LSTMCell, and its recurrent kernel (H, 4H)."""

    def step(carry, inputs):
        hidden, memory, _ = carry
        write, keep, new, read = ops.split(inputs + ops.matmul(hidden, kernel), 4, axis=-1)
        write, keep, read, new = ops.sigmoid(write), ops.sigmoid(keep), ops.sigmoid(read), ops.tanh(new)
        memory = keep * memory + write * new
        return read * ops.tanh(memory), memory, ops.concatenate([write, keep, new, read], axis=-1)

    zeros = _zeros(projected, kernel)
    _, (hiddens, memories, gates) = run_over_time(step, projected, (zeros, zeros, ops.zeros_like(projected[0])))

    def step_back(carry, inputs):
        from_later, d_memory, _ = carry
        d_output, gates, memory, memory_before = inputs
        write, keep, new, read = ops.split(gates, 4, axis=-1)
        d_hidden, shown = d_output + from_later, ops.tanh(memory)
        d_memory = d_memory + d_hidden * read * (1 - shown * shown)
        d_gates = [
            d_memory * new * write * (1 - write),
            d_memory * memory_before * keep * (1 - keep),
            d_memory * write * (1 - new * new),
            d_hidden * shown * read * (1 - read),
        ]
        d_gates = ops.concatenate(d_gates, axis=-1)  # (B, 4H)
        return ops.matmul(d_gates, ops.transpose(kernel)), d_memory * keep, d_gates

    def gradient(*upstream):
        (d_outputs,) = tree.flatten(upstream)
        inputs = (d_outputs, gates, memories, _before(memories))
        _, (_, _, d_gates) = run_over_time(step_back, inputs, (zeros, zeros, gates[0]), reverse=True)
        return d_gates, _of_kernel(_before(hiddens), d_gates)

    return hiddens, gradient


@ops.custom_gradient
def _gru(projected, kernel, bias):
    """Outputs (T, B, H) for the projected inputs (T, B, 3H) of a GRUCell, its recurrent kernel (H, 3H) and bias."""

    def step(carry, inputs):
        hidden, _ = carry
        update_x, reset_x, new_x = ops.split(inputs, 3, axis=-1)
        update_h, reset_h, new_h = ops.split(ops.matmul(hidden, kernel) + bias, 3, axis=-1)
        update, reset = ops.sigmoid(update_x + update_h), ops.sigmoid(reset_x + reset_h)
        new = ops.tanh(new_x + reset * new_h)
        return new + update * (hidden - new), ops.concatenate([update, reset, new, new_h], axis=-1)

    zeros = _zeros(projected, kernel)
    _, (hiddens, gates) = run_over_time(step, projected, (zeros, ops.concatenate([zeros] * 4, axis=-1)))

    def step_back(carry, inputs):
        from_later, *_ = carry
        d_output, gates, before = inputs
        update, reset, new, new_h = ops.split(gates, 4, axis=-1)
        d_hidden = d_output + from_later
        d_new = d_hidden * (1 - update) * (1 - new * new)
        d_update = d_hidden * (before - new) * update * (1 - update)
        d_reset = d_new * new_h * reset * (1 - reset)
        d_recurrent = ops.concatenate([d_update, d_reset, d_new * reset], axis=-1)  # (B, 3H)
        d_inputs = ops.concatenate([d_update, d_reset, d_new], axis=-1)
        return ops.matmul(d_recurrent, ops.transpose(kernel)) + d_hidden * update, d_inputs, d_recurrent

    def gradient(*upstream):
        (d_outputs,) = tree.flatten(upstream)
        start = (zeros, ops.zeros_like(projected[0]), ops.zeros_like(projected[0]))
        inputs = (d_outputs, gates, _before(hiddens))
        _, (_, d_projected, d_recurrent) = run_over_time(step_back, inputs, start, reverse=True)
        return d_projected, _of_kernel(_before(hiddens), d_recurrent), ops.sum(d_recurrent, axis=(0, 1))

    return hiddens, gradient


def _zeros(projected, kernel):
    return ops.zeros((ops.shape(projected)[1], kernel.shape[0]), dtype=projected.dtype)  # (B, H)


def _before(states):
    """The states (T, B, H) before each step."""
    return ops.concatenate([ops.zeros_like(states[:1]), states[:-1]], axis=0)


def _of_kernel(inputs, d_outputs):
    """The gradient (D, G) of a kernel that multiplied inputs (T, B, D), for the gradient (T, B, G) of the products."""
    rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
    return ops.matmul(ops.transpose(rows), ops.reshape(d_outputs, (-1, d_outputs.shape[-1])))
