import numpy as np
import pytest

from keras_attention.data.augmentation import NUMBERS
from keras_attention.data.images.image_batches import Augmentation, ImageBatches, as_values, changed, usual_augmentation
from keras_attention.data.images.labelled_images import LabelledImages
from keras_attention.inputs.image import ImageInput
from keras_attention.inputs.sound import SoundInput

N, HEIGHT, WIDTH, CHANNELS = 13, 5, 7, 3
PIXELS = np.random.default_rng(0).integers(1, 256, (N, HEIGHT, WIDTH, CHANNELS)).astype("uint8")
IMAGES = LabelledImages(PIXELS, np.arange(N, dtype="int32"))
NOTHING = np.zeros(6, "uint64")


def epoch_of(seed=0, number=0, **augmentation):
    return ImageBatches(IMAGES, 5, seed, Augmentation(**augmentation)).epoch(number)


def test_an_epoch_has_each_image_once():
    epoch = epoch_of()
    labels = np.concatenate([epoch[i]["labels"] for i in range(len(epoch))])
    assert sorted(labels) == [-1, -1, *range(N)]
    for i in range(len(epoch)):
        batch = epoch[i]
        real = batch["labels"] >= 0
        np.testing.assert_array_equal(batch["values"][real], as_values(PIXELS[batch["labels"][real]]))


def test_epochs_are_a_function_of_seed_and_number():
    options = {"shift": 2, "flip": True, "erase": 0.4}
    first, again = epoch_of(3, 7, **options), epoch_of(3, 7, **options)
    for i in range(len(first)):
        np.testing.assert_array_equal(first[i]["values"], again[i]["values"])
        np.testing.assert_array_equal(first[i]["values"], first[i]["values"])
    assert not np.array_equal(first[0]["values"], epoch_of(3, 8, **options)[0]["values"])
    assert not np.array_equal(first[0]["values"], epoch_of(4, 7, **options)[0]["values"])


def test_values_lie_between_minus_one_and_one():
    values = as_values(np.array([0, 255], "uint8"))
    np.testing.assert_allclose(values, [-1, 1], atol=1e-6)
    assert values.dtype == "float32"


def test_shifts_move_every_pixel_and_fill_with_zero():
    for down in range(-2, 3):
        for right in range(-2, 3):
            numbers = NOTHING.copy()
            numbers[1:3] = down + 2, right + 2
            actual = changed(PIXELS[0], numbers, Augmentation(shift=2))
            for y in range(HEIGHT):
                for x in range(WIDTH):
                    inside = 0 <= y - down < HEIGHT and 0 <= x - right < WIDTH
                    expected = PIXELS[0, y - down, x - right] if inside else np.zeros(CHANNELS)
                    np.testing.assert_array_equal(actual[y, x], expected)


def test_half_of_the_images_are_mirrored():
    epoch = epoch_of(flip=True)
    mirrored = 0
    for i in range(len(epoch)):
        for values, label in zip(epoch[i]["values"], epoch[i]["labels"], strict=True):
            if label >= 0:
                original = as_values(PIXELS[label])
                mirrored += np.array_equal(values, original[:, ::-1])
                assert np.array_equal(values, original) or np.array_equal(values, original[:, ::-1])
    assert 0 < mirrored < N


def test_a_rectangle_of_limited_sides_is_erased():
    generator = np.random.PCG64(5)
    sizes = set()
    for _ in range(200):
        actual = changed(PIXELS[0], generator.random_raw(6), Augmentation(erase=0.5))
        gone = ~actual.any(axis=-1)
        rows, columns = gone.any(axis=1), gone.any(axis=0)
        assert gone.sum() == rows.sum() * columns.sum()
        sizes.add((int(rows.sum()), int(columns.sum())))
        np.testing.assert_array_equal(actual[~gone], PIXELS[0][~gone])
    assert max(height for height, _ in sizes) == 2
    assert max(width for _, width in sizes) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows_per_batch": 0}, "rows_per_batch=0"),
        ({"augmentation": Augmentation(shift=-1)}, "shift=-1"),
        ({"augmentation": Augmentation(erase=1.0)}, "erase=1.0"),
    ],
)
def test_arguments_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        ImageBatches(IMAGES, **arguments)


def test_values_of_series_have_changes_of_their_own():
    values = np.random.default_rng(3).normal(size=(N, 13, 2)).astype("float32")
    seen = []

    def change(arrays, numbers, flip):
        seen.append((len(numbers), flip))
        return {"values": 2 * arrays["values"]}

    batch = ImageBatches(LabelledImages(values, IMAGES.labels), 5, 3, change).epoch(0)[0]
    np.testing.assert_array_equal(batch["values"], 2 * values[batch["labels"]])
    assert set(seen) == {(NUMBERS, False)}


def test_sounds_and_series_change_as_their_kind_says():
    config = Augmentation(2, True, 0.3)
    assert usual_augmentation(None, config) == usual_augmentation(ImageInput((5, 7, 3)), config) == config
    assert usual_augmentation(SoundInput, config) == SoundInput.augmented
