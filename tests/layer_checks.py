"""Checks that a layer passes whatever it computes. `inputs` is the dict of its call arguments, in NumPy."""

import functools
import inspect

import keras
import numpy as np
import tensorflow as tf

TOLERANCES = {"float32": 1e-5, "mixed_float16": 5e-3, "mixed_bfloat16": 3e-2}
EXECUTIONS = {
    "eager": lambda function: function,
    "graph": tf.function,
    "xla": functools.partial(tf.function, jit_compile=True),
}


def random_array(*shape, seed, low=-1.0, high=1.0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype("float32")


def poisoned(inputs, poison):
    """The same inputs with `poison` in every query, key and value that no pair uses."""
    inputs = {**inputs, **{name: inputs[name].copy() for name in ("query", "value", "key")}}
    used = inputs["attention_mask"]
    assert not used.any(axis=1).all()
    assert not used.any(axis=2).all()
    inputs["query"][~used.any(axis=2)] = poison
    inputs["key"][~used.any(axis=1)] = poison
    inputs["value"][~used.any(axis=1)] = poison
    return inputs


def outputs_and_gradients(layer, inputs, execution="eager"):
    """The layer's outputs, and the gradients of their weighted sum by every float input and weight, as NumPy lists."""
    layer(**inputs)
    floats = {k: tf.constant(v) for k, v in inputs.items() if getattr(v, "dtype", np.dtype(bool)).kind == "f"}
    others = {k: v for k, v in inputs.items() if k not in floats}

    @EXECUTIONS[execution]
    def compute(floats):
        with tf.GradientTape() as tape:
            tape.watch(floats)
            outputs = tf.nest.flatten(layer(**floats, **others))
            loss = tf.add_n([weighted_sum(output) for output in outputs])
        sources = [*floats.values(), *(weight.value for weight in layer.trainable_weights)]
        return outputs, tape.gradient(loss, sources, unconnected_gradients="zero")

    outputs, gradients = compute(floats)
    return [np.asarray(x) for x in outputs], [np.asarray(x) for x in gradients]


def weighted_sum(output):
    """A scalar in float64 on which every element of the output has its own, irregular influence."""
    cotangent = np.cos(np.arange(np.prod(output.shape))).reshape(output.shape)
    return tf.reduce_sum(tf.cast(output, "float64") * cotangent)


def check_gradients(make_layer, inputs):
    """Gradients of `make_layer()` agree with central differences along random directions; its dtype must be float64."""
    keras.utils.set_random_seed(0)  # before the layer is made: its weights decide on how far rounding reaches
    layer = make_layer()
    inputs = {k: np.asarray(v, "float64") if getattr(v, "dtype", None) == "float32" else v for k, v in inputs.items()}
    _, gradients = outputs_and_gradients(layer, inputs)
    names = [k for k, v in inputs.items() if getattr(v, "dtype", np.dtype(bool)).kind == "f"]
    start = [inputs[name] for name in names] + [np.asarray(weight) for weight in layer.trainable_weights]
    assert len(gradients) == len(start)

    def loss(point):
        for weight, number in zip(layer.trainable_weights, point[len(names) :], strict=True):
            weight.assign(number)
        outputs = tf.nest.flatten(layer(**{**inputs, **dict(zip(names, point, strict=False))}))
        return float(tf.add_n([weighted_sum(output) for output in outputs]))

    step = 1e-6
    for i, gradient in enumerate(gradients):
        direction = random_array(*start[i].shape, seed=i)
        ahead, behind = ([*start[:i], start[i] + sign * step * direction, *start[i + 1 :]] for sign in (1, -1))
        difference = (loss(ahead) - loss(behind)) / (2 * step)
        np.testing.assert_allclose(np.sum(gradient * direction), difference, rtol=1e-6, atol=1e-7)


def check_executions_agree(layer, inputs):
    """Eager, graph and XLA give the same outputs and the same, finite gradients."""
    outputs, gradients = outputs_and_gradients(layer, inputs, "eager")
    for execution in ("graph", "xla"):
        other_outputs, other_gradients = outputs_and_gradients(layer, inputs, execution)
        assert_all_close(other_outputs + other_gradients, outputs + gradients, 1e-5)


def assert_all_close(actual, expected, tolerance):
    """Pairs of arrays of equal shapes, all finite, differ by at most `tolerance`."""
    for a, e in zip(actual, expected, strict=True):
        a, e = np.asarray(a, "float64"), np.asarray(e, "float64")
        assert a.shape == e.shape
        assert np.isfinite(a).all()
        np.testing.assert_allclose(a, e, rtol=0, atol=tolerance)


def check_saving(layer_class, settings, inputs, folder):
    """A saved model and a layer made from the config keep the settings and, with the weights, the outputs."""
    layer = layer_class(**settings)
    tensors = {k: v for k, v in inputs.items() if isinstance(v, np.ndarray)}
    symbols = {k: keras.Input(v.shape[1:], batch_size=v.shape[0], dtype=v.dtype, name=k) for k, v in tensors.items()}
    model = keras.Model(symbols, layer(**{**inputs, **symbols}))
    expected = tf.nest.flatten(model(tensors))
    model.save(folder / "model.keras")
    loaded_model = keras.saving.load_model(folder / "model.keras")
    assert_all_close(tf.nest.flatten(loaded_model(tensors)), expected, 0)
    model.save_weights(folder / "model.weights.h5")
    copy = layer_class.from_config(layer.get_config())
    other_model = keras.Model(symbols, copy(**{**inputs, **symbols}))
    other_model.load_weights(folder / "model.weights.h5")
    assert_all_close(tf.nest.flatten(other_model(tensors)), expected, 0)
    (loaded,) = [x for x in loaded_model.layers if isinstance(x, layer_class)]
    for name, setting in settings.items():
        assert getattr(loaded, name) == getattr(copy, name) == setting, name


def check_example(layer_class, **names):
    """The docstring's example runs."""
    example = inspect.cleandoc(layer_class.__doc__).partition("Example:\n")[2]
    exec(inspect.cleandoc(example), {layer_class.__name__: layer_class, **names})
