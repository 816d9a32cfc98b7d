"""The encoder-decoder Transformer (Vaswani et al. 2017): settings, presets, model."""

from typing import Any

import keras
from keras import ops

from keras_attention.layers import (
    LearnedPositionalEmbedding,
    SinusoidalPositionalEmbedding,
    SSRUDecoderLayer,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    padding_mask,
)
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.masks import Tensor
from keras_attention.models.shared import (
    SequenceLogits,
    check_choices,
    check_heads,
    check_rates,
    check_sizes,
    check_tying,
    source_and_target,
    token_table,
)

SIZES = (
    "source_vocabulary_size",
    "target_vocabulary_size",
    "hidden_dim",
    "intermediate_dim",
    "num_heads",
    "num_encoder_layers",
    "num_decoder_layers",
    "max_length",
)
CHOICES = {
    "activation": ("relu", "gelu", "silu"),
    "positions": ("sinusoidal", "learned"),
    "decoder": ("attention", "ssru"),
    "tie_embeddings": ("none", "target", "all"),
}
SETTINGS = (*SIZES, *CHOICES, "normalize_first", "dropout", "attention_dropout", "output_bias")


def _preset(num_layers, hidden_dim, intermediate_dim, num_heads, dropout):
    layers = {"num_encoder_layers": num_layers, "num_decoder_layers": num_layers}
    widths = {"hidden_dim": hidden_dim, "intermediate_dim": intermediate_dim, "num_heads": num_heads}
    return {**layers, **widths, "dropout": dropout}


# tiny: Wu et al. (2021), for Multi30k. base and big: Vaswani et al. (2017), table 3. small lies between.
PRESETS = {
    "tiny": _preset(4, 128, 256, 4, 0.3),
    "small": _preset(4, 256, 1024, 4, 0.1),
    "base": _preset(6, 512, 2048, 8, 0.1),
    "big": _preset(6, 1024, 4096, 16, 0.3),
}


def check_settings(**settings):
    """Raises ValueError for settings that are out of range or do not fit together."""
    check_sizes(settings, SIZES)
    check_choices(settings, CHOICES)
    check_heads(settings)
    if settings["hidden_dim"] % 2 and settings["positions"] == "sinusoidal":
        raise ValueError(
            f"Sinusoidal positions need an even `hidden_dim`. Received: hidden_dim={settings['hidden_dim']}"
        )
    check_rates(settings, "dropout", "attention_dropout")
    check_tying(settings)


FEW_ROWS = 16  # up to this many hypotheses, the output projection is twice as fast with a pre-transposed embedding


@keras.saving.register_keras_serializable(package="keras_attention")
class Transformer(SequenceLogits, keras.Model):
    """Encoder-decoder Transformer: encodes a sentence, then generates another that attends to both.

        x = sqrt(D) E[token] + position        memory = encoder layers(source x)
        z = decoder layers(target x, memory)   logits = W_o z

    Args:
        source_vocabulary_size: int > 0.
        target_vocabulary_size: int > 0.
        hidden_dim: int > 0 (d_model in the paper). Width D of the layers, a multiple of `num_heads`.
        intermediate_dim: int > 0 (d_ff in the paper).
        num_heads: int > 0 (h in the paper).
        num_encoder_layers, num_decoder_layers: int > 0 (N in the paper).
        dropout: float in [0, 1), on embeddings and on the output of each sub-layer.
        activation: str, activation of the feed-forward networks.
        normalize_first: bool. Pre-norm, with a final norm after encoder and decoder, instead of post-norm.
        positions: "sinusoidal" or "learned".
        max_length: int > 0, tokens. Number of learned positions; not used by sinusoidal ones.
        tie_embeddings: "none", "target" (W_o is the target embedding) or "all" (the source embedding too).
        attention_dropout: float in [0, 1), on attention weights.
        decoder: "attention" or "ssru": what reads the earlier target tokens in each decoder layer. With "ssru", a
            step keeps one vector for each layer instead of a cache; see `SSRUDecoderLayer`.
        output_bias: bool. Whether a learned bias (V,) is added to the logits, as in Marian.

    Call arguments:
        inputs: dict of `source_ids` (B, S) and `target_ids` (B, T), int, 0 is padding; targets begin with START.
        training: bool. Whether to apply dropout.
        return_attention_scores: bool. Whether to return the attention weights too.

    Returns:
        Logits (B, T, V) in float32, or the pair of logits and a dict of float32 attention weights: "encoder"
        (B, L, H, S, S), "decoder" (B, L, H, T, T) and "cross" (B, L, H, T, S), with L layers and H heads. An SSRU
        has no weights, so "decoder" is missing, then.

    Raises:
        ValueError: if arguments are out of range or do not fit together.

    Source: Vaswani et al. (2017), section 3, https://arxiv.org/abs/1706.03762. Differences: dropout on attention
    weights is in the authors' code only; see `TransformerEncoderLayer` for pre-norm. `decoder="ssru"`: Kim et al.
    (2019), section 3.1, https://aclanthology.org/D19-5632. `output_bias`: Junczys-Dowmunt et al. (2018), the code of
    Marian, https://aclanthology.org/P18-4020.

    Example:
        model = Transformer(8000, 8000, hidden_dim=128, intermediate_dim=256, num_heads=4)
        logits = model({"source_ids": source_ids, "target_ids": target_ids})
    """

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        hidden_dim: int = 128,
        intermediate_dim: int = 256,
        num_heads: int = 4,
        num_encoder_layers: int = 4,
        num_decoder_layers: int = 4,
        dropout: float = 0.1,
        activation: str = "relu",
        normalize_first: bool = False,
        positions: str = "sinusoidal",
        max_length: int = 512,
        tie_embeddings: str = "all",
        attention_dropout: float = 0.0,
        decoder: str = "attention",
        output_bias: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.settings = {name: value for name, value in locals().items() if name in SETTINGS}
        check_settings(**self.settings)
        for name, value in self.settings.items():
            setattr(self, name, value)

        def layer(kind, *args, name, **options):
            return kind(*args, dtype=self.dtype_policy, name=name, **options)

        def embedding(size, name):
            scale = keras.initializers.RandomNormal(stddev=hidden_dim**-0.5)
            return layer(keras.layers.Embedding, size, hidden_dim, embeddings_initializer=scale, name=name)

        def position(name):
            if positions == "sinusoidal":
                return layer(SinusoidalPositionalEmbedding, name=name)
            scale = keras.initializers.RandomNormal(stddev=hidden_dim**-0.5)
            return layer(LearnedPositionalEmbedding, max_length, embeddings_initializer=scale, name=name)

        self.target_embedding = embedding(target_vocabulary_size, "target_embedding")
        self.source_embedding = self.target_embedding
        if tie_embeddings != "all":
            self.source_embedding = embedding(source_vocabulary_size, "source_embedding")
        self.source_position = position("source_position")
        self.target_position = position("target_position")
        inside = {"dropout": dropout, "attention_dropout": attention_dropout}
        inside |= {"activation": activation, "normalize_first": normalize_first}
        self.encoder_layers = [
            layer(TransformerEncoderLayer, intermediate_dim, num_heads, **inside, name=f"encoder_{i}")
            for i in range(num_encoder_layers)
        ]
        kind = SSRUDecoderLayer if decoder == "ssru" else TransformerDecoderLayer
        self.decoder_layers = [
            layer(kind, intermediate_dim, num_heads, **inside, name=f"decoder_{i}") for i in range(num_decoder_layers)
        ]
        self.encoder_norm = self.decoder_norm = self.output_projection = None
        if normalize_first:
            self.encoder_norm = layer(keras.layers.LayerNormalization, epsilon=1e-5, name="encoder_norm")
            self.decoder_norm = layer(keras.layers.LayerNormalization, epsilon=1e-5, name="decoder_norm")
        self.dropout_layer = layer(Dropout, dropout, name="dropout_layer")
        if tie_embeddings == "none":
            options = {"use_bias": False, "name": "output_projection"}
            self.output_projection = layer(keras.layers.Dense, target_vocabulary_size, **options)

    def build(self, input_shape=None):
        shape = (None, None, self.hidden_dim)
        for embedding in {id(e): e for e in (self.target_embedding, self.source_embedding)}.values():
            embedding.build((None, None))
        for part in (self.source_position, self.target_position, *self.encoder_layers):
            part.build(shape)
        for part in self.decoder_layers:
            part.build(shape, shape)
        for part in filter(None, (self.encoder_norm, self.decoder_norm, self.output_projection)):
            part.build(shape)
        self.logits_bias = None
        if self.output_bias:
            shape = (self.target_vocabulary_size,)
            self.logits_bias = self.add_weight(shape=shape, initializer="zeros", name="output_bias")
        self.built = True

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, return_attention_scores: bool = False
    ) -> Any:
        source_ids, target_ids = source_and_target(inputs)
        source_mask = padding_mask(source_ids)  # (B, S)
        source, encoder_weights = self._read(source_ids, source_mask, training, return_attention_scores)
        x = self._embedded(self.target_embedding, self.target_position, target_ids, training)  # (B, T, D)
        weights = {"encoder": encoder_weights, "decoder": [], "cross": []}
        for layer in self.decoder_layers:
            x = layer(
                x,
                source,
                encoder_padding_mask=source_mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                x, *own, cross = x
                weights["decoder"] += own
                weights["cross"].append(cross)
        logits = self._logits(x)  # (B, T, V)
        if not return_attention_scores:
            return logits
        return logits, {name: ops.stack(of_layers, axis=1) for name, of_layers in weights.items() if of_layers}

    def logits_mask(self, inputs: dict[str, Tensor]) -> Tensor:
        """True at tokens of the target: the loss and the metrics of `fit` ignore padding."""
        return padding_mask(inputs["target_ids"])  # (B, T)

    def encode(self, source_ids: Tensor, training: bool | None = None) -> dict[str, Any]:
        """Encodes the sources (B, S): returns the `memory` of the decoder steps.

        It is a dict with their mask (B, S) and, for each layer, the result of `MultiHeadAttention.project_keys_values`.
        """
        mask = padding_mask(source_ids)  # (B, S)
        source, _ = self._read(source_ids, mask, training)
        return {"mask": mask, "layers": tuple(layer.project_source(source) for layer in self.decoder_layers)}

    has_attention = has_self_attention = True

    def cross_attention(self, inputs: dict[str, Tensor]) -> Tensor:
        """The cross-attention weights (B, L, H, T, S) of L decoder layers and H heads, for the inputs of `call`."""
        return self(inputs, training=False, return_attention_scores=True)[1]["cross"]

    def initial_state(
        self, memory: dict[str, Any], max_steps: int, attention: bool = False, beam_size: int = 1
    ) -> dict[str, Any]:
        """The decoder state before the first of at most `max_steps` steps, tensors with leading axis B except "shared".

        All hypotheses of a source share one cache, which a beam search never reorders. Instead, "ancestors" (B, L) has
        for each hypothesis and each step t the index of the hypothesis that computed token t. "shared" has the caches.
        With `attention`, the state also has the attention weights of the last step (B, S), the mean over layers and
        heads. With SSRUs, it has their states (B, D) instead of caches.
        """
        batch, length = ops.shape(memory["mask"])
        attention_state = {"attention": ops.zeros((batch, length), "float32")} if attention else {}
        if self.decoder == "ssru":
            cells = tuple(ops.zeros((batch, self.hidden_dim), "float32") for _ in self.decoder_layers)
            return {"cells": cells, "position": ops.zeros((batch,), "int32"), **attention_state}
        caches = (layer.self_attention.empty_cache(batch, max_steps * beam_size) for layer in self.decoder_layers)
        position, ancestors = ops.zeros((batch,), "int32"), ops.zeros((batch, max_steps), "int32")
        state = {"shared": {"caches": tuple(caches)}, "position": position, "ancestors": ancestors}
        return state | attention_state

    def derived_weights(self) -> dict[str, Tensor]:
        """What `step` computes from weights alone, as its arguments: the transposed embedding (D, V) if W_o is tied."""
        return {} if self.output_projection is not None else {"output_kernel": self._tied_kernel()}

    def step(
        self,
        token_ids: Tensor,
        state: dict[str, Any],
        memory: dict[str, Any],
        output_kernel: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """One decoder step without dropout: tokens (N,) -> logits (N, V) and the new state.

        All hypotheses are at the same position. N = k B for k hypotheses of each source of `memory`, with k the
        `beam_size` of `initial_state`; the hypotheses of a source are adjacent. `output_kernel` is a result of
        `derived_weights`, or None.
        """
        batch_size = ops.shape(memory["mask"])[0]
        beams = ops.shape(token_ids)[0] // batch_size
        position = state["position"][0]
        embedded = self.target_embedding(token_ids[:, None]) * self.hidden_dim**0.5  # (N, 1, D)
        x = ops.reshape(self.target_position(embedded, start=position), (batch_size, beams, self.hidden_dim))
        earlier, new = self._earlier_tokens(state, beams)
        states, cross_weights = [], []
        for layer, source, known in zip(self.decoder_layers, memory["layers"], earlier, strict=True):
            x, *weights, layer_state = layer(
                x,
                encoder_padding_mask=memory["mask"],
                cross_attention_cache=source,
                return_attention_scores="attention" in state,
                **known,
            )
            states.append(layer_state)
            cross_weights += weights[-1:]  # (B, H, k, S)
        if self.decoder == "ssru":
            new["cells"] = tuple(ops.reshape(cell, (-1, self.hidden_dim)) for cell in states)
        else:
            new["shared"] = {"caches": tuple(states)}
        if cross_weights:
            attention = ops.mean(ops.concatenate(cross_weights, axis=1), axis=1)  # (B, k, S)
            new["attention"] = ops.reshape(attention, (-1, ops.shape(attention)[-1]))
        few = isinstance(batch_size, int) and 1 < batch_size * beams <= FEW_ROWS
        logits = self._logits(x, output_kernel if few else None)
        return ops.reshape(logits, (-1, self.target_vocabulary_size)), new

    def _earlier_tokens(self, state, beams):
        """What each decoder layer knows of earlier tokens, as arguments of its call, and the rest of the new state."""
        position, new = state["position"][0], {"position": state["position"] + 1}
        if self.decoder == "ssru":
            cells = (ops.reshape(cell, (-1, beams, self.hidden_dim)) for cell in state["cells"])  # (B, k, D)
            return [{"state": cell} for cell in cells], new
        batch_size = ops.shape(state["ancestors"])[0] // beams
        places = ops.tile(ops.arange(beams, dtype="int32"), (batch_size,))[:, None]  # (N, 1)
        new["ancestors"] = ops.slice_update(state["ancestors"], (0, position), places)  # (N, L)
        allowed = None
        if beams > 1:
            owned = ops.equal(new["ancestors"][:, :, None], ops.arange(beams, dtype="int32"))  # (N, L, k)
            allowed = ops.reshape(owned, (batch_size, beams, -1))
        options = {"decoder_attention_mask": allowed, "self_attention_cache_update_index": position * beams}
        return [{"self_attention_cache": cache, **options} for cache in state["shared"]["caches"]], new

    def _read(self, source_ids, mask, training, return_attention_scores=False):
        """The encoder's output (B, S, D) and the weights of its layers."""
        x, weights = self._embedded(self.source_embedding, self.source_position, source_ids, training), []
        for layer in self.encoder_layers:
            x = layer(x, padding_mask=mask, return_attention_scores=return_attention_scores, training=training)
            if return_attention_scores:
                x, of_layer = x
                weights.append(of_layer)
        return x if self.encoder_norm is None else self.encoder_norm(x), weights

    def _embedded(self, embedding, position, token_ids, training):
        return self.dropout_layer(position(embedding(token_ids) * self.hidden_dim**0.5), training=training)  # (B, T, D)

    def _logits(self, x, kernel=None):
        """Logits (..., V); `kernel` is a result of `_tied_kernel`, or None."""
        x = x if self.decoder_norm is None else self.decoder_norm(x)
        if self.output_projection is not None:
            logits = self.output_projection(x)
        else:
            logits = ops.matmul(x, self._tied_kernel() if kernel is None else kernel)
        logits = ops.cast(logits, "float32")
        return logits if self.logits_bias is None else logits + ops.cast(self.logits_bias, "float32")

    def _tied_kernel(self):
        return ops.transpose(ops.cast(token_table(self.target_embedding), self.compute_dtype))  # (D, V)

    def get_config(self):
        return {**super().get_config(), **self.settings}
