"""The data of a captioner: digits on canvases, or pictures with a table of captions."""

from typing import NamedTuple

import numpy as np

from keras_attention.data.images import digit_canvases
from keras_attention.data.images.digit_canvases import Scene, scenes, squares
from keras_attention.data.images.labelled_images import SETS, LabelledImages, load_image_data
from keras_attention.support.errors import UserError, quoted

DIGIT_SETS = ("digits", "mnist")
HELD_SHARE = 0.2  # of the digits of scikit-learn that are only on canvases of the test
HELD_MNIST = 10_000  # digits of MNIST's training file that are, without its test files


class CaptionData(NamedTuple):
    """Digits for canvases in three parts that have no digit in common, see `digit_canvases`.

    Attributes:
        train, validation, test: LabelledImages, see `digit_canvases.squares`.
        origin: dict for a card: name, terms, link.
    """

    train: LabelledImages
    validation: LabelledImages
    test: LabelledImages
    origin: dict

    def scenes(self, part: str, count: int) -> list[Scene]:
        """`count` canvases with digits of the "validation" or "test" part, always the same."""
        return scenes(getattr(self, part), count, [{"validation": 1, "test": 2}[part], count])


def load_caption_data(data: str, data_dir: str = "", validation_split: float = 0.1) -> CaptionData:
    """Loads the digits of a named set, in a random order that is always the same.

    Args:
        data: "digits" (inside scikit-learn) or "mnist".
        data_dir: str, folder of MNIST's files; "": Keras downloads them once.
        validation_split: float in (0, 0.5], share of the training digits for validation.

    Returns:
        CaptionData. The test part are a fifth of scikit-learn's digits; of MNIST its test digits or, if the folder does
        not have them, 10,000 of its training digits.

    Raises:
        UserError: if there is no such set, or a file is missing or damaged.
    """
    if data not in DIGIT_SETS:
        raise UserError(f"There is no set of digits {quoted(data)}. Expected one of: {', '.join(DIGIT_SETS)}.")
    loaded = load_image_data(data, data_dir, validation_split)
    parts = [loaded.train, loaded.validation]
    if data == "digits":
        parts.append(loaded.test)
    everything = LabelledImages(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    order = np.random.default_rng(0).permutation(len(everything))
    test = None if data == "digits" else loaded.test
    if test is None:
        held = round(HELD_SHARE * len(order)) if data == "digits" else min(HELD_MNIST, len(order) // 2)
        test, order = everything.take(order[:held]), order[held:]
    count = max(1, round(validation_split * len(order)))
    train, validation = everything.take(order[count:]), everything.take(order[:count])
    return CaptionData(*map(squares, (train, validation, test)), SETS[data])


def all_captions() -> list[str]:
    """All captions of canvases, to learn a vocabulary from."""
    return digit_canvases.captions()
