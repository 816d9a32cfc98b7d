"""The RNN encoder-decoder with or without attention (Bahdanau et al. 2015, Luong et al. 2015)."""

from typing import Any

import keras
from keras import ops

from keras_attention.layers import AdditiveAttention, LuongAttention, padding_mask
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.masks import Tensor
from keras_attention.layers.recurrent import GRUCell, LSTMCell, read_both_ways, run_over_time, time_first
from keras_attention.models.shared import (
    SequenceLogits,
    check_choices,
    check_rates,
    check_sizes,
    check_tying,
    source_and_target,
    token_table,
)

CELLS = {"gru": GRUCell, "lstm": LSTMCell}
LUONG_SCORES = ("dot", "general", "concat")
SIZES = ("source_vocabulary_size", "target_vocabulary_size", "embedding_dim", "hidden_dim", "num_layers")
CHOICES = {
    "cell": tuple(CELLS),
    "attention": ("additive", *LUONG_SCORES, "none"),
    "attention_mode": ("global", "local_m", "local_p"),
    "tie_embeddings": ("none", "target", "all"),
}
SETTINGS = (*SIZES, *CHOICES, "attention_window", "input_feeding", "dropout")


def check_settings(**settings):
    """Raises ValueError for settings that are out of range or do not fit together."""
    check_sizes(settings, (*SIZES, "attention_window"))
    check_choices(settings, CHOICES)
    if settings["hidden_dim"] % 2:
        raise ValueError(f"`hidden_dim` must be even. Received: hidden_dim={settings['hidden_dim']}")
    check_rates(settings, "dropout")
    if settings["attention_mode"] != "global" and settings["attention"] not in LUONG_SCORES:
        raise ValueError(
            f"`attention_mode` {settings['attention_mode']} needs one of Luong's scores {LUONG_SCORES}. "
            f"Received: attention={settings['attention']}"
        )
    check_tying(settings)


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionSeq2Seq(SequenceLogits, keras.Model):
    """Recurrent encoder-decoder: encodes a sentence in both directions, then generates another that attends to it.

        h_1..h_S = BiRNN(source)            s_t = RNN([y_(t-1); o_(t-1)], s_(t-1))
        c_t = attention(s_t, h_1..h_S)      o_t = tanh(W_c [c_t; s_t])      logits_t = W_o o_t + b

    With `attention="none"`, every c_t is the encoder's last state: one vector for the whole sentence.

    Args:
        source_vocabulary_size: int > 0.
        target_vocabulary_size: int > 0.
        embedding_dim: int > 0. Width of the embeddings and of o_t.
        hidden_dim: even int > 0. Width of the decoder's state; each direction of the encoder has half of it.
        num_layers: int > 0. Recurrent layers in the encoder and in the decoder.
        cell: "gru" or "lstm".
        attention: "additive" (Bahdanau), "dot", "general", "concat" (Luong) or "none".
        attention_mode: "global", "local_m" or "local_p" (Luong's scores only).
        attention_window: int > 0, tokens to each side of the aligned position (D in Luong et al.), local modes only.
        input_feeding: bool. Whether o_(t-1) is an input of the next step. Without it, training computes the attention
            of all target tokens in one product.
        tie_embeddings: "none", "target" (W_o is the target embedding) or "all" (the source embedding too).
        dropout: float in [0, 1), on embeddings, between layers, on the encoder's output and on o_t.

    Call arguments:
        inputs: dict of `source_ids` (B, S) and `target_ids` (B, T), int, 0 is padding; targets begin with START.

    Returns:
        Logits (B, T, V) in float32, or the pair of logits and attention weights (B, T, S) in float32.

    Raises:
        ValueError: if arguments are out of range or do not fit together.

    Source: Bahdanau, Cho & Bengio (2015), https://arxiv.org/abs/1409.0473, and Luong, Pham & Manning (2015), sections 3
    and 3.3 (input feeding), https://arxiv.org/abs/1508.04025. Difference: the query is s_t, as in Luong et al., also
    for Bahdanau's score; Bahdanau et al. use s_(t-1). The model without attention is that of Cho et al. (2014), which
    uses the encoder's last state at every step.
    """

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        embedding_dim: int = 256,
        hidden_dim: int = 512,
        num_layers: int = 1,
        cell: str = "gru",
        attention: str = "additive",
        attention_mode: str = "global",
        attention_window: int = 10,
        input_feeding: bool = True,
        tie_embeddings: str = "target",
        dropout: float = 0.3,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.settings = {name: value for name, value in locals().items() if name in SETTINGS}
        check_settings(**self.settings)
        for name, value in self.settings.items():
            setattr(self, name, value)

        def layer(kind, *args, name, **options):
            return kind(*args, dtype=self.dtype_policy, name=name, **options)

        dense, embedding, recurrent_cell = keras.layers.Dense, keras.layers.Embedding, CELLS[cell]
        scale = keras.initializers.RandomNormal(stddev=embedding_dim**-0.5)
        self.target_embedding = layer(
            embedding, target_vocabulary_size, embedding_dim, embeddings_initializer=scale, name="target_embedding"
        )
        self.source_embedding = self.target_embedding
        if tie_embeddings != "all":
            self.source_embedding = layer(
                embedding, source_vocabulary_size, embedding_dim, embeddings_initializer=scale, name="source_embedding"
            )
        self.forward_cells, self.backward_cells, self.decoder_cells, self.bridges = [], [], [], []
        for i in range(num_layers):
            self.forward_cells.append(layer(recurrent_cell, hidden_dim // 2, name=f"encoder_forward_{i}"))
            self.backward_cells.append(layer(recurrent_cell, hidden_dim // 2, name=f"encoder_backward_{i}"))
            self.bridges.append(layer(dense, hidden_dim, activation="tanh", name=f"bridge_{i}"))
            self.decoder_cells.append(layer(recurrent_cell, hidden_dim, name=f"decoder_{i}"))
        self.attention_layer = None
        if attention == "additive":
            self.attention_layer = layer(AdditiveAttention, hidden_dim, name="attention")
        elif attention != "none":
            options = {"mode": attention_mode, "window": attention_window, "units": hidden_dim}
            self.attention_layer = layer(LuongAttention, score=attention, **options, name="attention")
        self.feed_projection = None
        if input_feeding:
            gates = recurrent_cell.num_gates * hidden_dim
            self.feed_projection = layer(dense, gates, use_bias=False, name="feed_projection")
        self.combine = layer(dense, embedding_dim, activation="tanh", name="combine")
        self.dropout_layer = layer(Dropout, dropout, name="dropout_layer")
        self.output_projection = None
        if tie_embeddings == "none":
            self.output_projection = layer(dense, target_vocabulary_size, use_bias=False, name="output_projection")

    def build(self, input_shape=None):
        width, hidden = self.embedding_dim, self.hidden_dim
        for embedding in {id(table): table for table in (self.source_embedding, self.target_embedding)}.values():
            embedding.build((None, None))
        for i in range(self.num_layers):
            self.forward_cells[i].build((None, width if i == 0 else hidden))
            self.backward_cells[i].build((None, width if i == 0 else hidden))
            self.bridges[i].build((None, hidden))
            self.decoder_cells[i].build((None, width if i == 0 else hidden))
        if self.attention_layer is not None:
            self.attention_layer.build((None, None, hidden), (None, None, hidden))
        if self.feed_projection is not None:
            self.feed_projection.build((None, width))
        self.combine.build((None, 2 * hidden))
        if self.output_projection is not None:
            self.output_projection.build((None, width))
        self.output_bias = self.add_weight((self.target_vocabulary_size,), "zeros", name="output_bias")
        self.built = True

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, return_attention_scores: bool = False
    ) -> Any:
        source_ids, target_ids = source_and_target(inputs)
        memory = self.encode(source_ids, training=training)
        state = self.initial_state(memory)
        embedded = self.dropout_layer(self.target_embedding(target_ids), training=training)  # (B, T, D)
        projected = time_first(self.decoder_cells[0].project(embedded))  # (T, B, gates)
        dropped = self._layer_dropout(source_ids, training)
        if self.input_feeding:
            _, states = run_over_time(
                lambda state, x: self._advance(x, state, memory, dropped), projected, state, unroll=bool(training)
            )
            outputs = time_first(states["output"])  # (B, T, D)
            weights = time_first(states["attention"]) if self.attention_layer is not None else None  # (B, T, S)
        else:
            _, cells = run_over_time(
                lambda cells, x: self._run_cells(x, cells, dropped)[1], projected, state["cells"], unroll=bool(training)
            )
            outputs, weights = self._attend(time_first(cells[-1][0]), memory)
        if return_attention_scores and weights is None:
            raise ValueError('A model with attention="none" has no attention scores to return.')
        logits = self._logits(self.dropout_layer(outputs, training=training))  # (B, T, V)
        return (logits, weights) if return_attention_scores else logits

    def logits_mask(self, inputs: dict[str, Tensor]) -> Tensor:
        """True at tokens of the target: the loss and the metrics of `fit` ignore padding."""
        return padding_mask(inputs["target_ids"])  # (B, T)

    def encode(self, source_ids: Tensor, training: bool | None = None) -> dict[str, Any]:
        """Encodes sources (B, S): returns the `memory` of the decoder steps, a dict of tensors with leading axis B."""
        mask = padding_mask(source_ids)  # (B, S)
        sequence, summary = self.source_embedding(source_ids), None  # (B, S, D)
        for forward_cell, backward_cell in zip(self.forward_cells, self.backward_cells, strict=True):
            sequence = self.dropout_layer(sequence, training=training)
            sequence, summary = read_both_ways(sequence, mask, forward_cell, backward_cell, unroll=bool(training))
        value = self.dropout_layer(sequence, training=training)
        memory = {"value": value, "mask": mask, "summary": summary}
        if self.attention_layer is not None:
            memory["key"] = self.attention_layer.project_keys(value)
        return memory

    has_self_attention = False

    @property
    def has_attention(self) -> bool:
        """bool. Whether the model has attention."""
        return self.attention_layer is not None

    def cross_attention(self, inputs: dict[str, Tensor]) -> Tensor:
        """The cross-attention weights (B, 1, 1, T, S), one layer and one head, for the inputs of `call`."""
        return self(inputs, training=False, return_attention_scores=True)[1][:, None, None]

    def initial_state(
        self, memory: dict[str, Any], max_steps: int | None = None, attention: bool = True, beam_size: int = 1
    ) -> dict[str, Any]:
        """The decoder state before the first step, a dict of tensors with leading axis B.

        A model with attention also stores the attention weights of the last step, "attention" (B, S). `max_steps`,
        `attention` and `beam_size` have no effect; they exist because `Transformer` needs them.
        """
        batch, length = ops.shape(memory["mask"])
        cells = []
        for bridge in self.bridges:
            start = bridge(memory["summary"])
            cells.append((start,) + (ops.zeros_like(start),) * (CELLS[self.cell].num_states - 1))
        output = ops.zeros((batch, self.embedding_dim), dtype=self.compute_dtype)
        state = {"cells": tuple(cells), "output": output}
        if self.attention_layer is not None:
            state["attention"] = ops.zeros((batch, length), dtype="float32")
            state["position"] = ops.zeros((batch,), dtype="float32")
        return state

    def derived_weights(self) -> dict[str, Tensor]:
        """What `step` computes from weights alone, as its arguments: nothing."""
        return {}

    def step(self, token_ids: Tensor, state: dict[str, Any], memory: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """One decoder step without dropout: tokens (N,) -> logits (N, V) and the new state.

        N = k B for k hypotheses of each source of `memory`; the hypotheses of a source are adjacent.
        """
        projected = self.decoder_cells[0].project(self.target_embedding(token_ids))  # (N, gates)
        state = self._advance(projected, state, memory)
        return self._logits(state["output"]), state

    def _advance(self, projected, state, memory, dropped=None):
        """One step of recurrence and attention: projected input (N, gates) and state -> new state."""
        if self.feed_projection is not None:
            projected = projected + self.feed_projection(state["output"])
        hidden, cells = self._run_cells(projected, state["cells"], dropped)
        batch_size, length = ops.shape(memory["mask"])  # the k = N / B hypotheses of a source become k queries
        position = ops.reshape(state["position"], (batch_size, -1)) if self.attention_mode == "local_m" else None
        output, weights = self._attend(ops.reshape(hidden, (batch_size, -1, self.hidden_dim)), memory, position)
        new = {"cells": cells, "output": ops.reshape(output, (-1, self.embedding_dim))}  # (B, k, D) -> (N, D)
        if weights is not None:
            new["attention"] = ops.reshape(weights, (-1, length))
            new["position"] = state["position"] + 1
        return new

    def _run_cells(self, projected, cells, dropped):
        hidden, new_cells = None, []
        for i, (cell, states) in enumerate(zip(self.decoder_cells, cells, strict=True)):
            if i > 0:
                projected = cell.project(hidden if dropped is None else hidden * dropped[i - 1])
            hidden, states = cell(projected, states)
            new_cells.append(states)
        return hidden, tuple(new_cells)

    def _layer_dropout(self, source_ids, training):
        """One dropout mask per sentence between two decoder layers, the same at all steps (Gal & Ghahramani, 2016)."""
        shape = (self.num_layers - 1, ops.shape(source_ids)[0], self.hidden_dim)
        kept = training and self.num_layers > 1
        return self.dropout_layer(ops.ones(shape, dtype=self.compute_dtype), training=True) if kept else None

    def _attend(self, hidden, memory, position=None):
        """o = tanh(W_c [c; s]) for queries (B, T, hidden), and the weights (B, T, S) or None."""
        if self.attention_layer is None:
            context, weights = ops.broadcast_to(memory["summary"][:, None, :], ops.shape(hidden)), None
        else:
            extra = {} if position is None else {"position": position}
            context, weights = self.attention_layer(
                hidden,
                memory["value"],
                attention_mask=memory["mask"][:, None, :],
                projected_key=memory["key"],
                return_attention_scores=True,
                **extra,
            )
        return self.combine(ops.concatenate([context, hidden], axis=-1)), weights

    def _logits(self, outputs):
        if self.output_projection is not None:
            logits = self.output_projection(outputs)
        else:
            table = ops.cast(token_table(self.target_embedding), self.compute_dtype)
            logits = ops.matmul(outputs, ops.transpose(table))
        return ops.cast(logits, "float32") + ops.cast(self.output_bias, "float32")

    def get_config(self):
        return {**super().get_config(), **self.settings}
