"""Gated dilated causal convolution (van den Oord et al. 2016), over a whole sequence or one step at a time."""

from typing import Any

import keras
from keras import ops

from keras_attention.layers.masks import Tensor, zero_masked


@keras.saving.register_keras_serializable(package="keras_attention")
class GatedCausalConvolution(keras.layers.Layer):
    """Combines a few inputs at fixed distances before each position, and gates the result.

        a_t, b_t = sum over j < k of W_j x_(t - j d), plus a bias        y_t = tanh(a_t) * sigmoid(b_t)

    Inputs before the start of the sequence are 0. Shapes: B batch, T positions, D width of the inputs, L = (k - 1) d.

    Args:
        units: int > 0. Width of the outputs.
        kernel_size: int > 1. Number k of inputs that an output reads.
        dilation: int > 0. Distance d between them.

    Call arguments:
        inputs: float tensor (B, T, D).
        mask: bool tensor (B, T) or None. Inputs are set to 0 where it is False.

    Returns:
        (B, T, units).

    Raises:
        ValueError: if an argument is out of range.

    Source: van den Oord et al. (2016), sections 2.1 and 2.3, https://arxiv.org/abs/1609.03499. Difference: a bias. The
    k inputs are concatenated, so that one matrix product computes a and b; this is faster than a convolution. `step`
    stores the last L inputs in a ring buffer and replaces the oldest: Paine et al. (2016),
    https://arxiv.org/abs/1611.09482.

    Example:
        outputs = GatedCausalConvolution(units=32, kernel_size=3, dilation=4)(inputs)
    """

    def __init__(self, units: int, kernel_size: int, dilation: int = 1, **kwargs: Any):
        super().__init__(**kwargs)
        for name, value, lowest in (("units", units, 1), ("kernel_size", kernel_size, 2), ("dilation", dilation, 1)):
            if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
                raise ValueError(f"`{name}` must be an integer, {lowest} or more. Received: {name}={value}")
        self.supports_masking = True
        self.units, self.kernel_size, self.dilation = units, kernel_size, dilation
        self.projection = keras.layers.Dense(2 * units, dtype=self.dtype_policy, name="projection")

    def build(self, input_shape):
        self.projection.build((None, self.kernel_size * input_shape[-1]))
        self.built = True

    @property
    def reach(self) -> int:
        """int, L: the distance from an output to the earliest input that it depends on."""
        return (self.kernel_size - 1) * self.dilation

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        before = self._with_zeros_before(inputs, mask)  # (B, L + T, D)
        length = ops.shape(inputs)[1]
        taps = [before[:, j : j + length] for j in range(0, self.reach + 1, self.dilation)]
        return self._gated(ops.concatenate(taps, axis=-1))  # (B, T, units)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def ring(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Returns the ring buffer (B, L, D) with which `step` can repeat the last position of `inputs` (B, T, D)."""
        length = ops.shape(inputs)[1]
        return self._with_zeros_before(inputs, mask)[:, length - 1 : length - 1 + self.reach]

    def step(self, inputs: Tensor, ring: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the output (N, units) for the inputs (N, D) of one step, and the new ring buffer.

        `step` is an int scalar: the number of steps since `ring` created the buffer.
        """
        places = [(step + j) % self.reach for j in range(0, self.reach, self.dilation)]  # the oldest first
        taps = [ops.take(ring, place, axis=1) for place in places]
        output = self._gated(ops.concatenate([*taps, inputs], axis=-1))
        return output, ops.slice_update(ring, (0, places[0], 0), inputs[:, None])

    def _with_zeros_before(self, inputs, mask):
        return ops.pad(zero_masked(inputs, mask), ((0, 0), (self.reach, 0), (0, 0)))

    def _gated(self, taps):
        signal, gate = ops.split(self.projection(taps), 2, axis=-1)
        return ops.tanh(signal) * ops.sigmoid(gate)

    def get_config(self):
        sizes = {"units": self.units, "kernel_size": self.kernel_size, "dilation": self.dilation}
        return {**super().get_config(), **sizes}
