"""BERT with a head: classifier, masked language model, and the pre-training model with both objectives."""

from typing import Any, Self

import keras
from keras import ops

from keras_attention.layers import padding_mask
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.masks import Tensor
from keras_attention.layers.positions import at_positions
from keras_attention.models.bert_encoder import (
    BERT_PRESETS,
    SETTINGS,
    BertEncoder,
    check_inputs,
    published_initializer,
    with_layers_of,
)
from keras_attention.models.shared import ACTIVATIONS, FromPreset, SequenceLogits, named_inputs, token_table

POOLER_ACTIVATIONS = ("tanh", "relu")
POOLINGS = {"cls": 1, "mean": 1, "both": 2, "pair": 4}  # how many vectors the output layer reads


@keras.saving.register_keras_serializable(package="keras_attention")
class BertClassifier(FromPreset, keras.Model):
    """Classifies a text by one vector: the output of its first token, [CLS], or the mean over all tokens.

        x = encoder(text)        pooled = tanh(W_p x[0] + b_p)        logits = W pooled + b

    With pooling "pair", two texts are encoded separately, and compared by the means u and v over their tokens:

        pooled = [u, v, |u - v|, u v]

    To start from a trained language model: `classifier.encoder.set_weights(masked_lm.encoder.get_weights())`.

    Args:
        vocabulary_size, hidden_dim, intermediate_dim, num_heads, num_layers, max_length, num_segments, dropout,
        activation, normalize_first, layer_norm_epsilon, attention_pattern: see `BertEncoder`. The dropout also applies
            to `pooled`.
        num_labels: int > 0, keyword only. Width of the logits; 1 for regression.
        pooling: "cls", the vector of [CLS]; "mean", the mean over all tokens including [CLS] and [SEP], for which
            sentence encoders are trained; "both", their concatenation; or "pair", for two separately encoded texts.
            The second text has segment 1 in the inputs; for the encoder, both have segment 0, a [CLS] and positions of
            their own, so that no token depends on the other text.
        pooler: bool. Whether to apply the dense layer W_p. Without it, the logits are computed from x directly.
        pooler_activation: "tanh", or "relu" as in DistilBERT.

    Call arguments:
        inputs: dict or token ids, see `BertEncoder`.
        training: bool. Whether to apply dropout.
        return_attention_scores: bool. Whether to return the attention weights too.

    Returns:
        Logits (B, num_labels) in float32, or the pair of logits and attention weights, see `BertEncoder`. With pooling
        "pair", the weights are (B, L, H, T + 1, T + 1), because the second text gets a [CLS], too.

    Raises:
        ValueError: if an argument is out of range; see `BertEncoder`.

    Source: Devlin et al. (2019), sections 3.2 and 4.1, https://arxiv.org/abs/1810.04805; the pooler is from the
    authors' code. Mean pooling and pairs: Reimers & Gurevych (2019), section 3, https://arxiv.org/abs/1908.10084; u v
    is from InferSent, Conneau et al. (2017), https://arxiv.org/abs/1705.02364. No other differences.

    Example:
        model = BertClassifier(8000, hidden_dim=128, intermediate_dim=512, num_heads=2, num_layers=2, num_labels=2)
        logits = model(token_ids)
    """

    presets = {name: {**sizes, "normalize_first": True} for name, sizes in BERT_PRESETS.items()}
    usual_learning_rate = None

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        intermediate_dim: int,
        num_heads: int,
        num_layers: int,
        max_length: int = 512,
        num_segments: int = 2,
        dropout: float = 0.1,
        activation: str = "gelu",
        normalize_first: bool = False,
        layer_norm_epsilon: float = 1e-12,
        attention_pattern: str | None = None,
        *,
        num_labels: int,
        pooling: str = "cls",
        pooler: bool = True,
        pooler_activation: str = "tanh",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        encoder = {name: value for name, value in locals().items() if name in SETTINGS}
        head = {"num_labels": num_labels, "pooling": pooling, "pooler": pooler, "pooler_activation": pooler_activation}
        self.settings = encoder | head
        if not isinstance(num_labels, int) or isinstance(num_labels, bool) or num_labels < 1:
            raise ValueError(f"`num_labels` must be a positive integer. Received: num_labels={num_labels}")
        if pooling not in POOLINGS:
            raise ValueError(f"`pooling` must be one of {', '.join(POOLINGS)}. Received: pooling={pooling}")
        if pooler_activation not in POOLER_ACTIVATIONS:
            allowed = " or ".join(POOLER_ACTIVATIONS)
            raise ValueError(f"`pooler_activation` must be {allowed}. Received: pooler_activation={pooler_activation}")
        if pooling == "pair" and num_segments < 2:
            raise ValueError(f'`pooling="pair"` needs `num_segments` of at least 2. Received: {num_segments}')

        def dense(width, activation, name):
            options = {"kernel_initializer": published_initializer(), "dtype": self.dtype_policy, "name": name}
            return keras.layers.Dense(width, activation=activation, **options)

        self.pooling = pooling
        self.encoder = BertEncoder(**encoder, dtype=self.dtype_policy, name="encoder")
        self.pooler_dense = dense(hidden_dim, pooler_activation, "pooler_dense") if pooler else None
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy, name="dropout_layer")
        self.output_dense = dense(num_labels, None, "output_dense")

    def build(self, input_shape=None):
        self.encoder.build()
        width = self.encoder.hidden_dim * POOLINGS[self.pooling]
        if self.pooler_dense is not None:
            self.pooler_dense.build((None, width))
            width = self.encoder.hidden_dim
        self.output_dense.build((None, width))
        self.built = True

    def call(
        self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None, return_attention_scores: bool = False
    ) -> Any:
        if return_attention_scores:
            read = self._read(named_inputs(inputs))
            x, weights = self.encoder(read, training=training, return_attention_scores=True)  # (B, T, D)
            pooled = self._pooled(x, read)
        else:
            pooled, weights = self.pooled(inputs, training=training), None  # (B, D), (B, 2 D) or (B, 4 D)
        x = pooled if self.pooler_dense is None else self.pooler_dense(pooled)
        logits = ops.cast(self.output_dense(self.dropout_layer(x, training=training)), "float32")
        return (logits, weights) if return_attention_scores else logits

    def pooled(self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None) -> Tensor:
        """The input of the output layer (B, D); (B, 2 D) with pooling "both", (B, 4 D) with pooling "pair"."""
        inputs = named_inputs(inputs)
        if self.pooling == "cls":
            first = ops.zeros_like(inputs["token_ids"][:, :1])
            return self.encoder(inputs, training=training, output_positions=first)[:, 0]
        read = self._read(inputs)
        return self._pooled(self.encoder(read, training=training), read)

    @property
    def head(self) -> list[keras.layers.Layer]:
        """The layers from `pooled` to the logits; only the output layer if the logits are linear in `pooled`."""
        return [self.output_dense] if self.pooler_dense is None else [self.pooler_dense, self.output_dense]

    def layer_groups(self) -> list[list[keras.layers.Layer]]:
        """Those of the encoder, from bottom to top."""
        return self.encoder.layer_groups()

    def low_rank_layers(self) -> list[list[keras.layers.Layer]]:
        """For each layer of the encoder, the projections of queries and values, which `lora` adapts."""
        attentions = [layer.self_attention for layer in self.encoder.encoder_layers]
        return [[attention.query_projection, attention.value_projection] for attention in attentions]

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
        """A classifier with the encoder of a trained BERT, see `shared.FinetunableNetwork`.

        Args:
            network: BertEncoder, BertMaskedLM or BertClassifier, built.
            num_labels: int > 0.
            head: "new", a pooler over [CLS]; "linear", an output layer over the vectors for which the encoder was
                trained; "kept", the head of a BertClassifier.
            pooling: "mean" or "cls", of the vectors for which a BertEncoder was trained, or None.
            pairs: "joint" reads both texts of a pair as one sequence; "apart" encodes each (pooling "pair"); "auto":
                apart if the network is a sentence encoder.
            changes: settings that differ from the network's: `dropout`, `num_layers` (the lowest are kept),
                `attention_pattern`, and a larger `max_length`.

        Raises:
            ValueError: if the network has fewer layers, or no segments to tell the texts of a pair.
        """
        encoder = network if isinstance(network, BertEncoder) else network.encoder
        settings = {**encoder.settings, **changes}
        if settings["num_layers"] > encoder.num_layers:
            raise ValueError(f"`num_layers` may be at most {encoder.num_layers}. Received: {settings['num_layers']}")
        if head == "linear":
            settings |= {"pooling": _pooling_of_vectors(network, pooling, pairs), "pooler": False}
        elif head == "kept":
            settings |= {name: network.settings[name] for name in ("pooling", "pooler", "pooler_activation")}
        elif pairs == "apart":
            raise ValueError(f'`pairs="apart"` needs a linear head. Received: head={head}')
        model = cls(**settings, num_labels=num_labels, dtype=dtype)
        model.build()
        model.encoder.token_embedding.set_weights(encoder.token_embedding.get_weights())
        with_layers_of(model.encoder, encoder)
        if head == "kept":
            for own, trained in zip(model.head, network.head, strict=True):
                own.set_weights(trained.get_weights())
        return model

    def _read(self, inputs):
        """The inputs of the encoder: with pooling "pair", each text is a block with a [CLS] and positions of its own.

        The second text gets a copy of the first [CLS], so that token_ids, block_ids and position_ids are (B, T + 1).
        """
        if self.pooling != "pair":
            return inputs
        if unknown := sorted(set(inputs) - {"token_ids", "segment_ids"}):
            raise ValueError(f'With pooling "pair", the inputs are token_ids, segment_ids. Received: {unknown[0]}')
        token_ids = inputs["token_ids"]
        of_second = ops.equal(inputs.get("segment_ids", ops.zeros_like(token_ids)), 1)
        of_first = ops.logical_and(padding_mask(token_ids), ops.logical_not(of_second))
        begin = ops.sum(ops.cast(of_first, "int32"), axis=1, keepdims=True)  # (B, 1)
        places = ops.arange(ops.shape(token_ids)[1] + 1, dtype="int32")[None]  # (1, T + 1)
        copied = ops.where(places > begin, places - 1, ops.where(places < begin, places, 0))
        token_ids = ops.take_along_axis(token_ids, copied, axis=1)
        second = places >= begin
        block_ids = ops.cast(padding_mask(token_ids), "int32") * (1 + ops.cast(second, "int32"))
        return {
            "token_ids": token_ids,
            "block_ids": block_ids,
            "position_ids": ops.minimum(ops.where(second, places - begin, places), ops.shape(places)[1] - 2),
        }

    def _pooled(self, x, inputs):
        if self.pooling == "cls":
            return x[:, 0]
        blocks = inputs.get("block_ids")
        if self.pooling == "pair":
            u, v = (mean_of_tokens(x, ops.equal(blocks, block)) for block in (1, 2))
            return ops.concatenate([u, v, ops.abs(u - v), u * v], axis=-1)
        is_token = padding_mask(inputs["token_ids"])  # (B, T)
        mean = mean_of_tokens(x, is_token if blocks is None else ops.logical_and(is_token, padding_mask(blocks)))
        return mean if self.pooling == "mean" else ops.concatenate([x[:, 0], mean], axis=-1)

    def get_config(self):
        return {**super().get_config(), **self.settings}


def _pooling_of_vectors(network, pooling, pairs):
    """The pooling of a linear head: that of the network, else `pooling`, else the mean; "pair" for texts apart."""
    name = getattr(network, "pooling", None) or pooling or "mean"
    segments = network.settings["num_segments"]
    if pairs == "apart" and segments < 2:
        raise ValueError(f'`pairs="apart"` needs a network with two segments. Received: {segments}')
    of_sentences = segments > 1 and (isinstance(network, BertEncoder) or name == "pair")
    if pairs == "apart" or (pairs == "auto" and of_sentences):
        return "pair"
    return "mean" if name == "pair" else name


def mean_of_tokens(x, mask):
    """The mean of the vectors (B, T, D) where the mask (B, T) is True, summed in float32; 0 where it never is."""
    mask = mask[:, :, None]  # (B, T, 1)
    total = ops.sum(ops.where(mask, ops.cast(x, "float32"), 0.0), axis=1)  # (B, D)
    count = ops.maximum(ops.sum(ops.cast(mask, "float32"), axis=1), 1.0)  # (B, 1)
    return ops.cast(total / count, x.dtype)


@keras.saving.register_keras_serializable(package="keras_attention")
class BertMaskedLM(SequenceLogits, keras.Model):
    """Predicts the token at every position of a text, or at the masked positions.

        x = encoder(text)        logits = E norm(activation(W x + c)) + b,    E the token embedding of the encoder

    Args:
        vocabulary_size, hidden_dim, intermediate_dim, num_heads, num_layers, max_length, num_segments, dropout,
        activation, normalize_first, layer_norm_epsilon, attention_pattern: see `BertEncoder`.

    Call arguments:
        inputs: dict or token ids, see `BertEncoder`. Optional in the dict: `masked_positions` (B, P), int in [0, T).
            Logits are then computed for these positions only. That saves most of the product with the vocabulary, which
            dominates the cost of a small model.
        training: bool. Whether to apply dropout.
        return_attention_scores: bool. Whether to return the attention weights too.

    Returns:
        Logits in float32, (B, P, V) with `masked_positions`, otherwise (B, T, V); or the pair of logits and attention
        weights, see `BertEncoder`.

    Raises:
        ValueError: see `BertEncoder`.

    Source: Devlin et al. (2019), section 3.1, https://arxiv.org/abs/1810.04805; the head is from the authors' code.

    Example:
        model = BertMaskedLM(8000, hidden_dim=128, intermediate_dim=512, num_heads=2, num_layers=2)
        logits = model({"token_ids": token_ids, "masked_positions": token_ids[:, :1]})
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        intermediate_dim: int,
        num_heads: int,
        num_layers: int,
        max_length: int = 512,
        num_segments: int = 2,
        dropout: float = 0.1,
        activation: str = "gelu",
        normalize_first: bool = False,
        layer_norm_epsilon: float = 1e-12,
        attention_pattern: str | None = None,
        **kwargs: Any,
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

    def call(
        self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None, return_attention_scores: bool = False
    ) -> Any:
        inputs = named_inputs(inputs)
        check_inputs(inputs, self.encoder.num_segments, extra=("masked_positions",))
        text = {name: ids for name, ids in inputs.items() if name != "masked_positions"}
        positions = inputs.get("masked_positions")
        if not return_attention_scores:
            return self.guess(self.encoder(text, training=training, output_positions=positions))
        x, weights = self.encoder(text, training=training, return_attention_scores=True)  # (B, T, D)
        return self.guess(x if positions is None else at_positions(x, positions)), weights

    def logits_mask(self, inputs: dict[str, Tensor] | Tensor) -> Tensor:
        """True at tokens, or at `masked_positions`. The loss and the metrics of `fit` ignore all other positions."""
        inputs = named_inputs(inputs)
        return padding_mask(inputs.get("masked_positions", inputs["token_ids"]))  # (B, P) or (B, T)

    def guess(self, x: Tensor) -> Tensor:
        """The head: logits (B, P, V) from vectors x (B, P, D) of the encoder."""
        x = self.head_norm(self.head_dense(x))
        table = ops.cast(token_table(self.encoder.token_embedding), self.compute_dtype)  # (V, D)
        return ops.cast(ops.matmul(x, ops.transpose(table)), "float32") + ops.cast(self.output_bias, "float32")

    def get_config(self):
        return {**super().get_config(), **self.settings}


CLASSES = 2  # "not next" and "next"


@keras.saving.register_keras_serializable(package="keras_attention")
class BertPretrainer(keras.Model):
    """A BertMaskedLM that also predicts whether the second text of a sequence follows the first.

        x = encoder(text)    pooled = tanh(W_p x[0] + b_p)    next = W_n pooled + b_n    masked: see `BertMaskedLM`

    After the training, only `masked_lm` is saved; the head for the next sentence is used in training only.

    Args:
        masked_lm: BertMaskedLM. The constructor builds it if it is not built yet.

    Call arguments:
        inputs: dict, see `BertMaskedLM`, with `segment_ids`.
        training: bool. Whether to apply dropout.

    Returns:
        Pair of logits in float32: of the masked tokens, see `BertMaskedLM`, and of the classes "not next" and "next"
        (B, 2).

    Raises:
        ValueError: if `masked_lm` has fewer than two segments.

    Source: Devlin et al. (2019), section 3.1, https://arxiv.org/abs/1810.04805; the pooler is from the authors' code.
    No other differences.

    Example:
        model = BertPretrainer(BertMaskedLM(8000, hidden_dim=128, intermediate_dim=512, num_heads=2, num_layers=2))
        masked, following = model({"token_ids": token_ids, "segment_ids": token_ids * 0})
    """

    def __init__(self, masked_lm: BertMaskedLM, **kwargs: Any):
        super().__init__(**{"dtype": masked_lm.dtype_policy, **kwargs})
        segments = masked_lm.settings["num_segments"]
        if segments < 2:
            raise ValueError(f"`masked_lm` must have two segments. Received: num_segments={segments}")
        if not masked_lm.built:  # in `build`, this model's name would become part of the weights' names
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

    def call(self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None) -> Any:
        inputs = named_inputs(inputs)
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
