"""A Transformer over patches that classifies images, spectrograms and series (Dosovitskiy et al. 2021)."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import keras
import numpy as np
from keras import ops

from keras_attention.layers.dropout import Dropout
from keras_attention.layers.masks import Tensor, zero_masked
from keras_attention.layers.patch_embedding import GridPositionalEmbedding, PatchEmbedding, patch_grid
from keras_attention.layers.transformer_layers import TransformerEncoderLayer
from keras_attention.models.shared import FromPreset, check_choices, check_heads, check_rates, check_sizes

SIZES = ("num_labels", "hidden_dim", "intermediate_dim", "num_heads", "num_layers")
SETTINGS = (*SIZES, "input_size", "patch_size", "stem", "pooling", "dropout")
CHOICES = {"stem": ("linear", "convolutional", "pooled"), "pooling": ("cls", "mean")}


def check_settings(**settings):
    """Raises ValueError for a setting out of range."""
    check_sizes(settings, SIZES)
    check_choices(settings, CHOICES)
    check_heads(settings)
    check_rates(settings, "dropout")
    *sizes, _ = settings["input_size"]
    for name in ("input_size", "patch_size"):
        each = {f"{name}[{i}]": size for i, size in enumerate(settings[name])}
        check_sizes(each, each)
    patch_grid(tuple(sizes), tuple(settings["patch_size"]))
    if settings["stem"] != "linear":
        for size in settings["patch_size"]:
            if size & (size - 1) or size != settings["patch_size"][0] or size < 2:
                raise ValueError(
                    "With convolutions, a patch must be a square whose side is 2, 4, 8 ... "
                    f"Received: patch_size={settings['patch_size']}. Others need stem=linear."
                )


@keras.saving.register_keras_serializable(package="keras_attention")
class ConvolutionalStem(keras.layers.Layer):
    """Patches with some context: 3 x 3 convolutions, each halving the sides, in place of one projection.

        x = relu(convolution(x) + b)   log2(patch) times       output = W x + b

    The number of channels doubles with each convolution, up to the width D. The convolutions have stride 2; or stride
    1, and of every second place in each direction, the maximum of the 3 x 3 around it is kept: slower and more exact.

    Args:
        hidden_dim: int > 0. Width D of the outputs.
        num_halvings: int > 0. A patch has 2^num_halvings pixels (steps) along each side.
        rank: 1 for series, 2 for images.
        pooled: bool. Whether to take maxima in place of the stride.

    Call arguments:
        inputs: float tensor (B, height, width, channels) or (B, T, channels).

    Returns:
        Tensor (B, N, D) of N patches.

    Source: Xiao et al. (2021), section 4, https://arxiv.org/abs/2106.14881; pooled: the tokenizer of Hassani et al.
    (2021), https://arxiv.org/abs/2104.05704. Difference: no batch normalization, so that an answer does not depend on
    running statistics. A normalization over the channels of each place would take away the brightness of images with
    one channel.
    """

    def __init__(self, hidden_dim: int, num_halvings: int, rank: int = 2, pooled: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self.hidden_dim, self.num_halvings, self.rank, self.pooled = hidden_dim, num_halvings, rank, pooled
        convolution, pooling = (
            (keras.layers.Conv1D, keras.layers.MaxPooling1D)
            if rank == 1
            else (keras.layers.Conv2D, keras.layers.MaxPooling2D)
        )
        self.pooling = (
            pooling(3, 2, padding="same", data_format="channels_last", dtype=self.dtype_policy) if pooled else None
        )
        widths = [max(8, hidden_dim // 2 ** (num_halvings - 1 - i)) for i in range(num_halvings)]
        self.convolutions = [
            convolution(
                width,
                3,
                strides=1 if pooled else 2,
                padding="same",
                kernel_initializer="he_normal",
                data_format="channels_last",
                dtype=self.dtype_policy,
                name=f"convolution_{i}",
            )
            for i, width in enumerate(widths)
        ]
        self.projection = keras.layers.Dense(hidden_dim, dtype=self.dtype_policy, name="projection")

    def build(self, input_shape):
        shape = tuple(input_shape)
        for convolution in self.convolutions:
            convolution.build(shape)
            shape = convolution.compute_output_shape(shape)
            shape = self.pooling.compute_output_shape(shape) if self.pooling else shape
        self.projection.build(shape)
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        x = inputs
        for convolution in self.convolutions:
            x = ops.relu(convolution(x))
            x = self.pooling(x) if self.pooling else x
        x = self.projection(x)  # (B, rows, columns, D)
        return ops.reshape(x, (-1, x.shape[1] * x.shape[2] if self.rank == 2 else x.shape[1], self.hidden_dim))

    def compute_output_shape(self, input_shape):
        count = 1
        for size in input_shape[1:-1]:
            count *= size // 2**self.num_halvings
        return (input_shape[0], count, self.hidden_dim)

    def get_config(self):
        sizes = {name: getattr(self, name) for name in ("hidden_dim", "num_halvings", "rank", "pooled")}
        return {**super().get_config(), **sizes}


@keras.saving.register_keras_serializable(package="keras_attention")
class PatchClassifier(FromPreset, keras.Model):
    """Vision Transformer: patches become tokens of a pre-norm encoder, and one vector of it is classified.

        x = patches + P        x = encoder layers(x)        logits = W norm(x)[CLS] + b   or   W mean(norm(x)) + b

    Args:
        num_labels: int > 0.
        input_size: tuple of int: (height, width, channels) of images, (T, channels) of series.
        patch_size: tuple of int > 0: (height, width) or (length,), divisors of the input's sides; one number for all
            sides; () for those of `usual_patch_size`.
        hidden_dim: int > 0. Width D.
        intermediate_dim: int > 0, inner width of the feed-forward networks.
        num_heads: int > 0, a divisor of D.
        num_layers: int > 0.
        stem: "linear" projects each patch on its own, as in the paper; "convolutional" is `ConvolutionalStem`, with
            stride 2, and "pooled" the same with maxima.
        pooling: "cls" classifies the vector of an additional token, as in the paper; "mean" the mean over the patches.
        dropout: float in [0, 1), after the positions, on attention weights and on the output of each sub-layer.

    Call arguments:
        inputs: float tensor (B, height, width, channels) or (B, T, channels), normalized; or a dict with it as
            `values` and, optionally, `patch_mask`, bool (B, N), False at patches of padding. The sides may differ from
            `input_size`; then the position embeddings are resized.
        training: bool. Whether to apply dropout.
        return_attention_scores: bool. Whether to return the attention weights too.

    Returns:
        Logits (B, num_labels) in float32; or the pair of logits and float32 attention weights (B, L, H, N, N). A [CLS]
        is the first of the N, before the patches.

    Raises:
        ValueError: if an argument is out of range, or a patch does not divide a side of the inputs.

    Source: Dosovitskiy et al. (2021), section 3.1, https://arxiv.org/abs/2010.11929; the mean: their appendix D.3;
    spectrograms: Gong et al. (2021), https://arxiv.org/abs/2104.01778; series: Nie et al. (2023),
    https://arxiv.org/abs/2211.14730. Difference: the head is one projection, as in their fine-tuning.

    Example:
        model = PatchClassifier(10, (8, 8, 1), (2, 2), hidden_dim=32, intermediate_dim=64, num_heads=2, num_layers=2)
        logits = model(images)
    """

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        name: {
            "hidden_dim": width,
            "intermediate_dim": 2 * width,
            "num_heads": width // 32,
            "num_layers": layers,
            "stem": "convolutional",
            "pooling": "mean",
        }
        for name, (width, layers) in {"tiny": (64, 3), "mini": (96, 4), "small": (128, 6), "medium": (256, 8)}.items()
    }

    has_attention = True

    def __init__(
        self,
        num_labels: int,
        input_size: tuple[int, ...] | list[int],
        patch_size: tuple[int, ...] | list[int],
        hidden_dim: int,
        intermediate_dim: int,
        num_heads: int,
        num_layers: int,
        stem: str = "linear",
        pooling: str = "cls",
        dropout: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        input_size, patch_size = list(input_size), list(usual_patch_size(input_size, patch_size))  # as in JSON
        self.settings = {name: value for name, value in locals().items() if name in SETTINGS}
        check_settings(**self.settings)
        for name, value in self.settings.items():
            setattr(self, name, value)
        grid = patch_grid(tuple(input_size[:-1]), tuple(patch_size))
        options = {"dtype": self.dtype_policy}
        start = keras.initializers.RandomNormal(stddev=0.02)
        self.patches = (
            PatchEmbedding(hidden_dim, patch_size, name="patches", **options)
            if stem == "linear"
            else ConvolutionalStem(
                hidden_dim,
                patch_size[0].bit_length() - 1,
                len(patch_size),
                pooled=stem == "pooled",
                name="patches",
                **options,
            )
        )
        self.positions = GridPositionalEmbedding(grid, start, name="positions", **options)
        self.dropout_layer = Dropout(dropout, name="dropout_layer", **options)
        self.encoder_layers = [
            TransformerEncoderLayer(
                intermediate_dim,
                num_heads,
                dropout=dropout,
                activation="gelu",
                normalize_first=True,
                name=f"layer_{i}",
                **options,
            )
            for i in range(num_layers)
        ]
        self.final_norm = keras.layers.LayerNormalization(epsilon=1e-5, name="final_norm", **options)
        self.output_dense = keras.layers.Dense(
            num_labels, kernel_initializer="zeros", dtype="float32", name="output_dense"
        )

    def build(self, input_shape=None):
        shape = (None, None, self.hidden_dim)
        self.patches.build((None, *self.input_size))
        for part in (self.positions, *self.encoder_layers, self.final_norm):
            part.build(shape)
        if self.pooling == "cls":
            start = keras.initializers.RandomNormal(stddev=0.02)
            self.cls = self.add_weight((self.hidden_dim,), start, name="cls")
        self.output_dense.build((None, self.hidden_dim))
        self.built = True

    def call(
        self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None, return_attention_scores: bool = False
    ) -> Any:
        x, weights = self.encoded(inputs, training, return_attention_scores)
        logits = self.output_dense(self._pooled(x, inputs))  # (B, num_labels)
        return (logits, ops.stack(weights, axis=1)) if return_attention_scores else logits

    def pooled(self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None) -> Tensor:
        """The vectors (B, D) that are classified."""
        return self._pooled(self.encoded(inputs, training)[0], inputs)

    def encoded(
        self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None, return_attention_scores: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """The normalized vectors of [CLS], if there is one, and of all patches (B, N, D), and the list of weights."""
        values, mask = _values_and_mask(inputs)
        grid = patch_grid(tuple(values.shape[1:-1]), tuple(self.patch_size))
        x = self.positions(self.patches(values), grid=grid)  # (B, N, D)
        return self.encoded_tokens(zero_masked(x, mask), mask, training, return_attention_scores)

    def encoded_tokens(
        self, x: Tensor, mask: Tensor | None = None, training: bool | None = None, return_attention_scores: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """`encoded` from patches with their positions (B, N, D), of which some may be left out.

        `mask` is bool (B, N).
        """
        if self.pooling == "cls":
            first = ops.broadcast_to(ops.convert_to_tensor(self.cls), (ops.shape(x)[0], 1, self.hidden_dim))
            x = ops.concatenate([ops.cast(first, x.dtype), x], axis=1)  # (B, 1 + N, D)
            mask = None if mask is None else ops.concatenate([ops.ones_like(mask[:, :1]), mask], axis=1)
        x = self.dropout_layer(x, training=training)
        weights = []
        for layer in self.encoder_layers:
            x = layer(x, padding_mask=mask, return_attention_scores=return_attention_scores, training=training)
            if return_attention_scores:
                x, of_layer = x
                weights.append(of_layer)
        return self.final_norm(x), weights

    def _pooled(self, x, inputs):
        if self.pooling == "cls":
            return x[:, 0]  # (B, D)
        _, mask = _values_and_mask(inputs)
        if mask is None:
            return ops.mean(x, axis=1)  # (B, D)
        counts = ops.maximum(ops.sum(ops.cast(mask, x.dtype), axis=1, keepdims=True), 1)
        return ops.sum(zero_masked(x, mask), axis=1) / counts  # (B, D)

    @property
    def num_patches(self) -> int:
        """The number N of patches of an input of `input_size`."""
        return math.prod(self.positions.grid)

    @property
    def head(self) -> list[keras.layers.Layer]:
        """See `models.shared.FinetunableNetwork`."""
        return [self.output_dense]

    @property
    def usual_learning_rate(self) -> float:
        """The peak learning rate of fine-tuning: smaller for trained weights."""
        return 1e-3 if getattr(self, "has_random_weights", False) else 3e-4

    @staticmethod
    def usual_epochs(num_rows: int) -> int:
        """The number of epochs that `num_rows` images or sounds need from random weights."""
        return min(80, max(12, USUAL_EXAMPLES // max(1, num_rows)))

    def layer_groups(self) -> list[list[keras.layers.Layer]]:
        """See `models.shared.FinetunableNetwork`."""
        return [[self.patches, self.positions], *([layer] for layer in self.encoder_layers)]

    @classmethod
    def from_trained(
        cls, network: keras.Model, num_labels: int, *, head: str = "new", dtype: Any = None, **changes: Any
    ) -> Self:
        """See `models.shared.FinetunableNetwork`."""
        model = cls(**network.settings | changes | {"num_labels": num_labels}, dtype=dtype)
        model.build()
        parts = ["patches", "positions", "final_norm", *(["output_dense"] if head == "kept" else [])]
        pairs = [(getattr(model, name), getattr(network, name)) for name in parts]
        resized = model.resized_weights(network)
        for ours, theirs in [*pairs, *zip(model.encoder_layers, network.encoder_layers, strict=False)]:
            values = zip(ours.weights, theirs.get_weights(), strict=True)
            ours.set_weights([resized.get(weight.path, value) for weight, value in values])
        if model.pooling == "cls":
            model.cls.assign(network.cls)
        return model

    def resized_weights(self, trained: "PatchClassifier") -> dict[str, Any]:
        """The weights of a trained network that depend on the sizes of inputs and labels, in the shapes of this one.

        Position embeddings are interpolated, see `GridPositionalEmbedding`. Of gray and RGB, the first kernel is
        divided or summed up, so that a gray image has the same patches as before. For another number of labels, the
        output layer of this network stays as it is.

        Args:
            trained: built PatchClassifier with the same patches, layers and widths.

        Returns:
            Dict from the paths of weights of this network to arrays, only of those whose shapes differ.

        Raises:
            ValueError: if one reads images and the other series, or the channels are other ones than gray and RGB.
        """
        (*_, channels), (*_, known) = self.input_size, trained.input_size
        same = len(self.input_size) == len(trained.input_size) and channels == known
        if not same and sorted([(*self.input_size[2:],), (*trained.input_size[2:],)]) != [(1,), (3,)]:
            raise ValueError(
                f"The trained model reads inputs of the size {tuple(trained.input_size)}, channels last. "
                f"Received: {tuple(self.input_size)}. Only height, width, gray or RGB, and the length may differ."
            )
        weights = {}
        if self.positions.grid != trained.positions.grid:
            weights[self.positions.embeddings.path] = trained.positions.resized(self.positions.grid)
        if channels != known:
            kernel = ops.convert_to_numpy(trained.patches.weights[0])
            pixels = kernel.reshape(*kernel.shape[:-2], -1, known, kernel.shape[-1])  # (..., pixels, channels, width)
            pixels = np.repeat(pixels.sum(axis=-2, keepdims=True) / channels, channels, axis=-2)
            kernel = pixels.reshape(*kernel.shape[:-2], -1, kernel.shape[-1])
            weights[self.patches.weights[0].path] = kernel
        if self.num_labels != trained.num_labels:
            weights |= {weight.path: weight for weight in self.output_dense.weights}
        return {path: ops.convert_to_numpy(weight) for path, weight in weights.items()}

    def get_config(self):
        return {**super().get_config(), **self.settings}


USUAL_EXAMPLES = 100_000  # that a training on few rows sees in all its epochs


def usual_patch_size(input_size: Sequence[int], chosen: Sequence[int] = ()) -> tuple[int, ...]:
    """The sides of patches for inputs of a size: 2, 4 or 8, so that there are about 50 to 100 of an image.

    Of a series, there are about 20 to 60. If sides are `chosen`, it is these; a single one is the side along each axis.
    """
    *sides, _ = input_size
    if chosen:
        return tuple(chosen) * (len(sides) if len(chosen) == 1 else 1)
    if len(sides) == 1:
        return (2 if sides[0] <= 64 else 4 if sides[0] <= 128 else 8,)
    side = 2 if max(sides) <= 16 else 4 if max(sides) <= 32 else 8
    return (side,) * len(sides)


def _values_and_mask(inputs):
    if not isinstance(inputs, dict):
        return inputs, None
    if "values" not in inputs or set(inputs) - {"values", "patch_mask"}:
        raise ValueError(f"The inputs must be `values` and perhaps `patch_mask`. Received: {', '.join(sorted(inputs))}")
    mask = inputs.get("patch_mask")
    return inputs["values"], None if mask is None else ops.cast(mask, "bool")
