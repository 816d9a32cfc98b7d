"""Recurrent networks as classifiers of texts (Cheng, Dong & Lapata 2016, section 5.2)."""

from typing import Any

import keras
from keras import ops

from keras_attention.layers import padding_mask
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.lstmn import read_with_tape
from keras_attention.layers.masks import Tensor
from keras_attention.layers.recurrent import read_forwards
from keras_attention.models.bert_heads import mean_of_tokens
from keras_attention.models.recurrent_lm import CELLS
from keras_attention.models.shared import check_choices, check_rates, check_sizes

SIZES = ("vocabulary_size", "hidden_dim", "num_labels", "num_layers")
SETTINGS = (*SIZES, "cell", "dropout")


@keras.saving.register_keras_serializable(package="keras_attention")
class RecurrentClassifier(keras.Model):
    """Classifies texts by the mean of the states of a recurrent network.

        x = E[token]        x = cells(x), layer by layer, from left to right
        logits = W_2 relu(W_1 mean(x) + b_1) + b_2

    It is a plain Keras model without an entry in the zoo: train it with `fit`, save it with `save`.

    Args:
        vocabulary_size: int > 0.
        hidden_dim: int > 0. Width H of the embeddings and of all layers.
        num_labels: int > 0. K.
        num_layers: int > 0. L.
        cell: "lstm", "gru" or "lstmn".
        dropout: float in [0, 1), on embeddings, between layers, and before the last dense layer.

    Call arguments:
        inputs: dict of `token_ids`, int tensor (B, T), with padding 0 on the right only.
        training: bool. Whether to apply dropout.
        return_attention_scores: bool. Whether to return the attention weights too; for LSTMN only.

    Returns:
        Logits (B, K) in float32; or the pair of logits and float32 attention weights (B, L, 1, T, T): the weight of
        each earlier token at each token, which links a word to the words that it recalled.

    Raises:
        ValueError: if an argument is out of range, or attention weights of a GRU or LSTM are requested.

    Source: Cheng, Dong & Lapata (2016), section 5.2, https://arxiv.org/abs/1601.06733. Differences: the embeddings
    start random, and LSTMN has no gated skip connections between layers.

    Example:
        model = RecurrentClassifier(8000, hidden_dim=168, num_labels=5, cell="lstmn")
        logits = model({"token_ids": token_ids})
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        num_labels: int,
        num_layers: int = 1,
        cell: str = "lstm",
        dropout: float = 0.3,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.settings = {name: value for name, value in locals().items() if name in SETTINGS}
        check_sizes(self.settings, SIZES)
        check_choices(self.settings, {"cell": tuple(CELLS)})
        check_rates(self.settings, "dropout")
        for name, value in self.settings.items():
            setattr(self, name, value)
        options = {"dtype": self.dtype_policy}
        self.token_embedding = keras.layers.Embedding(vocabulary_size, hidden_dim, name="token_embedding", **options)
        self.cells = [CELLS[cell](hidden_dim, name=f"cell_{i}", **options) for i in range(num_layers)]
        self.dropout_layer = Dropout(dropout, name="dropout_layer", **options)
        self.dense = keras.layers.Dense(hidden_dim, "relu", name="dense", **options)
        self.output_dense = keras.layers.Dense(num_labels, name="output_dense", **options)

    def build(self, input_shape=None):
        self.token_embedding.build((None, None))
        for part in (*self.cells, self.dense, self.output_dense):
            part.build((None, self.hidden_dim))
        self.built = True

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, return_attention_scores: bool = False
    ) -> Any:
        if return_attention_scores and self.cell != "lstmn":
            raise ValueError(f'Only cell="lstmn" has attention scores to return. Received: cell="{self.cell}"')
        token_ids = inputs["token_ids"]
        x, weights = self.token_embedding(token_ids), []  # (B, T, H)
        for cell in self.cells:
            x = self.dropout_layer(x, training=training)
            x, of_cell = read_with_tape(cell, x) if self.cell == "lstmn" else (read_forwards(cell, x), None)
            weights.append(of_cell)
        mean = mean_of_tokens(x, padding_mask(token_ids))  # (B, H)
        hidden = self.dropout_layer(self.dense(mean), training=training)
        logits = ops.cast(self.output_dense(hidden), "float32")  # (B, K)
        return (logits, ops.stack(weights, axis=1)[:, :, None]) if return_attention_scores else logits

    def get_config(self):
        return {**super().get_config(), **self.settings}
