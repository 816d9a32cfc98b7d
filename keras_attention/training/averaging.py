"""Weights averaged over the last epochs, or over all steps with an exponential window."""

import contextlib

import numpy as np


class LastWeights:
    """Keeps the weights of the last `count` epoch ends, and averages them.

    Args:
        count: int > 0, epoch ends to keep.

    Raises:
        ValueError: if `count` is not positive.

    Source: Vaswani et al. (2017), section 6.1, where checkpoints are averaged; here epochs take their place.
    """

    def __init__(self, count):
        if count < 1:
            raise ValueError(f"`count` must be a positive integer. Received: count={count}")
        self.count = count
        self.snapshots = []  # oldest first; each a list of arrays in the order of the trainable variables

    def add(self, model):
        """Remembers the trainable variables as they are now, and forgets the oldest beyond `count`."""
        self.snapshots = [*self.snapshots, copy_weights(model)][-self.count :]

    def average(self):
        """The mean of the kept weights, a list of arrays, computed in float64. `None` where nothing is kept yet."""
        if not self.snapshots:
            return None
        return [np.mean(arrays, axis=0, dtype="float64") for arrays in zip(*self.snapshots, strict=True)]


def use_exponential_average(optimizer, decay):
    """Makes the optimizer keep `average = decay * average + (1 - decay) * weights` after each update.

    The first update sets the average to the weights. It lives in `optimizer.variables`, so checkpoints hold it.

    Args:
        optimizer: `keras.Optimizer` that has not been built yet.
        decay: float in (0, 1).

    Raises:
        ValueError: if `decay` is out of range or the optimizer has been built.
    """
    if not 0.0 < decay < 1.0:
        raise ValueError(f"`ema_decay` must be in (0, 1). Received: ema_decay={decay}")
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    if optimizer.built:
        raise ValueError(f"`ema_decay` needs an optimizer that has not been used. Received: optimizer={optimizer.name}")
    optimizer.use_ema = True
    optimizer.ema_momentum = decay


def exponential_average(model, optimizer):
    """The exponential average that `optimizer` keeps, a list of arrays; see `use_exponential_average`."""
    own = copy_weights(model)
    optimizer.finalize_variable_values(model.trainable_variables)
    average = copy_weights(model)
    assign_weights(model, own)
    return average


def copy_weights(model):
    """The trainable variables as a list of arrays of at least float32, which the model no longer touches."""
    arrays = [v.numpy() for v in model.trainable_variables]
    return [array.astype(np.result_type(array.dtype, "float32"), copy=True) for array in arrays]


def assign_weights(model, arrays):
    """Puts `arrays` into the trainable variables, in their order."""
    for variable, array in zip(model.trainable_variables, arrays, strict=True):
        variable.assign(array)


@contextlib.contextmanager
def averaged_weights(model, arrays):
    """Inside the `with`, the model has the weights `arrays`; afterwards its own again, whatever happened.

    Args:
        model: built `keras.Model`.
        arrays: list of arrays in the order of `model.trainable_variables`, or `None` to change nothing.
    """
    if arrays is None:
        yield model
        return
    own = copy_weights(model)
    assign_weights(model, arrays)
    try:
        yield model
    finally:
        assign_weights(model, own)
