"""Loops over time: one direction, or both."""

from keras import ops, tree


def run_over_time(step, inputs, carry, reverse=False, unroll=False):
    """Runs `step(carry, inputs[t]) -> carry` over the leading axis and stacks every carry.

    Args:
        step: function of a carry and one time slice of `inputs`.
        inputs: nested structure of tensors, time first.
        carry: nested structure of tensors, the state before the first step.
        reverse: bool. Last step first; the stacked result still stands in the order of time.
        unroll: bool. Writes the loop out where the length is static: slower to compile, faster to train on CPU, and
            the only form whose gradient XLA compiles on TensorFlow.

    Returns:
        The last carry, and all carries stacked along time.
    """
    first = tree.flatten(inputs)[0]
    length = first.shape[0]
    if length is None:
        # Of unknown length, Keras's scan on TensorFlow takes a single tensor only: the positions.
        positions = ops.arange(ops.shape(first)[0])
        return ops.scan(lambda c, t: (step(c, time_slice(inputs, t)),) * 2, carry, positions, reverse=reverse)
    if not unroll:
        return ops.scan(lambda c, x: (step(c, x),) * 2, carry, inputs, reverse=reverse)
    # Unstacked at once: the gradient of a slice is as large as the whole, so that slices cost the length squared.
    slices = [tree.pack_sequence_as(inputs, x) for x in zip(*map(ops.unstack, tree.flatten(inputs)), strict=True)]
    carries = [None] * length
    for t in reversed(range(length)) if reverse else range(length):
        carry = step(carry, slices[t])
        carries[t] = carry
    return carry, tree.map_structure(lambda *tensors: ops.stack(tensors), *carries)


def read_both_ways(sequence, mask, forward_cell, backward_cell, unroll=False):
    """Runs one cell from left to right and another from right to left; padding changes no state.

    Args:
        sequence: float tensor (B, S, D).
        mask: bool tensor (B, S), False at padding, which stands at the right.
        forward_cell, backward_cell: built GRUCell or LSTMCell with H units.
        unroll: bool, see `run_over_time`.

    Returns:
        The outputs of both, side by side, (B, S, 2H), and the last output of each (B, 2H).
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
