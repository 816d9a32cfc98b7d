"""The private parts of Keras and TensorFlow that this package needs. No other file uses any.

The next version may lack one. Then a public way is used instead, with a warning that names the part and the version.
Where nothing replaces it and the results would be wrong without a word, a UserError is raised before anything is
computed. TensorFlow is imported only by the function that needs it.
"""

import warnings
from contextlib import contextmanager
from functools import cache

import keras
from keras import ops

from keras_attention.support.errors import UserError

TESTED = "3.15.1 to 3.16"  # versions of Keras


def _lacks(name, consequence):
    return f"Keras {keras.__version__} lacks {name}, which Keras {TESTED} has: {consequence}"


def _without(name, replacement):
    warnings.warn(_lacks(name, f"{replacement} instead."), stacklevel=3)


# The implicit mask of a tensor

MASKS = "keras.src.backend.common.masking"


def _attribute_mask(tensor):
    _check_attribute()
    return getattr(tensor, "_keras_mask", None)


def _set_attribute_mask(tensor, mask):
    _check_attribute()
    try:
        tensor._keras_mask = mask
    except AttributeError:
        lost = f"a mask cannot be attached to a {type(tensor).__name__}, and later layers would read padding."
        raise UserError(_lacks(MASKS, lost)) from None


@cache
def _check_attribute():
    """Raises UserError if Keras's own layers attach their masks elsewhere: ours would see none, and read padding."""
    masked = keras.layers.Masking()(ops.ones((1, 1, 1)))
    if getattr(masked, "_keras_mask", None) is None:
        raise UserError(_lacks(MASKS, "masks of Keras's layers cannot be read. Install an earlier version of Keras."))


try:
    from keras.src.backend.common.masking import get_keras_mask, set_keras_mask
except ImportError:
    _without(MASKS, "the attribute `_keras_mask` of tensors is used")
    get_keras_mask, set_keras_mask = _attribute_mask, _set_attribute_mask


# Layers

if not hasattr(keras.Layer, "_flatten_layers"):
    _without("Layer._flatten_layers", "the attributes of layers are searched")


def layers_within(layer):
    """List of all layers inside a layer, at any depth."""
    if hasattr(layer, "_flatten_layers"):
        return list(layer._flatten_layers(include_self=False))
    layers, waiting = {}, [vars(layer)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, (list, tuple, set)):
            waiting += part
        elif isinstance(part, keras.Layer) and part is not layer and id(part) not in layers:
            layers[id(part)] = part
            waiting.append(vars(part))
    return list(layers.values())


@contextmanager
def adding_weights(layer):
    """Lets a built layer get further weights, which Keras refuses. Without the private part, Keras decides."""
    tracker = getattr(layer, "_tracker", None)
    if not hasattr(tracker, "unlock"):
        yield
        return
    tracker.unlock()
    try:
        yield
    finally:
        tracker.lock()


# Optimizers


def keep_summed_gradients(optimizer, replicas):
    """Lets `optimizer.apply` take gradients that are already summed over the replicas: Keras would sum them again.

    Raises:
        UserError: if that is impossible, and there are several replicas.
    """
    name = "_all_reduce_sum_gradients"
    if not hasattr(optimizer, name) and replicas > 1:
        doubled = f"the gradients of {replicas} devices would be summed twice. Use one device, or an earlier Keras."
        raise UserError(_lacks(f"Optimizer.{name}", doubled))
    setattr(optimizer, name, lambda gradients_and_variables: gradients_and_variables)


def check_overridden(base, *names):
    """Raises UserError if a class lacks private methods that a subclass of ours overrides: nothing would call ours."""
    if missing := [name for name in names if not hasattr(base, name)]:
        unused = "training would differ from its description. Choose another optimizer, or install an earlier Keras."
        raise UserError(_lacks(f"{base.__name__}.{', '.join(missing)}", unused))


# TensorFlow


def register_graph_function(definition):
    """Makes a FunctionDef known to the eager context of TensorFlow, unless it is.

    Raises:
        ImportError, AttributeError: if TensorFlow lacks the private part; the caller traces the function instead.
    """
    from tensorflow.python.eager.context import context

    if not context().has_function(definition.signature.name):
        context().add_function_def(definition)
