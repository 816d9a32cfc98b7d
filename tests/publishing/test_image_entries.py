import numpy as np

from keras_attention.data.images.image_batches import MEAN, STD, as_values
from keras_attention.inputs.image import ImageInput
from keras_attention.publishing.image_entries import pixel_baseline


def test_training_and_answers_read_the_same_values():
    pixels = np.arange(256, dtype="uint8").reshape(16, 16, 1)
    values = ImageInput((16, 16, 1), mean=[MEAN], std=[STD]).arrays(pixels)["values"]
    np.testing.assert_array_equal(as_values(pixels), values)


def test_it_learns_which_pixels_tell_the_classes_apart():
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (211, 3, 5, 1)).astype("uint8")
    labels = (pixels[:, 1, 2, 0] > 127).astype(int)
    actual = pixel_baseline(pixels[:150], labels[:150], pixels[150:])
    assert np.mean(actual == labels[150:]) > 0.9
