"""Traced programs on disk: a later process need not run the Python code of a model layer by layer.

A stored program is the graph of a function, with the functions that it calls, but without weights: it refers to each
weight by its index in `model.weights`. The graph is stored in the compile cache, which verifies it. XLA identifies a
compiled program by the names in its graph, among others. A graph read from disk keeps its names and therefore finds its
compiled program, whatever the process has traced before.
"""

import hashlib
import json
from contextlib import suppress
from functools import cache
from pathlib import Path

import keras
import tensorflow as tf

from keras_attention.compile_cache import has_cache, read_stored, write_stored

PACKAGE = Path(__file__).resolve().parents[1]


def stored_program(function, specs, model, key, jit_compile=False):
    """Traces a function, or reads the graph that an earlier process has traced.

    Args:
        function: callable of tensors that returns tensors; it may read the weights of `model` and nothing else.
        specs: list of tf.TensorSpec, its arguments.
        model: built layer or model, or None if the function must not be stored.
        key: str, everything that the function depends on other than specs, settings of the model and code of the
            package.
        jit_compile: bool. Whether XLA compiles the function.

    Returns:
        Callable of tensors that returns a flat list of tensors, or None if there is no cache.
    """
    if model is None or not has_cache():
        return None
    digest = _digest(function.__name__, specs, model, key, jit_compile)
    name = f"graph_{digest}.pb"
    with suppress(Exception):  # whatever is wrong with a file, tracing gives the same program
        if content := read_stored(name):
            return _imported(content, specs, model)
    program = _traced(function, specs, f"traced_{digest}", jit_compile)
    with suppress(Exception):
        content = _serialized(program, model).replace(f"traced_{digest}".encode(), f"stored_{digest}".encode())
        write_stored(name, content)
        return _imported(content, specs, model)  # as later processes do, so that they find what XLA compiles
    return program


def _traced(function, specs, name, jit_compile):
    """The concrete function; `name` is in the names of all functions in its graph."""

    def named(*inputs):
        with tf.name_scope(name):
            return tf.nest.flatten(function(*inputs))

    named.__name__ = name
    inner = tf.function(named, jit_compile=True, autograph=False) if jit_compile else named
    return tf.function(lambda *inputs: inner(*inputs), input_signature=specs, autograph=False).get_concrete_function()


def _serialized(program, model):
    """A line of JSON, then the graph of a concrete function: bytes. KeyError if it reads anything but weights."""
    numbers = {id(weight.value.handle): number for number, weight in enumerate(model.weights)}
    captures = [(placeholder.name, numbers[id(handle)]) for handle, placeholder in program.graph.captures]
    inputs = [tensor.name for tensor in program.inputs[: len(program.inputs) - len(captures)]]
    outputs = [tensor.name for tensor in program.outputs]
    names = json.dumps({"inputs": inputs, "weights": dict(captures), "outputs": outputs})
    return names.encode() + b"\n" + program.graph.as_graph_def().SerializeToString(deterministic=True)


def _imported(content, specs, model):
    from tensorflow.python.eager.context import context  # here: a private API, so a failure must not matter

    names, _, content = content.partition(b"\n")
    names = json.loads(names)
    graph = tf.compat.v1.GraphDef.FromString(content)
    for function in graph.library.function:  # importing the graph registers them in the graph only, not in its caller
        if not context().has_function(function.signature.name):
            context().add_function_def(function)
    weights = model.weights
    handles = {placeholder: weights[number].value.handle for placeholder, number in names["weights"].items()}

    def program(*inputs):
        captured = {name: tf.compat.v1.get_default_graph().capture(handle) for name, handle in handles.items()}
        known = dict(zip(names["inputs"], inputs, strict=True)) | captured
        return tf.graph_util.import_graph_def(graph, input_map=known, return_elements=names["outputs"], name="")

    return tf.function(program, input_signature=specs, autograph=False).get_concrete_function()


def _digest(function, specs, model, key, jit_compile):
    """A digest (str) of everything that determines a graph, except the versions, which the cache checks."""
    settings = {name: value for name, value in model.get_config().items() if name != "name"}
    weights = [(weight.dtype, tuple(weight.shape)) for weight in model.weights]
    devices = sorted({device.device_type for device in tf.config.list_physical_devices()})
    number_formats = (keras.config.floatx(), model.dtype_policy.name)
    facts = (_code(), function, type(model).__name__, settings, weights, devices, number_formats, key, jit_compile)
    signature = [(spec.shape, spec.dtype) for spec in specs]
    return hashlib.sha256(repr((facts, signature)).encode()).hexdigest()[:32]


@cache
def _code():
    """A digest (str) of the code of the package."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
