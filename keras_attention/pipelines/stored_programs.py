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

from keras_attention.compile_cache import MARK, has_cache, read_stored, tell_compiling, write_stored

PACKAGE = Path(__file__).resolve().parents[1]


def stored_program(function, specs, model, key, jit_compile=False):
    """Traces a function, or reads the graph that an earlier process has traced.

    Args:
        function: callable of nested tensors that returns nested tensors: in dicts, lists and tuples. It may read the
            weights of `model` and nothing else.
        specs: list with the nested tf.TensorSpec of each argument.
        model: built layer or model, or None if the function must not be stored.
        key: str, everything that the function depends on other than specs, settings of the model and code of the
            package.
        jit_compile: bool. Whether XLA compiles the function.

    Returns:
        Callable with the arguments of `function`, which returns what it returns, but tuples for named tuples.
    """
    found = None
    if stores := model is not None and has_cache():
        digest = _digest(function.__name__, specs, model, key, jit_compile)
        with suppress(Exception):  # whatever is wrong with a file, tracing gives the same program
            found = _imported(read_stored(digest), specs, model)
    if found is None and jit_compile:
        tell_compiling()
    if not stores:
        return tf.function(function, input_signature=specs, jit_compile=jit_compile, autograph=False)
    return found or _stored(function, specs, model, digest, jit_compile)


def _stored(function, specs, model, digest, jit_compile):
    """Traces and stores a function."""
    program = _traced(function, specs, f"traced_{digest}", jit_compile)
    with suppress(Exception):
        content = _serialized(program, model).replace(f"traced_{digest}".encode(), f"{MARK}{digest}".encode())
        write_stored(digest, content)
        return _imported(content, specs, model)  # as later processes do, so that they find what XLA compiles
    return lambda *inputs: program(*tf.nest.flatten(inputs))


def _traced(function, specs, name, jit_compile):
    """The concrete function of flat tensors; `name` is in the names of all functions in its graph."""

    def named(*inputs):
        with tf.name_scope(name):
            return function(*tf.nest.pack_sequence_as(specs, inputs))

    named.__name__ = name
    inner = tf.function(named, jit_compile=True, autograph=False) if jit_compile else named
    signature = tf.nest.flatten(specs)
    return tf.function(
        lambda *inputs: inner(*inputs), input_signature=signature, autograph=False
    ).get_concrete_function()


def _serialized(program, model):
    """A line of JSON, then the graph of a concrete function: bytes. KeyError if it reads anything but weights."""
    numbers = {id(weight.value.handle): number for number, weight in enumerate(model.weights)}
    captures = [(placeholder.name, numbers[id(handle)]) for handle, placeholder in program.graph.captures]
    inputs = [tensor.name for tensor in program.inputs[: len(program.inputs) - len(captures)]]
    outputs = [tensor.name for tensor in program.outputs]
    places = iter(range(len(outputs)))
    structure = _as_json(tf.nest.map_structure(lambda _: next(places), program.structured_outputs))
    names = json.dumps({"inputs": inputs, "weights": dict(captures), "outputs": outputs, "structure": structure})
    return names.encode() + b"\n" + program.graph.as_graph_def().SerializeToString(deterministic=True)


def _as_json(structure):
    """Nested dicts, lists and tuples of integers as JSON values; a list of JSON stands for a tuple."""
    if isinstance(structure, dict):
        return {"dict": {name: _as_json(part) for name, part in structure.items()}}
    if isinstance(structure, list):
        return {"list": [_as_json(part) for part in structure]}
    return [_as_json(part) for part in structure] if isinstance(structure, tuple) else structure


def _from_json(value, outputs):
    """The reverse of `_as_json`, with the output at its place for each integer."""
    if isinstance(value, list):
        return tuple(_from_json(part, outputs) for part in value)
    if isinstance(value, int):
        return outputs[value]
    if "dict" in value:
        return {name: _from_json(part, outputs) for name, part in value["dict"].items()}
    return [_from_json(part, outputs) for part in value["list"]]


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

    def imported(*inputs):
        captured = {name: tf.compat.v1.get_default_graph().capture(handle) for name, handle in handles.items()}
        known = dict(zip(names["inputs"], inputs, strict=True)) | captured
        return tf.graph_util.import_graph_def(graph, input_map=known, return_elements=names["outputs"], name="")

    signature = tf.nest.flatten(specs)
    program = tf.function(imported, input_signature=signature, autograph=False).get_concrete_function()
    return lambda *inputs: _from_json(names["structure"], program(*tf.nest.flatten(inputs)))


def _digest(function, specs, model, key, jit_compile):
    """A digest (str) of everything that determines a graph, except the versions, which the cache checks."""
    settings = {name: value for name, value in model.get_config().items() if name != "name"}
    weights = [(weight.dtype, tuple(weight.shape)) for weight in model.weights]
    devices = sorted({device.device_type for device in tf.config.list_physical_devices()})
    number_formats = (keras.config.floatx(), model.dtype_policy.name)
    facts = (_code(), function, type(model).__name__, settings, weights, devices, number_formats, key, jit_compile)
    signature = tf.nest.map_structure(lambda spec: (spec.shape, spec.dtype), specs)
    return hashlib.sha256(repr((facts, signature)).encode()).hexdigest()[:32]


@cache
def _code():
    """A digest (str) of the code of the package."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
