"""Files of weights that do more, less or something else than to hold the numbers of the model."""

import h5py
import numpy as np

NAME = "combine.kernel"


def in_place_of_one(make):
    """Replaces one array of the file by what `make(file, array, outside)` puts there."""

    def change(file, outside):
        array = file[NAME][()]
        del file[NAME]
        make(file, array, outside)

    return change


def data(change):
    """Replaces one array by `change(array)`."""
    return in_place_of_one(lambda file, array, outside: file.create_dataset(NAME, data=change(array)))


def item(make):
    """Replaces one array by the object `make(outside)`."""
    return in_place_of_one(lambda file, array, outside: file.__setitem__(NAME, make(outside)))


def external_storage(file, array, outside):
    places = [(str(outside / "secret"), 0, h5py.h5f.UNLIMITED)]
    file.create_dataset(NAME, array.shape, "float32", external=places)


def virtual(file, array, outside):
    layout = h5py.VirtualLayout(array.shape, "float32")
    layout[:] = h5py.VirtualSource(str(outside / "secret"), "x", shape=array.shape)
    file.create_virtual_dataset(NAME, layout)


def dataset(*arguments, **options):
    return in_place_of_one(lambda file, array, outside: file.create_dataset(NAME, *arguments, **options))


def never_written(file, array, outside):
    file.create_dataset(NAME, array.shape, "float32")


def a_cycle(file, array, outside):
    group = file.create_group(NAME)
    group["again"] = group


def the_root_again(file, array, outside):
    file[NAME] = file["/"]


def deep_groups(file, outside):
    group = file
    for _ in range(1_000):
        group = group.create_group("g")


def many_names(file, outside):
    for number in range(3_000):
        file.create_group(f"g{number}")


def renamed(file, outside):
    file.move(NAME, "combine.kernels")


def removed(file, outside):
    del file[NAME]


def added(file, outside):
    file["more"] = np.zeros(3, "float32")


def with_value(value):
    def change(array):
        array[3, 5] = value
        return array

    return change


# Each differs from what the model needs in one thing.
NEAR_MISSES = {
    "one more": added,
    "one less": removed,
    "another name": renamed,
    "transposed": data(lambda array: array.T),
    "one row more": data(lambda array: np.concatenate([array, array[:1]])),
    "flat": data(lambda array: array.ravel()),
    "float64": data(lambda array: array.astype("float64")),
    "float16": data(lambda array: array.astype("float16")),
    "int32": data(lambda array: array.astype("int32")),
    "big-endian": data(lambda array: array.astype(">f4")),
    "NaN": data(with_value(np.nan)),
    "infinity": data(with_value(-np.inf)),
}
WEIGHTS_CHANGES = {
    **NEAR_MISSES,
    "kept in another file": in_place_of_one(external_storage),
    "a link to another file": item(lambda outside: h5py.ExternalLink(str(outside / "secret"), "/x")),
    "a link to itself": item(lambda outside: h5py.SoftLink(f"/{NAME}")),
    "a link to another weight": item(lambda outside: h5py.SoftLink("/output_bias")),
    "virtual": in_place_of_one(virtual),
    "a shape of 4 TB": dataset((1 << 40,), "float32"),
    "a shape of 4 TB in chunks": dataset((1 << 20, 1 << 20), "float32", chunks=(1 << 10, 1 << 10), compression="gzip"),
    "compressed zeros of 64 MB": dataset(data=np.zeros((1 << 12, 1 << 12), "float32"), compression="gzip"),
    "never written": in_place_of_one(never_written),
    "a group in a cycle": in_place_of_one(a_cycle),
    "the root again": in_place_of_one(the_root_again),
    "1,000 groups in each other": deep_groups,
    "3,000 more names": many_names,
    "texts": dataset(data=["eval"], dtype=h5py.string_dtype()),
    "references": dataset((3,), dtype=h5py.ref_dtype),
    "opaque bytes": dataset(data=np.void(b"\x80\x04cos\nsystem\n.")),
    "compound": dataset(data=np.zeros(3, [("a", "f4"), ("b", "i4")])),
    "nothing": dataset(data=h5py.Empty("float32")),
    "one number": dataset(data=np.float32(1.0)),
}


def changed_weights(change):
    """The change of a folder that changes its file of weights."""

    def changed(folder, outside):
        with h5py.File(folder / "model.weights.h5", "r+") as file:
            change(file, outside)

    return changed
