"""The picture of a note's attention."""

import numpy as np
import pytest
from PIL import Image

from keras_attention.support.errors import UserError
from keras_attention.visualize.music_maps import MusicAttention


def view(layers=3, num_steps=37):
    notes = [(0, 0, 5, 72), (0, 5, 32, 74), (1, 2, 17, 60), (3, 0, 29, 48), (3, 29, 8, 43)]
    weights = np.random.default_rng(3).random((layers, num_steps, 4)) / 97
    return MusicAttention(
        notes, ["a", "b", "c", "d"], num_steps, 16, (3, 29), weights, np.eye(3)[None].repeat(layers, 0)
    )


def test_draws_a_picture(tmp_path):
    view().save(tmp_path / "map.png")
    pixels = np.asarray(Image.open(tmp_path / "map.png").convert("RGB"))
    assert min(pixels.shape[:2]) > 400
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 13
    with pytest.raises(UserError, match="must end with"):
        view().save(tmp_path / "map.txt")


def test_the_outlined_note_and_the_opacity_of_a_cell():
    one = view()
    axes, shares, *maps = one.figure().axes
    outlined = [patch for patch in axes.patches if not patch.get_fill()]
    assert [(*patch.get_xy(), patch.get_width()) for patch in outlined] == [(29, 42.5, 8)]
    mean = one.weights.mean(axis=0)
    (cell,) = [
        patch for patch in axes.patches if patch.get_xy() == (3, 59.5) and patch.get_width() == 1 and patch.get_fill()
    ]
    assert cell.get_alpha() == pytest.approx(0.95 * (mean[3, 1] / mean.max()) ** 0.5)
    heights = [patch.get_height() for patch in shares.patches]
    np.testing.assert_allclose(sum(heights), 100 * one.weights.sum())
    assert [axes.get_title() for axes in maps] == ["layer 1", "layer 2", "layer 3"]
