"""A classifier on static vectors: the mean of one fixed vector for each token (model2vec, fastText)."""

from typing import Any, Self

import keras
from keras import ops

from keras_attention.layers import padding_mask
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.masks import Tensor
from keras_attention.models.shared import FromPreset, check_choices, check_rates, check_sizes, named_inputs

POOLINGS = {"mean": 1, "pair": 4}  # how many vectors the output layer reads
WIDTHS = {"tiny": 64, "mini": 128, "small": 256, "medium": 384}
SIZES = ("vocabulary_size", "hidden_dim", "num_labels")
SETTINGS = (*SIZES, "pooling", "dropout")


@keras.saving.register_keras_serializable(package="keras_attention")
class StaticVectorClassifier(FromPreset, keras.Model):
    """Classifies a text by the direction of the sum of its token vectors; no token depends on another.

        s = sum of E[token] over the text        pooled = s / |s|        logits = W pooled + b

    With pooling "pair", two texts are compared by their directions u and v: pooled = [u, v, |u - v|, u v].

    The weight of a token is the length of its vector, so the sum is a weighted mean up to its length. With vectors of
    length 0 for [CLS] and [SEP], these count nothing.

    Args:
        vocabulary_size: int > 0.
        hidden_dim: int > 0. Width D of the vectors.
        num_labels: int > 0. Width of the logits; 1 for regression.
        pooling: "mean", or "pair" for pairs of texts; the second text has segment 1.
        dropout: float in [0, 1), on `pooled`.

    Call arguments:
        inputs: int tensor (B, T), the token ids, padded with 0; or a dict with them as `token_ids` and, for pairs,
            `segment_ids` (B, T).
        training: bool. Whether to apply dropout.

    Returns:
        Logits (B, num_labels) in float32.

    Raises:
        ValueError: if an argument is out of range.

    Source: Tulkens & van Dongen (2024), model2vec, https://github.com/MinishLab/model2vec; before, with trained
    vectors: Joulin et al. (2017), fastText, https://arxiv.org/abs/1607.01759. Differences: none in the vectors;
    pairs are compared as in InferSent, Conneau et al. (2017), https://arxiv.org/abs/1705.02364.

    Example:
        model = StaticVectorClassifier(8000, hidden_dim=256, num_labels=2)
        logits = model(token_ids)
    """

    presets = {size: {"hidden_dim": width} for size, width in WIDTHS.items()}
    usual_learning_rate = 2e-3
    has_attention = False
    num_heads = 0

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        num_labels: int,
        pooling: str = "mean",
        dropout: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.settings = {name: value for name, value in locals().items() if name in SETTINGS}
        check_sizes(self.settings, SIZES)
        check_choices(self.settings, {"pooling": tuple(POOLINGS)})
        check_rates(self.settings, "dropout")
        self.vocabulary_size, self.hidden_dim, self.pooling = vocabulary_size, hidden_dim, pooling
        self.num_segments = 2 if pooling == "pair" else 0  # whether the inputs have `segment_ids`
        options = {"dtype": self.dtype_policy}
        self.token_embedding = keras.layers.Embedding(vocabulary_size, hidden_dim, name="token_embedding", **options)
        self.dropout_layer = Dropout(dropout, name="dropout_layer", **options)
        self.output_dense = keras.layers.Dense(num_labels, name="output_dense", **options)

    def build(self, input_shape=None):
        self.token_embedding.build((None, None))
        self.output_dense.build((None, POOLINGS[self.pooling] * self.hidden_dim))
        self.built = True

    def call(self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None) -> Tensor:
        pooled = self.dropout_layer(self.pooled(inputs, training=training), training=training)
        return ops.cast(self.output_dense(pooled), "float32")  # (B, K)

    def pooled(self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None) -> Tensor:
        """The input of the output layer (B, D); (B, 4 D) with pooling "pair"."""
        inputs = named_inputs(inputs)
        token_ids = inputs["token_ids"]
        x, is_token = self.token_embedding(token_ids), padding_mask(token_ids)  # (B, T, D), (B, T)
        if self.pooling == "mean":
            return direction_of_sum(x, is_token)
        second = ops.equal(inputs.get("segment_ids", ops.zeros_like(token_ids)), 1)
        u = direction_of_sum(x, ops.logical_and(is_token, ops.logical_not(second)))
        v = direction_of_sum(x, ops.logical_and(is_token, second))
        return ops.concatenate([u, v, ops.abs(u - v), u * v], axis=-1)

    @property
    def head(self) -> list[keras.layers.Layer]:
        """The layers from `pooled` to the logits: only the output layer."""
        return [self.output_dense]

    def layer_groups(self) -> list[list[keras.layers.Layer]]:
        """[]: there is no order of layers."""
        return []

    @classmethod
    def from_trained(
        cls,
        network: keras.Model,
        num_labels: int,
        *,
        head: str = "new",
        pooling: str | None = None,
        pairs: str = "joint",
        dtype: Any = None,
        **changes: Any,
    ) -> Self:
        """A classifier with the vectors of a trained one, see `shared.FinetunableNetwork`.

        Args:
            network: StaticVectorClassifier, built.
            num_labels: int > 0.
            head: "new" or "linear", random weights; "kept", the trained ones.
            pooling: has no effect; the vectors suit both poolings.
            pairs: "joint" reads both texts of a pair as one; "apart" and "auto" compare them, if the network does.
            changes: settings that differ from the network's: `dropout`.

        Raises:
            ValueError: if the network does not compare texts, and `pairs` is "apart".
        """
        own_pooling = network.settings["pooling"]
        if pairs == "apart" and own_pooling != "pair":
            raise ValueError('`pairs="apart"` needs a network with pooling="pair". Received: pooling="mean"')
        kept = own_pooling if head == "kept" or pairs != "joint" else "mean"
        model = cls(**{**network.settings, **changes, "num_labels": num_labels, "pooling": kept}, dtype=dtype)
        model.build()
        model.token_embedding.set_weights(network.token_embedding.get_weights())
        if head == "kept":
            model.output_dense.set_weights(network.output_dense.get_weights())
        return model

    def get_config(self):
        return {**super().get_config(), **self.settings}


def direction_of_sum(x, mask):
    """The sum of the vectors (B, T, D) where the mask (B, T) is True, scaled to length 1, in float32; 0 stays 0."""
    total = ops.sum(ops.where(mask[:, :, None], ops.cast(x, "float32"), 0.0), axis=1)  # (B, D)
    squares = ops.sum(ops.square(total), axis=-1, keepdims=True)  # (B, 1)
    return ops.cast(total / ops.sqrt(ops.maximum(squares, 1e-24)), x.dtype)
