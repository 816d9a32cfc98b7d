"""Trainings that begin with trained weights: of an entry, or of a teacher that they imitate."""

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
    """Copies the weights of a trained model, whose feed-forward networks may be narrower.

    Additional units keep their random weights, but their outgoing weights become zero, so both models compute the same
    function at first. Source: Chen et al. (2016), Net2Net, https://arxiv.org/abs/1511.05641. In the paper, additional
    units are copies of others.

    Args:
        model: built keras.Model; changed in place.
        trained: built keras.Model.

    Raises:
        UserError: if the models differ in any other way; `model` is then unchanged.
    """
    if type(model).__name__ != type(trained).__name__:
        raise UserError(
            f"The trained model is a {type(trained).__name__}. Expected: a {type(model).__name__}. Choose the kind of "
            "network with --model."
        )
    if len(model.weights) != len(trained.weights):
        raise UserError(
            f"The trained model has {len(trained.weights)} weights. Expected: {len(model.weights)}. Leave out the "
            "flags that change the layers."
        )
    model.set_weights([_widened(*pair) for pair in zip(model.weights, trained.weights, strict=True)])


def _widened(weight, trained):
    """The values of a trained weight, followed by those of the additional units of a feed-forward network."""
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
