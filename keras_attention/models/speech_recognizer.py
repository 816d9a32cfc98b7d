"""A speech recognizer that attends to the sound while it writes (Chorowski et al. 2015; Chan et al. 2016)."""

from typing import Any

import keras
from keras import ops

from keras_attention.layers.additive import AdditiveAttention
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.fast.recurrent_gradients import read_both_ways_fast
from keras_attention.layers.location_aware import LocationAwareAttention
from keras_attention.layers.masks import Tensor, padding_mask
from keras_attention.layers.recurrent import GRUCell, LSTMCell, run_over_time, time_first
from keras_attention.models.shared import SequenceLogits, check_choices, check_rates, check_sizes

SIZES = (
    "vocabulary_size",
    "num_bands",
    "convolution_dim",
    "encoder_dim",
    "embedding_dim",
    "hidden_dim",
    "num_filters",
    "filter_width",
)
CHOICES = {"attention": ("location", "content")}
SETTINGS = (*SIZES, *CHOICES, "dropout")
PADDING = -2.0  # the values of a frame of padding; those of a spectrogram are from -1 to 1
STRIDES = 2, 2  # of the convolutions over time
FRAMES_PER_CELL = 4  # their product
KERNEL_SIZE = 5


@keras.saving.register_keras_serializable(package="keras_attention")
class SpeechRecognizer(SequenceLogits, keras.Model):
    """Writes what is said in a recording, token by token, and attends to a part of the sound for each token.

        a_1..a_S = biGRU(convolutions(values))        (each convolution halves the number of frames, with ReLU)
        z_t, alpha_t = attention(h_(t-1), a_1..a_S, alpha_(t-1))        (alpha: "location" only)
        h_t, c_t = LSTM([E y_(t-1); z_t], h_(t-1), c_(t-1))
        logits_t = W [h_t; z_t] + b

    Args:
        vocabulary_size: int > 0 (V).
        num_bands: int > 0, mel bands M of the spectrogram.
        convolution_dim: int > 0, width of the convolutions.
        encoder_dim: int > 0, width of the GRU of each direction; an annotation a has twice this width.
        embedding_dim: int > 0, width of the embeddings E.
        hidden_dim: int > 0, width of the LSTM and of the attention's score function.
        attention: "location" (`LocationAwareAttention`) or "content" (`AdditiveAttention`).
        num_filters: int > 0, filters of location-aware attention.
        filter_width: int > 0, annotations that a filter covers.
        dropout: float in [0, 1), on the annotations and before the output.

    Call arguments:
        inputs: dict of `values`, float (B, F, M), log-mel spectrograms from -1 to 1 whose frames of padding are
            `PADDING`, on the right; F is a multiple of `FRAMES_PER_CELL`; and `target_ids`, int (B, T), 0 is padding;
            targets begin with START.
        training: bool. Whether to apply dropout.
        return_attention_scores: bool. Whether to return the attention weights too.

    Returns:
        Logits (B, T, V) in float32; or the pair of logits and attention weights (B, T, S) in float32, S = F / 4.

    Raises:
        ValueError: if arguments are out of range.

    Source: Chorowski et al. (2015), https://arxiv.org/abs/1506.07503; reading over several frames in each step as in
    Chan et al. (2016), Listen, Attend and Spell, section 3.1, https://arxiv.org/abs/1508.01211. Differences:
    convolutions with a stride in place of stacked recurrent layers; an LSTM in place of the GRU that writes.

    Example:
        model = SpeechRecognizer(14, num_bands=40, encoder_dim=32, hidden_dim=32)
        logits = model({"values": spectrograms, "target_ids": target_ids})
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_bands: int = 40,
        convolution_dim: int = 96,
        encoder_dim: int = 96,
        embedding_dim: int = 32,
        hidden_dim: int = 128,
        attention: str = "location",
        num_filters: int = 10,
        filter_width: int = 15,
        dropout: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.settings = {name: value for name, value in locals().items() if name in SETTINGS}
        check_sizes(self.settings, SIZES)
        check_choices(self.settings, CHOICES)
        check_rates(self.settings, "dropout")
        for name, value in self.settings.items():
            setattr(self, name, value)

        def layer(kind, *args, name, **options):
            return kind(*args, dtype=self.dtype_policy, name=name, **options)

        self.convolutions = [
            layer(
                keras.layers.Conv1D,
                convolution_dim,
                KERNEL_SIZE,
                strides=stride,
                padding="same",
                activation="relu",
                kernel_initializer="he_normal",
                data_format="channels_last",
                name=f"convolution_{i}",
            )
            for i, stride in enumerate(STRIDES)
        ]
        self.cells = [layer(GRUCell, encoder_dim, name=f"{way}_cell") for way in ("forward", "backward")]
        self.dropout_layer = layer(Dropout, dropout, name="dropout_layer")
        self.token_embedding = layer(keras.layers.Embedding, vocabulary_size, embedding_dim, name="token_embedding")
        if attention == "location":
            filters = {"num_filters": num_filters, "kernel_size": filter_width}
            self.attention_layer = layer(LocationAwareAttention, hidden_dim, name="attention", **filters)
        else:
            self.attention_layer = layer(AdditiveAttention, hidden_dim, name="attention")
        self.decoder = layer(LSTMCell, hidden_dim, name="decoder")
        self.output_projection = layer(keras.layers.Dense, vocabulary_size, name="output_projection")

    frames_per_cell = FRAMES_PER_CELL  # of the attention

    @property
    def annotation_dim(self) -> int:
        """int > 0, the width of an annotation a."""
        return 2 * self.encoder_dim

    def build(self, input_shape=None):
        width = self.num_bands
        for convolution in self.convolutions:
            convolution.build((None, None, width))
            width = convolution.filters
        for cell in self.cells:
            cell.build((None, width))
        self.token_embedding.build((None, None))
        self.attention_layer.build((None, None, self.hidden_dim), (None, None, self.annotation_dim))
        self.decoder.build((None, self.embedding_dim + self.annotation_dim))
        self.output_projection.build((None, self.hidden_dim + self.annotation_dim))
        self.built = True

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, return_attention_scores: bool = False
    ) -> Any:
        memory = self.encode(inputs["values"], training=training)
        embedded = time_first(self.token_embedding(inputs["target_ids"]))  # (T, B, E)
        state = self.initial_state(memory)
        state |= {"context": ops.zeros_like(memory["value"][:, 0])}
        _, states = run_over_time(
            lambda state, x: self._advance(x, state, memory), embedded, state, unroll=bool(training)
        )
        weights, context, hidden = map(time_first, (states["attention"], states["context"], states["cells"][0]))
        logits = self._logits(hidden, context, training)  # (B, T, V)
        return (logits, weights) if return_attention_scores else logits

    def logits_mask(self, inputs: dict[str, Tensor]) -> Tensor:
        """True at tokens of the target: the loss and the metrics of `fit` ignore padding."""
        return padding_mask(inputs["target_ids"])  # (B, T)

    def encode(self, values: Tensor, training: bool | None = None) -> dict[str, Any]:
        """Encodes spectrograms: returns the `memory` of the decoder steps, a dict of tensors with leading axis B."""
        frames = values.shape[1]
        if frames is not None and frames % FRAMES_PER_CELL:
            raise ValueError(f"The number of frames must be a multiple of {FRAMES_PER_CELL}. Received: {frames}")
        mask = values[:, :, 0] > PADDING / 2 - 0.5  # (B, F)
        x = ops.where(mask[:, :, None], ops.cast(values, self.compute_dtype), 0)
        for convolution, stride in zip(self.convolutions, STRIDES, strict=True):
            mask = mask[:, ::stride]
            x = ops.where(mask[:, :, None], convolution(x), 0)  # padding stays 0, as beyond the end
        value = read_both_ways_fast(x, mask, *self.cells)  # (B, S, 2 encoder_dim)
        value = self.dropout_layer(value, training=training)
        return {"value": value, "key": self.attention_layer.project_keys(value), "mask": mask}

    has_self_attention = False
    has_attention = True

    def cross_attention(self, inputs: dict[str, Tensor]) -> Tensor:
        """The attention weights (B, 1, 1, T, S), one layer and one head, for the inputs of `call`."""
        return self(inputs, training=False, return_attention_scores=True)[1][:, None, None]

    def initial_state(
        self, memory: dict[str, Any], max_steps: int | None = None, attention: bool = True, beam_size: int = 1
    ) -> dict[str, Any]:
        """The decoder state before the first step, a dict of tensors with leading axis B.

        "attention" (B, S) has the attention weights of the last step. The other arguments have no effect; they exist
        because `Transformer` needs them.
        """
        hidden = ops.zeros((ops.shape(memory["mask"])[0], self.hidden_dim), memory["value"].dtype)
        return {"cells": (hidden, hidden), "attention": ops.zeros(ops.shape(memory["mask"]), "float32")}

    def derived_weights(self) -> dict[str, Tensor]:
        """What `step` computes from weights alone, as its arguments: nothing."""
        return {}

    def step(self, token_ids: Tensor, state: dict[str, Any], memory: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """One decoder step without dropout: tokens (N,) -> logits (N, V) and the new state.

        N = k B for k hypotheses of each recording of `memory`; the hypotheses of a recording are adjacent.
        """
        new = self._advance(self.token_embedding(token_ids), state, memory)
        logits = self._logits(new["cells"][0], new["context"])
        return logits, {name: new[name] for name in ("cells", "attention")}

    def _advance(self, embedded, state, memory):
        """Attention and one step of the LSTM: embedded tokens (N, E) and state -> new state."""
        batch, length = ops.shape(memory["mask"])  # the k = N / B hypotheses of a recording become k queries
        query = ops.reshape(state["cells"][0], (batch, -1, self.hidden_dim))  # (B, k, H)
        options = {"attention_mask": memory["mask"][:, None, :], "projected_key": memory["key"]}
        if self.attention == "location":
            options["previous_weights"] = ops.reshape(state["attention"], (batch, -1, length))  # (B, k, S)
        context, weights = self.attention_layer(query, memory["value"], return_attention_scores=True, **options)
        context = ops.reshape(context, (-1, self.annotation_dim))  # (N, D)
        _, cells = self.decoder(self.decoder.project(ops.concatenate([embedded, context], axis=-1)), state["cells"])
        return {"cells": cells, "attention": ops.reshape(weights, (-1, length)), "context": context}

    def _logits(self, hidden, context, training=None):
        """Logits (..., V) from the LSTM and what was attended to."""
        x = self.dropout_layer(ops.concatenate([hidden, context], axis=-1), training=training)
        return ops.cast(self.output_projection(x), "float32")

    def get_config(self):
        return {**super().get_config(), **self.settings}
