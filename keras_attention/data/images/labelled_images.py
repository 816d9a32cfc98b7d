"""Labelled images of a named set, or images, sounds and series of the user's files, as arrays."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_attention.data.idx_files import read_idx
from keras_attention.data.labelled_files import labelled_files, labelled_table
from keras_attention.data.series.series_files import read_series
from keras_attention.support.errors import UserError, quoted

IDX_FILES = {"train": "train", "test": "t10k"}
IDX_KINDS = ("images-idx3-ubyte", "labels-idx1-ubyte")
CLOTHES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"
)  # fmt: skip
DIGITS = tuple("0123456789")
SETS = {
    "digits": {
        "name": "8 x 8 digits of scikit-learn, the test part of the UCI ML hand-written digits",
        "terms": "CC BY 4.0, as stated by the UCI repository",
        "link": "https://archive.ics.uci.edu/dataset/80",
    },
    "mnist": {
        "name": "MNIST (LeCun et al. 1998)",
        "terms": "none stated by its authors",
        "link": "https://yann.lecun.com/exdb/mnist",
    },
    "fashion_mnist": {
        "name": "Fashion-MNIST (Xiao et al. 2017)",
        "terms": "MIT",
        "link": "https://github.com/zalandoresearch/fashion-mnist",
    },
}


class LabelledImages(NamedTuple):
    """Images with one label each; or sounds or series.

    Attributes:
        pixels: uint8 array (N, height, width, channels); of sounds and series the float32 values that a network reads.
        labels: int32 array (N,).
    """

    pixels: np.ndarray
    labels: np.ndarray

    def __len__(self):
        return len(self.labels)

    def take(self, rows):
        """The images of these rows, an index or a slice."""
        return LabelledImages(self.pixels[rows], self.labels[rows])


def some_of_each(images: LabelledImages, count: int | None, seed: int) -> LabelledImages:
    """`count` random images of each label, in a random order; all as they are if it is None.

    Raises:
        UserError: if `count` is not positive, or a label has fewer images.
    """
    if count is None:
        return images
    generator, rows = np.random.default_rng(seed), []
    for label in np.unique(images.labels):
        of_label = np.flatnonzero(images.labels == label)
        if not 1 <= count <= len(of_label):
            raise UserError(f"--labels must be from 1 to {len(of_label)}, the images of a label. Received: {count}")
        rows.append(generator.permutation(of_label)[:count])
    return images.take(generator.permutation(np.concatenate(rows)))


class ImageData(NamedTuple):
    """A data set of images; or of sounds or series.

    Attributes:
        train, validation, test: LabelledImages; test may be None.
        label_names: tuple of str.
        origin: dict for a card: name, terms, link.
        kind: the kind of input, see `inputs`, of the user's files; None for a named set of images.
        held: list of what `kind.read` returned for each of `test` or, without it, of `validation`; None as for `kind`.
    """

    train: LabelledImages
    validation: LabelledImages
    test: LabelledImages | None
    label_names: tuple[str, ...]
    origin: dict
    kind: Any = None
    held: list | None = None

    @property
    def input_size(self) -> tuple[int, ...]:
        """The size of an input: (height, width, channels) of an image, (T, channels) of a series."""
        return self.train.pixels.shape[1:]


def load_image_data(data: str, data_dir: str = "", validation_split: float = 1 / 12, kinds: Sequence = ()) -> ImageData:
    """Loads a named data set of images, a folder or table of images or sounds, or a table of series.

    Args:
        data: "digits" (inside scikit-learn), "mnist" or "fashion_mnist"; or a folder with a sub-folder for each label,
            see `labelled_files`; or a table with the names and the labels of such files, see `labelled_table`; or a
            file of series, see `series_files`. With a table X_TRAIN.csv, a table X_TEST.csv beside it
            is the test part.
        data_dir: str, folder of the idx files of the last two; "": Keras downloads them once.
        validation_split: float in (0, 0.5], share of the training images, from the end, for validation. Those of a
            folder or table are in a random order, always the same.
        kinds: sequence of classes, the kinds of input that folders and tables may have, such as `ImageInput`.

    Returns:
        ImageData. The digits are in the order of their writers, and their last 360 are the test part: of other writers.

    Raises:
        UserError: if there is no such set, or a file is missing or damaged.
    """
    if not 0 < validation_split <= 0.5:
        raise UserError(f"The validation share must be above 0 and at most 0.5. Received: {validation_split}")
    if kinds and (Path(data).is_dir() or (data not in SETS and Path(data).is_file())):
        test_file = _test_part(Path(data))
        has_test = Path(data).is_file() and test_file != Path(data) and test_file.is_file()
        examples, kind = _read_inputs(data, kinds)
        test = _read_inputs(test_file, [kind])[0] if has_test else None
        return _of_inputs(kind.for_sources(_sources(examples)), data, examples, test, validation_split)
    if data not in SETS:
        raise UserError(f"There is no set or folder of images {quoted(data)}. Expected one of: {', '.join(SETS)}.")
    names = CLOTHES if data == "fashion_mnist" else DIGITS
    if data == "digits":
        images = _digits()
        train, test = images.take(slice(None, -360)), images.take(slice(-360, None))
    else:
        parts = {part: read_part(data_dir, part) for part in IDX_FILES} if data_dir else _downloaded(data)
        train, test = parts["train"], parts["test"]
    if train is None:
        raise UserError(f"{data_dir} has no {IDX_FILES['train']}-{IDX_KINDS[0]}.gz. Expected: the idx files of {data}.")
    held_out = max(1, round(len(train) * validation_split))
    if held_out >= len(train):
        raise UserError(f"{data_dir} has {len(train)} training images. Expected: at least 2, one for validation.")
    return ImageData(train.take(slice(None, -held_out)), train.take(slice(-held_out, None)), test, names, SETS[data])


def _read_inputs(data, kinds):
    """The LabelledFiles or the SeriesTable of a folder or table, and their kind of input."""
    endings = {kind.plural: kind.suffixes for kind in kinds if kind.plural != "series"}
    is_folder = Path(data).is_dir()
    examples = labelled_files(data, endings) if is_folder else labelled_table(data, endings) or read_series(data)
    plural = getattr(examples, "kind", "series")
    kind = next((kind for kind in kinds if kind.plural == plural), None)
    if kind is None:
        raise UserError(f"{data} holds {plural}. Expected: {' or '.join(kind.plural for kind in kinds)}.")
    return examples, kind


def _sources(examples):
    """What a kind of input reads: the names of files, or series."""
    return getattr(examples, "files", None) or examples.series


def _test_part(path):
    """The name of the test part beside a file that is called train, TRAIN or Train."""
    for train, test in (("train", "test"), ("TRAIN", "TEST"), ("Train", "Test")):
        if train in path.name:
            return path.with_name(test.join(path.name.rsplit(train, 1)))
    return path


def _of_inputs(kind, data, examples, test, validation_split):
    """The ImageData of LabelledFiles or a SeriesTable, and of a test part of the same type or None."""
    names = sorted(set(examples.labels))
    read, images = _as_arrays(kind, examples, names, data)
    order = np.random.default_rng(0).permutation(len(read))
    images = images.take(order)
    held_out = max(1, round(len(read) * validation_split))
    held, tested = [read[row] for row in order[-held_out:]], None
    if test is not None:
        held, tested = _as_arrays(kind, test, names, f"the test part of {data}")
    origin = {"name": Path(data).resolve().name, "terms": "as stated by its owner", "link": ""}
    parts = images.take(slice(None, -held_out)), images.take(slice(-held_out, None)), tested
    return ImageData(*parts, tuple(names), origin, kind, held)


def _as_arrays(kind, examples, names, where):
    """What `kind` reads of each input, and the LabelledImages."""
    places = {name: place for place, name in enumerate(names)}
    if unknown := set(examples.labels) - set(places):
        raise UserError(f"{where} has the label {quoted(min(unknown))}, which no training example has.")
    if len(names) < 2:
        raise UserError(f"{where} has one label, {quoted(names[0])}. Expected: at least two.")
    read = [kind.read(each) for each in _sources(examples)]
    pixels = read if kind.name == "image" else [kind.arrays(each)["values"] for each in read]
    return read, LabelledImages(np.stack(pixels), np.array([places[label] for label in examples.labels], "int32"))


def _digits():
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.round(digits.images * (255 / 16)).astype("uint8")[..., None]  # (N, 8, 8, 1)
    return LabelledImages(pixels, digits.target.astype("int32"))


def _downloaded(data):
    import keras

    parts = getattr(keras.datasets, data).load_data()
    return {
        name: LabelledImages(pixels[..., None], labels.astype("int32"))
        for name, (pixels, labels) in zip(IDX_FILES, parts, strict=True)
    }


def read_part(folder: str | Path, part: str) -> LabelledImages | None:
    """Reads images and labels of a folder with the files of MNIST.

    Args:
        folder: str or Path.
        part: "train" or "test".

    Returns:
        LabelledImages of one channel; None if the folder has no images of this part.

    Raises:
        UserError: if a file is damaged, or there are not as many labels as images.
    """
    paths = [Path(folder) / f"{IDX_FILES[part]}-{kind}.gz" for kind in IDX_KINDS]
    if not paths[0].exists():
        return None
    pixels, labels = (read_idx(path, axes) for path, axes in zip(paths, (3, 1), strict=True))
    if len(pixels) != len(labels):
        raise UserError(f"{paths[1]} must have a label for each of {len(pixels)} images. Received: {len(labels)}")
    return LabelledImages(pixels[..., None], labels.astype("int32"))
