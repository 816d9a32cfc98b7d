"""The long short-term memory-network (Cheng, Dong & Lapata 2016): an LSTM that attends to its own past."""

from typing import Any

import keras
from keras import ops, tree

from keras_attention.layers.attention import masked_softmax
from keras_attention.layers.fast.recurrent_gradients import lstm_gates_back
from keras_attention.layers.masks import Tensor
from keras_attention.layers.recurrent import kernel_of, lstm_gates


@keras.saving.register_keras_serializable(package="keras_attention")
class LSTMNCell(keras.layers.Layer):
    """LSTM whose memory is a tape of all earlier outputs h_i and memories c_i, read by attention at each step.

        a_i = v . tanh(W_h h_i + W_x x + W_s hs')        s = softmax(a) over the earlier steps i
        hs = sum_i s_i h_i        cs = sum_i s_i c_i
        i, f, o = sigmoid(W x + U hs)    g = tanh(W_g x + U_g hs)        c = f cs + i g    h = o tanh(c)

    hs' is the hs of the previous step. At the first step, the tape is empty and hs = cs = 0. Shapes: B batch, T steps,
    L slots of the tape, D width of the inputs, H units, A attention units.

    Args:
        units: int > 0. Width H of outputs and memories.
        attention_units: int > 0, or None for the value of `units`. Width A of the scoring network.

    Call arguments:
        projected: (B, 4H + A), the result of `project` for the input of this step.
        states: tuple of the tape and the other states, see `empty_tape`.
        step_mask: bool tensor (B, 1) or None. Where it is False, hs does not change, and this step's slot of the tape
            counts as empty.

    Returns:
        The output (B, H), the new states, and the attention weights (B, L).

    Raises:
        ValueError: if an argument is out of range.

    Source: Cheng, Dong & Lapata (2016), section 3.1, equations 4 to 9, https://arxiv.org/abs/1601.06733. Differences:
    biases in the scores and the gates; the forget bias starts at 1. W_h h_i is computed once, when h_i is written.

    Example:
        cell = LSTMNCell(units=8)
        cell.build((None, 16))
        output, states, weights = cell(cell.project(inputs[:, 0]), cell.empty_tape(batch_size=2, length=5))
    """

    def __init__(self, units: int, attention_units: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        sizes = {"units": units, "attention_units": units if attention_units is None else attention_units}
        for name, value in sizes.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value}")
        self.units, self.attention_units = sizes.values()

        def dense(width, name, **options):
            return keras.layers.Dense(width, dtype=self.dtype_policy, name=name, **options)

        self.input_projection = dense(
            4 * units + self.attention_units, "input_projection", bias_initializer=self._forget_gate_starts_open
        )
        recurrent = {"use_bias": False, "kernel_initializer": "orthogonal"}
        self.recurrent_projection = dense(4 * units, "recurrent_projection", **recurrent)  # U
        self.key_projection = dense(self.attention_units, "key_projection", use_bias=False)  # W_h
        self.summary_projection = dense(self.attention_units, "summary_projection", use_bias=False)  # W_s
        self.score_projection = dense(1, "score_projection", use_bias=False)  # v

    def _forget_gate_starts_open(self, shape, dtype=None):
        H = self.units
        return ops.concatenate([ops.zeros(H, dtype), ops.ones(H, dtype), ops.zeros(shape[0] - 2 * H, dtype)])

    def build(self, input_shape):
        self.input_projection.build(input_shape)
        for part in (self.recurrent_projection, self.key_projection, self.summary_projection):
            part.build((None, self.units))
        self.score_projection.build((None, self.attention_units))
        self.built = True

    def project(self, inputs: Tensor) -> Tensor:
        return self.input_projection(inputs)  # (..., 4H + A): W x and W_x x

    def empty_tape(self, batch_size: int, length: int) -> tuple[Tensor, ...]:
        """Returns the states before the first step.

        They are h_i and c_i (B, L, H), W_h h_i (B, L, A), bool (B, L) that is True at written slots, hs (B, H), and the
        index (B,) of the next slot, which is the same for all sequences.
        """
        H, dtype = self.units, self.compute_dtype
        tape = [ops.zeros((batch_size, length, width), dtype) for width in (H, H, self.attention_units)]
        filled, place = ops.zeros((batch_size, length), "bool"), ops.zeros((batch_size,), "int32")
        return (*tape, filled, ops.zeros((batch_size, H), dtype), place)

    def call(
        self, projected: Tensor, states: tuple[Tensor, ...], step_mask: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
        hiddens, memories, keys, filled, summary, place = states
        from_input, query = ops.split(projected, [4 * self.units], axis=-1)  # (B, 4H), (B, A)
        query = query + self.summary_projection(summary)
        scores = self.score_projection(ops.tanh(keys + query[:, None]))[..., 0]  # (B, L)
        weights = masked_softmax(scores, filled)
        new_summary, memory = (read_tape(weights, tape) for tape in (hiddens, memories))  # (B, H)
        gates = from_input + self.recurrent_projection(new_summary)
        hidden, memory, _ = lstm_gates(gates, memory)
        written = ops.ones_like(filled[:, 0]) if step_mask is None else step_mask[:, 0]  # (B,)
        summary = new_summary if step_mask is None else ops.where(step_mask, new_summary, summary)
        start = (0, place[0], 0)
        states = (
            ops.slice_update(hiddens, start, hidden[:, None]),
            ops.slice_update(memories, start, memory[:, None]),
            ops.slice_update(keys, start, self.key_projection(hidden)[:, None]),
            ops.slice_update(filled, start[:2], written[:, None]),
            summary,
            place + 1,
        )
        return hidden, states, weights

    def get_config(self):
        return {**super().get_config(), "units": self.units, "attention_units": self.attention_units}


def read_tape(weights, tape):
    """Returns the weighted sum (B, H) of a tape (B, L, H)."""
    return ops.matmul(ops.cast(weights, tape.dtype)[:, None], tape)[:, 0]


def fill_tape(cell, sequence, mask):
    """Runs a cell over all positions but the last of sequences (B, P, D), with `mask` (B, P) as step mask.

    Returns the outputs (B, P, H), which are 0 at the last position, and the states before the last position.
    """
    projected, (batch, length) = cell.project(sequence), ops.shape(mask)

    def step(t, outputs, *states):
        output, states, _ = cell(at(projected, t), states, step_mask=at(mask, t)[:, None])
        return ops.slice_update(outputs, (0, t, 0), output[:, None]), *states

    start = (ops.zeros((batch, length, cell.units), cell.compute_dtype), *cell.empty_tape(batch, length))
    outputs, *states = loop(length - 1, step, start)
    return outputs, tuple(states)


def longer_tape(states, before, after):
    """Adds empty slots to both ends of the tape: `before` at its beginning, `after` at its end."""
    *tape, filled, summary, place = states
    tape = [ops.pad(part, ((0, 0), (before, after), (0, 0))) for part in tape]
    return (*tape, ops.pad(filled, ((0, 0), (before, after))), summary, place + before)


def read_with_tape(cell, sequence):
    """Runs a cell over whole sequences (B, T, D), T static; returns the outputs (B, T, H) and weights (B, T, T).

    The gradient is implemented by hand, see `recurrent_gradients.read_forwards`. It recomputes the hidden layer of the
    scoring network, because storing it would take B T^2 A numbers. The gradient of the weights is ignored.
    """
    dense = (cell.recurrent_projection, cell.key_projection, cell.summary_projection, cell.score_projection)
    weights = [ops.cast(kernel_of(part), cell.compute_dtype) for part in dense]
    inputs = cell.project(sequence), *weights
    if keras.backend.backend() == "torch":  # has custom gradients of functions with one output only
        return _over_tape(*inputs)[0]
    return ops.custom_gradient(_over_tape)(*inputs)


def _over_tape(projected, recurrent, key_kernel, summary_kernel, score_kernel):
    batch, length, H = *ops.shape(projected)[:2], recurrent.shape[0]
    from_inputs, queries = ops.split(projected, [4 * H], axis=-1)  # (B, T, 4H), (B, T, A)
    score = score_kernel[:, 0]  # (A,)

    def zeros(*shape, dtype=projected.dtype):
        return ops.zeros((batch, *shape), dtype)

    def step(t, hiddens, memories, keys, summary, all_weights, summaries, read_memories, all_gates):
        inner = _inner(keys, queries, t, ops.matmul(summary, summary_kernel))  # (B, T, A)
        weights = masked_softmax(ops.matmul(inner, score), ops.arange(length, dtype="int32")[None] < t)  # (B, T)
        summary, memory_before = (read_tape(weights, tape) for tape in (hiddens, memories))
        hidden, memory, gates = lstm_gates(at(from_inputs, t) + ops.matmul(summary, recurrent), memory_before)
        tape = ((hiddens, hidden), (memories, memory), (keys, ops.matmul(hidden, key_kernel)))
        kept = ((all_weights, weights), (summaries, summary), (read_memories, memory_before), (all_gates, gates))
        return *(put(*pair, t) for pair in tape), summary, *(put(*pair, t) for pair in kept)

    float_type, A = keras.backend.result_type(projected.dtype, "float32"), key_kernel.shape[1]
    start = [zeros(length, width) for width in (H, H, A)]
    start += [zeros(H), zeros(length, length, dtype=float_type)]
    start += [zeros(length, width) for width in (H, H, 4 * H)]
    hiddens, memories, keys, _, all_weights, summaries, read_memories, all_gates = loop(length, step, start)
    summaries_before = ops.pad(summaries[:, :-1], ((0, 0), (1, 0), (0, 0)))

    def step_back(count, d_hiddens, d_memories, d_keys, d_summary, d_score, d_gates, d_queries):
        t = length - 1 - count
        d_hidden = at(d_hiddens, t) + ops.matmul(at(d_keys, t), ops.transpose(key_kernel))
        gate, read_memory, memory, d_memory = (at(x, t) for x in (all_gates, read_memories, memories, d_memories))
        d_gate, d_memory = lstm_gates_back(gate, read_memory, memory, d_memory, d_hidden)  # (B, 4H), (B, H)
        d_summary = d_summary + ops.matmul(d_gate, ops.transpose(recurrent))
        weights = ops.cast(at(all_weights, t), projected.dtype)  # (B, T), 0 from step t on
        d_weights = ops.matmul(hiddens, d_summary[..., None]) + ops.matmul(memories, d_memory[..., None])  # (B, T, 1)
        d_scores = weights * (d_weights[..., 0] - ops.sum(weights * d_weights[..., 0], axis=-1, keepdims=True))
        inner = _inner(keys, queries, t, ops.matmul(at(summaries_before, t), summary_kernel))
        d_inner = d_scores[..., None] * score * (1 - inner * inner)  # (B, T, A)
        d_query = ops.sum(d_inner, axis=1)
        return (
            d_hiddens + weights[..., None] * d_summary[:, None],
            d_memories + weights[..., None] * d_memory[:, None],
            d_keys + d_inner,
            ops.matmul(d_query, ops.transpose(summary_kernel)),
            d_score + ops.sum(d_scores[..., None] * inner, axis=(0, 1)),
            put(d_gates, d_gate, t),
            put(d_queries, d_query, t),
        )

    def gradient(*upstream):
        d_outputs = tree.flatten(upstream)[0]
        start = [d_outputs, *map(ops.zeros_like, (hiddens, keys, summaries[:, 0], score, all_gates, queries))]
        _, _, d_keys, _, d_score, d_gates, d_queries = loop(length, step_back, start)
        products = ((summaries, d_gates), (hiddens, d_keys), (summaries_before, d_queries))
        kernels = [ops.tensordot(*pair, axes=((0, 1), (0, 1))) for pair in products]
        return ops.concatenate([d_gates, d_queries], axis=-1), *kernels, d_score[:, None]

    return (hiddens, all_weights), gradient


def _inner(keys, queries, t, from_summary):
    """The hidden layer (B, T, A) of the scoring network at step t."""
    return ops.tanh(keys + (at(queries, t) + from_summary)[:, None])


def at(sequence, t):
    """Step t of (B, T, ...)."""
    return ops.take(sequence, t, axis=1)


def put(sequence, value, t):
    """The sequence (B, T, D) with step t replaced by `value` (B, D)."""
    return ops.slice_update(sequence, (0, t, 0), value[:, None])


def loop(count, step, start):
    return ops.fori_loop(0, count, lambda t, state: tuple(step(t, *state)), tuple(start))
