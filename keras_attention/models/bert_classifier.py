"""BERT that sorts texts, or puts a number on them (Devlin et al. 2019)."""

import keras
from keras import ops

from keras_attention.layers.dropout import Dropout
from keras_attention.models.bert_encoder import BertEncoder
from keras_attention.models.bert_settings import SETTINGS, published_initializer

POOLER_ACTIVATIONS = ("tanh", "relu")


@keras.saving.register_keras_serializable(package="keras_attention")
class BertClassifier(keras.Model):
    """Reads a text and judges it by the vector of its first token, [CLS].

        pooled = tanh(W_p encoder(text)[0] + b_p)        logits = W pooled + b

    To start from what a language model knows: `classifier.encoder.set_weights(masked_lm.encoder.get_weights())`.

    Args:
        vocabulary_size, hidden_dim, intermediate_dim, num_heads, num_layers, max_length, num_segments, dropout,
        activation, normalize_first, layer_norm_epsilon: see `BertEncoder`. The dropout also applies to `pooled`.
        num_labels: int > 0, by name. Width of the logits; 1 for regression.
        pooler: bool. Without it `pooled` is the vector of [CLS] itself.
        pooler_activation: "tanh", or "relu" as in DistilBERT.

    Call arguments:
        inputs: dict, see `BertEncoder`.
        training: bool. Whether to apply dropout.
        return_attention_scores: bool.

    Returns:
        Logits (B, num_labels) in float32, or the pair of logits and weights, see `BertEncoder`.

    Raises:
        ValueError: if an argument is out of range; see `BertEncoder`.

    Source: Devlin et al. (2019), sections 3.2 and 4.1, https://arxiv.org/abs/1810.04805; the pooler is in the authors'
    code. No other differences.

    Example:
        model = BertClassifier(8000, hidden_dim=128, intermediate_dim=512, num_heads=2, num_layers=2, num_labels=2)
        logits = model({"token_ids": token_ids})
    """

    def __init__(
        self,
        vocabulary_size,
        hidden_dim,
        intermediate_dim,
        num_heads,
        num_layers,
        max_length=512,
        num_segments=2,
        dropout=0.1,
        activation="gelu",
        normalize_first=False,
        layer_norm_epsilon=1e-12,
        *,
        num_labels,
        pooler=True,
        pooler_activation="tanh",
        **kwargs,
    ):
        super().__init__(**kwargs)
        encoder = {name: value for name, value in locals().items() if name in SETTINGS}
        self.settings = encoder | {"num_labels": num_labels, "pooler": pooler, "pooler_activation": pooler_activation}
        if not isinstance(num_labels, int) or isinstance(num_labels, bool) or num_labels < 1:
            raise ValueError(f"`num_labels` must be a positive integer. Received: num_labels={num_labels}")
        if pooler_activation not in POOLER_ACTIVATIONS:
            allowed = " or ".join(POOLER_ACTIVATIONS)
            raise ValueError(f"`pooler_activation` must be {allowed}. Received: pooler_activation={pooler_activation}")

        def dense(width, activation, name):
            options = {"kernel_initializer": published_initializer(), "dtype": self.dtype_policy, "name": name}
            return keras.layers.Dense(width, activation=activation, **options)

        self.encoder = BertEncoder(**encoder, dtype=self.dtype_policy, name="encoder")
        self.pooler_dense = dense(hidden_dim, pooler_activation, "pooler_dense") if pooler else None
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy, name="dropout_layer")
        self.output_dense = dense(num_labels, None, "output_dense")

    def build(self, input_shape=None):
        self.encoder.build()
        for part in (self.pooler_dense, self.output_dense):
            if part is not None:
                part.build((None, self.encoder.hidden_dim))
        self.built = True

    def call(self, inputs, training=None, return_attention_scores=False):
        if return_attention_scores:
            x, weights = self.encoder(inputs, training=training, return_attention_scores=True)  # (B, T, D)
        else:
            first = ops.zeros_like(inputs["token_ids"][:, :1])
            x, weights = self.encoder(inputs, training=training, output_positions=first), None  # (B, 1, D)
        x = x[:, 0]  # (B, D)
        x = x if self.pooler_dense is None else self.pooler_dense(x)
        logits = ops.cast(self.output_dense(self.dropout_layer(x, training=training)), "float32")
        return (logits, weights) if return_attention_scores else logits

    def get_config(self):
        return {**super().get_config(), **self.settings}
