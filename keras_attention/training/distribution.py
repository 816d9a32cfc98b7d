"""Trains any compiled Keras model on several devices or machines, with the update of this package instead of `fit`.

`MultiWorkerMirroredStrategy` and `Model.fit` do not go together in Keras 3 (keras #20585). Here each batch is split
over the devices, and the update equals that of the whole batch on one device:

    gradient = sum over parts of (rows of the part * gradient of its mean loss) / rows of the batch

If outputs have Keras's mask, the valid steps of a part count instead of its rows, because the loss is their mean.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops, tree

from keras_attention.support.errors import UserError, quoted
from keras_attention.support.keras_private import get_keras_mask
from keras_attention.training import devices
from keras_attention.training.losses import Loss
from keras_attention.training.run import RunSettings
from keras_attention.training.session import Session

MEANS = (None, "sum_over_batch_size", "mean")  # reductions of a loss that are a mean over rows
NOT_MEASURED = float("nan")  # in place of the accuracy that the session counts for models of this package


class Trained(NamedTuple):
    """The result of `distribute`.

    Attributes:
        model: keras.Model with the trained weights, compiled; of worker 0 outside of any strategy, ready to be saved.
            If a function made it, the state of its optimizer is that of a new one.
        history: dict from the name of a value to a list with one float per epoch, as `History.history` of `fit`.
        is_chief: bool. False in all workers but the first: they save and print nothing.
    """

    model: keras.Model
    history: dict
    is_chief: bool


def distribute(
    model: keras.Model | Callable[[], keras.Model],
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int = 32,
    epochs: int = 1,
    validation_data: tuple | None = None,
    shuffle: bool = True,
    seed: int = 0,
    strategy: str = "auto",
    accumulate: int = 1,
    jit_compile: bool = False,
    checkpoints: str | None = None,
    resume: bool = False,
    verbose: int = 1,
) -> Trained:
    """Trains a compiled Keras model on all devices of this machine, or in several processes or machines.

    Args:
        model: compiled `keras.Model`, or a function without arguments that makes one. Several processes need the
            function, because TensorFlow must connect them before it computes anything: call `distribute` first.
        x, y, sample_weight: arrays with the rows on the first axis, or lists, tuples or dicts of arrays, as in `fit`.
            Each process gets all rows, in the same order.
        batch_size: int > 0, rows of an update over all devices. The batches of an epoch differ by at most one row.
        epochs: int > 0.
        validation_data: (x, y) or (x, y, sample_weight), or None. Each row is counted once (keras #19891).
        shuffle: bool. Whether to draw another order of the rows for each epoch, from `seed`.
        seed: int.
        strategy: "none", "mirrored", "multiworker" or "auto", see `training.devices.use_strategy`.
        accumulate: int > 0, parts in which each device computes its rows one after the other, to save memory.
        jit_compile: bool. Whether to compile the forward and backward pass with XLA.
        checkpoints: path of a folder for checkpoints, which all workers can read, or None.
        resume: bool. Whether to continue from the last checkpoint; the result is that of an undisturbed training.
        verbose: 0, 1 or 2, as in `fit`.

    Returns:
        Trained. A model that is given as such is trained in place, as by `fit`.

    Raises:
        UserError: if the model is not compiled, or cannot be trained in parts; if the rows do not fit together; or if
            the devices are not available.
        WorkerLostError: if another worker has stopped: start all again with `resume=True`.
        TrainingDivergedError: if loss, gradients or weights are not finite.

    Example:
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        trained = distribute(model, np.ones((7, 3)), np.ones((7, 1)), batch_size=2)

    Not supported: callbacks, class weights, and models with a `train_step` of their own. Batch normalization uses the
    statistics of each part, as under a strategy in `fit`; metrics are those of the validation rows. The gradient of an
    embedding is dense: in `fit`, Adam takes a token that occurs twice in a batch for two gradients.
    """
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            f"`distribute` needs the backend tensorflow. Received: {keras.backend.backend()}. On JAX, "
            "`keras.distribution.set_distribution` and `fit` go together."
        )
    rows = Rows(x, y, sample_weight, batch_size, shuffle, seed)
    validation = None if validation_data is None else Rows(*validation_data, batch_size=batch_size)
    given, make = (None, model) if not isinstance(model, keras.Model) else (model, partial(_copied, model))
    _start(strategy, verbose, given is not None)
    split = given if given is not None and not _has_strategy() else make()
    _check_model(split)
    _build(split, rows)
    session = Session(
        RunSettings(seed=seed, strategy=strategy, accumulate=accumulate, resume=resume, jit_compile=jit_compile),
        checkpoint_dir=checkpoints,
        verbose=verbose,
        unit="rows",
    )
    update = session.compile(split, split.optimizer, partial(_loss, rows))
    evaluate = Evaluation(split, validation) if validation else None
    with session:
        for epoch in session.epochs(rows, epochs):
            for batch in epoch:
                epoch.record(update(batch))
            average_statistics(split)
            if evaluate:
                session.report(**{f"val_{name}": value for name, value in evaluate().items()})
    history = _history(session.result.history)
    is_chief = devices.chief_goes_on()
    return Trained(_outside_of_strategy(split, given, make) if is_chief else split, history, is_chief)


class Rows:
    """Arrays as epochs of batches, each a pure function of (seed, epoch): a dict of arrays, "labels" among them.

    Args:
        x, y, sample_weight, batch_size, shuffle, seed: see `distribute`.
    """

    def __init__(self, x, y=None, sample_weight=None, batch_size=32, shuffle=False, seed=0):
        given = {"x": x, "y": y, "weight": sample_weight}
        self._trees = {
            kind: None if value is None else tree.map_structure(np.asarray, value) for kind, value in given.items()
        }
        leaves = {kind: tree.flatten(value) for kind, value in self._trees.items() if value is not None}
        self._arrays = {f"{kind}/{at}": array for kind, some in leaves.items() for at, array in enumerate(some)}
        for name, array in self._arrays.items():
            if array.ndim == 0 or array.dtype == object:
                kind = "numbers of one shape" if array.ndim else "arrays with rows"
                raise UserError(f"`distribute` takes {kind}. Received: {quoted(type(x).__name__)} as {name[0]}")
        sizes = {len(array) for array in self._arrays.values()}
        if len(sizes) != 1 or not min(sizes):
            raise UserError(
                f"x, y and sample_weight must have equally many rows, at least 1. Received: {sorted(sizes)}"
            )
        if batch_size < 1:
            raise UserError(f"`batch_size` must be positive. Received: batch_size={batch_size}")
        self.count = sizes.pop()
        self._batches = -(-self.count // batch_size)
        self._shuffle, self._seed = shuffle, seed

    def epoch(self, number):
        """The batches of an epoch, counted from 0."""
        order = np.arange(self.count)
        if self._shuffle:
            order = np.random.default_rng((self._seed, number)).permutation(self.count)
        return Batches(self._arrays, np.array_split(order, self._batches))

    def part(self, kind, at):
        """Some rows of "x", "y" or "weight", in the structure that was given, or None."""
        value = self._trees[kind]
        return None if value is None else tree.map_structure(lambda array: array[at], value)

    def packed(self, batch):
        """(x, y, sample_weight) of a batch, in the structures that were given."""
        arrays = []
        for kind, value in self._trees.items():
            count = 0 if value is None else len(tree.flatten(value))
            leaves = [batch[f"{kind}/{at}"] for at in range(count)]
            arrays.append(None if value is None else tree.pack_sequence_as(value, leaves))
        return tuple(arrays)


class Batches:
    """The batches of one epoch: `len()` and `[i]`."""

    def __init__(self, arrays, orders):
        self._arrays, self._orders = arrays, orders

    def __len__(self):
        return len(self._orders)

    def __getitem__(self, index):
        batch = {name: array[self._orders[index]] for name, array in self._arrays.items()}
        return {**batch, "labels": np.zeros(len(self._orders[index]), "float32")}  # the real ones may be several


class Evaluation:
    """`evaluate() -> dict of floats`: loss and metrics of a compiled model, over the validation rows of all workers.

    Each worker reads its share of the rows once. The states of the metrics are summed over batches and workers, as
    increments of their initial states; then each worker computes the results.

    Args:
        model: compiled and built `keras.Model`.
        rows: Rows.
    """

    def __init__(self, model, rows):
        import tensorflow as tf

        self._model, self._rows = model, rows
        self._variables = model.metrics_variables
        self._start = [np.zeros(variable.shape, variable.dtype) for variable in self._variables]
        self._step = tf.function(self._measured, autograph=False)  # by shape: Keras weighs losses by static sizes

    def __call__(self):
        state, loss, count = self._start, 0.0, 0.0
        index, workers = devices.workers()
        bounds = np.linspace(0, self._rows.count, workers + 1).astype(int)
        batch = -(-self._rows.count // len(self._rows.epoch(0)))
        for start in range(bounds[index], bounds[index + 1], batch):
            at = slice(start, min(start + batch, bounds[index + 1]))
            state, total, size = self._step(state, *(self._rows.part(kind, at) for kind in ("x", "y", "weight")))
            loss, count = loss + float(total), count + float(size)
        flat = [float(number) for array in state for number in np.ravel(ops.convert_to_numpy(array))]
        *flat, loss, count = devices.add_up([*flat, loss, count])
        ends = np.cumsum([array.size for array in self._start])[:-1]
        arrays = np.split(np.array(flat), ends) if self._start else []
        state = [
            np.reshape(array, start.shape).astype(start.dtype) for array, start in zip(arrays, self._start, strict=True)
        ]
        with self._scope(state):
            results = self._model.get_metrics_result()
        named = {name: float(np.mean(value)) for name, value in results.items() if name != "loss"}
        return {"loss": loss / max(count, 1.0), **named}

    def _scope(self, state):
        pairs = [(v, v.value) for v in self._model.trainable_variables]  # of regularizers
        pairs += zip(self._variables, map(ops.convert_to_tensor, state), strict=True)
        return keras.StatelessScope(state_mapping=pairs)

    def _measured(self, state, x, y, weight):
        """The states after a batch, its summed loss, and what it counts."""
        answer = self._model(x, training=False)
        count, losses = _count(answer, y), self._model.losses
        with self._scope(state) as scope:
            mean = _mean_loss(self._model, x, y, answer, weight, training=False)
            mean += sum(losses) - sum(self._model.losses)  # those of `add_loss`, which the scope hides
            self._model.compute_metrics(x, y, answer, weight)
        return [scope.get_current_value(variable) for variable in self._variables], mean * count, count


def _loss(rows, model, inputs, labels):
    """The Loss of a part of a batch, see `backends.compile_update`."""
    x, y, weight = rows.packed(inputs)
    answer = model(x, training=True)
    count = _count(answer, labels)
    mean = _mean_loss(model, x, y, answer, weight, training=True)
    return Loss(mean * count, count, ops.convert_to_tensor(NOT_MEASURED, "float32"))


def _mean_loss(model, x, y, answer, weight, training):
    """The compiled loss, with its regularizers, as a mean over the rows; Keras divides it by the number of devices."""
    import tensorflow as tf

    value = model.compute_loss(x=x, y=y, y_pred=answer, sample_weight=weight, training=training)
    return ops.cast(value, "float32") * float(tf.distribute.get_strategy().num_replicas_in_sync)


def _count(answer, labels):
    """How many values a loss is the mean of, up to a factor: the rows, or the valid steps of a masked output."""
    masks = [get_keras_mask(output) for output in tree.flatten(answer)]
    if len(masks) == 1 and masks[0] is not None:
        return ops.sum(ops.cast(masks[0], "float32"))
    return ops.cast(ops.shape(tree.flatten(labels)[0])[0], "float32")


def _build(model, rows):
    """Makes the variables of a model and of its metrics."""
    x, y, weight = (rows.part(kind, slice(0, 1)) for kind in ("x", "y", "weight"))
    answer = model(x, training=False)
    with keras.StatelessScope(state_mapping=[(v, v.value) for v in model.trainable_variables]):  # updates nothing
        model.compute_loss(x=x, y=y, y_pred=answer, sample_weight=weight, training=False)
        model.compute_metrics(x, y, answer, weight)


def average_statistics(model):
    """Sets what layers measure themselves, such as moving averages, to its mean over all devices of all workers."""
    if not _has_strategy():
        return
    import tensorflow as tf

    strategy, workers = tf.distribute.get_strategy(), devices.workers().count
    measured = [v for v in model.non_trainable_variables if keras.backend.is_float_dtype(v.dtype)]
    read = tf.function(lambda: [tf.identity(v.value) for v in measured], autograph=False)
    each = [strategy.experimental_local_results(values) for values in strategy.run(read)] if measured else []
    means = [np.mean([value.numpy() for value in values], axis=0) for values in each]
    total = devices.add_up([float(number) for mean in means for number in np.ravel(mean)]) if means else []
    for variable, values in zip(measured, np.split(total, np.cumsum([m.size for m in means])[:-1]), strict=False):
        variable.assign(np.reshape(values, variable.shape) / workers)


_strategies: dict = {}  # by their names; devices can be connected only once in a process


def _start(strategy, verbose, is_given):
    """Starts the strategy; several processes must connect before TensorFlow computes anything."""
    import tensorflow as tf

    if strategy in _strategies:
        tf.distribute.experimental_set_strategy(_strategies[strategy])
        return
    notify = print if verbose else lambda text: None
    try:
        devices.use_strategy(strategy, notify)
    except RuntimeError as error:
        raise UserError(
            "Several processes must connect before TensorFlow computes anything. Give `distribute` a function that "
            f"makes and compiles the model, and call it first. ({str(error).splitlines()[0]})"
        ) from error
    if _has_strategy():
        _strategies[strategy] = tf.distribute.get_strategy()
    if devices.workers().count > 1 and is_given:
        raise UserError("Several processes need a function that makes and compiles the model. Received: a model")


def _has_strategy():
    import tensorflow as tf

    return tf.distribute.has_strategy()


def _check_model(model):
    """Raises UserError unless a model is compiled, and its update can be computed in parts."""
    if not isinstance(model, keras.Model):
        raise UserError(f"Expected a keras.Model, or a function that returns one. Received: {quoted(model)}")
    if not model.compiled or model.optimizer is None or model.loss is None:
        raise UserError("The model must be compiled with an optimizer and a loss: call model.compile(...) first.")
    if type(model).train_step is not keras.Model.train_step:
        raise UserError(f"{type(model).__name__} has a `train_step` of its own, which cannot be split. Use `fit`.")
    for loss in tree.flatten(model.loss):
        if getattr(loss, "reduction", None) not in MEANS:
            raise UserError(f"The loss must be a mean over the rows. Received: reduction={quoted(loss.reduction)}")
    if getattr(model.optimizer, "gradient_accumulation_steps", None):
        raise UserError("Use `accumulate` of `distribute` instead of `gradient_accumulation_steps` of the optimizer.")
    if isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
        raise UserError("A split batch needs an optimizer without loss scale: use mixed_bfloat16, not mixed_float16.")


def _copied(model):
    """Another model with the same settings, weights and compilation."""
    try:
        copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(model))
        copy.set_weights(model.get_weights())
    except (TypeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            "This model cannot be made anew from its settings. Give `distribute` a function that makes and compiles "
            f"it. ({reason})"
        ) from error
    return copy


def _outside_of_strategy(split, given, make):
    """A model with the trained weights whose variables belong to one device: the given one, if there is one."""
    if split is given:
        return given
    plain = given if given is not None else make()
    if not plain.built:
        return split
    plain.set_weights(split.get_weights())
    return plain


def _history(entries):
    """Dict of lists, as `fit` returns it."""
    names = {name: None for entry in entries for name in entry if name == "loss" or name.startswith("val_")}
    return {name: [entry[name] for entry in entries if name in entry] for name in names}
