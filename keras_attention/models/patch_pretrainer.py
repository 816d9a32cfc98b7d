"""Pre-training on images without labels: choose the right patch for a masked place (Trinh, Luong & Le 2019)."""

from typing import Any

import keras
from keras import ops

from keras_attention.layers.masks import Tensor
from keras_attention.models.patch_classifier import PatchClassifier


@keras.saving.register_keras_serializable(package="keras_attention")
class PatchPretrainer(keras.Model):
    """A PatchClassifier that says which of the masked patches belongs to which masked place.

        h_i = stem(patch i), each patch alone        u = mean, or [CLS], of encoder(h_i + P_i of the visible patches)
        scores[k, i] = (u + P_k) . h_i        p(patch i at place k) = softmax over the masked patches i of scores[k, i]

    After the training, only `classifier` is used.

    Args:
        classifier: PatchClassifier. The constructor builds it if it is not built yet.

    Call arguments:
        inputs: dict with `values`, float (B, height, width, channels) or (B, T, channels), of the classifier's input
            size, and the numbers of patches `masked` (B, M) and `visible` (B, N - M), int.
        training: bool. Whether to apply dropout.

    Returns:
        Scores (B, M, M) in float32; those on the diagonal are of the right patches.

    Source: Trinh, Luong & Le (2019), Selfie, section 3, https://arxiv.org/abs/1906.02940. Differences: the encoder is
    the classifier's own, and all of it is fine-tuned; in the paper, it only pools vectors of ResNet blocks, and these
    blocks alone are kept. Position embeddings are not factorized into rows and columns.

    Example:
        model = PatchPretrainer(PatchClassifier(10, (8, 8, 1), (2, 2), 32, 64, num_heads=2, num_layers=2))
    """

    def __init__(self, classifier: PatchClassifier, **kwargs: Any):
        super().__init__(**{"dtype": classifier.dtype_policy, **kwargs})
        if not classifier.built:  # in `build`, this model's name would become part of the weights' names
            classifier.build()
        self.classifier = classifier

    def build(self, input_shape=None):
        self.built = True

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        network = self.classifier
        values, masked, visible = (inputs[name] for name in ("values", "masked", "visible"))
        positions = ops.convert_to_tensor(network.positions.embeddings)  # (N, D)
        vectors = self.patch_vectors(values)  # (B, N, D)
        seen = ops.take_along_axis(vectors, visible[..., None], axis=1) + ops.take(positions, visible, axis=0)
        x, _ = network.encoded_tokens(seen, training=training)  # (B, N - M, D)
        pooled = x[:, :1] if network.pooling == "cls" else ops.mean(x, axis=1, keepdims=True)  # (B, 1, D)
        wanted = pooled + ops.take(positions, masked, axis=0)  # (B, M, D)
        hidden = ops.take_along_axis(vectors, masked[..., None], axis=1)  # (B, M, D)
        return ops.cast(ops.matmul(wanted, ops.transpose(hidden, (0, 2, 1))), "float32")  # (B, M, M)

    def patch_vectors(self, values: Tensor) -> Tensor:
        """The vectors (B, N, D) of the patches, each computed alone, so that no patch holds a part of another."""
        network = self.classifier
        *sides, channels = network.input_size
        if len(sides) == 1:
            ((length,), (count,)) = network.patch_size, network.positions.grid
            patches = ops.reshape(values, (-1, length, channels))  # (B N, length, channels)
        else:
            (rows, columns), (height, width) = network.positions.grid, network.patch_size
            patches = ops.reshape(values, (-1, rows, height, columns, width, channels))
            patches = ops.transpose(patches, (0, 1, 3, 2, 4, 5))  # (B, rows, columns, height, width, channels)
            patches = ops.reshape(patches, (-1, height, width, channels))  # (B N, height, width, channels)
            count = rows * columns
        return ops.reshape(network.patches(patches), (-1, count, network.hidden_dim))

    def get_config(self):
        return {**super().get_config(), "classifier": self.classifier.get_config()}

    @classmethod
    def from_config(cls, config):
        classifier = PatchClassifier(**config["classifier"] | {"dtype": config["dtype"]})
        return cls(**{**config, "classifier": classifier})
