"""A Transformer over what a user has clicked, which says whether the user will like an item (Chen et al. 2019)."""

import math
from typing import Any

import keras
from keras import ops

from keras_attention.layers.dropout import Dropout
from keras_attention.layers.masks import Tensor, zero_masked
from keras_attention.layers.transformer_layers import TransformerEncoderLayer
from keras_attention.models.shared import Quantizable, check_choices, check_heads, check_rates, check_sizes

VOCABULARIES = ("num_items", "num_answers", "num_ages", "num_categories", "num_profile_values")
SIZES = ("hidden_dim", "intermediate_dim", "num_heads", "num_layers")
SETTINGS = (*VOCABULARIES, *SIZES, "mlp_dims", "sequence", "dropout", "embedding_scale")
CHOICES = {"sequence": ("transformer", "mean", "none")}
LEAK = 0.01  # slope of LeakyReLU below 0


def leaky_relu(x):
    """LeakyReLU, the activation of the paper, also within the Transformer."""
    return ops.leaky_relu(x, negative_slope=LEAK)


@keras.saving.register_keras_serializable(package="keras_attention")
class BehaviorSequenceTransformer(Quantizable):
    """Behavior Sequence Transformer: the target item attends to the items of a user's history.

        e_i = E_item(item_i) + mean_c E_category(c) + E_answer(answer_i) + E_age(age_i)        i = 1 ... L, the last is
        h = encoder layers(e_1 ... e_L)                                                        the target
        logits = MLP([e_L; mean of the profile's vectors; h_L; mean of h_1 ... h_{L-1}])

    An answer is what the user did, such as no click and click, or a number of stars; an age is how long ago, in
    classes. The target has no answer yet: 0. The network predicts it. Without a Transformer, the MLP reads the mean of
    e_1 ... e_{L-1} ("mean") in place of the last two, or nothing ("none").

    Args:
        num_items: int > 0, items and padding, whose id is 0.
        num_answers: int > 1, K answers and "none yet", 0.
        num_ages: int > 0, classes of the time between an item and the target.
        num_categories: int > 0, categories of items and padding, 0.
        num_profile_values: int > 0, values of all fields of a profile together and padding, 0.
        hidden_dim: int > 0. Width D.
        intermediate_dim: int > 0, inner width of the feed-forward networks.
        num_heads: int > 0, a divisor of D.
        num_layers: int > 0.
        mlp_dims: tuple of int > 0, widths of the layers before the logits.
        sequence: "transformer", "mean" or "none": how the history is read.
        dropout: float in [0, 1), on vectors, attention weights, outputs of sub-layers and within the MLP.
        embedding_scale: float > 0, standard deviation of the embeddings before the training.

    Call arguments:
        inputs: dict of int tensors: `item_ids`, `answers` and `ages` (B, L), `categories` (B, L, C) and `profile`
            (B, P), with at least one position, field and category.
        training: bool. Whether to apply dropout.
        return_attention_scores: bool. Whether to return the attention weights too.

    Returns:
        Logits (B, K) in float32 of the answers 1 ... K; or the pair of logits and attention weights
        (B, num_layers, H, L, L).

    Raises:
        ValueError: if an argument is out of range, or attention weights of another `sequence` are requested.

    Source: Chen et al. (2019), https://arxiv.org/abs/1905.06874. Differences: features are added, not concatenated; the
    MLP reads the target's vector and the mean of the others instead of those of all positions, so that a history may
    have any length; ages are classes on a logarithmic scale; the answers in the history, which the paper does not have,
    are features too, and the output is a distribution over answers, which for two of them is the paper's sigmoid.

    Example:
        model = BehaviorSequenceTransformer(num_items=301, num_answers=3, num_ages=12, num_categories=9,
            num_profile_values=7, hidden_dim=32, intermediate_dim=64, num_heads=2, num_layers=1, mlp_dims=(64, 32))
        probabilities = keras.ops.softmax(model(clicks))
    """

    def __init__(
        self,
        num_items: int,
        num_answers: int,
        num_ages: int,
        num_categories: int,
        num_profile_values: int,
        hidden_dim: int,
        intermediate_dim: int,
        num_heads: int,
        num_layers: int,
        mlp_dims: tuple[int, ...] | list[int] = (128, 64),
        sequence: str = "transformer",
        dropout: float = 0.0,
        embedding_scale: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        mlp_dims = list(mlp_dims)  # as in JSON
        self.settings = {name: value for name, value in locals().items() if name in SETTINGS}
        check_settings(self.settings)
        for name, value in self.settings.items():
            setattr(self, name, value)
        options = {"dtype": self.dtype_policy}
        start = keras.initializers.RandomNormal(stddev=embedding_scale)
        vocabularies = dict(zip(("item", "answer", "age", "category", "profile"), VOCABULARIES, strict=True))
        for part, size in vocabularies.items():
            embedding = keras.layers.Embedding(self.settings[size], hidden_dim, start, name=f"{part}s", **options)
            setattr(self, f"{part}_embedding", embedding)
        self.dropout_layer = Dropout(dropout, name="dropout_layer", **options)
        self.encoder_layers = [
            TransformerEncoderLayer(
                intermediate_dim, num_heads, dropout=dropout, activation=leaky_relu, name=f"layer_{i}", **options
            )
            for i in range(num_layers if sequence == "transformer" else 0)
        ]
        self.mlp_layers = [
            keras.layers.Dense(width, leaky_relu, name=f"dense_{i}", **options) for i, width in enumerate(mlp_dims)
        ]
        self.mlp_dropouts = [Dropout(dropout, name=f"mlp_dropout_{i}", **options) for i in range(len(mlp_dims))]
        self.output_dense = keras.layers.Dense(
            num_answers - 1, kernel_initializer="zeros", dtype="float32", name="output_dense"
        )

    def build(self, input_shape=None):
        for part in ("item", "answer", "age", "category", "profile"):
            getattr(self, f"{part}_embedding").build((None, None))
        for layer in self.encoder_layers:
            layer.build((None, None, self.hidden_dim))
        width = {"none": 2, "mean": 3, "transformer": 4}[self.sequence] * self.hidden_dim
        for layer in (*self.mlp_layers, self.output_dense):
            layer.build((None, width))
            width = getattr(layer, "units", width)
        self.built = True

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, return_attention_scores: bool = False
    ) -> Any:
        if return_attention_scores and self.sequence != "transformer":
            raise ValueError(f'Only sequence="transformer" has attention weights. Received: sequence="{self.sequence}"')
        mask = ops.not_equal(inputs["item_ids"], 0)  # (B, L)
        x = self.embedded(inputs)  # (B, L, D)
        parts, weights = [x[:, -1], _mean(self.profile_embedding(inputs["profile"]), inputs["profile"])], []
        x = self.dropout_layer(zero_masked(x, mask), training=training)
        for layer in self.encoder_layers:
            x = layer(x, padding_mask=mask, return_attention_scores=return_attention_scores, training=training)
            if return_attention_scores:
                x, of_layer = x
                weights.append(of_layer)
        if self.sequence == "transformer":
            parts.append(x[:, -1])  # (B, D)
        if self.sequence != "none":
            parts.append(_mean(x[:, :-1], inputs["item_ids"][:, :-1]))
        x = ops.concatenate(parts, axis=-1)
        for layer, dropout in zip(self.mlp_layers, self.mlp_dropouts, strict=True):
            x = dropout(layer(x), training=training)
        logits = self.output_dense(x)  # (B, K)
        return (logits, ops.stack(weights, axis=1)) if return_attention_scores else logits

    def embedded(self, inputs: dict[str, Tensor]) -> Tensor:
        """The vectors e_1 ... e_L of the history and the target (B, L, D)."""
        x = _mean(self.category_embedding(inputs["categories"]), inputs["categories"])  # (B, L, D)
        for part, name in (("item", "item_ids"), ("answer", "answers"), ("age", "ages")):
            x = x + getattr(self, f"{part}_embedding")(inputs[name])
        return x

    def get_config(self):
        return {**super().get_config(), **self.settings}


def check_settings(settings):
    """Raises ValueError for a setting out of range."""
    check_sizes(settings, (*VOCABULARIES, *SIZES))
    if settings["num_answers"] < 2:
        raise ValueError(f"`num_answers` must be 2 or more. Received: num_answers={settings['num_answers']}")
    widths = {f"mlp_dims[{i}]": size for i, size in enumerate(settings["mlp_dims"])}
    check_sizes(widths, widths)
    check_choices(settings, CHOICES)
    check_heads(settings)
    check_rates(settings, "dropout")
    if not 0 < settings["embedding_scale"] < math.inf:
        raise ValueError(
            f"`embedding_scale` must be a positive number. Received: embedding_scale={settings['embedding_scale']}"
        )


def _mean(vectors, ids):
    """The mean over the last axis but one of the vectors whose id is not 0; 0 if there are none."""
    counted = ops.cast(ops.expand_dims(ops.not_equal(ids, 0), -1), vectors.dtype)
    return ops.sum(vectors * counted, axis=-2) / ops.maximum(ops.sum(counted, axis=-2), 1)
