"""A later process reads the graphs that an earlier one has traced, with the same results. Else it traces them."""

import hashlib
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attention.runtime import stored_programs
from keras_attention.runtime.stored_programs import call_compiled, stored_program
from keras_attention.support import compile_cache
from keras_attention.support.compile_cache import MARK, CompileCache
from keras_attention.support.errors import UserError

SPECS = [tf.TensorSpec((None, 3), tf.float32), tf.TensorSpec((), tf.int32)]
X = np.arange(21, dtype="float32").reshape(7, 3) / 11


@pytest.fixture
def next_process(tmp_path, monkeypatch):
    """Ends the cache of this process and opens another: callable that returns it."""
    caches = []

    def open_cache():
        for cache in caches:
            cache.close()
        caches.append(CompileCache(tmp_path))
        monkeypatch.setattr(compile_cache, "_in_use", caches[-1:])
        return caches[-1]

    yield open_cache
    for cache in caches:
        cache.close()


def layer(units=5, seed=3):
    dense = keras.layers.Dense(units, kernel_initializer=keras.initializers.RandomNormal(seed=seed))
    dense.build((None, 3))
    return dense


def repeated(dense):
    """A function with a loop, whose body is a function of its own in the graph."""

    def function(x, times):
        def body(i, total):
            return i + 1, total + tf.sin(dense(x) * tf.cast(i, tf.float32))

        return {"sum": tf.while_loop(lambda i, _: i < times, body, (0, tf.zeros_like(dense(x))))[1], "x": x}

    return function


def run(dense, key="loop", **options):
    program = stored_program(repeated(dense), SPECS, dense, key, **options)
    return {name: output.numpy() for name, output in program(tf.constant(X), tf.constant(11)).items()}


def graphs(cache):
    return sorted(path.name for path in cache.session.glob("graph_*"))


def test_weights_on_several_devices_are_not_stored(next_process):
    expected, cache = run(layer()), next_process()
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        actual = run(layer())
    np.testing.assert_allclose(actual["sum"], expected["sum"], rtol=1e-6)
    assert not graphs(cache)


def no_tracing(*arguments):
    raise AssertionError("traced again")


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_graph_that_is_read_gives_the_same_bits(next_process, monkeypatch, jit_compile):
    next_process()
    dense = layer()
    traced = run(dense, jit_compile=jit_compile)
    next_process()
    monkeypatch.setattr(stored_programs, "_traced", no_tracing)
    read = run(dense, jit_compile=jit_compile)
    assert set(read) == set(traced) == {"sum", "x"}
    for name, value in read.items():
        np.testing.assert_array_equal(value, traced[name])


def test_a_graph_that_is_read_uses_the_weights_of_its_model(next_process, monkeypatch):
    next_process()
    run(layer(seed=3))
    expected = run(layer(seed=7), key="other")
    next_process()
    monkeypatch.setattr(stored_programs, "_traced", no_tracing)
    other = layer(seed=3)
    program = stored_program(repeated(other), SPECS, other, "loop")
    other.set_weights(layer(seed=7).get_weights())
    np.testing.assert_array_equal(program(tf.constant(X), tf.constant(11))["sum"], expected["sum"])


def test_a_program_may_read_weights_that_were_computed_outside_of_xla(next_process, monkeypatch):
    dense = layer()

    def run_with(scale, shift):
        variables = scale, shift = tf.Variable(scale), tf.Variable(shift)

        def call(function, *inputs):
            with keras.StatelessScope(state_mapping=[(dense.kernel, scale * dense.kernel.value)]):
                return call_compiled(function, *inputs)

        options = {"jit_compile": True, "variables": variables, "call": call}
        program = stored_program(lambda x, times: dense(x) + shift, SPECS, dense, "scaled", **options)
        np.testing.assert_allclose(program(tf.constant(X), tf.constant(1)), dense(X) * scale + shift, rtol=1e-5)

    run_with(11.0, 13.0)  # without a cache
    next_process()
    run_with(2.0, 3.0)
    next_process()
    monkeypatch.setattr(stored_programs, "_traced", no_tracing)
    run_with(5.0, 7.0)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_program_may_be_part_of_a_larger_graph(next_process, jit_compile):
    next_process()
    dense = layer()
    program = stored_program(repeated(dense), SPECS, dense, "loop", jit_compile=jit_compile)
    alone = program(tf.constant(X), tf.constant(11))["sum"]
    larger = tf.function(lambda x: 3 * program(x, tf.constant(11))["sum"])
    np.testing.assert_array_equal(larger(tf.constant(X)), 3 * alone.numpy())


def test_each_model_function_and_version_has_a_graph_of_its_own(next_process, monkeypatch):
    cache = next_process()
    run(layer())
    run(layer(seed=7))  # the same function of other weights
    assert len(graphs(cache)) == 2  # the seed is a setting of this layer
    run(layer(units=7))
    run(layer(), key="other")
    run(layer(), jit_compile=True)
    assert len(graphs(cache)) == 5
    monkeypatch.setattr(stored_programs, "_code", lambda: "other code")
    run(layer())
    assert len(graphs(cache)) == 6


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b'{"inputs": [], "weights": {}, "outputs": []}\n', b"no\nno"])
def test_a_graph_that_cannot_be_read_is_traced_again(next_process, content):
    next_process()
    dense = layer()
    expected = run(dense)
    cache = next_process()
    graph = next(cache.machine.glob("[!.]*")).name
    assert cache.read(graph)
    (cache.session / f"graph_{graph}.pb").unlink()  # a link to the store
    cache.write(graph, content)
    np.testing.assert_array_equal(run(dense)["sum"], expected["sum"])
    assert cache.read(graph) != content


def test_a_function_of_more_than_weights_is_not_stored(next_process):
    cache = next_process()
    dense, more = layer(), tf.Variable(3.0)
    program = stored_program(lambda x, times: dense(x) * more, SPECS, dense, "more")
    np.testing.assert_array_equal(program(tf.constant(X), tf.constant(1)), dense(X) * 3.0)
    assert not graphs(cache)


def test_without_a_cache_or_a_model_nothing_is_stored(next_process, monkeypatch):
    cache = next_process()
    for model in (None, layer()):
        program = stored_program(lambda x, times: x + 1, SPECS, model, "")
        np.testing.assert_array_equal(program(tf.constant(X), tf.constant(1)), X + 1)
        monkeypatch.setattr(compile_cache, "_in_use", [])
    assert not graphs(cache)


def test_arguments_and_results_may_be_nested(next_process, monkeypatch):
    """As the state of a language model: the graph that is read returns what the function returns."""

    def function(state, x):
        return {"caches": tuple(cache + x for cache in state["caches"]), "more": [x, {"x": 2 * x}]}, x

    state = {"caches": (tf.constant([1.0, 2.0]), tf.constant([3.0, 5.0])), "more": [tf.constant(7.0)]}
    specs = [
        tf.nest.map_structure(lambda one: tf.TensorSpec(one.shape, one.dtype), state),
        tf.TensorSpec((), tf.float32),
    ]
    expected = function(state, tf.constant(11.0))
    for trace in (stored_programs._traced, no_tracing):
        next_process()
        monkeypatch.setattr(stored_programs, "_traced", trace)
        actual = stored_program(function, specs, layer(), "nested")(state, tf.constant(11.0))
        tf.nest.assert_same_structure(actual, expected, check_types=True)
        for mine, its in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
            np.testing.assert_array_equal(mine, its)


def test_only_what_xla_must_compile_is_announced(next_process, monkeypatch):
    announced = []
    monkeypatch.setattr(compile_cache, "_announcers", [lambda: announced.append(1)])
    for expected in ([1], [1]):  # the second process finds the program
        next_process()
        run(layer())
        run(layer(), jit_compile=True)
        assert announced == expected


def test_a_cache_that_cannot_be_written_is_no_error(next_process):
    cache = next_process()
    cache.session.rmdir()
    np.testing.assert_array_equal(run(layer())["x"], X)
    assert not graphs(cache)


def test_the_graph_of_another_function_is_never_run(next_process):
    """With the right digest of its content, in the place of the graph of this function."""
    dense = layer()
    cache = next_process()
    run(dense)
    ours = {path.name for path in cache.session.glob("graph_*")}
    expected = run(dense, key="loop")["sum"]
    program = stored_program(lambda x, times: {"sum": x + 1.0, "x": x}, SPECS, dense, "other")
    program(tf.constant(X), tf.constant(11))
    (other,) = {path.name for path in cache.session.glob("graph_*")} - ours
    cache = next_process()
    (graph,) = (name[6:-3] for name in ours)
    cache.read(graph)
    (cache.session / f"graph_{graph}.pb").unlink()
    cache.read(other[6:-3])
    (cache.session / other).rename(cache.session / f"graph_{graph}.pb")
    np.testing.assert_array_equal(run(dense)["sum"], expected)


def error_of(cache, kind, message="{}/xla_compile_cache__1.pb.tmp; No space left on device [Op:Call]"):
    return kind(None, None, message.format(cache.session))


class Failing:
    """A compiled program that fails a number of times before it computes."""

    def __init__(self, program, *errors):
        self.program, self.errors = program, list(errors)

    def __call__(self, *inputs):
        if self.errors:
            raise self.errors.pop(0)
        return self.program(*inputs)


def run_failing(dense, monkeypatch, *errors):
    """Runs a compiled program whose first calls fail; returns its result, and how often XLA was left out."""
    plain, retraced = [], stored_programs._retraced
    surviving = stored_programs._surviving_the_cache

    def retrace(*arguments):
        plain.append(not arguments[-1])
        return retraced(*arguments)

    def failing(program, otherwise, digest):
        return surviving(Failing(program, *errors), otherwise, digest)

    monkeypatch.setattr(stored_programs, "_retraced", retrace)
    monkeypatch.setattr(stored_programs, "_surviving_the_cache", failing)
    return run(dense, jit_compile=True), sum(plain)


@pytest.mark.parametrize("kind", [tf.errors.ResourceExhaustedError, tf.errors.PermissionDeniedError])
def test_a_program_that_cannot_be_stored_is_compiled_on_another_disk(next_process, monkeypatch, kind):
    dense, cache = layer(), next_process()
    expected = run(dense)
    monkeypatch.setattr(compile_cache, "_warned", [])
    monkeypatch.setattr(CompileCache, "move", lambda self: True)
    with pytest.warns(UserWarning, match="is not used: No space left on device") as caught:
        actual, plain = run_failing(dense, monkeypatch, error_of(cache, kind))
    np.testing.assert_allclose(actual["sum"], expected["sum"], rtol=1e-4)
    assert (plain, len(caught)) == (0, 1)


@pytest.mark.parametrize("kind", [tf.errors.ResourceExhaustedError, tf.errors.PermissionDeniedError])
def test_a_program_that_cannot_be_stored_gives_its_results_without_xla(next_process, monkeypatch, kind):
    dense, cache = layer(), next_process()
    expected = run(dense)
    monkeypatch.setattr(compile_cache, "_warned", [])
    monkeypatch.setattr(CompileCache, "move", lambda self: False)
    with pytest.warns(UserWarning, match="is not used: No space left on device") as caught:
        actual, plain = run_failing(dense, monkeypatch, error_of(cache, kind))
    np.testing.assert_allclose(actual["sum"], expected["sum"], rtol=1e-4)
    assert (plain, len(caught)) == (1, 1)


def test_a_stored_program_that_cannot_be_read_is_removed_and_compiled_anew(next_process, monkeypatch):
    dense = layer()
    next_process()
    expected = run(dense, jit_compile=True)
    cache = next_process()
    (store,) = cache.machine.glob("[!.]*")
    name = f"xla_compile_cache__{MARK}{store.name}.pb"
    content = f"a program of {MARK}{store.name}".encode()
    stored = store / f"{name}.{hashlib.sha256(content).hexdigest()}"
    stored.write_bytes(content)
    stored.chmod(0o600)
    error = error_of(cache, tf.errors.DataLossError, "Can't parse {}/xla_compile_cache__1.pb as binary proto")
    with warnings.catch_warnings(action="error"):
        actual, plain = run_failing(dense, monkeypatch, error)
    np.testing.assert_allclose(actual["sum"], expected["sum"], rtol=1e-6)
    assert not plain
    assert not stored.exists()
    assert not (cache.session / name).exists()
    assert graphs(cache)  # the graph was sound


def test_other_errors_of_a_program_are_raised(next_process, monkeypatch):
    cache = next_process()
    error = error_of(cache, tf.errors.ResourceExhaustedError, "OOM when allocating tensor")
    with pytest.raises(tf.errors.ResourceExhaustedError, match="OOM"):
        run_failing(layer(), monkeypatch, error)


def test_a_program_that_fails_without_xla_too_ends_with_one_line(next_process, monkeypatch):
    cache = next_process()
    error = error_of(cache, tf.errors.ResourceExhaustedError)
    monkeypatch.setattr(compile_cache, "_warned", [cache.root])
    for moved in (False, True):
        monkeypatch.setattr(CompileCache, "move", lambda self, moved=moved: moved)
        failing = Failing(None, *[error] * 9)
        with pytest.raises(UserError, match="cannot be stored.*KERAS_ATTENTION_CACHE"):
            stored_programs._surviving_the_cache(failing, lambda with_xla, failing=failing: failing, None)()


def test_the_memory_of_the_compiler_is_returned_once_for_each_program(monkeypatch):
    returned = []
    monkeypatch.setattr(stored_programs, "return_memory", lambda: returned.append(True))
    specs = [tf.TensorSpec((3,), tf.float32)]
    for programs in (1, 2):
        program = stored_programs.stored_program(lambda x: 2 * x, specs, None, "double", jit_compile=True)
        for _ in range(3):
            assert program(tf.ones(3)).numpy().tolist() == [2.0, 2.0, 2.0]
        assert len(returned) == programs
