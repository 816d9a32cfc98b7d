"""An image captioner with soft or hard attention: Show, Attend and Tell (Xu et al. 2015)."""

from math import prod
from typing import Any

import keras
from keras import ops

from keras_attention.layers.additive import AdditiveAttention
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.hard_attention import HardAttention
from keras_attention.layers.masks import Tensor, padding_mask
from keras_attention.layers.patch_embedding import GridPositionalEmbedding
from keras_attention.layers.recurrent import LSTMCell, run_over_time, time_first
from keras_attention.models.shared import SequenceLogits, check_choices, check_rates, check_sizes

SIZES = ("vocabulary_size", "annotation_dim", "embedding_dim", "hidden_dim", "num_halvings", "num_convolutions")
CHOICES = {"attention": ("soft", "hard")}
SETTINGS = (*SIZES, *CHOICES, "input_size", "dropout")
BASELINE_STEPS = 8  # words with a baseline of their own, for hard attention
OF_ONE_KIND = ("gate/kernel", "gate/bias", "attention/baseline")  # weights of soft, of soft, and of hard attention
EXPECTED_SHARE = 0.5  # of the images whose context is the expected one, in the training of hard attention


def check_settings(**settings):
    """Raises ValueError for a setting out of range."""
    check_sizes(settings, SIZES)
    check_choices(settings, CHOICES)
    check_rates(settings, "dropout")
    size = settings["input_size"]
    if len(size) != 3:
        raise ValueError(f"`input_size` must be (height, width, channels). Received: input_size={size}")
    each = {f"input_size[{i}]": side for i, side in enumerate(size)}
    check_sizes(each, each)
    step = 2 ** settings["num_halvings"]
    if size[0] % step or size[1] % step:
        raise ValueError(
            f"Height and width must be multiples of {step}, as num_halvings={settings['num_halvings']}. "
            f"Received: input_size={size}"
        )


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionCaptioner(SequenceLogits, keras.Model):
    """Describes an image word by word, and attends to a part of it for each word.

        a_1..a_S = relu(W_a convolutions(image) + b_a) + positions
        h_0 = tanh(W_h mean(a) + b_h)        c_0 = tanh(W_c mean(a) + b_c)
        z_t = beta_t attention(h_(t-1), a_1..a_S)        beta_t = sigmoid(f h_(t-1) + b)        (beta: soft only)
        h_t, c_t = LSTM([E y_(t-1); z_t], h_(t-1), c_(t-1))
        logits_t = L_o (E y_(t-1) + L_h h_t + L_z z_t)

    The convolutions are 3 x 3 with ReLU: `num_halvings` of them are followed by max pooling that halves height and
    width, then come `num_convolutions` more. Their reach is what one position sees of the image: with 2 and 1, the
    defaults, 18 x 18 pixels. A larger reach lets a word look beside what it names.

    Args:
        vocabulary_size: int > 0 (V).
        input_size: (height, width, channels) of the images; height and width are multiples of 2^num_halvings.
        annotation_dim: int > 0, width D of the annotations a.
        embedding_dim: int > 0, width of the embeddings E (m in the paper).
        hidden_dim: int > 0, width of the LSTM (n in the paper).
        num_halvings: int > 0.
        num_convolutions: int > 0.
        attention: "soft" averages the annotations (`AdditiveAttention`), "hard" chooses one (`HardAttention`).
        dropout: float in [0, 1), on the annotations and before the output.

    Call arguments:
        inputs: dict of `values`, float (B, height, width, channels), and `target_ids`, int (B, T), 0 is padding;
            targets begin with START.
        training: bool. Whether to apply dropout and to sample; of half of the images, hard attention then takes the
            expected context.
        return_attention_scores: bool. Whether to return the attention weights too.
        return_choices: bool. Whether to return weights and choices.

    Returns:
        Logits (B, T, V) in float32; or the pair of logits and attention weights (B, T, S) in float32; or logits,
        weights and choices (B, T, S), see `HardAttention`; for soft attention, the choices are 0.

    Raises:
        ValueError: if arguments are out of range or do not fit together.

    Source: Xu et al. (2015), sections 3.1, 4.1 and 4.2, https://arxiv.org/abs/1502.03044. Differences: small
    convolutions that are trained here, and learned positions, in place of a network trained on ImageNet.

    Example:
        model = AttentionCaptioner(17, (8, 8, 1), annotation_dim=16, embedding_dim=16, hidden_dim=32)
        logits = model({"values": images, "target_ids": target_ids})
    """

    def __init__(
        self,
        vocabulary_size: int,
        input_size: tuple[int, ...] | list[int],
        annotation_dim: int = 64,
        embedding_dim: int = 32,
        hidden_dim: int = 128,
        num_halvings: int = 2,
        num_convolutions: int = 1,
        attention: str = "soft",
        dropout: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        input_size = list(input_size)  # as in JSON
        self.settings = {name: value for name, value in locals().items() if name in SETTINGS}
        check_settings(**self.settings)
        for name, value in self.settings.items():
            setattr(self, name, value)
        self.grid = tuple(side // 2**num_halvings for side in input_size[:2])

        def layer(kind, *args, name, **options):
            return kind(*args, dtype=self.dtype_policy, name=name, **options)

        options = {"padding": "same", "kernel_initializer": "he_normal", "data_format": "channels_last"}
        widths = [max(8, annotation_dim // 2 ** (num_halvings - i)) for i in range(num_halvings)]
        widths += [annotation_dim] * num_convolutions
        self.convolutions = [
            layer(keras.layers.Conv2D, width, 3, activation="relu", name=f"convolution_{i}", **options)
            for i, width in enumerate(widths)
        ]
        self.annotation_projection = layer(
            keras.layers.Dense,
            annotation_dim,
            activation="relu",
            kernel_initializer="he_normal",
            name="annotation_projection",
        )
        start = keras.initializers.RandomNormal(stddev=0.02)
        self.positions = layer(GridPositionalEmbedding, self.grid, start, name="positions")
        self.dropout_layer = layer(Dropout, dropout, name="dropout_layer")
        scale = keras.initializers.RandomNormal(stddev=embedding_dim**-0.5)
        self.token_embedding = layer(
            keras.layers.Embedding,
            vocabulary_size,
            embedding_dim,
            embeddings_initializer=scale,
            name="token_embedding",
        )
        dense = keras.layers.Dense
        self.initial_hidden = layer(dense, hidden_dim, activation="tanh", name="initial_hidden")
        self.initial_memory = layer(dense, hidden_dim, activation="tanh", name="initial_memory")
        if attention == "hard":
            self.attention_layer = layer(HardAttention, hidden_dim, baseline_steps=BASELINE_STEPS, name="attention")
            self.gate = None
        else:
            self.attention_layer = layer(AdditiveAttention, hidden_dim, name="attention")
            self.gate = layer(dense, 1, activation="sigmoid", name="gate")
        self.decoder = layer(LSTMCell, hidden_dim, name="decoder")
        self.hidden_projection = layer(dense, embedding_dim, name="hidden_projection")
        self.context_projection = layer(dense, embedding_dim, use_bias=False, name="context_projection")
        self.output_projection = layer(dense, vocabulary_size, name="output_projection")

    def build(self, input_shape=None):
        height, width, channels = self.input_size
        for i, convolution in enumerate(self.convolutions):
            convolution.build((None, height, width, channels))
            channels = convolution.filters
            if i < self.num_halvings:
                height, width = height // 2, width // 2
        width, hidden = self.annotation_dim, self.hidden_dim
        self.positions.build((None, prod(self.grid), width))
        self.token_embedding.build((None, None))
        for part in (self.annotation_projection, self.initial_hidden, self.initial_memory, self.context_projection):
            part.build((None, width))
        self.attention_layer.build((None, None, hidden), (None, None, width))
        if self.gate is not None:
            self.gate.build((None, hidden))
        self.decoder.build((None, self.embedding_dim + width))
        self.hidden_projection.build((None, hidden))
        self.output_projection.build((None, self.embedding_dim))
        self.built = True

    def call(
        self,
        inputs: dict[str, Tensor],
        training: bool | None = None,
        return_attention_scores: bool = False,
        return_choices: bool = False,
    ) -> Any:
        values, target_ids = inputs["values"], inputs["target_ids"]
        memory = self.encode(values, training=training)
        expected = None
        if training and self.attention == "hard":
            drawn = keras.random.uniform((ops.shape(values)[0],), seed=self.attention_layer.seed_generator)
            expected = drawn < EXPECTED_SHARE  # (B,)
        embedded = self.token_embedding(target_ids)  # (B, T, m)
        state = self.initial_state(memory)
        state |= {"choices": ops.zeros_like(state["attention"]), "context": ops.zeros_like(memory["value"][:, 0])}
        _, states = run_over_time(
            lambda state, x: self._advance(x, state, memory, expected, training),
            time_first(embedded),
            state,
            unroll=bool(training),
        )
        weights, choices, context = (time_first(states[name]) for name in ("attention", "choices", "context"))
        logits = self._logits(embedded, time_first(states["cells"][0]), context, training)  # (B, T, V)
        if return_choices:
            return logits, weights, choices
        return (logits, weights) if return_attention_scores else logits

    def logits_mask(self, inputs: dict[str, Tensor]) -> Tensor:
        """True at tokens of the target: the loss and the metrics of `fit` ignore padding."""
        return padding_mask(inputs["target_ids"])  # (B, T)

    def encode(self, values: Tensor, training: bool | None = None) -> dict[str, Any]:
        """Encodes images: returns the `memory` of the decoder steps, a dict of tensors with leading axis B."""
        x = ops.cast(values, self.compute_dtype)
        for i, convolution in enumerate(self.convolutions):
            x = convolution(x)
            if i < self.num_halvings:
                x = ops.max_pool(x, 2, 2, data_format="channels_last")
        x = self.annotation_projection(ops.reshape(x, (-1, prod(self.grid), self.annotation_dim)))
        value = self.dropout_layer(self.positions(x), training=training)  # (B, S, D)
        mask = ops.ones(ops.shape(value)[:2], "bool")
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
        mean = ops.mean(memory["value"], axis=1)  # (B, D)
        cells = self.initial_hidden(mean), self.initial_memory(mean)
        return {"cells": cells, "attention": ops.zeros(ops.shape(memory["mask"]), "float32")}

    def derived_weights(self) -> dict[str, Tensor]:
        """What `step` computes from weights alone, as its arguments: nothing."""
        return {}

    def step(self, token_ids: Tensor, state: dict[str, Any], memory: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """One decoder step without dropout: tokens (N,) -> logits (N, V) and the new state.

        N = k B for k hypotheses of each image of `memory`; the hypotheses of an image are adjacent.
        """
        embedded = self.token_embedding(token_ids)  # (N, m)
        new = self._advance(embedded, state, memory)
        logits = self._logits(embedded, new["cells"][0], new["context"])
        return logits, {name: new[name] for name in ("cells", "attention")}

    def _advance(self, embedded, state, memory, expected=None, training=None):
        """Attention and one step of the LSTM: embedded tokens (N, m) and state -> new state."""
        hidden = state["cells"][0]  # (N, n)
        batch, length = ops.shape(memory["mask"])  # the k = N / B hypotheses of an image become k queries
        query = ops.reshape(hidden, (batch, -1, self.hidden_dim))  # (B, k, n)
        options = {"attention_mask": memory["mask"][:, None, :], "projected_key": memory["key"]}
        if self.gate is None:
            options |= {"expected": expected, "return_choices": True, "training": training}
            context, weights, choices = self.attention_layer(query, memory["value"], **options)
        else:
            context, weights = self.attention_layer(query, memory["value"], return_attention_scores=True, **options)
            context, choices = self.gate(query) * context, ops.zeros_like(weights)
        context = ops.reshape(context, (-1, self.annotation_dim))  # (N, D)
        _, cells = self.decoder(self.decoder.project(ops.concatenate([embedded, context], axis=-1)), state["cells"])
        weights, choices = (ops.reshape(x, (-1, length)) for x in (weights, choices))  # (N, S)
        return {"cells": cells, "attention": weights, "choices": choices, "context": context}

    def _logits(self, embedded, hidden, context, training=None):
        """Logits (..., V) from the embedding of the last word, the LSTM and what was attended to."""
        combined = embedded + self.hidden_projection(hidden) + self.context_projection(context)
        return ops.cast(self.output_projection(self.dropout_layer(combined, training=training)), "float32")

    def counterparts(self, trained: "AttentionCaptioner") -> list[Any]:
        """The weights that a training may begin with, also those of a captioner with the other kind of attention.

        Args:
            trained: built AttentionCaptioner, with soft or hard attention.

        Returns:
            List of variables of `trained`, one for each of `weights`; None for the gate of soft attention and the
            baseline of hard attention, which the other kind does not have.

        Raises:
            ValueError: if other weights are missing.
        """
        old = {_place(weight): weight for weight in trained.weights}
        missing = {_place(weight) for weight in self.weights} - {*old, *OF_ONE_KIND}
        if missing:
            raise ValueError(
                f"The trained model has no weights such as {min(missing)}: it has {trained.num_convolutions} "
                f"convolutions behind those that halve the picture. Expected: {self.num_convolutions}."
            )
        return [old.get(_place(weight)) for weight in self.weights]

    def get_config(self):
        return {**super().get_config(), **self.settings}


def _place(weight):
    """The path of a weight within a captioner, the same whether `HardAttention` wraps the `AdditiveAttention`."""
    return weight.path.partition("/")[2].replace("attention/attention/", "attention/")
