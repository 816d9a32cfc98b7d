"""Weights and bags of words as plain HDF5 arrays, without code, links or filters of HDF5."""

import math
import zlib
from contextlib import contextmanager
from itertools import product

import h5py
import numpy as np

from keras_attention.support.errors import EntryError, quoted
from keras_attention.zoo.schema import FEATURES_FILE, MAX_TERM_CHARACTERS, WORDS_FILE, max_bytes_of_terms

WEIGHTS = "model.weights.h5"
SCALE = ":scale"  # suffix for the scales of an 8-bit weight
WITH_SCALES = INT8, DEFLATE = "int8", "int8_deflate"
MOST = 127
STEPS = 8  # of a weight of "int8_deflate", in the root mean square of its slice: about 5 bits
SIMILAR_ERROR = 2.0  # ratio of two sums of squared rounding errors
LARGEST_WEIGHT = 1e20  # far above all weights of trained models, even of a regression on very large numbers
LEAST_IDF, MOST_IDF = 1e-3, 1e3  # with scikit-learn's smoothing, an idf lies between 1 and 1 + log(number of texts)


def weight_names(model):
    """Dict from the stored name of each weight to the weight.

    The name is the weight's path inside the model, joined by dots: the same in every process and for every instance.

    Args:
        model: built keras.Model.

    Raises:
        ValueError: if two weights share a name.
    """
    names = {}
    for weight in model.weights:
        name = weight.path.removeprefix(f"{model.name}/").replace("/", ".")
        if name in names:
            raise ValueError(f"Two weights of the model have the same name. Received: {name}")
        names[name] = weight
    return names


def save_weights(model, path, dtype="float32", steps=STEPS):
    """Writes each weight as one dataset; with "int8" and "int8_deflate", a matrix as two.

    With "int8", a matrix is stored as integers from -127 to 127 (dataset `name`) and float32 scales by which they are
    multiplied (dataset `name:scale`), each the largest absolute value of its slice / 127. There is one scale for each
    index of the first axis (shape (D1,)), or one for each index of the last axes (shape (1, D2, ..., Dn) or (1, ..., 1,
    Dn)), whichever has the smaller rounding error. Vectors are stored in float32.

    With "int8_deflate", a scale is the root mean square of its slice / `steps` (larger only if an integer would exceed
    127), and the bytes of the integers are compressed by deflate into one uint8 array; among scales with similar
    rounding errors, those with which it becomes smallest. Most integers are small: with 8 steps, a weight takes about
    5 bits, with 16 about 6. The rounding error is uniform in a step; with 8 steps, it is 3.6 % of the root mean square.

    Args:
        model: built keras.Model.
        path: Path.
        dtype: "float32", "float16", "int8" or "int8_deflate", the stored number format.
        steps: int > 0, see above.

    Raises:
        EntryError: if a weight is not finite, before or after rounding to `dtype`, or exceeds `LARGEST_WEIGHT`.
    """
    with _written_whole(path) as file:
        for name, weight in sorted(weight_names(model).items()):
            values = np.asarray(weight)
            stored = _in_8_bits(name, values, dtype, steps) if _has_scales(values.shape, dtype) else {name: values}
            for dataset, numbers in stored.items():
                with np.errstate(over="ignore", invalid="ignore"):
                    numbers = numbers.astype(_datasets(name, values.shape, dtype)[dataset][1])
                if not np.isfinite(values).all() or not np.isfinite(numbers).all():
                    raise EntryError(f"Weight {name!r} holds a value that is not a finite {numbers.dtype}.")
                _check_size(path, name, values)
                file.create_dataset(dataset, data=numbers)


@contextmanager
def _written_whole(path):
    """An HDF5 file in memory, which is written to `path` at the end.

    On a full disk, HDF5 could not close a file, and the process would crash.
    """
    with h5py.File(path.name, "w", driver="core", backing_store=False) as file:
        yield file
        file.flush()
        content = file.id.get_file_image()
    path.write_bytes(content)


def load_weights(model, path, dtype="float32"):
    """Loads weights into a model.

    Names, shapes and dtype must be exactly those of the model, and all values at most `LARGEST_WEIGHT`.

    Args:
        model: built keras.Model.
        path: Path of a file written by `save_weights`.
        dtype: the expected number format, see `save_weights`.

    Raises:
        EntryError: names the first weight that is missing, extra, different, not finite or too large. The model is then
            unchanged.
    """
    expected = weight_names(model)
    datasets = {}
    for name, weight in expected.items():
        datasets |= _datasets(name, tuple(weight.shape), dtype)
    arrays = read_arrays(path, datasets)
    values = {name: _weight_of(path, arrays, name, weight.shape, dtype) for name, weight in expected.items()}
    for name, weight in expected.items():
        weight.assign(values[name].astype("float32"))


def read_arrays(path, expected):
    """Reads a file that must contain exactly the expected arrays, as plain datasets of finite numbers.

    Args:
        path: Path.
        expected: dict from name to (list of the shapes that it may have, or None for one axis of any length; dtype as
            str or a tuple of several).

    Returns:
        Dict from name to array.

    Raises:
        EntryError: names the first array that is missing, extra, different or not finite.
    """
    try:
        with h5py.File(path, "r") as file:
            for name in sorted(set(file) - set(expected)):
                raise EntryError(
                    f"{path} holds the weight {quoted(name)}, which the model of config.json does not have."
                )
            for name in sorted(set(expected) - set(file)):
                raise EntryError(f"{path} lacks the weight {name!r} of the model of config.json.")
            return {name: _read(file, name, *shape_and_dtype) for name, shape_and_dtype in expected.items()}
    except EntryError:
        raise
    except Exception as error:  # any error of the library about invalid bytes
        raise EntryError(f"{path} is not a valid weights file: {error}") from error


def _has_scales(shape, dtype):
    return dtype in WITH_SCALES and len(shape) > 1


def _datasets(name, shape, dtype):
    """The datasets of a weight with their shapes and dtypes, as `read_arrays` expects them."""
    if not _has_scales(shape, dtype):
        return {name: ([shape], "float32" if dtype in WITH_SCALES else dtype)}
    integers = ([shape], "int8") if dtype == INT8 else (None, "uint8")
    return {name: integers, f"{name}{SCALE}": (_scale_shapes(shape), "float32")}


def _scale_shapes(shape):
    """The shapes that the scales of a matrix may have; those of last axes have at most one scale per 32 numbers."""
    columns = [(*[1] * axis, *shape[axis:]) for axis in range(1, len(shape))]
    return [(shape[0],), *(scales for scales in columns if math.prod(scales) * 32 <= math.prod(shape))]


def _along(scales, shape):
    """The scales with axes of size 1, so that they broadcast to a matrix of this shape."""
    return scales.reshape(-1, *[1] * (len(shape) - 1)) if scales.ndim == 1 else scales


def _in_8_bits(name, values, dtype, steps):
    """The two datasets of a matrix, not rounded to their dtypes yet."""
    values = np.nan_to_num(values.astype("float64"), posinf=0, neginf=0)  # other values are rejected later
    candidates = []
    for shape in _scale_shapes(values.shape):
        aligned = _along(np.empty(shape), values.shape).shape
        shared = tuple(axis for axis, size in enumerate(aligned) if size == 1)
        scales = np.abs(values).max(axis=shared, keepdims=True) / MOST
        if dtype == DEFLATE:
            scales = np.maximum(scales, np.sqrt(np.square(values).mean(axis=shared, keepdims=True)) / steps)
        scales = scales.astype("float32")
        integers = np.clip(np.rint(values / np.where(scales > 0, scales, 1)), -MOST, MOST)
        error = np.square(integers * scales - values).sum()
        integers = _packed(integers) if dtype == DEFLATE else integers
        candidates.append((error, integers.size, {name: integers, f"{name}{SCALE}": scales.reshape(shape)}))
    least = min(error for error, *_ in candidates)
    # A single large number makes the steps of its whole slice large.
    _, _, best = min((one for one in candidates if one[0] <= SIMILAR_ERROR * least), key=lambda one: one[1::-1])
    return best


def _packed(integers):
    """Integers from -127 to 127 as a uint8 array of deflate. Runs do not repeat in weights: frequencies are enough."""
    deflate = zlib.compressobj(level=9, strategy=zlib.Z_HUFFMAN_ONLY)
    return np.frombuffer(deflate.compress(integers.astype("int8").tobytes()) + deflate.flush(), "uint8")


def _unpacked(path, name, packed, shape):
    """The int8 array of a `_packed` one."""
    size = math.prod(shape)
    return np.frombuffer(_inflated(path, name, packed, f"{size} integers", size, size), "int8").reshape(shape)


def _inflated(path, name, packed, expected, most, least=0):
    """The bytes of a uint8 array of deflate, from `least` to `most`; `expected` says in an error what they are."""
    inflate = zlib.decompressobj()
    try:
        content = inflate.decompress(packed.tobytes(), most + 1)
    except zlib.error as error:
        raise EntryError(f"{path}: {name!r} cannot be inflated: {error}") from error
    if not least <= len(content) <= most or not inflate.eof or inflate.unused_data:
        raise EntryError(f"{path}: {name!r} does not hold exactly {expected}.")
    return content


def _weight_of(path, arrays, name, shape, dtype):
    """The values of one weight."""
    if not _has_scales(shape, dtype):
        return _check_size(path, name, arrays[name])
    scales = arrays[f"{name}{SCALE}"]
    if (scales < 0).any() or (scales > LARGEST_WEIGHT).any():
        raise EntryError(
            f"{path}: {name + SCALE!r} must be numbers from 0 to {LARGEST_WEIGHT:g}. "
            f"Found: {scales.min():g} to {scales.max():g}"
        )
    integers = arrays[name] if dtype == INT8 else _unpacked(path, name, arrays[name], shape)
    if (integers < -MOST).any():
        raise EntryError(f"{path}: {name!r} must be integers from -{MOST} to {MOST}. Found: {integers.min()}")
    return _check_size(path, name, integers * _along(scales, shape))


def _check_size(path, name, values):
    """Returns the values of a weight; raises EntryError if one is larger than any trained model has."""
    largest = float(np.abs(values).max(initial=0))
    if largest > LARGEST_WEIGHT:
        raise EntryError(
            f"{path}: {name!r} has the weight {largest:g}. Expected: at most {LARGEST_WEIGHT:g}, "
            "more than any trained model has. Fetch or train the model again."
        )
    return values


def _read(file, name, shapes, dtype):
    """Reads one array after checking its shape, dtype and layout."""
    dataset = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    plain = isinstance(dataset, h5py.Dataset) and not dataset.is_virtual and not dataset.external
    if not plain or dataset.chunks is not None or dataset.id.get_storage_size() != dataset.nbytes:
        raise EntryError(f"{file.filename}: {name!r} is not a plain array.")
    dtypes = (dtype,) if isinstance(dtype, str) else dtype
    shapes = [dataset.shape[:1]] if shapes is None else shapes
    received, allowed = (tuple(dataset.shape), str(dataset.dtype)), list(product(map(tuple, shapes), dtypes))
    if received not in allowed:
        raise EntryError(
            f"{file.filename}: {name!r} has shape and dtype {received}. Expected: {' or '.join(map(str, allowed))}"
        )
    values = dataset[()]
    if not np.isfinite(values).all():
        raise EntryError(f"{file.filename}: {name!r} holds NaN or infinity.")
    return values


def save_words(folder, terms, arrays):
    """Writes the bag of words of an entry into its folder.

    The file contains the terms, one per line in UTF-8, and the array "idf" as uint8 arrays of deflate; "kernel" in
    float16 if that loses nothing (see `BagOfWords.stored`), else in float32; and "bias".

    Args:
        folder: Path.
        terms: list of V different str without line breaks.
        arrays: dict of float32 arrays "idf" (V,), "kernel" (V, K) and "bias" (K,).
    """
    with np.errstate(over="ignore"):
        half = arrays["kernel"].astype("float16")
    kernel = half if np.array_equal(half, arrays["kernel"]) else arrays["kernel"]
    packed = {"terms": "\n".join(terms).encode(), "idf": arrays["idf"].astype("float32").tobytes()}
    with _written_whole(folder / WORDS_FILE) as file:
        for name, content in packed.items():
            file.create_dataset(name, data=np.frombuffer(zlib.compress(content, 9), "uint8"))
        file.create_dataset("kernel", data=kernel)
        file.create_dataset("bias", data=arrays["bias"].astype("float32"))


def load_words(entry):
    """Reads the bag of words of an entry whose config.json has "words".

    Args:
        entry: Entry.

    Returns:
        List of terms, and a dict of float32 arrays, as in `save_words`.

    Raises:
        EntryError: if the file does not agree with config.json, or contains a number that is not finite or too large.
    """
    count, labels = entry.config["words"]["num_terms"], entry.config["model"]["num_labels"]
    path, packed = entry.folder / WORDS_FILE, (None, "uint8")
    kernel, bias = ([(count, labels)], ("float16", "float32")), ([(labels,)], "float32")
    arrays = read_arrays(path, {"terms": packed, "idf": packed, "kernel": kernel, "bias": bias})
    content = _inflated(path, "terms", arrays.pop("terms"), f"{count} terms", max_bytes_of_terms(count))
    try:
        terms = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise EntryError(f"{path}: 'terms' is not UTF-8: {error}") from error
    if len(terms) != count or len(set(terms)) != count:
        raise EntryError(f"{path} holds {len(set(terms))} different terms. Expected: {count}")
    for term in terms:
        if not 0 < len(term) <= MAX_TERM_CHARACTERS or not term.isprintable():
            raise EntryError(f"{path}: {quoted(term)} is not a term of at most {MAX_TERM_CHARACTERS} characters.")
    content = _inflated(path, "idf", arrays["idf"], f"{count} numbers", 4 * count, 4 * count)
    arrays["idf"] = np.frombuffer(content, "float32")
    if not ((arrays["idf"] >= LEAST_IDF) & (arrays["idf"] <= MOST_IDF)).all():
        raise EntryError(f"{path}: 'idf' must be numbers from {LEAST_IDF:g} to {MOST_IDF:g}.")
    return terms, {name: _check_size(path, name, values).astype("float32") for name, values in arrays.items()}


def save_features(folder, arrays):
    """Writes the linear model of an entry on the features of its kind of input into its folder.

    Args:
        folder: Path.
        arrays: dict of float32 arrays "kernel" (D, K), in float16 if that loses nothing, and "bias" (K,).
    """
    with np.errstate(over="ignore"):
        half = arrays["kernel"].astype("float16")
    kernel = half if np.array_equal(half, arrays["kernel"]) else arrays["kernel"]
    with _written_whole(folder / FEATURES_FILE) as file:
        file.create_dataset("kernel", data=kernel)
        file.create_dataset("bias", data=arrays["bias"].astype("float32"))


def load_features(entry):
    """Reads the linear model of an entry whose config.json has "features".

    Returns:
        Dict of float32 arrays, as in `save_features`.

    Raises:
        EntryError: if the file does not agree with config.json, or contains a number that is not finite or too large.
    """
    count, labels = entry.config["features"]["count"], entry.config["model"]["num_labels"]
    shapes = {"kernel": ([(count, labels)], ("float16", "float32")), "bias": ([(labels,)], "float32")}
    path = entry.folder / FEATURES_FILE
    features = read_arrays(path, shapes)
    return {name: _check_size(path, name, values).astype("float32") for name, values in features.items()}
