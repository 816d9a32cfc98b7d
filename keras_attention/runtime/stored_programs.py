"""Traced programs on disk: a later process need not run the Python code of a model layer by layer.

A stored program is the graph of a function, with the functions that it calls, but without weights: it refers to each
weight by its index in `model.weights`. The graph is stored in the compile cache, which verifies it. XLA identifies a
compiled program by the names in its graph, among others. A graph read from disk keeps its names and therefore finds its
compiled program, whatever the process has traced before.
"""

import ctypes
import hashlib
import json
import sys
import threading
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import keras
import tensorflow as tf

from keras_attention.support.compile_cache import (
    AGAIN,
    MARK,
    VARIABLE,
    announce_compiling,
    cache_failed,
    has_cache,
    is_eager,
    read_stored,
    write_stored,
)
from keras_attention.support.errors import UserError
from keras_attention.support.keras_private import register_graph_function

PACKAGE = Path(__file__).resolve().parents[1]


def stored_program(function, specs, model, key, jit_compile=False, variables=(), call=None):
    """Traces a function, or reads the graph that an earlier process has traced. In eager mode, returns it unchanged.

    Args:
        function: callable of nested tensors that returns nested tensors: in dicts, lists and tuples. It may read the
            weights of `model` and nothing else.
        specs: list with the nested tf.TensorSpec of each argument.
        model: built layer or model, or None if the function must not be stored. A model with weights on several devices
            is not stored either.
        key: str, everything that the function depends on other than specs, settings of the model and code of the
            package.
        jit_compile: bool. Whether XLA compiles the function.
        variables: list of tf.Variable that `function` and `call` may read, too.
        call: callable (function, *inputs) that does what `call_compiled` does, and more that XLA does not compile; or
            None. Only with `jit_compile`.

    Returns:
        Callable with the arguments of `function`, which returns what it returns, but tuples for named tuples.
    """
    if is_eager():
        return function
    stored = None
    if stores := model is not None and has_cache() and not _is_distributed(model):
        handles = [*(weight.value.handle for weight in model.weights), *(variable.handle for variable in variables)]
        digest = _digest(function.__name__, specs, model, key, jit_compile)
        with suppress(Exception):  # whatever is wrong with a file, tracing gives the same program
            content = read_stored(digest) or b""
            if f"{MARK}{digest}".encode() in content:  # the graph of this function
                stored = _imported(content, specs, handles)
    if stored is None and jit_compile:
        announce_compiling()
    call = call or (call_compiled if jit_compile else _call)
    if not stores:
        program = tf.function(partial(call, function), input_signature=specs, autograph=False)
    else:
        program = stored or _stored(function, specs, handles, digest, call)
    if not jit_compile:
        return program
    if has_cache():
        retraced = partial(_retraced, function, specs, call)
        program = _surviving_the_cache(program, retraced, digest if stores else None)
    return _returning_memory(program)


def _is_distributed(model):
    """Whether weights of the model are one variable on each device, because a `tf.distribute.Strategy` created them."""
    return any(isinstance(weight.value, tf.distribute.DistributedValues) for weight in model.weights)


def call_compiled(function, *inputs):
    """Calls a function of tensors as an XLA program, in the graph that is being traced."""
    compiled = not getattr(_tracing, "without_xla", False)
    return tf.function(function, jit_compile=compiled, autograph=False)(*inputs)


_tracing = threading.local()


def _retraced(function, specs, call, with_xla):
    """Traces a function again, under another name: what failed to compile once is not compiled again under its name."""
    _tracing.without_xla = not with_xla
    try:
        program = tf.function(partial(call, function), input_signature=specs, autograph=False)
        program.get_concrete_function()
        return program
    finally:
        _tracing.without_xla = False


def return_memory():
    """Returns the memory that the compiler has freed, a hundred MB or more, to the system."""
    if sys.platform == "linux":
        with suppress(AttributeError):  # a C library other than glibc
            ctypes.CDLL(None).malloc_trim(0)


def _returning_memory(program):
    """A compiled program whose first call, in which XLA compiles it, ends with `return_memory`."""
    called = threading.Event()

    def run(*inputs):
        outputs = program(*inputs)
        if not called.is_set():
            called.set()
            return_memory()
        return outputs

    return run


def _surviving_the_cache(program, retraced, digest):
    """A compiled program that gives its results also where TensorFlow can neither read nor write the compile cache.

    A stored program that cannot be read is removed and compiled anew. If compiled programs cannot be stored, because
    the disk is full, for example, TensorFlow does not run them: then another disk is used, or XLA is not.

    Args:
        program: callable of tensors.
        retraced: callable (with_xla) -> program that computes the same.
        digest: str, the digest of the program's graph, or None if it is not stored.
    """
    programs = [program]

    def run(*inputs):
        for tries_left in (3, 2, 1, 0):
            try:
                return programs[-1](*inputs)
            except tf.errors.OpError as error:
                failed = cache_failed(error, digest)
                if failed is None:
                    raise
                if not tries_left:
                    raise UserError(
                        f"Compiled programs cannot be stored. Free some space, or set {VARIABLE} to another folder."
                    ) from error
                programs.append(retraced(failed == AGAIN and tries_left > 1))

    return run


def _call(function, *inputs):
    return function(*inputs)


def _stored(function, specs, handles, digest, call):
    """Traces and stores a function."""
    program = _traced(function, specs, f"traced_{digest}", call)
    with suppress(Exception):
        content = _serialized(program, handles).replace(f"traced_{digest}".encode(), f"{MARK}{digest}".encode())
        write_stored(digest, content)
        return _imported(content, specs, handles)  # as later processes do, so that they find what XLA compiles
    return lambda *inputs: program(*tf.nest.flatten(inputs))


def _traced(function, specs, name, call):
    """The concrete function of flat tensors; `name` is in the names of all functions in its graph."""

    def named(*inputs):
        with tf.name_scope(name):
            return function(*tf.nest.pack_sequence_as(specs, inputs))

    named.__name__ = name
    signature = tf.nest.flatten(specs)
    return tf.function(partial(call, named), input_signature=signature, autograph=False).get_concrete_function()


def _serialized(program, handles):
    """A line of JSON, then the graph of a concrete function: bytes. KeyError if it reads anything but the handles."""
    numbers = {id(handle): number for number, handle in enumerate(handles)}
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


def _imported(content, specs, handles):
    names, _, content = content.partition(b"\n")
    names = json.loads(names)
    graph = tf.compat.v1.GraphDef.FromString(content)
    for function in graph.library.function:  # importing the graph registers them in the graph only, not in its caller
        register_graph_function(function)
    read = {placeholder: handles[number] for placeholder, number in names["weights"].items()}

    def imported(*inputs):
        captured = {name: tf.compat.v1.get_default_graph().capture(handle) for name, handle in read.items()}
        known = dict(zip(names["inputs"], inputs, strict=True)) | captured
        return tf.graph_util.import_graph_def(graph, input_map=known, return_elements=names["outputs"], name="")

    signature = tf.nest.flatten(specs)
    program = tf.function(imported, input_signature=signature, autograph=False).get_concrete_function()
    call = program if tf.config.list_physical_devices("GPU") else _without_checks(program)
    return lambda *inputs: _from_json(names["structure"], call(*tf.nest.flatten(inputs)))


def _without_checks(program):
    """A concrete function of flat tensors as a callable that does not check its inputs: a call takes 0.1 ms less."""
    types, captured = [output.dtype for output in program.outputs], program.captured_inputs
    return lambda *inputs: tf.raw_ops.StatefulPartitionedCall(args=[*inputs, *captured], Tout=types, f=program)


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
