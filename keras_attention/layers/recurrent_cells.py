"""GRU and LSTM cells that project a whole sequence in one product and then only recur."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_attention")
class GRUCell(keras.layers.Layer):
    """Gated recurrent unit, its input projection apart from its recurrence.

        z = sigmoid(W_z x + U_z h)    r = sigmoid(W_r x + U_r h)
        n = tanh(W_n x + r * (U_n h + b_n))    h' = z h + (1 - z) n

    `project` computes every W x of a sequence at once; `call` does the rest for one step.

    Args:
        units: int > 0. Width of the state.

    Call arguments:
        projected: (B, 3 units), what `project` made of this step's input.
        states: tuple of one tensor (B, units).
        step_mask: bool tensor (B, 1) or None. Where False the state stays as it was.
        projected_mask: bool tensor (B,) or None, the same without its last axis. Keras fills it in where its implicit
            mask arrives with `projected`.

    Returns:
        The output (B, units) and the new states.

    Raises:
        ValueError: if `units` is not a positive integer.

    Source: Cho et al. (2014), with the reset gate after the product, as in `keras.layers.GRU(reset_after=True)`.
    """

    num_gates = 3
    num_states = 1

    def __init__(self, units, **kwargs):
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

    def project(self, inputs):
        return self.input_projection(inputs)  # (..., 3 units)

    def call(self, projected, states, step_mask=None, projected_mask=None):
        step_mask = combined_step_mask(step_mask, projected_mask)
        (hidden,) = states
        update_x, reset_x, new_x = ops.split(projected, 3, axis=-1)
        update_h, reset_h, new_h = ops.split(self.recurrent_projection(hidden), 3, axis=-1)
        update = ops.sigmoid(update_x + update_h)
        reset = ops.sigmoid(reset_x + reset_h)
        new = ops.tanh(new_x + reset * new_h)
        states = keep_where_masked((new + update * (hidden - new),), (hidden,), step_mask)
        return states[0], states

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable(package="keras_attention")
class LSTMCell(keras.layers.Layer):
    """Long short-term memory, its input projection apart from its recurrence.

        i, f, o = sigmoid(W x + U h)    g = tanh(W_g x + U_g h)
        c' = f c + i g    h' = o tanh(c')

    Args:
        units: int > 0. Width of the state.

    Call arguments:
        projected: (B, 4 units), what `project` made of this step's input.
        states: tuple of two tensors (B, units): the output h and the memory c.
        step_mask: bool tensor (B, 1) or None. Where False the states stay as they were.
        projected_mask: bool tensor (B,) or None, the same without its last axis. Keras fills it in where its implicit
            mask arrives with `projected`.

    Returns:
        The output (B, units) and the new states.

    Raises:
        ValueError: if `units` is not a positive integer.

    Source: Hochreiter & Schmidhuber (1997) with the forget gate of Gers et al. (2000), its bias starting at 1; gate
    order i, f, g, o as in `keras.layers.LSTM`.
    """

    num_gates = 4
    num_states = 2

    def __init__(self, units, **kwargs):
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

    def project(self, inputs):
        return self.input_projection(inputs)  # (..., 4 units)

    def call(self, projected, states, step_mask=None, projected_mask=None):
        step_mask = combined_step_mask(step_mask, projected_mask)
        hidden, memory = states
        gates = projected + self.recurrent_projection(hidden)
        write, keep, new, read = ops.split(gates, 4, axis=-1)
        new_memory = ops.sigmoid(keep) * memory + ops.sigmoid(write) * ops.tanh(new)
        new_hidden = ops.sigmoid(read) * ops.tanh(new_memory)
        states = keep_where_masked((new_hidden, new_memory), (hidden, memory), step_mask)
        return states[0], states

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def keep_where_masked(new_states, old_states, mask):
    """The new states where `mask` (B, 1) is True or None, the old ones elsewhere."""
    if mask is None:
        return new_states
    return tuple(ops.where(mask, new, old) for new, old in zip(new_states, old_states, strict=True))


def combined_step_mask(step_mask, projected_mask):
    """What a mask (B, 1) and an implicit mask (B,) both allow: bool (B, 1), or None."""
    if projected_mask is None:
        return step_mask
    projected_mask = ops.reshape(ops.cast(projected_mask, "bool"), (-1, 1))  # (B, 1)
    return projected_mask if step_mask is None else ops.logical_and(step_mask, projected_mask)
