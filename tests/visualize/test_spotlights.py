"""The picture once per word: where the light is, and what cannot be drawn."""

import numpy as np
import pytest
from PIL import Image

from keras_attention.support.errors import UserError
from keras_attention.visualize.spotlights import DOTS, LIGHT, Spotlights


def view(values=None, words=("seven", "above"), rows=3, columns=4):
    weights = np.zeros((len(words), rows, columns), "float32")
    weights[:1, 2, 1] = 1
    weights[1:] = 1 / (rows * columns)
    return Spotlights(np.zeros((30, 40)) if values is None else values, list(words), weights, "seven above")


def test_the_spotlight_is_at_the_attended_cell():
    panel = view().panel(0).astype(float)
    assert panel.shape == (DOTS * 3 // 4, DOTS, 3)
    brightness = panel.sum(axis=-1)
    row, column = np.unravel_index(brightness.argmax(), brightness.shape)
    assert row // 60 == 2
    assert column // 60 == 1
    assert brightness[:60].max() == 0
    np.testing.assert_allclose(panel[row, column], 255 * 0.5 * LIGHT, atol=2)
    even = view().panel(1)
    assert even.min(axis=(0, 1)).tolist() == even.max(axis=(0, 1)).tolist()


def test_colours_and_dark_places():
    values = np.ones((12, 12, 3)) * [1.0, 0.5, 0.0]
    panel = view(values).panel(0)
    np.testing.assert_allclose(panel[0, 0], 255 * 0.45 * np.array([1, 0.5, 0]), atol=2)


def test_it_is_written_with_one_panel_per_word(tmp_path):
    words = ["one", "$x^2$", "<b>", "一", "five", "six", "seven"]  # two rows of panels
    view(words=words).save(tmp_path / "look.png")
    width, height = Image.open(tmp_path / "look.png").size
    assert width > height > 300
    view().save(tmp_path / "look.svg")
    assert b"<svg" in (tmp_path / "look.svg").read_bytes()
    assert view()._repr_png_().startswith(b"\x89PNG")


def test_wrong_formats_weights_and_lengths_are_not_drawn(tmp_path):
    with pytest.raises(UserError, match="look.gif"):
        view().save(tmp_path / "look.gif")
    with pytest.raises(UserError, match="201 words. At most 200"):
        view(words=["a"] * 201).figure()
    broken = view()
    broken.weights[0, 0, 0] = np.nan
    with pytest.raises(UserError, match="attention weight"):
        broken.save(tmp_path / "look.png")
    view(words=[]).save(tmp_path / "nothing.png")  # the picture alone
