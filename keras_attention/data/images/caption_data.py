"""The data of a captioner: digits on canvases, or pictures with a table of captions."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_attention.data.augmentation import NUMBERS, Warp, warped
from keras_attention.data.images import digit_canvases
from keras_attention.data.images.digit_canvases import SIDE, scenes, squares
from keras_attention.data.images.image_batches import MEAN, STD, as_values
from keras_attention.data.images.labelled_images import SETS, LabelledImages, load_image_data
from keras_attention.data.tables.table import read_table
from keras_attention.support.errors import UserError, quoted

DIGIT_SETS = ("digits", "mnist")
HELD_SHARE = 0.2  # of the digits of scikit-learn that are only on canvases of the test
HELD_MNIST = 10_000  # digits of MNIST's training file that are, without its test files
HELD_PICTURES = 0.1  # share of the pictures of a table that are the test part
STEP = 4  # height and width of pictures become multiples of it
CHANGES = Warp(shift=(0.05, 0.05), scale=(0.1, 0.1), rotate=5.0)  # of the pictures of a table in training


class CaptionedPicture(NamedTuple):
    """A picture with its captions.

    Attributes:
        picture: what the kind of input has read: uint8 array (height, width, channels).
        captions: tuple of str, one or several.
        boxes: dict from the number of a word of the first caption to (left, top, right, bottom) in pixels; {} if it is
            not known where things are.
    """

    picture: np.ndarray
    captions: tuple[str, ...]
    boxes: Mapping[int, Sequence[float]]


class CaptionData(NamedTuple):
    """Three parts that have no digit and no picture in common.

    Attributes:
        draw: callable(count, seed: list of int) -> values (count, height, width, channels) of random pictures of the
            training part, from -1 to 1, and list of their captions.
        captions: list of str, all captions of the training part, or those that it may have.
        validation, test: callables(count) -> list of at most `count` CaptionedPictures, always the same.
        size: (height, width, channels).
        origin: dict for a card: name, terms, link.
        summary: str, one line for the user.
        tested_on: str, what the test part is, for the card.
    """

    draw: Callable[[int, list[int]], tuple[np.ndarray, list[str]]]
    captions: list[str]
    validation: Callable[[int], list[CaptionedPicture]]
    test: Callable[[int], list[CaptionedPicture]]
    size: tuple[int, int, int]
    origin: dict
    summary: str
    tested_on: str


def load_caption_data(
    data: str,
    data_dir: str = "",
    validation_split: float = 0.1,
    kind: Any = None,
    columns: tuple[str, str] = ("image", "caption"),
) -> CaptionData:
    """Loads digits for canvases (see `digit_canvases`), or pictures with a table of captions.

    Args:
        data: "digits" (inside scikit-learn), "mnist", or the name of a table, see `data.tables.table`.
        data_dir: str, folder of MNIST's files; "": Keras downloads them once.
        validation_split: float in (0, 0.5], share of the training digits, or of the pictures, for validation.
        kind: class of the pictures of a table, `inputs.image.ImageInput`.
        columns: columns of a table with the names of the pictures, from the table's folder, and with their captions. A
            picture in several rows has several captions.

    Returns:
        CaptionData. The test part are canvases with a fifth of scikit-learn's digits; of MNIST with its test digits or,
        if the folder does not have them, 10,000 of its training digits; of a table, a tenth of the pictures.

    Raises:
        UserError: if there is no such set or table, or a file is missing or damaged.
    """
    if data in DIGIT_SETS:
        return _of_digits(data, data_dir, validation_split)
    if not Path(data).is_file():
        raise UserError(
            f"There is no set of digits and no table {quoted(data)}. Expected one of: {', '.join(DIGIT_SETS)}; or a "
            "table with names of pictures and their captions."
        )
    if not 0 < validation_split <= 0.5:
        raise UserError(f"The validation share must be above 0 and at most 0.5. Received: {validation_split}")
    return _of_table(data, validation_split, kind, columns)


def _of_digits(data, data_dir, validation_split):
    loaded = load_image_data(data, data_dir, validation_split)
    parts = [loaded.train, loaded.validation, *([loaded.test] if data == "digits" else [])]
    everything = LabelledImages(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    order = np.random.default_rng(0).permutation(len(everything))
    test = None if data == "digits" else loaded.test
    if test is None:
        held = round(HELD_SHARE * len(order)) if data == "digits" else min(HELD_MNIST, len(order) // 2)
        test, order = everything.take(order[:held]), order[held:]
    count = max(1, round(validation_split * len(order)))
    train, validation = everything.take(order[count:]), everything.take(order[:count])
    train, validation, test = map(squares, (train, validation, test))

    def drawn(digits, number, count):
        return [
            CaptionedPicture(one.pixels, (one.caption,), one.boxes) for one in scenes(digits, count, [number, count])
        ]

    return CaptionData(
        functools.partial(digit_canvases.drawn_values, train),
        digit_canvases.captions(),
        functools.partial(drawn, validation, 1),
        functools.partial(drawn, test, 2),
        (SIDE, SIDE, 1),
        SETS[data],
        f"{len(train):,} digits for canvases",
        f"canvases with {len(test):,} digits that were not in the training",
    )


def _of_table(data, validation_split, kind, columns):
    table = read_table(data, columns[0], text_b=columns[1])
    captions: dict[str, list[str]] = {}
    for name, caption in zip(table.texts, table.texts_b or (), strict=True):
        captions.setdefault(name, []).append(" ".join(caption.split()))
    names = list(captions)
    held = [max(1, round(share * len(names))) for share in (HELD_PICTURES, validation_split)]
    if sum(held) >= len(names):
        raise UserError(f"{data} has {len(names)} pictures. Expected: at least 3, for training, validation and test.")
    paths = [str(Path(data).parent / name) for name in names]
    for number, path in enumerate(paths, start=1):
        if not Path(path).is_file():
            line = table.lines[table.texts.index(names[number - 1])]
            raise UserError(f"{data}, line {line}: {path} is no file. Expected: the name of a picture.")
    height, width, channels = kind.for_sources(paths).size
    size = (STEP * -(-height // STEP), STEP * -(-width // STEP), channels)
    reader = kind(size, "stretch", mean=[MEAN], std=[STD])
    pixels = [reader.read(path) for path in paths]
    order = np.random.default_rng(0).permutation(len(names)).tolist()
    pictures = [CaptionedPicture(pixels[i], tuple(captions[names[i]]), {}) for i in order]
    test, validation = pictures[: held[0]], pictures[held[0] : sum(held)]
    train = pictures[sum(held) :]
    return CaptionData(
        functools.partial(_drawn, train),
        [caption for one in train for caption in one.captions],
        lambda count: validation[:count],
        lambda count: test[:count],
        size,
        {"name": Path(data).resolve().name, "terms": "as stated by its owner", "link": ""},
        f"{len(train):,} pictures with {sum(len(one.captions) for one in train):,} captions",
        f"pictures of {Path(data).name} that were not in the training",
    )


def _drawn(pictures, count, seed):
    """Values of `count` random pictures, changed a little, and one random caption of each."""
    generator = np.random.Generator(np.random.PCG64(seed))
    chosen = [pictures[number] for number in generator.integers(0, len(pictures), count)]
    values = as_values(np.stack([one.picture for one in chosen]))
    numbers = generator.bit_generator.random_raw(count * NUMBERS).reshape(count, NUMBERS)
    captions = [one.captions[generator.integers(len(one.captions))] for one in chosen]
    return np.stack([warped(each, some, CHANGES) for each, some in zip(values, numbers, strict=True)]), captions
