"""GRU and LSTM cells that project all inputs of a sequence in one product, and loops over whole sequences."""

from typing import Any

import keras
from keras import ops, tree

from keras_attention.layers.masks import Tensor
from keras_attention.support.moved import moved_name


@keras.saving.register_keras_serializable(package="keras_attention")
class GRUCell(keras.layers.Layer):
    """Gated recurrent unit with the input projection separate from the recurrence.

        z = sigmoid(W_z x + U_z h)    r = sigmoid(W_r x + U_r h)
        n = tanh(W_n x + r * (U_n h + b_n))    h' = z h + (1 - z) n

    `project` computes all W x of a sequence at once; `call` computes the rest of one step.

    Args:
        units: int > 0. Width of the state.

    Call arguments:
        projected: (B, 3 units), the result of `project` for the input of this step.
        states: tuple of one tensor (B, units).
        step_mask: bool tensor (B, 1) or None. Where it is False, the state does not change.
        projected_mask: bool tensor (B,) or None, the same without the last axis. Keras passes the implicit mask of
            `projected`.

    Returns:
        The output (B, units) and the new states.

    Raises:
        ValueError: if `units` is not a positive integer.

    Source: Cho et al. (2014), section 2.3, https://arxiv.org/abs/1406.1078. Difference: the reset gate is applied after
    the product, as in `keras.layers.GRU(reset_after=True)`. To process a whole sequence, see `read_both_ways`, or build
    the cell and call `keras.layers.RNN(cell)(cell.project(sequence))`.

    Example:
        cell = GRUCell(units=8)
        cell.build((None, 16))
        output, states = cell(cell.project(inputs[:, 0]), (keras.ops.zeros((2, 8)),))
    """

    num_gates = 3
    num_states = 1

    def __init__(self, units: int, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(units, int) or isinstance(units, bool) or units < 1:
            raise ValueError(f"`units` must be a positive integer. Received: units={units}")
        self.supports_masking = True
        self.units = units
        self.input_projection = keras.layers.Dense(
            self.num_gates * units, dtype=self.dtype_policy, name="input_projection"
        )
        self.recurrent_projection = keras.layers.Dense(
            self.num_gates * units,
            kernel_initializer="orthogonal",
            dtype=self.dtype_policy,
            name="recurrent_projection",
        )

    def build(self, input_shape):
        self.input_projection.build(input_shape)
        self.recurrent_projection.build((None, self.units))
        self.built = True

    @property
    def state_size(self) -> list[int]:
        """The widths of the states, for `keras.layers.RNN`."""
        return [self.units] * self.num_states

    def project(self, inputs: Tensor) -> Tensor:
        return self.input_projection(inputs)  # (..., 3 units)

    def call(
        self,
        projected: Tensor,
        states: tuple[Tensor, ...],
        step_mask: Tensor | None = None,
        projected_mask: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        step_mask = combined_step_mask(step_mask, projected_mask)
        (hidden,) = states
        new_hidden, _ = gru_gates(projected, self.recurrent_projection(hidden), hidden)
        states = keep_where_masked((new_hidden,), (hidden,), step_mask)
        return states[0], states

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable(package="keras_attention")
class LSTMCell(keras.layers.Layer):
    """Long short-term memory with the input projection separate from the recurrence.

        i, f, o = sigmoid(W x + U h)    g = tanh(W_g x + U_g h)
        c' = f c + i g    h' = o tanh(c')

    Args:
        units: int > 0. Width of the state.

    Call arguments:
        projected: (B, 4 units), the result of `project` for the input of this step.
        states: tuple of two tensors (B, units): the output h and the memory c.
        step_mask: bool tensor (B, 1) or None. Where it is False, the states do not change.
        projected_mask: bool tensor (B,) or None, the same without the last axis. Keras passes the implicit mask of
            `projected`.

    Returns:
        The output (B, units) and the new states.

    Raises:
        ValueError: if `units` is not a positive integer.

    Source: Hochreiter & Schmidhuber (1997) with the forget gate of Gers et al. (2000), whose bias is initialized to 1.
    The order of the gates is i, f, g, o, as in `keras.layers.LSTM`.

    Example:
        cell = LSTMCell(units=8)
        cell.build((None, 16))
        output, states = cell(cell.project(inputs[:, 0]), (keras.ops.zeros((2, 8)),) * 2)
    """

    num_gates = 4
    num_states = 2

    def __init__(self, units: int, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(units, int) or isinstance(units, bool) or units < 1:
            raise ValueError(f"`units` must be a positive integer. Received: units={units}")
        self.supports_masking = True
        self.units = units
        self.input_projection = keras.layers.Dense(
            self.num_gates * units,
            bias_initializer=self._forget_gate_starts_open,
            dtype=self.dtype_policy,
            name="input_projection",
        )
        self.recurrent_projection = keras.layers.Dense(
            self.num_gates * units,
            use_bias=False,
            kernel_initializer="orthogonal",
            dtype=self.dtype_policy,
            name="recurrent_projection",
        )

    def _forget_gate_starts_open(self, shape, dtype=None):
        gate = shape[0] // 4
        return ops.concatenate([ops.zeros(gate, dtype), ops.ones(gate, dtype), ops.zeros(2 * gate, dtype)])

    def build(self, input_shape):
        self.input_projection.build(input_shape)
        self.recurrent_projection.build((None, self.units))
        self.built = True

    @property
    def state_size(self) -> list[int]:
        """The widths of the states, for `keras.layers.RNN`."""
        return [self.units] * self.num_states

    def project(self, inputs: Tensor) -> Tensor:
        return self.input_projection(inputs)  # (..., 4 units)

    def call(
        self,
        projected: Tensor,
        states: tuple[Tensor, ...],
        step_mask: Tensor | None = None,
        projected_mask: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        step_mask = combined_step_mask(step_mask, projected_mask)
        hidden, memory = states
        new_hidden, new_memory, _ = lstm_gates(projected + self.recurrent_projection(hidden), memory)
        states = keep_where_masked((new_hidden, new_memory), (hidden, memory), step_mask)
        return states[0], states

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def gru_gates(from_input, from_hidden, hidden):
    """The equations of a GRU.

    Args:
        from_input, from_hidden: tensors (B, 3H), W x and U h + b for z, r and n.
        hidden: tensor (B, H), the state h before the step.

    Returns:
        The new h, and z, r, n and U_n h + b_n as one tensor (B, 4H).
    """
    update_x, reset_x, new_x = ops.split(from_input, 3, axis=-1)
    update_h, reset_h, new_h = ops.split(from_hidden, 3, axis=-1)
    update, reset = ops.sigmoid(update_x + update_h), ops.sigmoid(reset_x + reset_h)
    new = ops.tanh(new_x + reset * new_h)
    return new + update * (hidden - new), ops.concatenate([update, reset, new, new_h], axis=-1)


def lstm_gates(gates, memory):
    """The equations of an LSTM.

    Args:
        gates: tensor (B, 4H), W x + U h for i, f, g and o.
        memory: tensor (B, H), the memory c before the step.

    Returns:
        The new h, the new c, and i, f, g, o as one tensor (B, 4H).
    """
    write, keep, new, read = ops.split(gates, 4, axis=-1)
    write, keep, read, new = ops.sigmoid(write), ops.sigmoid(keep), ops.sigmoid(read), ops.tanh(new)
    memory = keep * memory + write * new
    return read * ops.tanh(memory), memory, ops.concatenate([write, keep, new, read], axis=-1)


def keep_where_masked(new_states, old_states, mask):
    """Returns the new states where `mask` (B, 1) is True, or everywhere if it is None; the old states elsewhere."""
    if mask is None:
        return new_states
    return tuple(ops.where(mask, new, old) for new, old in zip(new_states, old_states, strict=True))


def combined_step_mask(step_mask, projected_mask):
    """Combines a mask (B, 1) and an implicit mask (B,) by "and": bool (B, 1), or None."""
    if projected_mask is None:
        return step_mask
    projected_mask = ops.reshape(ops.cast(projected_mask, "bool"), (-1, 1))  # (B, 1)
    return projected_mask if step_mask is None else ops.logical_and(step_mask, projected_mask)


def run_over_time(step, inputs, carry, reverse=False, unroll=False):
    """Runs `step(carry, inputs[t]) -> carry` over the leading axis and stacks every carry.

    Args:
        step: function of a carry and one time slice of `inputs`.
        inputs: nested structure of tensors with time as first axis.
        carry: nested structure of tensors, the state before the first step.
        reverse: bool. Whether to start with the last step. The stacked result is in chronological order in any case.
        unroll: bool. Whether to unroll the loop if its length is static. This compiles more slowly and trains faster on
            CPU. On TensorFlow, XLA can compile the gradient of unrolled loops only.

    Returns:
        The last carry, and all carries stacked along time.
    """
    first = tree.flatten(inputs)[0]
    length = first.shape[0]
    if length is None:
        # If the length is unknown, Keras's scan on TensorFlow accepts only a single tensor, so we scan the positions.
        positions = ops.arange(ops.shape(first)[0], dtype="int32")
        return ops.scan(lambda c, t: (step(c, time_slice(inputs, t)),) * 2, carry, positions, reverse=reverse)
    if not unroll:
        return ops.scan(lambda c, x: (step(c, x),) * 2, carry, inputs, reverse=reverse)
    # Unstack instead of slicing: the gradient of a slice has the size of the whole tensor (quadratic cost in total).
    slices = [tree.pack_sequence_as(inputs, x) for x in zip(*map(ops.unstack, tree.flatten(inputs)), strict=True)]
    carries = [None] * length
    for t in reversed(range(length)) if reverse else range(length):
        carry = step(carry, slices[t])
        carries[t] = carry
    return carry, tree.map_structure(lambda *tensors: ops.stack(tensors), *carries)


def read_both_ways(sequence, mask, forward_cell, backward_cell, unroll=False):
    """A bidirectional RNN: one cell runs from left to right, another from right to left. Padding changes no state.

    Args:
        sequence: float tensor (B, S, D).
        mask: bool tensor (B, S), False at padding, which must be on the right.
        forward_cell, backward_cell: built GRUCell or LSTMCell with H units.
        unroll: bool, see `run_over_time`.

    Returns:
        The concatenated outputs of both (B, S, 2H), and their concatenated last outputs (B, 2H).
    """
    steps_mask = ops.transpose(mask)[:, :, None]  # (S, B, 1)
    outputs, ends = [], []
    for cell, reverse in ((forward_cell, False), (backward_cell, True)):
        start = (ops.zeros((ops.shape(sequence)[0], cell.units), dtype=cell.compute_dtype),) * cell.num_states
        end, states = run_over_time(
            lambda carry, x, cell=cell: cell(x[0], carry, step_mask=x[1])[1],
            (time_first(cell.project(sequence)), steps_mask),
            start,
            reverse=reverse,
            unroll=unroll,
        )
        outputs.append(states[0])
        ends.append(end[0])
    return time_first(ops.concatenate(outputs, axis=-1)), ops.concatenate(ends, axis=-1)


def time_slice(inputs, t):
    return tree.map_structure(lambda x: x[t], inputs)


def time_first(tensor):
    """Swaps the first two axes: batch first <-> time first."""
    return ops.transpose(tensor, (1, 0, *range(2, len(tensor.shape))))


def kernel_of(dense):
    """The kernel (D, units) of a Dense layer without activation; after `quantize`, what the layer makes of it."""
    if dense.quantization_mode is None:
        return dense.kernel
    basis = ops.eye(dense.input_spec.axes[-1], dtype=dense.compute_dtype)
    return dense(basis) - (0 if dense.bias is None else dense.bias)


def __getattr__(name):
    return moved_name(__name__, name)
