"""Warm start: training from the weights of a trained model."""

import keras
import numpy as np

from keras_attention.errors import UserError
from keras_attention.zoo.archive import load_entry
from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.registry import find_entry

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


def load_encoder(name):
    """Returns the BertEncoder and the tokenizer of an entry's name or path.

    Raises:
        UserError: if no name is given, or the entry has another architecture.
    """
    if not name:
        raise UserError("The teacher is missing: pass the name or folder of an encoder with --teacher.")
    loaded = load_entry(find_entry(name))
    if type(loaded.model).__name__ != "BertEncoder":
        raise UserError(f"{name} is a {type(loaded.model).__name__}. Expected: a BertEncoder.")
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
