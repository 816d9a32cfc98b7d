"""Stored weights: the same numbers come back, and nothing but exactly the model's weights is taken."""

import tracemalloc
import zlib

import h5py
import keras
import numpy as np
import pytest

from keras_attention.models.seq2seq import AttentionSeq2Seq
from keras_attention.support.errors import EntryError
from keras_attention.zoo.weights_file import load_weights, save_weights, weight_names


def tiny_model(**settings):
    """An untrained model."""
    model = AttentionSeq2Seq(23, 29, embedding_dim=7, hidden_dim=10, **settings)
    model.build()
    return model


@pytest.fixture
def stored(tmp_path):
    """A model and the file with its weights."""
    model = tiny_model()
    save_weights(model, tmp_path / "model.weights.h5")
    return model, tmp_path / "model.weights.h5"


def test_the_same_numbers_come_back(stored):
    model, path = stored
    other = tiny_model()
    assert list(weight_names(other)) == list(weight_names(model))
    assert any(not np.array_equal(a, b) for a, b in zip(model.get_weights(), other.get_weights(), strict=True))
    load_weights(other, path)
    for a, b in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_same_bytes_are_written_again(stored, tmp_path):
    model, path = stored
    save_weights(model, tmp_path / "again.h5")
    assert (tmp_path / "again.h5").read_bytes() == path.read_bytes()


def test_half_precision(stored, tmp_path):
    model, path = stored
    save_weights(model, tmp_path / "half.h5", dtype="float16")
    assert (tmp_path / "half.h5").stat().st_size < path.stat().st_size
    other = tiny_model()
    load_weights(other, tmp_path / "half.h5", dtype="float16")
    for a, b in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(a.astype("float16").astype("float32"), b)
    with pytest.raises(EntryError, match="float16"):
        load_weights(other, tmp_path / "half.h5")
    model.output_bias.assign(np.full(29, 1e6, "float32"))
    with pytest.raises(EntryError, match="output_bias.*not a finite float16"):
        save_weights(model, tmp_path / "half.h5", dtype="float16")


def rounded(matrix):
    """To 127 steps of each row's largest absolute value, in both directions."""
    steps = [np.abs(row).max() / 127 for row in matrix]
    return np.stack([np.rint(row / step) * step if step else row for row, step in zip(matrix, steps, strict=True)])


def test_8_bits(stored, tmp_path):
    model, path = stored
    model.weights[0].assign(model.weights[0] * 0)  # a matrix of zeros
    save_weights(model, tmp_path / "small.h5", dtype="int8")
    other = tiny_model()
    load_weights(other, tmp_path / "small.h5", dtype="int8")
    for name, weight in weight_names(model).items():
        values, actual = np.asarray(weight), np.asarray(weight_names(other)[name])
        if values.ndim == 1:
            np.testing.assert_array_equal(actual, values)
            continue
        candidates = [rounded(values), rounded(values.T).T] if values.shape[0] >= 32 else [rounded(values)]
        nearest = min(candidates, key=lambda candidate: np.square(candidate - values).sum())
        np.testing.assert_allclose(actual, nearest, rtol=1e-5)
    save_weights(other, tmp_path / "again.h5", dtype="int8")
    assert (tmp_path / "again.h5").read_bytes() == (tmp_path / "small.h5").read_bytes()
    with pytest.raises(EntryError, match=":scale', which the model of config.json does not have"):
        load_weights(other, tmp_path / "small.h5")
    with pytest.raises(EntryError, match="lacks the weight 'attention.key_projection.kernel:scale'"):
        load_weights(other, path, dtype="int8")
    model.weights[0].assign(np.full(model.weights[0].shape, np.inf, "float32"))
    with pytest.raises(EntryError, match="not a finite"):
        save_weights(model, tmp_path / "small.h5", dtype="int8")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("combine.kernel:scale", None, "lacks the weight 'combine.kernel:scale'"),
        ("combine.kernel", np.zeros((20, 7), "float32"), "combine.kernel.*float32.*Expected: .*int8"),
        ("combine.kernel:scale", np.ones(7, "float32"), r"\(7,\).*Expected: \(\(20,\)"),
        ("combine.kernel:scale", np.full(20, np.nan, "float32"), "combine.kernel:scale' holds NaN"),
        ("combine.kernel:scale", np.full(20, -1, "float32"), "combine.kernel:scale' must be numbers from 0 to 1e.20"),
        ("combine.kernel:scale", np.full(20, 3e38, "float32"), "combine.kernel:scale' must be numbers from 0"),
        ("combine.kernel:scale", np.full(20, 9e19, "float32"), "combine.kernel' has the weight .* at most 1e.20"),
        ("combine.bias", np.full(7, 3e38, "float32"), "combine.bias' has the weight 3e.38. Expected: at most 1e.20"),
        ("combine.kernel", np.full((20, 7), -128, "int8"), "integers from -127 to 127. Found: -128"),
        ("combine.bias:scale", np.ones(7, "float32"), "'combine.bias:scale', which .* does not have"),
    ],
)
def test_refuses_in_8_bits(tmp_path, name, value, message):
    path = tmp_path / "model.weights.h5"
    save_weights(tiny_model(), path, "int8")
    with h5py.File(path, "r+") as file:
        if name in file:
            del file[name]
        if value is not None:
            file[name] = value
    model = tiny_model()
    before = model.get_weights()
    with pytest.raises(EntryError, match=message):
        load_weights(model, path, "int8")
    for a, b in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_refuses_minus_128_in_compressed_integers(stored, tmp_path):
    model, _ = stored
    save_weights(model, tmp_path / "small.h5", dtype="int8_deflate")
    with h5py.File(tmp_path / "small.h5", "r+") as file:
        del file[NAME]
        file[NAME] = np.frombuffer(zlib.compress(np.full(140, -128, "int8").tobytes()), "uint8")
    with pytest.raises(EntryError, match="integers from -127 to 127. Found: -128"):
        load_weights(model, tmp_path / "small.h5", dtype="int8_deflate")


@pytest.mark.parametrize("dtype", ["float32", "int8", "int8_deflate"])
def test_does_not_write_what_it_would_refuse(stored, tmp_path, dtype):
    model, _ = stored
    weight_names(model)[NAME].assign(np.full((20, 7), -2e20, "float32"))
    with pytest.raises(EntryError, match="has the weight 2e.20. Expected: at most 1e.20"):
        save_weights(model, tmp_path / "large.h5", dtype=dtype)
    assert not (tmp_path / "large.h5").exists()


def test_compressed_integers(stored, tmp_path):
    """Half a step from the weights, a step being an eighth of the root mean square of a row or column."""
    model, path = stored
    kernel = np.random.default_rng(1).normal(size=(20, 7)).astype("float32")
    kernel[3], kernel[5, 2] = 0, 40  # a row without scale; 40 needs larger steps than an eighth
    weight_names(model)[NAME].assign(kernel)
    save_weights(model, tmp_path / "small.h5", dtype="int8_deflate")
    other = tiny_model()
    load_weights(other, tmp_path / "small.h5", dtype="int8_deflate")
    for name, weight in weight_names(model).items():
        values, actual = np.asarray(weight), np.asarray(weight_names(other)[name])
        if values.ndim == 1:
            np.testing.assert_array_equal(actual, values)
            continue
        with h5py.File(tmp_path / "small.h5") as file:
            scales = file[f"{name}:scale"][()]
        steps = scales[:, None] if scales.ndim == 1 else scales
        axis = 1 if scales.ndim == 1 else 0
        squares = np.square(values).mean(axis=axis, keepdims=True)
        largest = np.abs(values).max(axis=axis, keepdims=True)
        np.testing.assert_allclose(steps, np.maximum(np.sqrt(squares) / 8, largest / 127), rtol=1e-5)
        assert (np.abs(actual - values) <= 0.501 * steps).all()
    save_weights(other, tmp_path / "again.h5", dtype="int8_deflate")
    load_weights(model, tmp_path / "again.h5", dtype="int8_deflate")
    with pytest.raises(EntryError, match="uint8.*Expected: .*int8"):
        load_weights(other, tmp_path / "small.h5", dtype="int8")


def test_most_weights_take_5_bits(tmp_path):
    model = keras.Sequential([keras.Input((500,)), keras.layers.Dense(400, name="dense")])
    model.set_weights([np.random.default_rng(2).normal(size=(500, 400)), np.zeros(400)])
    save_weights(model, tmp_path / "small.h5", dtype="int8_deflate")
    bits = 8 * (tmp_path / "small.h5").stat().st_size / 200_000
    assert 5.0 < bits < 5.4  # the entropy of a normal distribution in steps of an eighth is 5.05


def test_a_large_weight_does_not_coarsen_the_others(tmp_path):
    """As in the output layer of a classifier, whose few columns would all get the step of the largest weight."""
    model = keras.Sequential([keras.Input((500,)), keras.layers.Dense(2, name="dense")])
    kernel = np.random.default_rng(3).normal(size=(500, 2)).astype("float32")
    kernel[7] = 60, -60
    model.set_weights([kernel, np.zeros(2)])
    save_weights(model, tmp_path / "small.h5", dtype="int8_deflate")
    load_weights(model, tmp_path / "small.h5", dtype="int8_deflate")
    assert np.abs(model.get_weights()[0] - kernel)[8:].max() < 0.2  # a step of 60 / 127 would give errors up to 0.24
    assert np.sqrt(np.square(model.get_weights()[0] - kernel)[8:].mean()) < 0.05


def packed(count, value=1):
    return np.frombuffer(zlib.compress(np.full(count, value, "int8").tobytes()), "uint8")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((20, 7), "int8"), r"\(20, 7\), 'int8'.*Expected: \(\(20,\), 'uint8'\)"),
        (packed(139), "does not hold exactly 140 integers"),
        (packed(141), "does not hold exactly 140 integers"),
        (packed(1 << 25), "does not hold exactly 140 integers"),  # 32 MB, of which 141 bytes are inflated
        (packed(140)[:-1], "does not hold exactly 140 integers"),
        (np.append(packed(140), np.uint8(0)), "does not hold exactly 140 integers"),
        (np.arange(50, dtype="uint8"), "cannot be inflated"),
        (np.zeros(0, "uint8"), "does not hold exactly 140 integers"),
    ],
)
def test_refuses_other_than_compressed_integers(tmp_path, value, message):
    path = tmp_path / "model.weights.h5"
    save_weights(tiny_model(), path, "int8_deflate")
    with h5py.File(path, "r+") as file:
        del file[NAME]
        file[NAME] = value
    model = tiny_model()
    before = model.get_weights()
    tracemalloc.start()
    with pytest.raises(EntryError, match=message):
        load_weights(model, path, "int8_deflate")
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()
    for a, b in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


NAME = "combine.kernel"  # (20, 7)


def renamed(file):
    file.move(NAME, "combine.kernels")


def removed(file):
    del file[NAME]


def added(file):
    file["more"] = np.zeros(3, "float32")


def replaced(make):
    """Replaces the array by what `make(file, array)` puts there."""

    def change(file):
        array = file[NAME][()]
        del file[NAME]
        make(file, array)

    return change


def store(change):
    """Replaces the array by `change(array)`."""
    return replaced(lambda file, array: file.create_dataset(NAME, data=change(array)))


def with_value(array, value):
    array[3, 5] = value
    return array


def linked(link):
    return replaced(lambda file, array: file.__setitem__(NAME, link))


def virtual(file, array):
    layout = h5py.VirtualLayout(array.shape, "float32")
    layout[:] = h5py.VirtualSource("another.h5", "x", shape=array.shape)
    file.create_virtual_dataset(NAME, layout)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (renamed, "combine.kernels'.*does not have"),
        (removed, "lacks the weight 'combine.kernel'"),
        (added, "'more'.*does not have"),
        (store(lambda array: with_value(array, np.nan)), "combine.kernel' holds NaN"),
        (store(lambda array: with_value(array, -np.inf)), "combine.kernel' holds NaN or infinity"),
        (store(lambda array: array.T), r"\(7, 20\).*Expected: \(\(20, 7\)"),
        (store(lambda array: array.astype("float64")), "float64"),
        (store(lambda array: array.astype("int32")), "int32"),
        (store(lambda array: array.astype("S4")), "combine.kernel"),
        (replaced(lambda file, array: file.create_group(NAME)), "not a plain array"),
        (replaced(lambda file, array: file.create_dataset(NAME, data=array, compression="gzip")), "not a plain array"),
        (replaced(virtual), "not a plain array"),
        (linked(h5py.SoftLink("/combine.bias")), "not a plain array"),
        (linked(h5py.ExternalLink("another.h5", "/x")), "not a plain array"),
    ],
)
def test_refuses(stored, change, message):
    model, path = stored
    with h5py.File(path, "r+") as file:
        change(file)
    other = tiny_model()
    before = other.get_weights()
    with pytest.raises(EntryError, match=message):
        load_weights(other, path)
    for a, b in zip(before, other.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_array_kept_in_another_file(stored, tmp_path):
    _, path = stored
    with h5py.File(path, "r+") as file:
        shape = file[NAME].shape
        del file[NAME]
        np.zeros(shape, "float32").tofile(tmp_path / "outside.bin")
        file.create_dataset(NAME, shape, "float32", external=[(str(tmp_path / "outside.bin"), 0, h5py.h5f.UNLIMITED)])
    with pytest.raises(EntryError, match="not a plain array"):
        load_weights(tiny_model(), path)


@pytest.mark.parametrize("content", [b"", b"not HDF5", b"\x89HDF\r\n\x1a\n" + bytes(89)])
def test_no_hdf5(tmp_path, content):
    (tmp_path / "model.weights.h5").write_bytes(content)
    with pytest.raises(EntryError, match="not a valid weights file"):
        load_weights(tiny_model(), tmp_path / "model.weights.h5")


def test_never_stores_what_is_not_finite(tmp_path):
    model = tiny_model()
    model.output_bias.assign(np.full(29, np.nan, "float32"))
    with pytest.raises(EntryError, match="output_bias"):
        save_weights(model, tmp_path / "model.weights.h5")


@pytest.mark.parametrize(("sizes", "scales"), [((40, 1, 1), (40,)), ((1, 2, 33), (1, 2, 33)), ((1, 1, 33), (1, 1, 33))])
def test_8_bits_have_the_scales_that_round_best(sizes, scales, tmp_path):
    """A kernel of (features, heads, units of a head), whose slices along some axes are of very different sizes."""
    random = np.random.default_rng(3)
    model = keras.Sequential([keras.Input((40,)), keras.layers.EinsumDense("bi,ihd->bhd", (2, 33), name="query")])
    values = random.uniform(-1, 1, (40, 2, 33)) * 10.0 ** random.uniform(-3, 3, sizes)
    model.set_weights([values])
    save_weights(model, tmp_path / "model.weights.h5", dtype="int8")
    with h5py.File(tmp_path / "model.weights.h5") as file:
        assert file["query.kernel:scale"].shape == scales
    load_weights(model, tmp_path / "model.weights.h5", dtype="int8")
    other_axes = tuple(axis for axis in range(3) if sizes[axis] == 1)
    half_steps = np.abs(values).max(axis=other_axes, keepdims=True) / 127 / 2
    assert (np.abs(model.get_weights()[0] - values) <= 1.001 * half_steps).all()
