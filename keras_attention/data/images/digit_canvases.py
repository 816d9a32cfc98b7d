"""Two handwritten digits on a canvas, with a sentence that says where they are."""

from typing import NamedTuple

import numpy as np
from PIL import Image

from keras_attention.data.images.image_batches import as_values
from keras_attention.data.images.labelled_images import LabelledImages

SIDE = 48  # pixels of a canvas
SMALLEST, LARGEST = 12, 18  # pixels, the side of a digit's box
TURN = 10.0  # degrees, at most, to either side
CLEAR = 1.5  # how many times the longer of the distances across and down must be the shorter one
STORED = 20  # pixels, the side of the squares that digits are brought to
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ABOVE, LEFT = "above", "left of"
CANDIDATES = 64  # pairs of places that are drawn; the first in which the digits are apart is taken


class Box(NamedTuple):
    """The square of a digit on its canvas, in pixels; `right` and `bottom` are outside of it."""

    left: int
    top: int
    right: int
    bottom: int

    def holds(self, x: float, y: float) -> bool:
        """Whether the point is in the box."""
        return self.left <= x < self.right and self.top <= y < self.bottom


class Scene(NamedTuple):
    """A canvas and what is on it.

    Attributes:
        pixels: uint8 array (48, 48, 1).
        caption: str, such as "three above seven" or "three left of seven".
        boxes: dict from the number of a word of the caption to the Box of its digit.
    """

    pixels: np.ndarray
    caption: str
    boxes: dict[int, Box]


def squares(digits: LabelledImages) -> LabelledImages:
    """Each digit cut out along its ink, and brought to a square of `STORED` pixels with the digit in the middle."""
    canvases = np.zeros((len(digits), STORED, STORED, 1), "uint8")
    for number, pixels in enumerate(digits.pixels[..., 0]):
        rows, columns = (np.flatnonzero(pixels.any(axis=axis)) for axis in (1, 0))
        if not len(rows):
            continue
        ink = pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        side = max(ink.shape)
        square = np.zeros((side, side), "uint8")
        top, left = ((side - length) // 2 for length in ink.shape)
        square[top : top + ink.shape[0], left : left + ink.shape[1]] = ink
        canvases[number, ..., 0] = np.asarray(Image.fromarray(square).resize((STORED,) * 2, Image.Resampling.BILINEAR))
    return LabelledImages(canvases, digits.labels)


def draw_scene(digits: LabelledImages, pair: tuple[int, int], numbers: np.ndarray) -> Scene:
    """Places two digits on a canvas; the same arguments give the same Scene.

    The digits do not overlap, and one is clearly above the other or clearly left of it: the distance of their centres
    along one axis is at least 1.5 times that along the other. The upper or left one is named first.

    Args:
        digits: LabelledImages, see `squares`.
        pair: two numbers of digits.
        numbers: array of 4 + 4 * `CANDIDATES` floats in [0, 1), which decide sizes, angles and places.
    """
    sides = (SMALLEST + numbers[:2] * (LARGEST - SMALLEST + 1)).astype(int)
    places = numbers[4:].reshape(-1, 2, 2)  # candidates, digits, (x, y)
    corners = (places * (SIDE + 1 - sides[None, :, None])).astype(int)
    centres = corners + sides[:, None] / 2  # (candidates, digits, 2)
    across, down = (centres[:, 1] - centres[:, 0]).T
    longer, shorter = (each(np.abs(across), np.abs(down)) for each in (np.maximum, np.minimum))
    fits = np.flatnonzero((longer > sides.sum() / 2) & (longer >= CLEAR * shorter))
    if len(fits):
        corners, across, down = corners[fits[0]], across[fits[0]], down[fits[0]]
    else:  # hardly ever
        corners, across, down = np.array([[0, 0], [0, SIDE - sides[1]]]), 0, 1
    canvas = np.zeros((SIDE, SIDE), "uint8")
    boxes = []
    for digit, side, turn, (left, top) in zip(pair, sides, numbers[2:4], corners, strict=True):
        canvas[top : top + side, left : left + side] = _turned(
            digits.pixels[digit, ..., 0], side, (2 * turn - 1) * TURN
        )
        boxes.append(Box(int(left), int(top), int(left + side), int(top + side)))
    vertical = abs(down) > abs(across)
    first = int((down if vertical else across) < 0)
    names = [WORDS[digits.labels[pair[i]]] for i in (first, 1 - first)]
    relation = ABOVE if vertical else LEFT
    caption = f"{names[0]} {relation} {names[1]}"
    last = len(caption.split()) - 1
    return Scene(canvas[..., None], caption, {0: boxes[first], last: boxes[1 - first]})


def _turned(pixels, side, degrees):
    """A square of pixels brought to another side and turned around its middle."""
    angle = np.deg2rad(degrees)
    scale = STORED / side
    cos, sin = scale * np.cos(angle), scale * np.sin(angle)
    middle, centre = side / 2, STORED / 2
    matrix = (cos, sin, centre - middle * (cos + sin), -sin, cos, centre - middle * (cos - sin))
    return np.asarray(
        Image.fromarray(pixels).transform((side, side), Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)
    )


def scenes(digits: LabelledImages, count: int, seed: int | list[int]) -> list[Scene]:
    """`count` random Scenes with digits from `squares`, a pure function of the arguments."""
    generator = np.random.Generator(np.random.PCG64(seed))
    pairs = generator.integers(0, len(digits), (count, 2))
    numbers = generator.random((count, 4 + 4 * CANDIDATES))
    return [draw_scene(digits, tuple(pair), each) for pair, each in zip(pairs, numbers, strict=True)]


def captions() -> list[str]:
    """All captions that a Scene may have: list of 200 str."""
    return [f"{first} {relation} {second}" for first in WORDS for relation in (ABOVE, LEFT) for second in WORDS]


def drawn_values(digits: LabelledImages, count: int, seed: list[int]) -> tuple[np.ndarray, list[str]]:
    """`scenes` as the values (count, 48, 48, 1) of a network, from -1 to 1, and their captions."""
    drawn = scenes(digits, count, seed)
    return as_values(np.stack([scene.pixels for scene in drawn])), [scene.caption for scene in drawn]
