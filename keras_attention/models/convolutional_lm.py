"""The convolutional causal language model (van den Oord et al. 2016, Kalchbrenner et al. 2016): settings and model."""

from typing import Any

import keras
from keras import ops

from keras_attention.layers import padding_mask
from keras_attention.layers.causal_convolution import GatedCausalConvolution
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.masks import Tensor
from keras_attention.models.shared import (
    SequenceLogits,
    check_length,
    check_pad_id,
    check_rates,
    check_sizes,
    named_inputs,
    token_table,
)

SIZES = ("vocabulary_size", "hidden_dim", "num_layers", "max_length", "dilation_cycle")
SETTINGS = (*SIZES, "kernel_size", "dropout", "pad_id")


def check_settings(**settings):
    """Raises ValueError for a setting out of range."""
    check_sizes(settings, SIZES)
    check_rates(settings, "dropout")
    check_pad_id(settings)


@keras.saving.register_keras_serializable(package="keras_attention")
class ConvolutionalLM(SequenceLogits, keras.Model):
    """Predicts the next token of a text from a fixed number of tokens before it, the receptive field.

        x = E[token]        x = x + W_i gate(convolution_i(norm_i x))        logits = E norm(x) + b

    A convolution reads `kernel_size` inputs. From layer to layer, their distance doubles from 1 to
    2^(dilation_cycle - 1), and then starts from 1 again. So the receptive field grows exponentially within a cycle, and
    all positions are computed in parallel. For generation with `decoding`, `encode` reads the prompts once,
    `initial_state` prepares the state, and `step` is the step function.

    Args:
        vocabulary_size: int > 0.
        hidden_dim: int > 0. Width D of the embeddings and of all layers.
        num_layers: int > 0.
        max_length: int > 0, tokens. The longest text that `call` accepts; the architecture itself has no limit.
        kernel_size: int > 1, number of inputs that a convolution reads.
        dilation_cycle: int > 0, number of layers after which the distance between these inputs starts from 1 again.
        dropout: float in [0, 1), on embeddings and on the output of each layer, before the residual sum.
        pad_id: int >= 0, the id of padding; None if there is no padding.

    Call arguments:
        inputs: int tensor (B, T), the token ids, with padding on the right only; or a dict with them as `token_ids`.
        training: bool. Whether to apply dropout.

    Returns:
        Logits (B, T, V) in float32; those at position t predict token t + 1. Logits at padding are finite but
        meaningless.

    Raises:
        ValueError: if an argument is out of range, or a text is longer than `max_length`.

    Source: the gated, dilated, causal convolutions and residual connections of van den Oord et al. (2016), sections 2.1
    to 2.4, https://arxiv.org/abs/1609.03499, with layer normalization as in Kalchbrenner et al. (2016),
    https://arxiv.org/abs/1610.10099; compared with recurrent networks by Bai et al. (2018),
    https://arxiv.org/abs/1803.01271. Differences: the output reads the residual stream instead of skip connections, and
    shares the embeddings.

    Example:
        model = ConvolutionalLM(8000, hidden_dim=256, num_layers=8, max_length=128)
        logits = model(token_ids)
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        num_layers: int,
        max_length: int = 1024,
        kernel_size: int = 3,
        dilation_cycle: int = 7,
        dropout: float = 0.1,
        pad_id: int | None = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.settings = {name: value for name, value in locals().items() if name in SETTINGS}
        check_settings(**self.settings)
        for name, value in self.settings.items():
            setattr(self, name, value)

        def layers(kind, *args, name, **options):
            return [kind(*args, dtype=self.dtype_policy, name=f"{name}_{i}", **options) for i in range(num_layers)]

        start = keras.initializers.RandomNormal(stddev=0.02)
        self.token_embedding = keras.layers.Embedding(
            vocabulary_size, hidden_dim, embeddings_initializer=start, dtype=self.dtype_policy, name="token_embedding"
        )
        self.norms = layers(keras.layers.LayerNormalization, epsilon=1e-5, name="norm")
        self.convolutions = [
            GatedCausalConvolution(
                hidden_dim, kernel_size, 2 ** (i % dilation_cycle), dtype=self.dtype_policy, name=f"convolution_{i}"
            )
            for i in range(num_layers)
        ]
        self.mixers = layers(keras.layers.Dense, hidden_dim, name="mixer")
        self.final_norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype=self.dtype_policy, name="final_norm")
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy, name="dropout_layer")

    def build(self, input_shape=None):
        self.token_embedding.build((None, None))
        for part in (*self.norms, *self.convolutions, *self.mixers, self.final_norm):
            part.build((None, None, self.hidden_dim))
        self.output_bias = self.add_weight((self.vocabulary_size,), "zeros", name="output_bias")
        self.built = True

    has_attention = False

    @property
    def receptive_field(self) -> int:
        """int, the number of tokens that a prediction depends on."""
        return 1 + sum(convolution.reach for convolution in self.convolutions)

    def call(self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None) -> Any:
        token_ids = named_inputs(inputs)["token_ids"]
        check_length(token_ids, self.max_length)
        x = self.dropout_layer(self.token_embedding(token_ids), training=training)  # (B, T, D)
        for norm, convolution, mixer in self._parts():
            x = x + self.dropout_layer(mixer(convolution(norm(x))), training=training)
        return self._logits(x)  # (B, T, V)

    def logits_mask(self, inputs: dict[str, Tensor] | Tensor) -> Tensor | None:
        """True at tokens: the loss and the metrics of `fit` ignore padding."""
        return None if self.pad_id is None else padding_mask(named_inputs(inputs)["token_ids"], self.pad_id)  # (B, T)

    def encode(self, token_ids: Tensor, mask: Tensor | None = None) -> dict[str, Any]:
        """Encodes prompts (B, P) of at least one token each: returns the `memory` for `initial_state` and `step`.

        Shorter prompts are padded on the left. `mask` (B, P) is True at tokens; None: wherever the id is not `pad_id`.
        The last token is not part of the state; the first step reads it.
        """
        if mask is None:
            mask = padding_mask(token_ids, -1 if self.pad_id is None else self.pad_id)  # (B, P)
        x, rings = self.token_embedding(token_ids), []  # (B, P, D)
        for norm, convolution, mixer in self._parts():
            normed = norm(x)
            rings.append(convolution.ring(normed, mask))
            x = x + mixer(convolution(normed, mask=mask))
        return {"mask": mask, "last_ids": token_ids[:, -1], "rings": tuple(rings)}

    def widened(self, memory: dict[str, Any], length: int) -> dict[str, Any]:
        """Pads the memory of the prompts on the left to `length` tokens; `step` returns the same logits."""
        more = length - ops.shape(memory["mask"])[1]
        return {**memory, "mask": ops.pad(memory["mask"], ((0, 0), (more, 0)))}

    def initial_state(self, memory: dict[str, Any], max_steps: int | None = None, beam_size: int = 1) -> dict[str, Any]:
        """The state before the first step: tensors with leading axis B.

        `max_steps` and `beam_size` have no effect; they exist because `GPT` needs them.
        """
        return {"rings": memory["rings"], "position": ops.zeros(ops.shape(memory["last_ids"]), "int32")}

    def step(self, token_ids: Tensor, state: dict[str, Any], memory: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """One step without dropout: tokens (N,) -> logits (N, V) and the new state.

        A negative id stands for the last token of the prompt, so pass -1 as `start_id`. All sequences are at the same
        step. N = k B for k hypotheses of each prompt of `memory`; the hypotheses of a prompt are adjacent.
        """
        beams = ops.shape(token_ids)[0] // ops.shape(memory["last_ids"])[0]
        token_ids = ops.where(token_ids < 0, ops.repeat(memory["last_ids"], beams), token_ids)
        x, rings = self.token_embedding(token_ids), []  # (N, D)
        for (norm, convolution, mixer), ring in zip(self._parts(), state["rings"], strict=True):
            convolved, ring = convolution.step(norm(x), ring, state["position"][0])
            x = x + mixer(convolved)
            rings.append(ring)
        return self._logits(x), {"rings": tuple(rings), "position": state["position"] + 1}

    def _parts(self):
        return zip(self.norms, self.convolutions, self.mixers, strict=True)

    def _logits(self, x):
        kernel = ops.transpose(ops.cast(token_table(self.token_embedding), self.compute_dtype))  # (D, V)
        return ops.cast(ops.matmul(self.final_norm(x), kernel), "float32") + ops.cast(self.output_bias, "float32")

    def get_config(self):
        return {**super().get_config(), **self.settings}
