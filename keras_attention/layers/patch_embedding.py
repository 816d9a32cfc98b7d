"""Patches of images, spectrograms and series as tokens (Dosovitskiy et al. 2021)."""

from math import prod
from typing import Any

import keras
from keras import ops

from keras_attention.layers.masks import Tensor
from keras_attention.layers.multi_head import positive


def patch_grid(sizes: tuple[int, ...], patch_size: tuple[int, ...]) -> tuple[int, ...]:
    """The number of patches along each axis.

    Args:
        sizes: tuple of int, the sizes of the axes that are cut.
        patch_size: tuple of int > 0, of the same length.

    Returns:
        Tuple of int.

    Raises:
        ValueError: if a patch does not divide its axis.
    """
    if len(sizes) != len(patch_size) or any(size % patch for size, patch in zip(sizes, patch_size, strict=True)):
        raise ValueError(
            f"Each axis must be a multiple of its patch. Received: sizes={tuple(sizes)}, patch_size={tuple(patch_size)}"
        )
    return tuple(size // patch for size, patch in zip(sizes, patch_size, strict=True))


@keras.saving.register_keras_serializable(package="keras_attention")
class PatchEmbedding(keras.layers.Layer):
    """Cuts an image or a series into patches, and projects each of them to a vector.

        output[n] = W flatten(patch n) + b

    Patches are in row-major order, and within a patch so are its values, channels last.

    Args:
        hidden_dim: int > 0. Width D of the outputs.
        patch_size: tuple of int > 0: (height, width) in pixels for images, (length,) in steps for series.

    Call arguments:
        inputs: float tensor (B, height, width, channels), or (B, T, channels) for series; a spectrogram is a series
            whose channels are its bands.

    Returns:
        Tensor (B, N, D) of N patches.

    Raises:
        ValueError: if an argument is out of range, the inputs have another number of axes than the patches, or a patch
            does not divide its axis.

    Source: Dosovitskiy et al. (2021), section 3.1, equation 1 without class token and positions,
    https://arxiv.org/abs/2010.11929. The same for series: Nie et al. (2023), section 3.1,
    https://arxiv.org/abs/2211.14730, without their padding and overlap.

    Example:
        layer = PatchEmbedding(hidden_dim=64, patch_size=(4, 4))
        patches = layer(images)
    """

    def __init__(self, hidden_dim: int, patch_size: tuple[int, ...] | list[int], **kwargs: Any):
        super().__init__(**kwargs)
        self.hidden_dim = positive(hidden_dim, "hidden_dim")
        if not isinstance(patch_size, (tuple, list)) or len(patch_size) not in (1, 2):
            raise ValueError(f"`patch_size` must be (length,) or (height, width). Received: patch_size={patch_size}")
        self.patch_size = tuple(positive(size, "patch_size") for size in patch_size)

    def build(self, input_shape):
        self._check(input_shape)
        self.projection = keras.layers.Dense(self.hidden_dim, dtype=self.dtype_policy, name="projection")
        self.projection.build((None, None, prod(self.patch_size) * input_shape[-1]))
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        self._check(inputs.shape)
        channels = inputs.shape[-1]
        if len(self.patch_size) == 1:
            count, *_ = patch_grid(tuple(inputs.shape[1:2]), self.patch_size) if inputs.shape[1] else (-1,)
            patches = ops.reshape(inputs, (-1, count, self.patch_size[0] * channels))  # (B, N, values)
        else:
            (rows, columns), (height, width) = patch_grid(tuple(inputs.shape[1:3]), self.patch_size), self.patch_size
            patches = ops.reshape(inputs, (-1, rows, height, columns, width, channels))
            patches = ops.transpose(patches, (0, 1, 3, 2, 4, 5))  # (B, rows, columns, height, width, channels)
            patches = ops.reshape(patches, (-1, rows * columns, height * width * channels))  # (B, N, values)
        return self.projection(patches)  # (B, N, D)

    def _check(self, shape):
        if len(shape) != len(self.patch_size) + 2:
            raise ValueError(
                f"Patches of {self.patch_size} need inputs with {len(self.patch_size) + 2} axes. "
                f"Received: inputs.shape={tuple(shape)}"
            )

    def compute_output_shape(self, input_shape):
        self._check(input_shape)
        sizes = tuple(input_shape[1:-1])
        count = None if None in sizes else prod(patch_grid(sizes, self.patch_size))
        return (input_shape[0], count, self.hidden_dim)

    def get_config(self):
        return {**super().get_config(), "hidden_dim": self.hidden_dim, "patch_size": self.patch_size}


@keras.saving.register_keras_serializable(package="keras_attention")
class GridPositionalEmbedding(keras.layers.Layer):
    """Adds a learned vector for each place of a grid of patches. For other grids, the vectors are interpolated.

        output[row, column] = input[row, column] + E[row, column]

    Args:
        grid: tuple of int > 0, the number of patches along each axis: (rows, columns), or (length,) for series.
        embeddings_initializer: initializer of E (N, D).

    Call arguments:
        inputs: float tensor (B, N, D).
        grid: tuple of int, the grid of the inputs; None: that of the layer. E is then resized to it, bilinearly, with
            the centres of the corner patches half a patch from the border.

    Returns:
        Tensor (B, N, D).

    Raises:
        ValueError: if an argument is out of range, or the inputs do not fill the grid.

    Source: Dosovitskiy et al. (2021), section 3.1 and, for other grids, section 3.2 (fine-tuning at higher resolution),
    https://arxiv.org/abs/2010.11929. Difference: their text does not name the kind of interpolation.

    Example:
        layer = GridPositionalEmbedding(grid=(7, 7))
        outputs = layer(patches)
    """

    def __init__(
        self,
        grid: tuple[int, ...] | list[int],
        embeddings_initializer: str | keras.Initializer = "uniform",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if not isinstance(grid, (tuple, list)) or len(grid) not in (1, 2):
            raise ValueError(f"`grid` must be (length,) or (rows, columns). Received: grid={grid}")
        self.grid = tuple(positive(size, "grid") for size in grid)
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.supports_masking = True

    def build(self, input_shape):
        shape = (prod(self.grid), input_shape[-1])
        self.embeddings = self.add_weight(shape=shape, initializer=self.embeddings_initializer, name="embeddings")
        self.built = True

    def call(self, inputs: Tensor, grid: tuple[int, ...] | None = None) -> Tensor:
        grid = self.grid if grid is None else tuple(grid)
        if len(grid) != len(self.grid) or inputs.shape[1] not in (None, prod(grid)):
            raise ValueError(
                f"The inputs must be patches of the grid {grid}, with the axes of {self.grid}. "
                f"Received: inputs.shape={tuple(inputs.shape)}"
            )
        return inputs + self.resized(grid)  # (B, N, D)

    def resized(self, grid: tuple[int, ...]) -> Tensor:
        """The vectors (N, D) for another grid, in the compute dtype."""
        table = ops.convert_to_tensor(self.embeddings)  # (N, D)
        if tuple(grid) == self.grid:
            return table
        dim = table.shape[-1]
        (rows, columns), (new_rows, new_columns) = ((*sizes, 1)[:2] for sizes in (self.grid, grid))
        image = ops.reshape(ops.cast(table, "float32"), (1, rows, columns, dim))
        size = (new_rows, new_columns)
        image = ops.image.resize(image, size, interpolation="bilinear", data_format="channels_last")
        return ops.cast(ops.reshape(image, (new_rows * new_columns, dim)), table.dtype)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        initializer = keras.initializers.serialize(self.embeddings_initializer)
        return {**super().get_config(), "grid": self.grid, "embeddings_initializer": initializer}
