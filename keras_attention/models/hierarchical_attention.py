"""Hierarchical attention: words make sentences, and sentences make a document (Yang et al. 2016)."""

from typing import Any, Self

import keras
from keras import ops

from keras_attention.layers import AdditiveAttention, GRUCell, padding_mask
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.fast.recurrent_gradients import read_both_ways_fast
from keras_attention.layers.masks import Tensor
from keras_attention.models.bert_heads import mean_of_tokens
from keras_attention.models.shared import FromPreset, check_choices, check_rates, check_sizes, named_inputs

SIZES = ("vocabulary_size", "embedding_dim", "hidden_dim", "num_labels", "sentence_length")
SETTINGS = (*SIZES, "pooling", "dropout")
POOLINGS = ("attention", "mean", "max")


@keras.saving.register_keras_serializable(package="keras_attention")
class HierarchicalAttentionClassifier(FromPreset, keras.Model):
    """Classifies documents: attention over the words of each sentence, then over the sentences.

        h_it = GRU both ways over E[word t of sentence i]
        s_i = sum over t of alpha_it h_it            alpha_i = softmax over t of u_w . tanh(W_w h_it + b_w)
        h_i = GRU both ways over s_i
        v = sum over i of alpha_i h_i                alpha = softmax over i of u_s . tanh(W_s h_i + b_s)
        logits = W_c v + b_c

    Each of the two attentions is an `AdditiveAttention` with a constant query, 1: W_a q is then the bias b, and v_a is
    the context vector u.

    Shapes: B documents, S sentences, W words of a sentence, H `hidden_dim`.

    Args:
        vocabulary_size: int > 0.
        embedding_dim: int > 0. Width of the word vectors.
        hidden_dim: int > 0. Width H of the states of one direction; a sentence and a document have 2H numbers.
        num_labels: int > 0. K.
        sentence_length: int > 0. W, tokens of a sentence.
        pooling: "attention", "mean" or "max": how words make a sentence, and sentences a document (HN-ATT, HN-AVE and
            HN-MAX in the paper).
        dropout: float in [0, 1), on embeddings, on the vectors of sentences, and before the last dense layer.

    Call arguments:
        inputs: int tensor (B, S W), the token ids of S sentences one after the other, each of them filled up with
            padding 0 on the right; or a dict with them as `token_ids`. Sentences of padding alone are left out. The
            last sentence may be shorter.
        training: bool. Whether to apply dropout.
        return_attention_scores: bool. Whether to return the attention weights too.

    Returns:
        Logits (B, K) in float32; or the pair of logits and a dict of float32 attention weights: `words` (B, S, W) and
        `sentences` (B, S). They sum to 1 over the words of a sentence and over the sentences; those of padding are
        exactly 0.

    Raises:
        ValueError: if an argument is out of range, or attention weights are requested from a model with another
            `pooling`.

    Source: Yang et al. (2016), section 2, https://aclanthology.org/N16-1174. Differences: the reset gate is applied
    after the product (see `GRUCell`), dropout is added, and pieces of words are read instead of whole words.

    Example:
        model = HierarchicalAttentionClassifier(8000, embedding_dim=50, hidden_dim=50, num_labels=2)
        logits, weights = model(token_ids, return_attention_scores=True)
    """

    presets = {
        "tiny": {"embedding_dim": 32, "hidden_dim": 32},
        "mini": {"embedding_dim": 64, "hidden_dim": 50},
        "small": {"embedding_dim": 128, "hidden_dim": 64},
        "medium": {"embedding_dim": 200, "hidden_dim": 100},
    }
    usual_learning_rate = 2e-3
    usual_tokens = 1024  # of a document, where other networks read 256
    num_segments, num_heads, num_layers, has_attention = 0, 1, 2, True

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        hidden_dim: int,
        num_labels: int,
        sentence_length: int = 32,
        pooling: str = "attention",
        dropout: float = 0.3,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.settings = {name: value for name, value in locals().items() if name in SETTINGS}
        check_sizes(self.settings, SIZES)
        check_choices(self.settings, {"pooling": POOLINGS})
        check_rates(self.settings, "dropout")
        for name, value in self.settings.items():
            setattr(self, name, value)
        self.has_attention = pooling == "attention"
        options = {"dtype": self.dtype_policy}
        self.token_embedding = keras.layers.Embedding(vocabulary_size, embedding_dim, name="token_embedding", **options)
        self.word_cells = [GRUCell(hidden_dim, name=f"word_cell_{way}", **options) for way in WAYS]
        self.sentence_cells = [GRUCell(hidden_dim, name=f"sentence_cell_{way}", **options) for way in WAYS]
        if self.has_attention:
            self.word_attention = AdditiveAttention(2 * hidden_dim, name="word_attention", **options)
            self.sentence_attention = AdditiveAttention(2 * hidden_dim, name="sentence_attention", **options)
        else:
            self.word_attention = self.sentence_attention = None
        self.dropout_layer = Dropout(dropout, name="dropout_layer", **options)
        self.output_dense = keras.layers.Dense(num_labels, name="output_dense", **options)

    def build(self, input_shape=None):
        self.token_embedding.build((None, None))
        width = 2 * self.hidden_dim
        for cells, attention, size in (
            (self.word_cells, self.word_attention, self.embedding_dim),
            (self.sentence_cells, self.sentence_attention, width),
        ):
            for cell in cells:
                cell.build((None, size))
            if attention is not None:
                attention.build((None, 1, 1), (None, None, width))
        self.output_dense.build((None, width))
        self.built = True

    def call(
        self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None, return_attention_scores: bool = False
    ) -> Any:
        if return_attention_scores and not self.has_attention:
            raise ValueError(
                f'Only pooling="attention" has attention scores to return. Received: pooling="{self.pooling}"'
            )
        document, words, sentences = self._read(inputs, training)  # (B, 2H), (B, S, W), (B, S)
        logits = self.output_dense(self.dropout_layer(document, training=training))
        logits = ops.cast(logits, "float32")  # (B, K)
        return (logits, {"words": words, "sentences": sentences}) if return_attention_scores else logits

    def pooled(self, inputs: dict[str, Tensor] | Tensor, training: bool | None = None) -> Tensor:
        """The vector of each document (B, 2H), which the head reads."""
        return self._read(inputs, training)[0]

    def _read(self, inputs, training):
        """The vectors of the documents, and the attention weights of words and sentences, or None."""
        token_ids = named_inputs(inputs)["token_ids"]  # (B, S W)
        batch, total = ops.shape(token_ids)
        if not isinstance(total, int) or total % self.sentence_length:  # the padded length of a batch may be any
            missing = ops.zeros((batch, -total % self.sentence_length), dtype=token_ids.dtype)
            token_ids = ops.concatenate([token_ids, missing], axis=1)
        words = ops.reshape(token_ids, (-1, self.sentence_length))  # (B S, W)
        mask = padding_mask(words)
        x = self.dropout_layer(self.token_embedding(words), training=training)  # (B S, W, E)
        x, of_words = self._pool(read_both_ways_fast(x, mask, *self.word_cells), mask, self.word_attention)
        x = ops.reshape(x, (batch, -1, 2 * self.hidden_dim))  # (B, S, 2H)
        mask = ops.reshape(ops.any(mask, axis=-1), (batch, -1))  # (B, S)
        x = self.dropout_layer(x, training=training)
        x, of_sentences = self._pool(read_both_ways_fast(x, mask, *self.sentence_cells), mask, self.sentence_attention)
        if of_words is not None:
            of_words = ops.reshape(of_words, (batch, -1, self.sentence_length))  # (B, S, W)
        return x, of_words, of_sentences

    def _pool(self, states, mask, attention):
        """One vector (N, 2H) from the states (N, T, 2H), and the attention weights (N, T), or None."""
        if self.pooling == "mean":
            return mean_of_tokens(states, mask), None
        if self.pooling == "max":
            lowest = ops.cast(-1.0, states.dtype)  # of a state, a mean of tanh
            largest = ops.max(ops.where(mask[:, :, None], states, lowest), axis=1)
            return ops.where(ops.any(mask, axis=1)[:, None], largest, ops.zeros_like(largest)), None
        query = ops.ones_like(states[:, :1, :1])  # (N, 1, 1)
        vector, weights = attention(query, states, attention_mask=mask[:, None], return_attention_scores=True)
        return vector[:, 0], weights[:, 0]

    @property
    def head(self) -> list[keras.layers.Layer]:
        """The layers from `pooled` to the logits."""
        return [self.output_dense]

    def layer_groups(self) -> list[list[keras.layers.Layer]]:
        """The embeddings, the layers over words, and those over sentences."""
        of_words, of_sentences = ([layer] if layer else [] for layer in (self.word_attention, self.sentence_attention))
        return [[self.token_embedding], [*self.word_cells, *of_words], [*self.sentence_cells, *of_sentences]]

    @classmethod
    def from_trained(
        cls, network: keras.Model, num_labels: int, *, head: str = "new", dtype: Any = None, **changes: Any
    ) -> Self:
        """A classifier with all layers of a trained one but the last, see `shared.FinetunableNetwork`.

        Args:
            network: HierarchicalAttentionClassifier, built.
            num_labels: int > 0.
            head: "new" or "linear", random weights; "kept", the trained ones.
            changes: settings that differ from the network's: `dropout`.
        """
        model = cls(**{**network.settings, **changes, "num_labels": num_labels}, dtype=dtype)
        model.build()
        pairs = list(zip(model.layer_groups(), network.layer_groups(), strict=True))
        pairs += [(model.head, network.head)] if head == "kept" else []
        for own_layers, trained_layers in pairs:
            for own, trained in zip(own_layers, trained_layers, strict=True):
                own.set_weights(trained.get_weights())
        return model

    def get_config(self):
        return {**super().get_config(), **self.settings}


WAYS = ("forward", "backward")
