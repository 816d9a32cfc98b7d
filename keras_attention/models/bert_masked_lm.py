"""BERT that guesses hidden tokens (Devlin et al. 2019)."""

import keras
from keras import ops

from keras_attention.layers.transformer_encoder_layer import at_positions
from keras_attention.models.bert_encoder import BertEncoder
from keras_attention.models.bert_settings import ACTIVATIONS, SETTINGS, check_inputs, published_initializer


@keras.saving.register_keras_serializable(package="keras_attention")
class BertMaskedLM(keras.Model):
    """For every place in a text, which token could stand there.

        x = encoder(text)        logits = E norm(activation(W x + c)) + b,    E the token embedding of the encoder

    Args:
        vocabulary_size, hidden_dim, intermediate_dim, num_heads, num_layers, max_length, num_segments, dropout,
        activation, normalize_first, layer_norm_epsilon: see `BertEncoder`.

    Call arguments:
        inputs: dict, see `BertEncoder`; and optional `masked_positions` (B, P), int in [0, T): the places asked for.
            Without the others the last layer computes P vectors of T, and the product with the vocabulary, the largest
            of a small model, is P / T as large.
        training: bool. Whether to apply dropout.
        return_attention_scores: bool.

    Returns:
        Logits in float32, (B, P, V) with `masked_positions`, otherwise (B, T, V); or the pair of logits and weights,
        see `BertEncoder`.

    Raises:
        ValueError: see `BertEncoder`.

    Source: Devlin et al. (2019), section 3.1, https://arxiv.org/abs/1810.04805; the head is that of the authors' code.

    Example:
        model = BertMaskedLM(8000, hidden_dim=128, intermediate_dim=512, num_heads=2, num_layers=2)
        logits = model({"token_ids": token_ids, "masked_positions": token_ids[:, :1]})
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
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.settings = {name: value for name, value in locals().items() if name in SETTINGS}
        self.encoder = BertEncoder(**self.settings, dtype=self.dtype_policy, name="encoder")
        self.head_dense = keras.layers.Dense(
            hidden_dim,
            activation=ACTIVATIONS[activation],
            kernel_initializer=published_initializer(),
            dtype=self.dtype_policy,
            name="head_dense",
        )
        self.head_norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="head_norm"
        )

    def build(self, input_shape=None):
        self.encoder.build()
        for part in (self.head_dense, self.head_norm):
            part.build((None, None, self.encoder.hidden_dim))
        self.output_bias = self.add_weight((self.encoder.vocabulary_size,), "zeros", name="output_bias")
        self.built = True

    def call(self, inputs, training=None, return_attention_scores=False):
        check_inputs(inputs, self.encoder.num_segments, extra=("masked_positions",))
        text = {name: ids for name, ids in inputs.items() if name != "masked_positions"}
        positions = inputs.get("masked_positions")
        if not return_attention_scores:
            return self.guess(self.encoder(text, training=training, output_positions=positions))
        x, weights = self.encoder(text, training=training, return_attention_scores=True)  # (B, T, D)
        return self.guess(x if positions is None else at_positions(x, positions)), weights

    def guess(self, x):
        """Logits (B, P, V) for vectors x (B, P, D) of the encoder."""
        x = self.head_norm(self.head_dense(x))
        table = ops.cast(self.encoder.token_embedding.embeddings, self.compute_dtype)  # (V, D)
        return ops.cast(ops.matmul(x, ops.transpose(table)), "float32") + ops.cast(self.output_bias, "float32")

    def get_config(self):
        return {**super().get_config(), **self.settings}
