"""The causal language model GPT (Radford et al. 2018, 2019): settings, presets, model."""

from typing import Any

import keras
from keras import ops

from keras_attention.layers import (
    LearnedPositionalEmbedding,
    SinusoidalPositionalEmbedding,
    TransformerDecoderLayer,
    padding_mask,
)
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.masks import Tensor
from keras_attention.layers.positions import rotary_angles
from keras_attention.layers.sparse_patterns import pattern_of_layer
from keras_attention.models.shared import (
    ACTIVATIONS,
    SequenceLogits,
    check_choices,
    check_epsilon,
    check_heads,
    check_length,
    check_pad_id,
    check_pattern,
    check_rates,
    check_sizes,
    named_inputs,
    token_table,
)

SIZES = ("vocabulary_size", "hidden_dim", "intermediate_dim", "num_heads", "num_layers", "max_length")
POSITIONS = ("learned", "sinusoidal", "rotary", "relative")
SETTINGS = (*SIZES, "positions", "dropout", "activation", "layer_norm_epsilon", "pad_id", "attention_pattern")


def _preset(num_layers, hidden_dim, max_length):
    widths = {"hidden_dim": hidden_dim, "intermediate_dim": 4 * hidden_dim, "num_heads": hidden_dim // 64}
    return {"num_layers": num_layers, **widths, "max_length": max_length}


# gpt2: Radford et al. (2019), table 2, the smallest. mini: 6 M parameters with a vocabulary of 5,000.
GPT_PRESETS = {"mini": _preset(6, 256, 256), "gpt2": _preset(12, 768, 1024)}


def check_settings(**settings):
    """Raises ValueError for settings that are out of range or do not fit together."""
    check_sizes(settings, SIZES)
    check_choices(settings, {"positions": POSITIONS, "activation": ACTIVATIONS})
    check_heads(settings)
    check_rates(settings, "dropout")
    check_epsilon(settings)
    check_pattern(settings)
    width, heads, positions = (settings[name] for name in ("hidden_dim", "num_heads", "positions"))
    if (width // heads if positions == "rotary" else width) % 2 and positions in ("sinusoidal", "rotary"):
        what = "heads of an even width" if positions == "rotary" else "an even `hidden_dim`"
        raise ValueError(f"`positions={positions}` needs {what}. Received: hidden_dim={width}, num_heads={heads}")
    check_pad_id(settings)


@keras.saving.register_keras_serializable(package="keras_attention")
class GPT(SequenceLogits, keras.Model):
    """Predicts the next token of a text from all tokens before it.

        x = E[token] + P[position]        x = decoder layers(x)        logits = E norm(x)

    For generation with `decoding`, `encode` reads the prompts once, `initial_state` prepares the state, and `step` is
    the step function.

    Args:
        vocabulary_size: int > 0.
        hidden_dim: int > 0 (d_model in the paper). Width D of the layers, a multiple of `num_heads`.
        intermediate_dim: int > 0, inner width of the feed-forward networks.
        num_heads: int > 0.
        num_layers: int > 0.
        max_length: int > 0, tokens (n_ctx in the authors' code). The longest text that `call` accepts.
        positions: "learned", "sinusoidal", or "rotary": no vector is added; queries and keys are rotated instead; or
            "relative": each head has a learned vector for each distance of query and key (`RelativeScores`).
        dropout: float in [0, 1), on embeddings, attention weights and the output of each sub-layer.
        activation: "gelu_approximate" (with tanh), "gelu" (exact, with erf), "relu" or "silu".
        layer_norm_epsilon: float in (0, 1), added to variances.
        pad_id: int >= 0, the id of padding; None if there is no padding.
        attention_pattern: str or None, a sparse pattern such as "strided:stride=28" (`layers/sparse_patterns.py`).

    Call arguments:
        inputs: int tensor (B, T), the token ids; or a dict with them as `token_ids`.
        training: bool. Whether to apply dropout.
        return_attention_scores: bool. Whether to return the attention weights too.

    Returns:
        Logits (B, T, V) in float32; those at position t predict token t + 1. Or the pair of logits and float32
        attention weights (B, L, H, T, T) of L layers and H heads. Logits at padding are finite but meaningless.

    Raises:
        ValueError: if arguments are out of range or do not fit together, or a text is longer than `max_length`.

    Source: Radford et al. (2019), section 2.3, https://cdn.openai.com/better-language-models/language_models.pdf, based
    on Radford et al. (2018). As in the authors' code, the output shares the embeddings and has no bias, and GELU is
    approximated with tanh. Sinusoidal positions: Vaswani et al. (2017); rotary positions: Su et al. (2021); relative
    positions: Huang et al. (2018). Kernels and embeddings are initialized from a normal distribution with standard
    deviation 0.02. Difference: the constructor does not apply `scale_residual_projections`; `new_language_model` does.

    Example:
        model = GPT(8000, hidden_dim=128, intermediate_dim=512, num_heads=2, num_layers=2, max_length=128)
        logits = model(token_ids)
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        intermediate_dim: int,
        num_heads: int,
        num_layers: int,
        max_length: int = 1024,
        positions: str = "learned",
        dropout: float = 0.1,
        activation: str = "gelu_approximate",
        layer_norm_epsilon: float = 1e-5,
        pad_id: int | None = 0,
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

        def start():
            return keras.initializers.RandomNormal(stddev=0.02)

        embedding = keras.layers.Embedding
        self.token_embedding = layer(
            embedding, vocabulary_size, hidden_dim, embeddings_initializer=start(), name="token_embedding"
        )
        self.position_embedding = None
        if positions == "learned":
            self.position_embedding = layer(
                LearnedPositionalEmbedding, max_length, embeddings_initializer=start(), name="position_embedding"
            )
        if positions == "sinusoidal":
            self.position_embedding = layer(SinusoidalPositionalEmbedding, name="position_embedding")
        self.dropout_layer = layer(Dropout, dropout, name="dropout_layer")
        self.decoder_layers = [
            layer(
                TransformerDecoderLayer,
                intermediate_dim,
                num_heads,
                dropout=dropout,
                activation=ACTIVATIONS[activation],
                layer_norm_epsilon=layer_norm_epsilon,
                normalize_first=True,
                kernel_initializer=start(),
                attention_pattern=pattern_of_layer(attention_pattern, i, max_length),
                max_relative_distance=max_length if positions == "relative" else None,
                name=f"layer_{i}",
            )
            for i in range(num_layers)
        ]
        self.final_norm = layer(keras.layers.LayerNormalization, epsilon=layer_norm_epsilon, name="final_norm")

    def build(self, input_shape=None):
        shape = (None, None, self.hidden_dim)
        self.token_embedding.build((None, None))
        for part in filter(None, (self.position_embedding, *self.decoder_layers, self.final_norm)):
            part.build(shape)
        self.built = True

    has_attention = True

    @property
    def receptive_field(self) -> int:
        """int, the number of tokens that a prediction may depend on."""
        return self.max_length

    def call(
        self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None, return_attention_scores: bool = False
    ) -> Any:
        token_ids = named_inputs(inputs)["token_ids"]
        check_length(token_ids, self.max_length)
        mask = None if self.pad_id is None else padding_mask(token_ids, self.pad_id)  # (B, T)
        x, rotation = self._embedded(token_ids, None, training)  # (B, T, D)
        weights = []
        for layer in self.decoder_layers:
            x = layer(
                x,
                decoder_padding_mask=mask,
                rotation=rotation,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                x, of_layer, _ = x
                weights.append(of_layer)
        logits = self._logits(x)  # (B, T, V)
        return (logits, ops.stack(weights, axis=1)) if return_attention_scores else logits

    def logits_mask(self, inputs: dict[str, Tensor] | Tensor) -> Tensor | None:
        """True at tokens: the loss and the metrics of `fit` ignore padding."""
        return None if self.pad_id is None else padding_mask(named_inputs(inputs)["token_ids"], self.pad_id)  # (B, T)

    def encode(self, token_ids: Tensor, mask: Tensor | None = None) -> dict[str, Any]:
        """Encodes prompts (B, P) of at least one token each: returns the `memory` for `initial_state` and `step`.

        Shorter prompts are padded on the left. `mask` (B, P) is True at tokens; None: wherever the id is not `pad_id`.
        """
        if mask is None:
            pad_id = -1 if self.pad_id is None else self.pad_id
            mask = padding_mask(token_ids, pad_id)  # (B, P)
        positions = positions_in_text(mask)  # (B, P)
        x, rotation = self._embedded(token_ids, positions)  # (B, P, D)
        caches = []
        for layer in self.decoder_layers:
            x, cache = layer(
                x,
                decoder_padding_mask=mask,
                self_attention_cache=layer.self_attention.empty_cache(*ops.shape(token_ids)),
                self_attention_cache_update_index=0,
                rotation=rotation,
                positions=(positions, positions),
            )
            caches.append(cache)
        return {"mask": mask, "last_ids": token_ids[:, -1], "layers": tuple(caches)}

    def widened(self, memory: dict[str, Any], length: int) -> dict[str, Any]:
        """Pads the memory of the prompts on the left to `length` tokens; `step` returns the same logits."""
        more = length - ops.shape(memory["mask"])[1]
        layers = tuple(
            (ops.pad(keys, ((0, 0), (0, 0), (more, 0))), ops.pad(values, ((0, 0), (more, 0), (0, 0))))
            for keys, values in memory["layers"]
        )
        return {**memory, "mask": ops.pad(memory["mask"], ((0, 0), (more, 0))), "layers": layers}

    def initial_state(self, memory: dict[str, Any], max_steps: int, beam_size: int = 1) -> dict[str, Any]:
        """The state before the first of at most `max_steps` steps, tensors with leading axis B except "shared".

        The first step reads the last token of the prompt again. From its position on, the k hypotheses of a prompt
        write side by side into one shared cache, which a beam search never reorders. Instead, "ancestors" (B, L) has
        for each hypothesis and each step t the index of the hypothesis that computed token t.
        """
        batch, _ = ops.shape(memory["mask"])
        more = max_steps * beam_size - 1
        caches = tuple(
            (ops.pad(keys, ((0, 0), (0, 0), (0, more))), ops.pad(values, ((0, 0), (0, more), (0, 0))))
            for keys, values in memory["layers"]
        )
        position, ancestors = ops.zeros((batch,), "int32"), ops.zeros((batch, max_steps), "int32")
        return {"shared": {"caches": caches}, "position": position, "ancestors": ancestors}

    def step(self, token_ids: Tensor, state: dict[str, Any], memory: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """One step without dropout: tokens (N,) -> logits (N, V) and the new state.

        A negative id stands for the last token of the prompt, so pass -1 as `start_id`. All sequences are at the same
        step. N = k B for k hypotheses of each prompt of `memory`; the hypotheses of a prompt are adjacent.
        """
        batch_size, length = ops.shape(memory["mask"])
        beams = ops.shape(token_ids)[0] // batch_size
        step = state["position"][0]
        token_ids = ops.reshape(token_ids, (batch_size, beams))
        token_ids = ops.where(token_ids < 0, memory["last_ids"][:, None], token_ids)  # (B, k)
        position = ops.sum(ops.cast(memory["mask"], "int32"), axis=1, keepdims=True) - 1 + step  # (B, 1)
        x, rotation = self._embedded(token_ids, ops.broadcast_to(position, (batch_size, beams)))  # (B, k, D)
        places = ops.tile(ops.arange(beams, dtype="int32"), (batch_size,))[:, None]  # (N, 1)
        ancestors = ops.slice_update(state["ancestors"], (0, step), places)  # (N, L)
        owned = ops.equal(ancestors[:, :, None], ops.arange(beams, dtype="int32"))  # (N, L, k)
        before = ops.broadcast_to(memory["mask"][:, None, :-1], (batch_size, beams, length - 1))
        allowed = ops.concatenate([before, ops.reshape(owned, (batch_size, beams, -1))], axis=-1)  # (B, k, P - 1 + L k)
        positions = None
        if self.attention_pattern is not None or self.positions == "relative":
            cached = self._cached_positions(memory["mask"], ops.shape(ancestors)[1], beams)  # (B, P - 1 + L k)
            positions = ops.broadcast_to(position, (batch_size, beams)), cached
        caches = []
        for layer, cache in zip(self.decoder_layers, state["shared"]["caches"], strict=True):
            x, cache = layer(
                x,
                decoder_attention_mask=allowed,
                self_attention_cache=cache,
                self_attention_cache_update_index=length - 1 + step * beams,
                rotation=rotation,
                positions=positions,
            )
            caches.append(cache)
        shared = {"caches": tuple(caches)}
        logits = ops.reshape(self._logits(x), (-1, self.vocabulary_size))
        return logits, {"shared": shared, "position": state["position"] + 1, "ancestors": ancestors}

    def _embedded(self, token_ids, positions, training=None):
        """The embedded tokens (B, T, D), and the rotary angles or None. `positions` None: 0, 1, 2 ..."""
        x, rotation = self.token_embedding(token_ids), None
        if self.position_embedding is not None:
            x = self.position_embedding(x, positions=positions)
        elif self.positions == "rotary":
            positions = ops.arange(ops.shape(token_ids)[1], dtype="int32")[None] if positions is None else positions
            rotation = rotary_angles(positions, self.hidden_dim // self.num_heads)  # (1 or B, T, K/2)
        return self.dropout_layer(x, training=training), rotation

    def _cached_positions(self, mask, num_steps, beams):
        """The positions of the cached tokens: those of the prompt except its last token, then k tokens per step."""
        before = positions_in_text(mask)  # (B, P)
        steps = ops.repeat(ops.arange(num_steps, dtype="int32"), beams)[None]  # (1, L k)
        return ops.concatenate([before[:, :-1], before[:, -1:] + steps], axis=1)

    def _logits(self, x):
        kernel = ops.transpose(ops.cast(token_table(self.token_embedding), self.compute_dtype))  # (D, V)
        return ops.cast(ops.matmul(self.final_norm(x), kernel), "float32")

    def get_config(self):
        return {**super().get_config(), **self.settings}


def positions_in_text(mask):
    """Returns the positions (B, P) of the tokens of left-padded texts; 0 at padding."""
    return ops.maximum(ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1, 0)


def scale_residual_projections(model):
    """Divides the kernels that write to the residual stream of a new model by the square root of their number.

    This keeps the initial scale of the stream independent of the number of layers (Radford et al. 2019, section 2.3).
    """
    for layer in model.decoder_layers:
        for part in (layer.self_attention.output_projection, layer.feed_forward.output_dense):
            part.kernel.assign(part.kernel * (2 * len(model.decoder_layers)) ** -0.5)
