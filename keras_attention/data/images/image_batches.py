"""Batches of images, changed at random in each epoch; a pure function of (seed, epoch)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from keras_attention.data.augmentation import NUMBERS
from keras_attention.data.batches import FILLER, random_order
from keras_attention.data.images.labelled_images import LabelledImages


class Augmentation(NamedTuple):
    """How training images are changed.

    Attributes:
        shift: int >= 0, pixels. Images move by up to this many along each axis; the border is filled with 0.
        flip: bool. Half of the images are mirrored, left and right.
        erase: float in [0, 1). Each side of a rectangle that is set to 0, at most, as a share of the image's side.
    """

    shift: int = 0
    flip: bool = False
    erase: float = 0.0


def usual_augmentation(kind: Any, config: Any) -> Augmentation | Callable:
    """The changes of `ImageBatches` for `ImageData.kind`: of images as `config` says, else the kind's own."""
    if kind is None or kind.name == "image":
        return Augmentation(config.shift, config.flip, config.erase)
    return kind.augmented


MEAN, STD = 0.5, 0.5  # on the scale from 0 to 1


def as_values(pixels: np.ndarray) -> np.ndarray:
    """Pixels, uint8, as the float32 inputs of a network, from -1 to 1; values of sounds and series as they are."""
    if pixels.dtype != "uint8":
        return pixels
    return (pixels.astype("float32") / 255 - np.float32(MEAN)) / np.float32(STD)


class ImageBatches:
    """Batches of images in a random order.

    Args:
        images: LabelledImages.
        rows_per_batch: int > 0 (B).
        seed: int >= 0.
        augmentation: Augmentation; of sounds and series callable(dict with the `values` of one, random integers, flip)
            -> dict, such as `SoundInput.augmented`.

    Raises:
        ValueError: if there are no images, or an argument is out of range.
    """

    def __init__(
        self,
        images: LabelledImages,
        rows_per_batch: int = 64,
        seed: int = 0,
        augmentation: Augmentation | Callable = Augmentation(),  # noqa: B008  (a tuple)
    ):
        if rows_per_batch < 1 or not len(images):
            raise ValueError(
                "There must be images, and `rows_per_batch` must be positive. "
                f"Received: {len(images)} images, rows_per_batch={rows_per_batch}"
            )
        if isinstance(augmentation, Augmentation) and (augmentation.shift < 0 or not 0 <= augmentation.erase < 1):
            raise ValueError(f"`shift` must be 0 or more, `erase` in [0, 1). Received: {augmentation}")
        self.images, self.rows_per_batch, self.seed, self.augmentation = images, rows_per_batch, seed, augmentation

    def epoch(self, epoch: int) -> "ImageEpoch":
        """The batches of epoch number `epoch` (int >= 0): `len()` and `[i]`, a dict of arrays.

        `values` is float32 (B, height, width, channels), `labels` int32 (B,), -1 where an image only fills the batch.
        """
        generator = np.random.PCG64([self.seed, epoch])
        order = random_order(generator, len(self.images))
        filled = np.full(-(-len(order) // self.rows_per_batch) * self.rows_per_batch, FILLER)
        filled[: len(order)] = order
        each = 6 if isinstance(self.augmentation, Augmentation) else NUMBERS
        numbers = generator.random_raw(each * len(filled)).reshape(len(filled), each)
        return ImageEpoch(
            self.images, filled.reshape(-1, self.rows_per_batch), numbers.astype("uint64"), self.augmentation
        )


class ImageEpoch:
    """See `ImageBatches.epoch`. `rows` (M, B) are numbers of images, `numbers` (M * B, R) random 64-bit integers."""

    def __init__(self, images, rows, numbers, augmentation):
        self.images, self.rows, self.augmentation = images, rows, augmentation
        self.numbers = numbers.reshape(*rows.shape, -1)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        rows = self.rows[index]
        pixels = self.images.pixels[np.where(rows == FILLER, 0, rows)].copy()
        labels = np.where(rows == FILLER, -1, self.images.labels[np.where(rows == FILLER, 0, rows)])
        for image, numbers in zip(pixels, self.numbers[index], strict=True):
            if isinstance(self.augmentation, Augmentation):
                image[:] = changed(image, numbers, self.augmentation)
            else:
                image[:] = self.augmentation({"values": image}, numbers, False)["values"]
        return {"values": as_values(pixels), "labels": labels.astype("int32")}


def changed(image: np.ndarray, numbers: np.ndarray, augmentation: Augmentation) -> np.ndarray:
    """One image (height, width, channels) after flip, shift and erasure, decided by six random integers."""
    height, width, _ = image.shape
    if augmentation.flip and numbers[0] >> 63:
        image = image[:, ::-1]
    if augmentation.shift:
        moves = [int(number % (2 * augmentation.shift + 1)) - augmentation.shift for number in numbers[1:3]]
        moved = np.zeros_like(image)
        (to_y, from_y), (to_x, from_x) = (
            (slice(max(0, move), size + min(0, move)), slice(max(0, -move), size + min(0, -move)))
            for move, size in zip(moves, (height, width), strict=True)
        )
        moved[to_y, to_x] = image[from_y, from_x]
        image = moved
    if augmentation.erase:
        most = [max(1, int(augmentation.erase * size)) for size in (height, width)]
        sides = [int(numbers[3] % (most[0] + 1)), int((numbers[3] >> 32) % (most[1] + 1))]
        y, x = int(numbers[4] % (height - sides[0] + 1)), int(numbers[5] % (width - sides[1] + 1))
        image = image.copy()
        image[y : y + sides[0], x : x + sides[1]] = 0
    return image
