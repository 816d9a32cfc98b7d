"""GRU and LSTM over whole sequences, with gradients written by hand: XLA has none for a loop that is not unrolled."""

from keras import ops, tree

from keras_attention.layers.recurrent import LSTMCell, gru_gates, kernel_of, lstm_gates, run_over_time, time_first


def read_forwards(cell, sequence):
    """Runs a cell over sequences from left to right, starting with a zero state.

    TensorFlow can compile the gradient of a loop with XLA only if the loop is unrolled, which takes minutes for 128
    steps. Therefore the gradient is implemented by hand (backpropagation through time, Werbos 1990). It is a second
    loop, from right to left, followed by a single product for all steps: the gradient of the recurrent kernel.

    Args:
        cell: built GRUCell or LSTMCell with H units.
        sequence: float tensor (B, T, D) of static length.

    Returns:
        The outputs (B, T, H).
    """
    function, dense = _lstm if isinstance(cell, LSTMCell) else _gru, cell.recurrent_projection
    weights = [weight for weight in (kernel_of(dense), dense.bias) if weight is not None]
    weights = [ops.cast(weight, cell.compute_dtype) for weight in weights]
    return time_first(function(time_first(cell.project(sequence)), *weights))  # (B, T, H)


def read_both_ways_fast(sequence, mask, forward_cell, backward_cell):
    """The outputs of `read_both_ways` for two GRUCells, with the hand-written gradient of `read_forwards`.

    Padding keeps the state because its update gate is 1: h' = 1 h + 0 n. So the loop needs no mask, its gradient at
    padding is exactly 0, and the backward cell reaches the last real step with a state of 0.

    Args:
        sequence: float tensor (B, S, D), finite.
        mask: bool tensor (B, S), False at padding.
        forward_cell, backward_cell: built GRUCells with H units.

    Returns:
        The concatenated outputs of both (B, S, 2H); those at padding repeat the last state.
    """
    outputs = []
    for cell, reverse in ((forward_cell, False), (backward_cell, True)):
        update, others = ops.split(cell.project(sequence), [cell.units], axis=-1)  # (B, S, H), (B, S, 2H)
        closed = ops.cast(KEEPS_STATE, update.dtype)
        projected = time_first(ops.concatenate([ops.where(mask[:, :, None], update, closed), others], axis=-1))
        dense = cell.recurrent_projection
        weights = [ops.cast(weight, cell.compute_dtype) for weight in (kernel_of(dense), dense.bias)]
        states = _gru(ops.flip(projected, 0) if reverse else projected, *weights)  # (S, B, H)
        outputs.append(ops.flip(states, 0) if reverse else states)
    return time_first(ops.concatenate(outputs, axis=-1))


KEEPS_STATE = 1e4  # before the sigmoid of an update gate, which becomes exactly 1, in half precision too


def lstm_gates_back(gates, memory_before, memory, d_memory, d_hidden):
    """Returns the gradients of the gates before activation (B, 4H) and of the previous memory from those of c and h."""
    write, keep, new, read = ops.split(gates, 4, axis=-1)
    shown = ops.tanh(memory)
    d_memory = d_memory + d_hidden * read * (1 - shown * shown)
    d_gates = [
        d_memory * new * write * (1 - write),
        d_memory * memory_before * keep * (1 - keep),
        d_memory * write * (1 - new * new),
        d_hidden * shown * read * (1 - read),
    ]
    return ops.concatenate(d_gates, axis=-1), d_memory * keep


@ops.custom_gradient
def _lstm(projected, kernel):
    """Outputs (T, B, H) for the projected inputs (T, B, 4H) of an LSTMCell, and its recurrent kernel (H, 4H)."""

    def step(carry, inputs):
        hidden, memory, _ = carry
        return lstm_gates(inputs + ops.matmul(hidden, kernel), memory)

    zeros = _zeros(projected, kernel)
    _, (hiddens, memories, gates) = run_over_time(step, projected, (zeros, zeros, ops.zeros_like(projected[0])))

    def step_back(carry, inputs):
        from_later, d_memory, _ = carry
        d_output, gates, memory, memory_before = inputs
        d_gates, d_memory = lstm_gates_back(gates, memory_before, memory, d_memory, d_output + from_later)
        return ops.matmul(d_gates, ops.transpose(kernel)), d_memory, d_gates

    def gradient(*upstream_or_inputs, upstream=None):
        # PyTorch passes the inputs, and the gradient of the output by name.
        (d_outputs,) = tree.flatten(upstream_or_inputs if upstream is None else upstream)
        inputs = (d_outputs, gates, memories, _before(memories))
        _, (_, _, d_gates) = run_over_time(step_back, inputs, (zeros, zeros, gates[0]), reverse=True)
        return d_gates, _of_kernel(_before(hiddens), d_gates)

    return hiddens, gradient


@ops.custom_gradient
def _gru(projected, kernel, bias):
    """Outputs (T, B, H) for the projected inputs (T, B, 3H) of a GRUCell, its recurrent kernel (H, 3H) and bias."""

    def step(carry, inputs):
        hidden, _ = carry
        return gru_gates(inputs, ops.matmul(hidden, kernel) + bias, hidden)

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

    def gradient(*upstream_or_inputs, upstream=None):
        (d_outputs,) = tree.flatten(upstream_or_inputs if upstream is None else upstream)
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
    """The gradient (D, G) of a kernel, from its inputs (T, B, D) and the gradient (T, B, G) of its outputs."""
    rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
    return ops.matmul(ops.transpose(rows), ops.reshape(d_outputs, (-1, d_outputs.shape[-1])))
