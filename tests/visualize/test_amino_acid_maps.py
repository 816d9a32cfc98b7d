"""The map of amino acids: similar ones are near, and the picture has all of them in their colours."""

import matplotlib.figure
import numpy as np
import pytest
from PIL import Image

from keras_attention.support.errors import UserError
from keras_attention.visualize.amino_acid_maps import CLASSES, COLOUR_OF, _apart, amino_acid_layout, amino_acid_plot

LETTERS = "ACDEFGHIKLMNPQRSTVWY"


def similarities(seed=3):
    values = np.random.default_rng(seed).normal(size=(20, 20))
    return values + values.T


def test_every_amino_acid_is_in_one_class():
    assert sorted("".join(letters for letters, _ in CLASSES.values())) == sorted(LETTERS)
    assert len(COLOUR_OF) == 20


def test_similar_ones_are_near_each_other():
    group = np.array([0, 0, 0, 1, 1, 1, 1])
    values = np.where(group[:, None] == group, 5.0, -5.0) + 0.01 * similarities()[:7, :7]
    places = amino_acid_layout(values)
    distances = np.linalg.norm(places[:, None] - places, axis=-1)
    same = group[:, None] == group
    assert distances[same].max() < distances[~same].min()


def test_places_in_a_plane_are_found_again():
    """Classical scaling is exact for distances of points in a plane; ranks of a triangle's equal sides are equal."""
    triangle = np.zeros((3, 3))  # three equal similarities: ranks 1/2
    places = amino_acid_layout(triangle)
    distances = np.linalg.norm(places[:, None] - places, axis=-1)
    np.testing.assert_allclose(distances, 0.5 * (1 - np.eye(3)), atol=1e-12)


def test_letters_do_not_cover_each_other():
    places = np.array([[0.0, 0.0], [0.001, 0.0], [0.0, 1.0], [0.5, 0.5], [0.5, 0.52], [0.51, 0.5]])
    moved = _apart(places)
    distances = np.linalg.norm(moved[:, None] - moved, axis=-1) + np.eye(6)
    assert distances.min() > 0.049
    np.testing.assert_array_equal(moved[2], places[2])
    assert np.abs(moved - places).max() < 0.05


def test_the_picture_shows_all_letters(tmp_path, monkeypatch):
    drawn = []
    text = matplotlib.axes.Axes.text
    monkeypatch.setattr(
        matplotlib.axes.Axes,
        "text",
        lambda axes, x, y, letter, **options: (
            drawn.append((letter, options.get("color"))) or text(axes, x, y, letter, **options)
        ),
    )
    amino_acid_plot(similarities(), similarities(5), LETTERS, tmp_path / "a.png", "BLOSUM62")
    assert sorted(drawn) == sorted(COLOUR_OF.items())
    picture = Image.open(tmp_path / "a.png").convert("RGB")
    colours = {colour for _, colour in picture.getcolors(1 << 20)}
    for _, colour in CLASSES.values():  # not merged into others by the palette
        wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
        assert min(np.abs(np.array(other) - wanted).max() for other in colours) < 30


def test_amino_acids_without_similarities_are_left_out(tmp_path):
    values = similarities()
    values[3] = values[:, 3] = np.nan
    amino_acid_plot(values, similarities(5), LETTERS, tmp_path / "a.svg", "BLOSUM62")
    assert (tmp_path / "a.svg").stat().st_size > 10_000
    with pytest.raises(UserError, match="must end with"):
        amino_acid_plot(values, values, LETTERS, tmp_path / "a.bmp", "BLOSUM62")
