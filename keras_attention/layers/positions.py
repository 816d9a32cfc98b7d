"""Positional embeddings: learned (Gehring et al. 2017) and sinusoidal (Vaswani et al. 2017)."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers.masks import Tensor, with_keras_mask


@keras.saving.register_keras_serializable(package="keras_attention")
class LearnedPositionalEmbedding(keras.layers.Layer):
    """Adds a learned vector for each position.

        output[t] = input[t] + E[start + t]

    Args:
        max_length: int > 0, tokens. The maximum sequence length.
        embeddings_initializer: initializer of E (max_length, D).

    Call arguments:
        inputs: float tensor (B, T, D).
        start: int or scalar int tensor, the position of the first input, for step-by-step decoding. A tensor is not
            checked against `max_length`.
        positions: int tensor (B, T), the position of each input, in place of `start`, or None. Not checked, either.

    Returns:
        Tensor (B, T, D).

    Raises:
        ValueError: if `max_length` is not a positive integer, or a sequence exceeds it.

    Source: Gehring et al. (2017), section 3.1, https://arxiv.org/abs/1705.03122; Devlin et al. (2019), section 3.
    No differences.

    Example:
        layer = LearnedPositionalEmbedding(max_length=128)
        outputs = layer(token_embeddings)
    """

    def __init__(self, max_length: int, embeddings_initializer: str | keras.Initializer = "uniform", **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(max_length, int) or isinstance(max_length, bool) or max_length < 1:
            raise ValueError(f"`max_length` must be a positive integer. Received: max_length={max_length}")
        self.supports_masking = True
        self.max_length = max_length
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, input_shape):
        shape = (self.max_length, input_shape[-1])
        self.embeddings = self.add_weight(shape=shape, initializer=self.embeddings_initializer, name="embeddings")
        self.built = True

    def call(self, inputs: Tensor, start: int | Tensor = 0, positions: Tensor | None = None) -> Tensor:
        if positions is not None:
            return inputs + ops.take(ops.convert_to_tensor(self.embeddings), positions, axis=0)  # (B, T, D)
        _, length, dim = ops.shape(inputs)
        end = (start if isinstance(start, int) else 0) + length
        if isinstance(end, int) and end > self.max_length:
            raise ValueError(
                f"The sequence must end within `max_length`={self.max_length} positions. "
                f"Received: inputs.shape={tuple(inputs.shape)}, start={start}"
            )
        table = ops.convert_to_tensor(self.embeddings)  # (max_length, D)
        return inputs + ops.slice(table, (start, 0), (length, dim))  # (B, T, D)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        initializer = keras.initializers.serialize(self.embeddings_initializer)
        return {**super().get_config(), "max_length": self.max_length, "embeddings_initializer": initializer}


@keras.saving.register_keras_serializable(package="keras_attention")
class SinusoidalPositionalEmbedding(keras.layers.Layer):
    """Adds sines and cosines of the position, with wavelengths from 2 pi to 10000 * 2 pi.

        output[t, 2i]     = input[t, 2i]     + sin((start + t) / 10000^(2i / D))
        output[t, 2i + 1] = input[t, 2i + 1] + cos((start + t) / 10000^(2i / D))

    The waves are computed in float32 and then cast to the compute dtype.

    Args:
        max_wavelength: float > 0 (10000 in the paper). The longest wavelength, in units of 2 pi tokens.

    Call arguments:
        inputs: float tensor (B, T, D), D even.
        start: int or scalar int tensor, the position of the first input, for step-by-step decoding.
        positions: int tensor (B, T), the position of each input, in place of `start`, or None.

    Returns:
        Tensor (B, T, D).

    Raises:
        ValueError: if `max_wavelength` is not positive or D is odd.

    Source: Vaswani et al. (2017), section 3.5, https://arxiv.org/abs/1706.03762. No differences.

    Example:
        outputs = SinusoidalPositionalEmbedding()(token_embeddings)
    """

    def __init__(self, max_wavelength: float = 10000.0, **kwargs: Any):
        super().__init__(**kwargs)
        if max_wavelength <= 0:
            raise ValueError(f"`max_wavelength` must be positive. Received: max_wavelength={max_wavelength}")
        self.supports_masking = True
        self.max_wavelength = max_wavelength

    def build(self, input_shape):
        if input_shape[-1] % 2:
            raise ValueError(f"The width of the inputs must be even. Received: inputs.shape={tuple(input_shape)}")
        self.built = True

    def call(self, inputs: Tensor, start: int | Tensor = 0, positions: Tensor | None = None) -> Tensor:
        _, length, dim = ops.shape(inputs)
        dtype = keras.backend.result_type(self.compute_dtype, "float32")
        if positions is None:
            positions = ops.arange(length, dtype=dtype) + ops.cast(start, dtype)  # (T,)
        angles = rotary_angles(positions, dim, self.max_wavelength, dtype)  # (T, D/2) or (B, T, D/2)
        waves = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # (..., D/2, 2)
        waves = ops.reshape(waves, (*ops.shape(angles)[:-1], dim))  # (T, D) or (B, T, D)
        return inputs + ops.cast(waves, inputs.dtype)  # (B, T, D)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "max_wavelength": self.max_wavelength}


def rotary_angles(positions: Tensor, dim: int, max_wavelength: float = 10000.0, dtype: str = "float32") -> Tensor:
    """Returns the angles (..., dim / 2) of positions (...): position / max_wavelength^(2i / dim) for i = 0, 1, ..."""
    rates = max_wavelength ** -(np.arange(0, dim, 2) / dim)  # (dim/2,)
    return ops.cast(positions, dtype)[..., None] * ops.cast(rates, dtype)


def rotate(inputs: Tensor, angles: Tensor) -> Tensor:
    """Rotates queries or keys by their positions, so that scores depend on relative positions only.

        output[i]         = input[i] cos(angle[i])         - input[i + K / 2] sin(angle[i])
        output[i + K / 2] = input[i + K / 2] cos(angle[i]) + input[i] sin(angle[i])

    Args:
        inputs: float tensor (B, T, H, K), K even.
        angles: float tensor (B, T, K/2) or (1, T, K/2), from `rotary_angles`, in float32.

    Returns:
        Tensor (B, T, H, K).

    Source: Su et al. (2021), section 3.2.2, https://arxiv.org/abs/2104.09864. Difference: coordinate i is paired with
    i + K / 2 instead of its neighbour, as in most published weights; this only reorders the columns of the kernels.
    """
    cos, sin = (ops.cast(wave, inputs.dtype)[:, :, None, :] for wave in (ops.cos(angles), ops.sin(angles)))
    first, second = ops.split(inputs, 2, axis=-1)  # (B, T, H, K/2)
    return ops.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def at_positions(x, positions):
    """Gathers the vectors of x (B, T, D) at `positions` (B, P): (B, P, D)."""
    return ops.take_along_axis(x, positions[:, :, None], axis=1)


def with_mask_at_positions(x, mask, positions):
    """Attaches Keras's implicit mask (B, T) at `positions` (B, P) to x (B, P, D), if there is a mask."""
    return x if mask is None else with_keras_mask(x, ops.take_along_axis(mask, positions, axis=1))


def pair_of_positions(positions, query_positions, length):
    """Returns the positions of queries and keys in a sequence of T tokens, or None if both are 0, 1, 2 ...

    Args:
        positions: int tensor (B, T), the positions of the tokens, or None for 0, 1, 2 ...
        query_positions: int tensor (B, P), the indices of the tokens that are queries, or None for all.
        length: int (T).
    """
    if positions is None:
        return None if query_positions is None else (query_positions, ops.arange(length, dtype="int32")[None])
    if query_positions is None:
        return positions, positions
    return ops.take_along_axis(positions, query_positions, axis=1), positions
