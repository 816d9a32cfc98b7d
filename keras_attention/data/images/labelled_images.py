"""Labelled images of a named set or of a folder, as arrays."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.data.idx_files import read_idx
from keras_attention.data.labelled_files import labelled_files
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
    """Images with one label each.

    Attributes:
        pixels: uint8 array (N, height, width, channels).
        labels: int32 array (N,).
    """

    pixels: np.ndarray
    labels: np.ndarray

    def __len__(self):
        return len(self.labels)

    def take(self, rows):
        """The images of these rows, an index or a slice."""
        return LabelledImages(self.pixels[rows], self.labels[rows])


class ImageData(NamedTuple):
    """A data set of images.

    Attributes:
        train, validation, test: LabelledImages; test may be None.
        label_names: tuple of str.
        origin: dict for a card: name, terms, link.
    """

    train: LabelledImages
    validation: LabelledImages
    test: LabelledImages | None
    label_names: tuple[str, ...]
    origin: dict


def load_image_data(
    data: str, data_dir: str = "", validation_split: float = 1 / 12, input_for: Callable | None = None
) -> ImageData:
    """Loads a named data set of images, or a folder of images with a sub-folder for each label.

    Args:
        data: "digits" (inside scikit-learn), "mnist", "fashion_mnist" or the name of a folder.
        data_dir: str, folder of the idx files of the last two; "": Keras downloads them once.
        validation_split: float in (0, 0.5], share of the training images, from the end, for validation. Those of a
            folder are in a random order, always the same.
        input_for: callable(names of files) -> kind of input that reads them to one size, such as
            `ImageInput.for_sources`; for folders.

    Returns:
        ImageData. The digits are in the order of their writers, and their last 360 are the test part: of other writers.

    Raises:
        UserError: if there is no such set, or a file is missing or damaged.
    """
    if not 0 < validation_split <= 0.5:
        raise UserError(f"The validation share must be above 0 and at most 0.5. Received: {validation_split}")
    if input_for is not None and Path(data).is_dir():
        return _of_folder(data, validation_split, input_for)
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


def _of_folder(folder, validation_split, input_for):
    kind = input_for([])
    found = labelled_files(folder, {kind.plural: kind.suffixes})
    kind, names = input_for(found.files), sorted(set(found.labels))
    order = np.random.default_rng(0).permutation(len(found.files))
    pixels = np.stack([kind.read(found.files[row]) for row in order])
    images = LabelledImages(pixels, np.array([names.index(found.labels[row]) for row in order], "int32"))
    held_out = max(1, round(len(images) * validation_split))
    origin = {"name": Path(folder).resolve().name, "terms": "as stated by its owner", "link": ""}
    return ImageData(
        images.take(slice(None, -held_out)), images.take(slice(-held_out, None)), None, tuple(names), origin
    )


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
