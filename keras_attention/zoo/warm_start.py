"""Trainings that begin with trained weights: of an entry, or of a teacher that they imitate."""

import re
from typing import NamedTuple

import keras
import numpy as np

from keras_attention.support.errors import UserError
from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.entry_io import load_entry, load_network
from keras_attention.zoo.registry import find_entry, open_entry
from keras_attention.zoo.schema import ARCHITECTURES


def trained_network(model_class, name_or_path):
    """Loads the network of an entry, or the part of it that has the given class; see `FromPreset`.

    Args:
        model_class: class of a registered architecture.
        name_or_path: see `find_entry`.

    Returns:
        Built model of that class.

    Raises:
        UserError: if the model does not exist, or has another class.
    """
    entry = open_entry(name_or_path)
    model = load_network(entry)
    if isinstance(model, model_class):
        return model
    part = next((layer for layer in model.layers if type(layer) is model_class), None)
    if part is None:
        name = entry.architecture.name
        raise UserError(
            f"{entry.name} is a {name}. Expected: a {model_class.__name__}. {name}.from_preset gives its network."
        )
    settings = part.get_config()
    alone = model_class(**{name: settings[name] for name in ARCHITECTURES[model_class.__name__].settings})
    alone.build()
    alone.set_weights(part.get_weights())
    return alone


OUTWARD = "feed_forward/output_dense/kernel"


FEED_FORWARD_AXES = {"feed_forward/intermediate_dense/kernel": 1, "feed_forward/intermediate_dense/bias": 0, OUTWARD: 0}


def start_settings(name, known):
    """The settings of a trained model for which a recipe has flags.

    Args:
        name: str, an entry's name or path, or "" for none.
        known: object with an attribute for each flag. `max_tokens` corresponds to the `max_length` of a BERT.

    Returns:
        Dict, empty without a name.
    """
    if not name:
        return {}
    config = read_entry(find_entry(name)).config
    settings = config["model"] | ({"max_tokens": config["max_tokens"]} if "max_tokens" in config else {})
    return {setting: value for setting, value in settings.items() if hasattr(known, setting)}


def load_start(name):
    """Returns the LoadedEntry of an entry's name or path, or None for ""."""
    return load_entry(find_entry(name)) if name else None


def head_to_guide(num_layers, num_heads, start=None):
    """The decoder's attention head that guided alignment trains: one that aligns words in the start, or a middle one.

    Args:
        num_layers, num_heads: int > 0, of the decoder.
        start: LoadedEntry of the translator whose weights are taken over, or None.

    Returns:
        List of two int, layer and head from 0.
    """
    known = start.entry.config if start else {"model": {}}
    sizes = {"num_decoder_layers": num_layers, "num_heads": num_heads}
    if all(known["model"].get(name) == size for name, size in sizes.items()) and known["alignment_heads"]:
        return known["alignment_heads"][-1]
    return [(num_layers - 1) // 2, 0]


def load_teacher(name, predicts=False):
    """Returns the BERT and the tokenizer of an entry's name or path.

    Args:
        name: str.
        predicts: bool. Whether to expect a BertMaskedLM instead of a BertEncoder.

    Raises:
        UserError: if no name is given, or the entry has another architecture.
    """
    if not name:
        raise UserError("The teacher is missing: pass the name or folder of an encoder with --teacher.")
    loaded = load_entry(find_entry(name))
    received, expected = type(loaded.model).__name__, "BertMaskedLM" if predicts else "BertEncoder"
    if received != expected:
        advice = {
            "BertClassifier": " To distil a classifier, use keras-attention finetune --teacher.",
            "BertMaskedLM": " To distil its predictions, add --prediction-weight 1.",
            "BertEncoder": " It has no predictions: leave out --prediction-weight.",
        }
        raise UserError(f"{name} is a {received}. Expected: a {expected}.{advice.get(received, '')}")
    return loaded.model, loaded.tokenizers["text"]


def take_weights(model, trained):
    """Copies the weights of a trained model, which may differ in its layers, inputs and feed-forward networks.

    With fewer layers, the model takes some of the trained ones, evenly spread, the first and the last among them; with
    more, it repeats neighbours. What the trained layers do not have keeps its random weights, such as the recurrence of
    an `SSRUDecoderLayer` begun from a decoder layer with self-attention. Additional units of a feed-forward network
    keep random weights, too, but their outgoing weights become zero: they change nothing at first. For inputs and
    labels of other sizes, see `PatchClassifier.resized_weights`; for soft and hard attention,
    `AttentionCaptioner.counterparts`.

    Sources: Shleifer & Rush (2020), Pre-trained Summarization Distillation (fewer layers),
    https://arxiv.org/abs/2010.13002; Gong et al. (2019), Efficient Training of BERT by Progressively Stacking (more
    layers; there, all follow one another twice); Chen et al. (2016), Net2Net, https://arxiv.org/abs/1511.05641 (there,
    additional units are copies of others).

    Args:
        model: built keras.Model; changed in place.
        trained: built keras.Model.

    Returns:
        List of str, the paths of the weights that keep their random values; empty if the layers are the same.

    Raises:
        UserError: if the models differ in any other way; `model` is then unchanged.
    """
    if type(model).__name__ != type(trained).__name__:
        raise UserError(
            f"The trained model is a {type(trained).__name__}. Expected: a {type(model).__name__}. Choose the kind of "
            "network with --model."
        )
    try:
        resized = model.resized_weights(trained) if hasattr(model, "resized_weights") else {}
        own = model.counterparts(trained) if hasattr(model, "counterparts") else None
    except ValueError as error:
        raise UserError(f"{error} Leave out --from, or name a model for such inputs.") from error
    counterparts = _counterparts(model.weights, trained.weights) if own is None else own
    pairs = list(zip(model.weights, counterparts, strict=True))
    new = [_widened(ours, resized.get(ours.path, theirs)) for ours, theirs in pairs]
    model.set_weights(new)
    return [ours.path for ours, theirs in pairs if theirs is None]


def _counterparts(weights, trained):
    """For each weight, the trained one that it takes over, or None.

    Raises:
        UserError: if something besides layers differs.
    """
    places, old = [_Place.of(weight) for weight in weights], {_Place.of(weight): weight for weight in trained}
    heights, old_heights = _heights(places), _heights(old)
    outside = {place for place in places if not place.inside} == {place for place in old if not place.inside}
    if set(places) != set(old) and outside and heights.keys() == old_heights.keys():
        return [old.get(place.below(heights, old_heights)) for place in places]
    if len(places) != len(trained):
        raise UserError(
            f"The trained model has {len(trained)} weights. Expected: {len(places)}. Leave out the flags that change "
            "the model: only the number and the kind of its layers and --intermediate-dim may differ."
        )
    return trained


class _Place(NamedTuple):
    """A weight: `encoder_`, layer 3 (from 0), `self_attention/query/kernel`; outside of layers, inside is ""."""

    stack: str
    layer: int
    inside: str

    @classmethod
    def of(cls, weight):
        path = weight.path.partition("/")[2]  # without the name of the model
        layer = re.match(r"(.+?_)(\d+)/(.+)", path)
        return cls(layer[1], int(layer[2]), layer[3]) if layer else cls(path, 0, "")

    def below(self, heights, old_heights):
        """The place in the trained model, whose stacks of layers have other heights."""
        height, old_height = heights.get(self.stack), old_heights.get(self.stack)
        if height == old_height:
            return self
        if height > old_height:
            return self._replace(layer=self.layer * old_height // height)
        return self._replace(layer=round(self.layer * (old_height - 1) / max(height - 1, 1)))


def _heights(places):
    """The number of layers of each stack: dict from its name to int."""
    stacks = sorted((place.stack, place.layer + 1) for place in places if place.inside)
    return dict(stacks)  # the last one of each stack is the highest


def _widened(weight, trained):
    """The values of a trained weight or None, followed by those of additional units of a feed-forward network."""
    if trained is None:
        return keras.ops.convert_to_numpy(weight)
    old, part = keras.ops.convert_to_numpy(trained), "/".join(weight.path.split("/")[-3:])
    other = [axis for axis, length in enumerate(weight.shape) if length != old.shape[axis]]
    if not other:
        return old
    axis = other[0]
    if other != [FEED_FORWARD_AXES.get(part)] or weight.shape[axis] < old.shape[axis]:
        raise UserError(
            f"{weight.path} of the trained model has the shape {old.shape}. Expected: {tuple(weight.shape)}. Leave out "
            "the flags that change the model; only --intermediate-dim may be larger."
        )
    further = np.delete(keras.ops.convert_to_numpy(weight), np.s_[: old.shape[axis]], axis)
    return np.concatenate([old, further * (part != OUTWARD)], axis)
