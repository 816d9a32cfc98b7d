import numpy as np

from keras_attention.publishing.image_entries import pixel_baseline


def test_it_learns_which_pixels_tell_the_classes_apart():
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (211, 3, 5, 1)).astype("uint8")
    labels = (pixels[:, 1, 2, 0] > 127).astype(int)
    found = pixel_baseline(pixels[:150], labels[:150], pixels[150:])
    assert np.mean(found == labels[150:]) > 0.9
