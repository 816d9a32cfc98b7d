"""What the models share: `Model.from_preset`, activations, and checks whose ValueErrors name the value."""

from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import keras
from keras import ops

from keras_attention.layers.masks import with_keras_mask
from keras_attention.layers.sparse_patterns import parse_pattern
from keras_attention.support.keras_private import layers_within
from keras_attention.support.providers import provided


class Quantizable(keras.Model):
    """Lets Keras save a model, and load it again, after `model.quantize("int8")` or "int4"."""

    def get_config(self):
        """The configuration of Keras; if layers are quantized, with the dtype policy of each of them."""
        config = super().get_config()
        policies = {
            layer.path: layer.dtype_policy for layer in layers_within(self) if layer.quantization_mode is not None
        }
        if policies:
            of_layers = keras.dtype_policies.DTypePolicyMap(self.dtype_policy, policies)
            config["dtype"] = keras.dtype_policies.serialize(of_layers)
        return config


class FromPreset(Quantizable):
    """Adds `from_preset` to a model class."""

    @classmethod
    def from_preset(cls, name_or_path: str | Path) -> Self:
        """Loads the network of a trained model, without its tokenizers: token ids in, logits out.

        Checks all files of the entry against their hashes, builds the network from the settings in its config.json, and
        loads the weights in float32. `keras_attention.load` returns the whole pipeline instead.

        Args:
            name_or_path: str, a name from `keras_attention.list_models()`; or str or Path, a model's folder; or the
                name of a published BERT, GPT-2 or Marian, see `keras_attention.load`.

        Returns:
            Built model of this class, which works like any `keras.Model`. `BertEncoder` also extracts the encoder of a
            BERT with a head.

        Raises:
            UserError: if the model does not exist, its files are damaged, or it has another class.

        Example:
            from keras_attention.models import Transformer
            Transformer.from_preset("transformer_tiny_multi30k_en_de")
        """
        return provided("trained_network")(cls, name_or_path)


class FinetunableNetwork(Protocol):
    """What fine-tuning asks of a classifier network; no class inherits from it.

    A keras.Model whose logits are `head` applied to `pooled`, with dropout in between, and whose `settings` are the
    arguments of its constructor, among them `num_labels`, `dropout` and `hidden_dim`.

    Attributes:
        presets: dict from the name of a size ("tiny", "mini", "small", "medium") to the settings of a new network.
        usual_learning_rate: float, the default peak learning rate; None: by the width, see
            `finetuning.settings.learning_rate_for`.
        head: list of layers from `pooled` to the logits, the last one a Dense layer. If it is the only one, the logits
            are linear in `pooled`, and logistic regression can set its weights before the training.
        usual_epochs: callable(number of rows) -> int, the default number of epochs from random weights. Optional.
    """

    presets: ClassVar[dict[str, dict[str, Any]]]
    usual_learning_rate: ClassVar[float | None]

    @property
    def head(self) -> list[keras.layers.Layer]: ...

    def pooled(self, inputs: Any, training: bool | None = None) -> Any:
        """One vector (B, D) for each example. Masks are obeyed: padding does not change it."""
        ...

    def layer_groups(self) -> list[list[keras.layers.Layer]]:
        """The layers below `pooled` in groups from bottom to top, the embeddings first; [] if it has no such order.

        `--layer-decay` lowers the learning rate from group to group, `--freeze` keeps the lowest groups as they are.
        """
        ...

    def low_rank_layers(self) -> list[list[keras.layers.Layer]]:
        """For each group but the embeddings, the layers with `enable_lora` and `merge_lora`. Optional; for `--lora`."""
        ...

    @classmethod
    def from_trained(
        cls, network: keras.Model, num_labels: int, *, head: str = "new", dtype: Any = None, **changes: Any
    ) -> Self:
        """A classifier whose lower layers have the weights of a trained network.

        Args:
            network: network of an architecture that names this one as its `classifier`, see `zoo.schema.Architecture`.
            num_labels: int > 0.
            head: "new": random weights; "linear": one layer, or random weights where the class has none; "kept": the
                weights of the network, whose labels are as many.
            changes: settings that differ from the network's, such as `dropout` and `num_layers`.

        Raises:
            ValueError: if the network cannot be changed in this way.
        """
        ...


class SequenceLogits(FromPreset):
    """A model whose output is logits (B, T, V): the loss and the metrics of `fit` and `evaluate` leave padding out.

    Outside of them, the logits have no implicit mask. With a mask (B, T), `keras.layers.Softmax` would fail, because it
    takes its mask for one of single scores, (B, T, V). A model that contains this one can leave padding out of its
    loss by `sample_weight`, or by `ignore_class` of `keras.losses.SparseCategoricalCrossentropy`.
    """

    def logits_mask(self, inputs: Any) -> Any:
        """Bool (B, T), True at the logits that count; None if all do."""
        raise NotImplementedError

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return super().compute_loss(x, y, self._masked(x, y_pred), sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, y, self._masked(x, y_pred), sample_weight)

    def _masked(self, inputs, logits):
        if inputs is None or logits is None:
            return logits
        return with_keras_mask(ops.copy(logits), self.logits_mask(inputs))  # a copy: the caller's tensor has no mask


@keras.saving.register_keras_serializable(package="keras_attention")
def gelu_approximate(x):
    """The tanh approximation of GELU. BERT's published code calls it "gelu"."""
    return keras.activations.gelu(x, approximate=True)


ACTIVATIONS = {
    "gelu": keras.activations.gelu,
    "gelu_approximate": gelu_approximate,
    "relu": keras.activations.relu,
    "silu": keras.activations.silu,
}


def check_sizes(settings, names, lowest=1):
    """Each named setting must be an integer of at least `lowest`, 0 or 1."""
    what = "a positive integer" if lowest else "an integer, 0 or more"
    for name in names:
        value = settings[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
            raise ValueError(f"`{name}` must be {what}. Received: {name}={value}")


def check_choices(settings, choices):
    """Each setting named in the dict `choices` must be one of the strings listed for it."""
    for name, allowed in choices.items():
        if not isinstance(settings[name], str) or settings[name] not in allowed:
            raise ValueError(f"`{name}` must be one of {', '.join(allowed)}. Received: {name}={settings[name]}")


def check_rates(settings, *names):
    """Each named setting must be in [0, 1)."""
    for name in names:
        if not 0 <= settings[name] < 1:
            raise ValueError(f"`{name}` must be in [0, 1). Received: {name}={settings[name]}")


def check_heads(settings):
    """`num_heads` must divide `hidden_dim`."""
    width, heads = settings["hidden_dim"], settings["num_heads"]
    if width % heads:
        raise ValueError(f"`num_heads` must divide `hidden_dim`. Received: num_heads={heads}, hidden_dim={width}")


def check_pad_id(settings):
    """`pad_id` must be a token id of the vocabulary, or None."""
    pad_id = settings["pad_id"]
    if pad_id is not None and (not isinstance(pad_id, int) or not 0 <= pad_id < settings["vocabulary_size"]):
        raise ValueError(f"`pad_id` must be None or a token id below `vocabulary_size`. Received: pad_id={pad_id}")


def check_epsilon(settings):
    """The epsilon of layer normalization must be between 0 and 1."""
    epsilon = settings["layer_norm_epsilon"]
    if not 0 < epsilon < 1:
        raise ValueError(f"`layer_norm_epsilon` must be between 0 and 1. Received: layer_norm_epsilon={epsilon}")


def check_tying(settings):
    """Tied embeddings need one vocabulary for both sides."""
    sizes = settings["source_vocabulary_size"], settings["target_vocabulary_size"]
    if settings["tie_embeddings"] == "all" and sizes[0] != sizes[1]:
        raise ValueError(
            '`tie_embeddings="all"` needs one vocabulary for both sides. Received: '
            f"source_vocabulary_size={sizes[0]}, target_vocabulary_size={sizes[1]}"
        )


def check_pattern(settings):
    """The attention pattern must be None, or a string that names a kind and sizes within their bounds."""
    pattern = settings["attention_pattern"]
    if pattern is not None and not (isinstance(pattern, str) and pattern):
        raise ValueError(f"`attention_pattern` must be None or a text. Received: attention_pattern={pattern!r}")
    parse_pattern(pattern)


def token_table(embedding):
    """The vectors of all tokens (V, D) in an Embedding layer, also after `quantize`."""
    if embedding.quantization_mode is None:
        return embedding.embeddings
    return embedding(ops.arange(embedding.input_dim, dtype="int32"))


def named_inputs(inputs):
    """The inputs of a model as a dict; a tensor that is not in a dict stands for `token_ids`."""
    return inputs if isinstance(inputs, dict) else {"token_ids": inputs}


def source_and_target(inputs):
    """The tensors `source_ids` and `target_ids` of a dict of inputs."""
    names = ("source_ids", "target_ids")
    if not isinstance(inputs, dict):
        raise ValueError(f"The inputs must be a dict with {' and '.join(names)}. Received: {type(inputs).__name__}")
    for name in names:
        if name not in inputs:
            raise ValueError(f"The inputs must have `{name}`. Received: {', '.join(sorted(inputs)) or 'none'}")
    return [inputs[name] for name in names]


def check_length(token_ids, max_length):
    """Texts (B, T) must not be longer than `max_length`; not checked if T is unknown."""
    length = ops.shape(token_ids)[1]
    if isinstance(length, int) and length > max_length:
        raise ValueError(
            f"A text may have up to `max_length`={max_length} tokens. "
            f"Received: token_ids.shape={tuple(token_ids.shape)}"
        )
