"""Canvases with two digits: their sentences, boxes and pixels; a pure function of the seed."""

import re

import numpy as np
import pytest
from PIL import Image

from keras_attention.data.drawn_batches import DrawnBatches, decoder_arrays
from keras_attention.data.images.caption_data import load_caption_data
from keras_attention.data.images.digit_canvases import SIDE, WORDS, captions, drawn_values, scenes, squares
from keras_attention.data.images.labelled_images import LabelledImages
from keras_attention.inputs.image import ImageInput
from keras_attention.support.errors import UserError


@pytest.fixture(scope="module")
def digits():
    """13 full squares of different brightness; number i has the label i modulo 10."""
    pixels = np.zeros((13, 9, 7, 1), "uint8")
    pixels[:, 2:7, 1:6] = 100 + 10 * np.arange(13, dtype="uint8")[:, None, None, None]
    return squares(LabelledImages(pixels, (np.arange(13) % 10).astype("int32")))


def test_squares_cut_out_the_ink_and_centre_it():
    pixels = np.zeros((1, 11, 7, 1), "uint8")
    pixels[0, 2:10, 3] = 255  # 8 x 1
    (actual,) = squares(LabelledImages(pixels, np.array([1]))).pixels[..., 0]
    assert actual.shape == (20, 20)
    columns = np.flatnonzero(actual.max(axis=0) > 100)
    assert abs(columns.mean() - 9.5) <= 1.6  # an eighth of the side, off by half a pixel
    assert (actual.max(axis=1) > 100).all()
    empty = squares(LabelledImages(np.zeros((1, 5, 5, 1), "uint8"), np.array([1])))
    assert not empty.pixels.any()


def test_the_sentence_says_where_the_digits_are(digits):
    relations = set()
    for scene in scenes(digits, 211, 3):
        words = scene.caption.split()
        assert scene.caption in captions()
        first, second = scene.boxes[0], scene.boxes[len(words) - 1]
        for word, box in ((words[0], first), (words[-1], second)):
            assert 0 <= box.left < box.right <= SIDE
            assert 0 <= box.top < box.bottom <= SIDE
            assert 12 <= box.right - box.left == box.bottom - box.top <= 18
            brightness = int(scene.pixels[box.top : box.bottom, box.left : box.right].max())
            assert WORDS[(brightness - 100) // 10 % 10] == word
        across = (second.left + second.right - first.left - first.right) / 2
        down = (second.top + second.bottom - first.top - first.bottom) / 2
        longer = down if words[1] == "above" else across
        assert longer >= 1.5 * min(abs(across), abs(down))
        assert longer == max(abs(across), abs(down))
        apart_x = first.right <= second.left or second.right <= first.left
        assert apart_x or first.bottom <= second.top or second.bottom <= first.top
        outside = scene.pixels.copy()
        for box in (first, second):
            outside[box.top : box.bottom, box.left : box.right] = 0
        assert not outside.any()
        relations.add(words[1])
    assert relations == {"above", "left"}


def test_a_box_holds_its_points(digits):
    box = scenes(digits, 1, 5)[0].boxes[0]
    assert box.holds(box.left, box.top)
    assert not box.holds(box.right, box.top)
    assert not box.holds(box.left, box.bottom)


def test_batches_are_a_function_of_seed_and_epoch(digits):
    def encode(captions):
        return [np.array([5] * len(caption.split())) for caption in captions]

    def draw(count, seed):
        return drawn_values(digits, count, seed)

    batches = DrawnBatches(draw, encode, count=11, rows_per_batch=5, length=5, seed=2)
    epoch = batches.epoch(3)
    assert len(epoch) == 3
    batch = epoch[2]
    again = DrawnBatches(draw, encode, count=11, rows_per_batch=5, length=5, seed=2).epoch(3)[2]
    for name, array in batch.items():
        np.testing.assert_array_equal(array, again[name])
    assert batch["values"].shape == (5, SIDE, SIDE, 1)
    assert batch["values"].dtype == "float32"
    assert batch["values"].min() == -1
    for other in (epoch[1], batches.epoch(2)[2]):
        assert (other["values"] != batch["values"]).any()
    with pytest.raises(IndexError):
        epoch[3]
    with pytest.raises(ValueError, match="rows_per_batch=0"):
        DrawnBatches(draw, encode, 7, 0, 5)


def test_decoder_arrays_shift_the_labels():
    actual = decoder_arrays([np.array([7, 8]), np.array([9, 9, 9, 9])], 4)
    np.testing.assert_array_equal(actual["labels"], [[7, 8, 3, 0], [9, 9, 9, 3]])
    np.testing.assert_array_equal(actual["target_ids"], [[2, 7, 8, 0], [2, 9, 9, 9]])


def test_no_digit_is_in_two_parts():
    data = load_caption_data("digits")
    train, validation, test = (part.args[0] for part in (data.draw, data.validation, data.test))
    parts = [{pixels.tobytes() for pixels in part.pixels} for part in (train, validation, test)]
    assert sum(map(len, parts)) == len(set().union(*parts))
    assert [len(part) for part in (train, validation, test)] == [1294, 144, 359]
    first, again = (data.test(3) for _ in range(2))
    assert [one.captions for one in first] == [one.captions for one in again]
    assert [one.captions for one in data.validation(3)] != [one.captions for one in first]
    assert first[0].boxes
    assert data.size == first[0].picture.shape == (48, 48, 1)


def write_table(folder, count=20, header="image,caption"):
    """A table with pictures of 18 x 22 pixels, each in two rows; the picture `number` is that gray."""
    rows = [header]
    for number in range(count):
        (folder / "inside").mkdir(exist_ok=True, parents=True)
        Image.fromarray(np.full((18, 22), 10 * number, "uint8")).save(folder / "inside" / f"{number}.png")
        rows += [f"inside/{number}.png,gray {number}", f'inside/{number}.png,"picture  {number}, gray"']
    (folder / "captions.csv").write_text("\n".join(rows) + "\n")
    return str(folder / "captions.csv")


def test_a_table_of_captions(tmp_path):
    data = load_caption_data(write_table(tmp_path), validation_split=0.2, kind=ImageInput)
    assert data.size == (16, 24, 1)
    validation, test = data.validation(99), data.test(99)
    assert (len(validation), len(test)) == (4, 2)
    values, captions = data.draw(101, [1, 2])
    again = data.draw(101, [1, 2])
    np.testing.assert_array_equal(values, again[0])
    assert captions == again[1]
    assert values.shape == (101, 16, 24, 1)
    assert values.dtype == "float32"
    numbers = set()
    for value, caption in zip(values, captions, strict=True):
        number = int(re.search(r"\d+", caption)[0])
        assert caption in (f"gray {number}", f"picture {number}, gray")
        np.testing.assert_allclose(value, 20 * number / 255 - 1, atol=1e-5)
        numbers.add(number)
    held = {int(one.picture[0, 0, 0]) // 10 for one in (*validation, *test)}
    assert len(held) == 6
    assert not held & numbers
    assert len(data.captions) == 28
    assert all(len(one.captions) == 2 and one.boxes == {} for one in test)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_text("image,text\na.png,b\n"), "caption"),
        (lambda path: path.write_text("image,caption\n"), "no row"),
        (lambda path: path.write_bytes(b"image,caption\n\xff\xfe,b\n"), "UTF-8"),
        (lambda path: path.write_text("image,caption\ninside/1.png,b\nnothing.png,c\ninside/2.png,d\n"), "line 3"),
        (lambda path: path.write_text("image,caption\ninside/1.png,b\n"), "has 1 pictures. Expected: at least 3"),
        (lambda path: (path.parent / "inside" / "1.png").write_bytes(b"\x89PNG cut"), "1.png is not a picture"),
    ],
)
def test_wrong_tables_are_named(tmp_path, change, message):
    path = write_table(tmp_path)
    change(tmp_path / "captions.csv")
    with pytest.raises(UserError, match=message):
        load_caption_data(path, kind=ImageInput)


def test_an_unknown_set_is_named():
    with pytest.raises(UserError, match="no table 'letters'. Expected one of: digits, mnist; or a table"):
        load_caption_data("letters")
