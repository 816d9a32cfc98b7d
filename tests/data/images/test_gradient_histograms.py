"""Histograms of oriented gradients against a loop in NumPy."""

import numpy as np
import pytest

from keras_attention.data.images.gradient_histograms import BINS, EPSILON, gradient_histograms


def histograms(image):
    """The features of one image (height, width, channels), pixel by pixel."""
    height, width, channels = image.shape
    gray = np.pad(image.astype("float64").mean(axis=-1), 1, mode="edge")
    cell = max(2, round(min(height, width) / 7))
    rows, columns = height // cell, width // cell
    cells = np.zeros((rows, columns, BINS))
    for y in range(rows * cell):
        for x in range(columns * cell):
            down, across = gray[y + 2, x + 1] - gray[y, x + 1], gray[y + 1, x + 2] - gray[y + 1, x]
            place = (np.degrees(np.arctan2(down, across)) % 180) / (180 / BINS)
            for angle in (int(place), int(place) + 1):
                share = 1 - abs(place - angle)
                cells[y // cell, x // cell, angle % BINS] += share * np.hypot(down, across) / cell**2
    numbers_of_image = []
    for y in range(rows - 1):
        for x in range(columns - 1):
            block = np.concatenate([cells[y, x], cells[y, x + 1], cells[y + 1, x], cells[y + 1, x + 1]])
            numbers_of_image += list(block / np.sqrt((block**2).sum() + EPSILON**2))
    side = -(-max(height, width) // 16)
    for y in range(height // side):
        for x in range(width // side):
            numbers_of_image += list(image[y * side : (y + 1) * side, x * side : (x + 1) * side].mean(axis=(0, 1)))
    return np.array(numbers_of_image)


@pytest.mark.parametrize("size", [(13, 11, 3), (19, 31, 1), (8, 8, 1), (3, 2, 1)])
def test_equals_a_loop(size):
    images = np.random.default_rng(7).uniform(-1, 1, (5, *size)).astype("float32")
    actual = np.asarray(gradient_histograms(images))
    for image, features in zip(images, actual, strict=True):
        np.testing.assert_allclose(features, histograms(image), atol=1e-4)


def test_brightness_and_sign_of_the_contrast_do_not_matter():
    image = np.random.default_rng(7).uniform(-1, 1, (1, 17, 17, 1)).astype("float32")
    count = histograms(image[0]).size - 8 * 8
    first, second = (np.asarray(gradient_histograms(x))[0, :count] for x in (image, 0.3 - image))
    np.testing.assert_allclose(first, second, atol=1e-4)
