"""The encoder of BERT (Devlin et al. 2019): settings, presets, model."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers import LearnedPositionalEmbedding, TransformerEncoderLayer, padding_mask
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.masks import Tensor, with_keras_mask
from keras_attention.layers.sparse_patterns import pattern_of_layer
from keras_attention.models.shared import (
    ACTIVATIONS,
    FromPreset,
    check_choices,
    check_epsilon,
    check_heads,
    check_pattern,
    check_rates,
    check_sizes,
    named_inputs,
)

ENCODER_INPUTS = ("token_ids", "segment_ids", "position_ids", "block_ids")
SIZES = ("vocabulary_size", "hidden_dim", "intermediate_dim", "num_heads", "num_layers", "max_length")
SETTINGS = (
    *SIZES,
    "num_segments",
    "dropout",
    "activation",
    "normalize_first",
    "layer_norm_epsilon",
    "attention_pattern",
)


def _preset(num_layers, hidden_dim):
    widths = {"hidden_dim": hidden_dim, "intermediate_dim": 4 * hidden_dim, "num_heads": hidden_dim // 64}
    return {"num_layers": num_layers, **widths}


# base and large: Devlin et al. (2019), section 3. The others: Turc et al. (2019), table 1.
BERT_PRESETS = {
    "tiny": _preset(2, 128),
    "mini": _preset(4, 256),
    "small": _preset(4, 512),
    "medium": _preset(8, 512),
    "base": _preset(12, 768),
    "large": _preset(24, 1024),
}


def published_initializer():
    """A new initializer for kernels and embeddings. A shared one would give weights of equal shape equal values."""
    return keras.initializers.TruncatedNormal(stddev=0.02)


def check_settings(**settings):
    """Raises ValueError for settings that are out of range or do not fit together."""
    check_sizes(settings, SIZES)
    check_sizes(settings, ["num_segments"], lowest=0)
    check_choices(settings, {"activation": ACTIVATIONS})
    check_heads(settings)
    check_rates(settings, "dropout")
    check_epsilon(settings)
    check_pattern(settings)


def with_layers_of(encoder, trained, layers=None):
    """Gives a BertEncoder the weights of another's embeddings and of some of its layers, all but the token vectors.

    Args:
        encoder: BertEncoder, built; with a larger `max_length`, it gets the position embeddings repeated.
        trained: BertEncoder, built.
        layers: sequence of int, the trained layer for each layer of `encoder`; None: the lowest.

    Returns:
        `encoder`.

    Source of the repeated positions: Beltagy et al. (2020), section 5, https://arxiv.org/abs/2004.05150.
    """
    positions = ops.convert_to_numpy(trained.position_embedding.embeddings)
    encoder.position_embedding.embeddings.assign(np.resize(positions, (encoder.max_length, positions.shape[1])))
    layers = range(encoder.num_layers) if layers is None else layers
    pairs = [(encoder.encoder_layers[i], trained.encoder_layers[layer]) for i, layer in enumerate(layers)]
    names = ("segment_embedding", "embedding_norm", "final_norm")
    pairs += [(getattr(encoder, name), getattr(trained, name)) for name in names]
    for part, original in pairs:
        if part is not None:
            part.set_weights(original.get_weights())
    return encoder


def check_inputs(inputs, num_segments, extra=()):
    """Raises ValueError if the dict of inputs has no `token_ids`, or a name that is not an input of the model."""
    allowed = [name for name in (*ENCODER_INPUTS, *extra) if num_segments or name != "segment_ids"]
    for name in sorted(set(inputs) - set(allowed)):
        raise ValueError(f"This model's inputs are {', '.join(allowed)}. Received: {name}")
    if "token_ids" not in inputs:
        raise ValueError(f"The inputs must have `token_ids`. Received: {', '.join(sorted(inputs)) or 'none'}")


@keras.saving.register_keras_serializable(package="keras_attention")
class BertEncoder(FromPreset, keras.Model):
    """BERT without a head: turns each token of a text into a vector that depends on the context on both sides.

        x = norm(E[token] + P[position] + S[segment])        output = encoder layers(x)

    Args:
        vocabulary_size: int > 0.
        hidden_dim: int > 0 (H in the paper). Width D of the layers, a multiple of `num_heads`.
        intermediate_dim: int > 0, inner width of the feed-forward networks (4 H in the paper).
        num_heads: int > 0 (A in the paper).
        num_layers: int > 0 (L in the paper).
        max_length: int > 0, tokens. Number of position embeddings.
        num_segments: int >= 0. 0 for no segment embedding, as in DistilBERT.
        dropout: float in [0, 1), on embeddings, attention weights and the output of each sub-layer.
        activation: "gelu" (exact, with erf), "gelu_approximate" (with tanh), "relu" or "silu".
        normalize_first: bool. Pre-norm with a final norm after the last layer, instead of post-norm.
        layer_norm_epsilon: float in (0, 1), added to variances.
        attention_pattern: str or None, a sparse pattern such as "bigbird:block=64" (`layers/sparse_patterns.py`).

    Call arguments:
        inputs: dict of int tensors (B, T), or only the token ids.
            `token_ids`: 0 is padding.
            `segment_ids` (optional): less than `num_segments`, by default 0.
            `position_ids` (optional): less than `max_length`, by default 0 to T - 1.
            `block_ids` (optional): for several texts packed into one sequence. A token attends only to tokens with the
            same block id; 0 is padding. Packing does not change the vectors of a text if its positions start at 0.
        training: bool. Whether to apply dropout.
        return_attention_scores: bool. Whether to return the attention weights too.
        output_positions: int tensor (B, P), in [0, T), or None. The last layer computes only the vectors at these
            positions. Cannot be combined with `return_attention_scores`.
        return_layer_inputs: bool. Whether to return the input of every layer too.

    Returns:
        Vectors (B, T, D), with `output_positions` (B, P, D); or a tuple of the vectors and what is requested, first the
        float32 attention weights (B, L, H, T, T), then the list of L inputs (B, T, D). Vectors at padding are finite
        but meaningless.

    Raises:
        ValueError: if an argument is out of range, an input is unknown, a text is longer than `max_length`, or
            `output_positions` is combined with `return_attention_scores`.

    Source: Devlin et al. (2019), section 3, https://arxiv.org/abs/1810.04805. Initialization as in the authors' code,
    also with pre-norm: kernels and embeddings from a normal distribution with standard deviation 0.02, truncated at two
    deviations; biases 0. Differences: "gelu" is exact, as in the paper, but their code uses the approximation; blocks
    and pre-norm are not in the paper; the pooler is part of `BertClassifier`.

    Example:
        encoder = BertEncoder(8000, hidden_dim=128, intermediate_dim=512, num_heads=2, num_layers=2)
        vectors = encoder(token_ids)
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
        check_settings(**self.settings)
        for name, value in self.settings.items():
            setattr(self, name, value)

        def layer(kind, *args, name, **options):
            return kind(*args, dtype=self.dtype_policy, name=name, **options)

        def embedding(*sizes, name, kind=keras.layers.Embedding):
            return layer(kind, *sizes, embeddings_initializer=published_initializer(), name=name)

        def norm(name):
            return layer(keras.layers.LayerNormalization, epsilon=layer_norm_epsilon, name=name)

        self.token_embedding = embedding(vocabulary_size, hidden_dim, name="token_embedding")
        self.position_embedding = embedding(max_length, name="position_embedding", kind=LearnedPositionalEmbedding)
        self.segment_embedding = None
        if num_segments:
            self.segment_embedding = embedding(num_segments, hidden_dim, name="segment_embedding")
        self.embedding_norm = norm("embedding_norm")
        self.dropout_layer = layer(Dropout, dropout, name="dropout_layer")
        self.encoder_layers = [
            layer(
                TransformerEncoderLayer,
                intermediate_dim,
                num_heads,
                dropout=dropout,
                activation=ACTIVATIONS[activation],
                layer_norm_epsilon=layer_norm_epsilon,
                normalize_first=normalize_first,
                kernel_initializer=published_initializer(),
                attention_pattern=pattern_of_layer(attention_pattern, i, max_length),
                name=f"layer_{i}",
            )
            for i in range(num_layers)
        ]
        self.final_norm = norm("final_norm") if normalize_first else None

    def build(self, input_shape=None):
        shape = (None, None, self.hidden_dim)
        for embedding in (self.token_embedding, self.segment_embedding):
            if embedding is not None:
                embedding.build((None, None))
        for part in (self.position_embedding, self.embedding_norm, *self.encoder_layers, self.final_norm):
            if part is not None:
                part.build(shape)
        self.built = True

    def call(
        self,
        inputs: dict[str, Tensor] | Tensor,
        training: bool | None = None,
        return_attention_scores: bool = False,
        output_positions: Tensor | None = None,
        return_layer_inputs: bool = False,
    ) -> Any:
        inputs = named_inputs(inputs)
        check_inputs(inputs, self.num_segments)
        if return_attention_scores and output_positions is not None:
            raise ValueError("`return_attention_scores` cannot be combined with `output_positions`.")
        masks = self._masks(inputs["token_ids"], inputs.get("block_ids"))
        if self.attention_pattern is not None:
            masks["positions"] = inputs.get("position_ids")
        x = self._embedded(inputs["token_ids"], inputs.get("segment_ids"), inputs.get("position_ids"))  # (B, T, D)
        x = self.dropout_layer(x, training=training)
        weights, layer_inputs = [], []
        positions = [None] * (len(self.encoder_layers) - 1) + [output_positions]
        for layer, wanted in zip(self.encoder_layers, positions, strict=True):
            layer_inputs.append(x)
            x = layer(
                x,
                **masks,
                return_attention_scores=return_attention_scores,
                training=training,
                query_positions=wanted,
            )
            if return_attention_scores:
                x, of_layer = x
                weights.append(of_layer)
        x = x if self.final_norm is None else self.final_norm(x)
        is_token = masks["padding_mask"]
        if output_positions is not None:
            is_token = ops.take_along_axis(is_token, output_positions, axis=1)  # (B, P)
        x = with_keras_mask(x, is_token)  # for layers after this one
        outputs = (x, ops.stack(weights, axis=1)) if return_attention_scores else (x,)
        outputs += (layer_inputs,) * return_layer_inputs
        return outputs if len(outputs) > 1 else x

    def _masks(self, token_ids, block_ids):
        """The mask arguments of the encoder layers."""
        is_token = padding_mask(token_ids)  # (B, T)
        if block_ids is None:
            return {"padding_mask": is_token}
        is_token = ops.logical_and(is_token, padding_mask(block_ids))
        same_block = ops.equal(block_ids[:, :, None], block_ids[:, None, :])  # (B, T, T)
        return {"padding_mask": is_token, "attention_mask": same_block}

    def _embedded(self, token_ids, segment_ids, position_ids):
        x = self.token_embedding(token_ids)  # (B, T, D)
        if position_ids is None:
            x = self.position_embedding(x)
        else:
            x = x + ops.take(self.position_embedding.embeddings, position_ids, axis=0)
        if self.segment_embedding is not None:
            x = x + self.segment_embedding(ops.zeros_like(token_ids) if segment_ids is None else segment_ids)
        return self.embedding_norm(x)

    def layer_groups(self) -> list[list[keras.layers.Layer]]:
        """The embeddings and their norm, then each layer from bottom to top."""
        embeddings = [self.token_embedding, self.position_embedding, self.segment_embedding, self.embedding_norm]
        return [[layer for layer in embeddings if layer is not None], *([layer] for layer in self.encoder_layers)]

    def get_config(self):
        return {**super().get_config(), **self.settings}
