"""Recurrent language models (Mikolov et al. 2010, Zaremba et al. 2014) and classifiers (Cheng et al. 2016)."""

from typing import Any, Self

import keras
from keras import ops

from keras_attention.layers import GRUCell, LSTMCell, LSTMNCell, padding_mask
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.fast.recurrent_gradients import read_forwards
from keras_attention.layers.lstmn import fill_tape, longer_tape, read_with_tape
from keras_attention.layers.masks import Tensor
from keras_attention.layers.recurrent import run_over_time, time_first
from keras_attention.models.bert_heads import mean_of_tokens
from keras_attention.models.shared import (
    FromPreset,
    SequenceLogits,
    check_choices,
    check_length,
    check_pad_id,
    check_rates,
    check_sizes,
    named_inputs,
    token_table,
)

SIZES = ("vocabulary_size", "hidden_dim", "num_layers", "max_length")
SETTINGS = (*SIZES, "cell", "dropout", "pad_id")
CELLS = {"lstm": LSTMCell, "gru": GRUCell, "lstmn": LSTMNCell}


def check_settings(**settings):
    """Raises ValueError for a setting out of range."""
    check_sizes(settings, SIZES)
    check_choices(settings, {"cell": tuple(CELLS)})
    check_rates(settings, "dropout")
    check_pad_id(settings)


@keras.saving.register_keras_serializable(package="keras_attention")
class RecurrentLM(SequenceLogits, keras.Model):
    """Predicts the next token of a text from a state, which it updates with every token.

    The state of a GRU or LSTM has a fixed size. The state of an LSTMN is a tape of all earlier states, which it attends
    to.

        x = E[token]        x = cells(x), layer by layer, from left to right        logits = E x + b

    For generation with `decoding`, `encode` reads the prompts once, `initial_state` prepares the state, and `step` is
    the step function.

    Args:
        vocabulary_size: int > 0.
        hidden_dim: int > 0. Width H of the embeddings and of all layers.
        num_layers: int > 0.
        max_length: int > 0, tokens. The longest text that `call` accepts; the architecture itself has no limit.
        cell: "lstm", "gru" or "lstmn".
        dropout: float in [0, 1), on embeddings, between layers and on the output of the last layer.
        pad_id: int >= 0, the id of padding; None if there is no padding.

    Call arguments:
        inputs: int tensor (B, T), the token ids, with padding on the right only; or a dict with them as `token_ids`.
        training: bool. Whether to apply dropout.
        return_attention_scores: bool. Whether to return the attention weights too; for LSTMN only.

    Returns:
        Logits (B, T, V) in float32; those at position t predict token t + 1. Or the pair of logits and float32
        attention weights (B, L, 1, T, T) of L layers with one head: the weight of each earlier step at each step.
        Logits at padding are finite but meaningless.

    Raises:
        ValueError: if an argument is out of range, a text is longer than `max_length`, or attention weights of a GRU or
            LSTM are requested.

    Source: Zaremba, Sutskever & Vinyals (2014), section 3, https://arxiv.org/abs/1409.2329: dropout on all connections
    but the recurrent ones. Differences: the output shares the embeddings (Press & Wolf 2017,
    https://arxiv.org/abs/1608.05859), and each text starts with a zero state, not with the previous text's. LSTMN:
    Cheng, Dong & Lapata (2016), https://arxiv.org/abs/1601.06733, without the gated skip connections between layers.

    Example:
        model = RecurrentLM(8000, hidden_dim=256, num_layers=2, max_length=128)
        logits = model(token_ids)
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        num_layers: int,
        max_length: int = 1024,
        cell: str = "lstm",
        dropout: float = 0.1,
        pad_id: int | None = 0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.settings = {name: value for name, value in locals().items() if name in SETTINGS}
        check_settings(**self.settings)
        for name, value in self.settings.items():
            setattr(self, name, value)
        start = keras.initializers.RandomUniform(-0.1, 0.1)
        self.token_embedding = keras.layers.Embedding(
            vocabulary_size, hidden_dim, embeddings_initializer=start, dtype=self.dtype_policy, name="token_embedding"
        )
        self.cells = [CELLS[cell](hidden_dim, dtype=self.dtype_policy, name=f"cell_{i}") for i in range(num_layers)]
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy, name="dropout_layer")

    def build(self, input_shape=None):
        self.token_embedding.build((None, None))
        for cell in self.cells:
            cell.build((None, self.hidden_dim))
        self.output_bias = self.add_weight((self.vocabulary_size,), "zeros", name="output_bias")
        self.built = True

    @property
    def has_attention(self) -> bool:
        """bool. Whether the model has attention weights."""
        return self.cell == "lstmn"

    @property
    def receptive_field(self) -> int:
        """int, the number of tokens that a prediction may depend on."""
        return self.max_length

    def call(
        self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None, return_attention_scores: bool = False
    ) -> Any:
        if return_attention_scores and not self.has_attention:
            raise ValueError(f'Only cell="lstmn" has attention scores to return. Received: cell="{self.cell}"')
        token_ids = named_inputs(inputs)["token_ids"]
        check_length(token_ids, self.max_length)
        x = self.dropout_layer(self.token_embedding(token_ids), training=training)  # (B, T, H)
        weights = []
        for cell in self.cells:
            x, of_cell = read_with_tape(cell, x) if self.cell == "lstmn" else (read_forwards(cell, x), None)
            x = self.dropout_layer(x, training=training)
            weights.append(of_cell)
        logits = self._logits(x)  # (B, T, V)
        return (logits, ops.stack(weights, axis=1)[:, :, None]) if return_attention_scores else logits

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
        x, states = self.token_embedding(token_ids), []  # (B, P, H)
        for cell in self.cells:
            x, end = fill_tape(cell, x, mask) if self.cell == "lstmn" else _all_but_last(cell, x, mask)
            states.append(end)
        return {"mask": mask, "last_ids": token_ids[:, -1], "states": tuple(states)}

    def widened(self, memory: dict[str, Any], length: int) -> dict[str, Any]:
        """Pads the memory of the prompts on the left to `length` tokens; `step` returns the same logits."""
        more = length - ops.shape(memory["mask"])[1]
        states = memory["states"]
        if self.cell == "lstmn":
            states = tuple(longer_tape(of_cell, more, 0) for of_cell in states)
        return {**memory, "mask": ops.pad(memory["mask"], ((0, 0), (more, 0))), "states": states}

    def initial_state(self, memory: dict[str, Any], max_steps: int, beam_size: int = 1) -> dict[str, Any]:
        """The state before the first of at most `max_steps` steps: tensors with leading axis B.

        `beam_size` has no effect; it exists because `GPT` needs it.
        """
        states = memory["states"]
        if self.cell == "lstmn":
            states = tuple(longer_tape(of_cell, 0, max_steps - 1) for of_cell in states)
        return {"states": states}

    def step(self, token_ids: Tensor, state: dict[str, Any], memory: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """One step without dropout: tokens (N,) -> logits (N, V) and the new state.

        A negative id stands for the last token of the prompt, so pass -1 as `start_id`. N = k B for k hypotheses of
        each prompt of `memory`; the hypotheses of a prompt are adjacent.
        """
        beams = ops.shape(token_ids)[0] // ops.shape(memory["last_ids"])[0]
        token_ids = ops.where(token_ids < 0, ops.repeat(memory["last_ids"], beams), token_ids)
        x, states = self.token_embedding(token_ids), []  # (N, H)
        for cell, before in zip(self.cells, state["states"], strict=True):
            x, after, *_ = cell(cell.project(x), before)
            states.append(after)
        return self._logits(x), {"states": tuple(states)}

    def _logits(self, x):
        kernel = ops.transpose(ops.cast(token_table(self.token_embedding), self.compute_dtype))  # (H, V)
        return ops.cast(ops.matmul(x, kernel), "float32") + ops.cast(self.output_bias, "float32")

    def get_config(self):
        return {**super().get_config(), **self.settings}


def _all_but_last(cell, sequence, mask):
    """Like `fill_tape`, for a GRU or LSTM: returns outputs (B, P, H) and the states before the last position."""
    batch, length = ops.shape(mask)
    steps_mask = ops.logical_and(mask, ops.arange(length, dtype="int32") < length - 1)
    end, states = run_over_time(
        lambda carry, x: cell(x[0], carry, step_mask=x[1])[1],
        (time_first(cell.project(sequence)), ops.transpose(steps_mask)[:, :, None]),  # (P, B, ...)
        (ops.zeros((batch, cell.units), dtype=cell.compute_dtype),) * cell.num_states,
    )
    return time_first(states[0]), end


CLASSIFIER_SIZES = ("vocabulary_size", "hidden_dim", "num_labels", "num_layers")
CLASSIFIER_SETTINGS = (*CLASSIFIER_SIZES, "cell", "dropout", "embedding_dim")


@keras.saving.register_keras_serializable(package="keras_attention")
class RecurrentClassifier(FromPreset, keras.Model):
    """Classifies texts by the mean of the states of a recurrent network.

        x = E[token]        x = cells(x), layer by layer, from left to right
        logits = W_2 relu(W_1 mean(x) + b_1) + b_2

    Args:
        vocabulary_size: int > 0.
        hidden_dim: int > 0. Width H of all layers.
        num_labels: int > 0. K.
        num_layers: int > 0. L.
        cell: "lstm", "gru" or "lstmn".
        dropout: float in [0, 1), on embeddings, between layers, and before the last dense layer.
        embedding_dim: int > 0, width E of the embeddings, such as that of given word vectors; None: `hidden_dim`.

    Call arguments:
        inputs: int tensor (B, T), the token ids, with padding 0 on the right only; or a dict with them as `token_ids`.
        training: bool. Whether to apply dropout.
        return_attention_scores: bool. Whether to return the attention weights too; for LSTMN only.

    Returns:
        Logits (B, K) in float32; or the pair of logits and float32 attention weights (B, L, 1, T, T): the weight of
        each earlier token at each token, which links a word to the words that it recalled.

    Raises:
        ValueError: if an argument is out of range, or attention weights of a GRU or LSTM are requested.

    Source: Cheng, Dong & Lapata (2016), section 5.2, https://arxiv.org/abs/1601.06733. Differences: the embeddings
    start random unless word vectors are given, and LSTMN has no gated skip connections between layers.

    Example:
        model = RecurrentClassifier(8000, hidden_dim=168, num_labels=5, cell="lstmn")
        logits = model(token_ids)
    """

    presets = {
        "tiny": {"hidden_dim": 64, "num_layers": 1},
        "mini": {"hidden_dim": 128, "num_layers": 1},
        "small": {"hidden_dim": 256, "num_layers": 1},
        "medium": {"hidden_dim": 256, "num_layers": 2},
    }
    usual_learning_rate = 2e-3
    num_segments, num_heads = 0, 1  # it reads no segments; the attention of an LSTMN has one head

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        num_labels: int,
        num_layers: int = 1,
        cell: str = "lstm",
        dropout: float = 0.3,
        embedding_dim: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.settings = {name: value for name, value in locals().items() if name in CLASSIFIER_SETTINGS}
        check_sizes(self.settings, CLASSIFIER_SIZES if embedding_dim is None else (*CLASSIFIER_SIZES, "embedding_dim"))
        check_choices(self.settings, {"cell": tuple(CELLS)})
        check_rates(self.settings, "dropout")
        for name, value in self.settings.items():
            setattr(self, name, value)
        options = {"dtype": self.dtype_policy}
        width = embedding_dim or hidden_dim
        self.token_embedding = keras.layers.Embedding(vocabulary_size, width, name="token_embedding", **options)
        self.cells = [CELLS[cell](hidden_dim, name=f"cell_{i}", **options) for i in range(num_layers)]
        self.dropout_layer = Dropout(dropout, name="dropout_layer", **options)
        self.dense = keras.layers.Dense(hidden_dim, "relu", name="dense", **options)
        self.output_dense = keras.layers.Dense(num_labels, name="output_dense", **options)

    def build(self, input_shape=None):
        self.token_embedding.build((None, None))
        self.cells[0].build((None, self.embedding_dim or self.hidden_dim))
        for part in (*self.cells[1:], self.dense, self.output_dense):
            part.build((None, self.hidden_dim))
        self.built = True

    def call(
        self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None, return_attention_scores: bool = False
    ) -> Any:
        if return_attention_scores and self.cell != "lstmn":
            raise ValueError(f'Only cell="lstmn" has attention scores to return. Received: cell="{self.cell}"')
        mean, weights = self._read(inputs, training)  # (B, H)
        hidden = self.dropout_layer(self.dense(mean), training=training)
        logits = ops.cast(self.output_dense(hidden), "float32")  # (B, K)
        return (logits, ops.stack(weights, axis=1)[:, :, None]) if return_attention_scores else logits

    def pooled(self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None) -> Tensor:
        """The mean of the states (B, H), which the head reads."""
        if not self.built:
            self.build()
        return self._read(inputs, training)[0]

    def _read(self, inputs, training):
        """The mean of the states of the last layer, and the attention weights of each layer, if it has any."""
        token_ids = named_inputs(inputs)["token_ids"]
        x, weights = self.token_embedding(token_ids), []  # (B, T, E)
        for cell in self.cells:
            x = self.dropout_layer(x, training=training)
            x, of_cell = read_with_tape(cell, x) if self.cell == "lstmn" else (read_forwards(cell, x), None)
            weights.append(of_cell)
        return mean_of_tokens(x, padding_mask(token_ids)), weights

    @property
    def has_attention(self) -> bool:
        """bool. Whether the model has attention weights."""
        return self.cell == "lstmn"

    @property
    def head(self) -> list[keras.layers.Layer]:
        """The layers from `pooled` to the logits."""
        return [self.dense, self.output_dense]

    def layer_groups(self) -> list[list[keras.layers.Layer]]:
        """The embeddings, then each recurrent layer from bottom to top."""
        return [[self.token_embedding], *([cell] for cell in self.cells)]

    @classmethod
    def from_trained(
        cls, network: keras.Model, num_labels: int, *, head: str = "new", dtype: Any = None, **changes: Any
    ) -> Self:
        """A classifier with the recurrent layers of a trained one, see `shared.FinetunableNetwork`.

        Args:
            network: RecurrentClassifier, built.
            num_labels: int > 0.
            head: "new" or "linear", random weights; "kept", the trained ones.
            changes: settings that differ from the network's: `dropout` and `num_layers` (the lowest are kept).

        Raises:
            ValueError: if the network has fewer layers.
        """
        settings = {**network.settings, **changes, "num_labels": num_labels}
        if settings["num_layers"] > network.num_layers:
            raise ValueError(f"`num_layers` may be at most {network.num_layers}. Received: {settings['num_layers']}")
        model = cls(**settings, dtype=dtype)
        model.build()
        for own, trained in zip(model.layer_groups(), network.layer_groups(), strict=False):
            own[0].set_weights(trained[0].get_weights())
        for own, trained in zip(model.head, network.head, strict=True) if head == "kept" else ():
            own.set_weights(trained.get_weights())
        return model

    def get_config(self):
        return {**super().get_config(), **self.settings}
