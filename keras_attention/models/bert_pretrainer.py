"""BERT with both objectives of its pre-training: hidden tokens, and whether a text follows another."""

import keras

from keras_attention.models.bert_masked_lm import BertMaskedLM
from keras_attention.models.bert_settings import published_initializer

CLASSES = 2  # is not the next, is the next


@keras.saving.register_keras_serializable(package="keras_attention")
class BertPretrainer(keras.Model):
    """A BertMaskedLM that also judges, by the vector of [CLS], whether the second text of a row follows the first.

        x = encoder(text)    pooled = tanh(W_p x[0] + b_p)    next = W_n pooled + b_n    masked: as of the BertMaskedLM

    What it learns stays in `masked_lm`, which is what is kept; this head is for the training alone.

    Args:
        masked_lm: BertMaskedLM; built here if it is not yet.

    Call arguments:
        inputs: dict, see `BertMaskedLM`, with `segment_ids`.
        training: bool. Whether to apply dropout.

    Returns:
        The pair of logits in float32, those of the masked tokens, see `BertMaskedLM`, and (B, 2): not next, next.

    Raises:
        ValueError: if `masked_lm` knows no second segment.

    Source: Devlin et al. (2019), section 3.1, https://arxiv.org/abs/1810.04805; the pooler is in the authors' code. No
    other differences.

    Example:
        model = BertPretrainer(BertMaskedLM(8000, hidden_dim=128, intermediate_dim=512, num_heads=2, num_layers=2))
        masked, following = model({"token_ids": token_ids, "segment_ids": token_ids * 0})
    """

    def __init__(self, masked_lm, **kwargs):
        super().__init__(**{"dtype": masked_lm.dtype_policy, **kwargs})
        segments = masked_lm.settings["num_segments"]
        if segments < 2:
            raise ValueError(f"`masked_lm` must know two segments. Received: num_segments={segments}")
        if not masked_lm.built:  # here, for inside `build` its weights would bear the name of this model, too
            masked_lm.build()
        self.masked_lm = masked_lm
        width, options = masked_lm.encoder.hidden_dim, {"dtype": self.dtype_policy}
        self.pooler_dense = keras.layers.Dense(
            width, "tanh", kernel_initializer=published_initializer(), name="pooler_dense", **options
        )
        self.next_dense = keras.layers.Dense(
            CLASSES, kernel_initializer=published_initializer(), name="next_dense", **options
        )

    def build(self, input_shape=None):
        for part in (self.pooler_dense, self.next_dense):
            part.build((None, self.masked_lm.encoder.hidden_dim))
        self.built = True

    def call(self, inputs, training=None):
        text = {name: ids for name, ids in inputs.items() if name != "masked_positions"}
        positions = inputs.get("masked_positions")
        if positions is None:
            x = masked = self.masked_lm.encoder(text, training=training)  # (B, T, D)
        else:
            with_first = keras.ops.pad(positions, ((0, 0), (1, 0)))  # (B, 1 + P)
            x = self.masked_lm.encoder(text, training=training, output_positions=with_first)
            masked = x[:, 1:]  # (B, P, D)
        following = self.next_dense(self.pooler_dense(x[:, 0]))  # (B, 2)
        return self.masked_lm.guess(masked), keras.ops.cast(following, "float32")

    def get_config(self):
        return {**super().get_config(), "masked_lm": self.masked_lm.get_config()}

    @classmethod
    def from_config(cls, config):
        masked_lm = BertMaskedLM(**config["masked_lm"] | {"dtype": config["dtype"]})
        return cls(**{**config, "masked_lm": masked_lm})
