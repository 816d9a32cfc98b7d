"""Maps over patches: rollout equals its equation, each map is the right one, and files are pages or pictures."""

import numpy as np
import pytest

from keras_attention.support.errors import UserError
from keras_attention.visualize.patch_maps import (
    attention_rollout,
    patch_attention,
    position_map,
    position_similarities,
    weights_of_patches,
)

LAYERS, HEADS, ROWS, COLUMNS = 2, 3, 5, 7
TOKENS = 1 + ROWS * COLUMNS


def attention(tokens=TOKENS):
    scores = np.exp(3 * np.random.default_rng(11).normal(size=(LAYERS, HEADS, tokens, tokens)))
    return scores / scores.sum(axis=-1, keepdims=True)


def rollout_in_loops(weights):
    layers, heads, size, _ = weights.shape
    result = [[float(i == j) for j in range(size)] for i in range(size)]
    for layer in range(layers):
        mixed = [
            [
                0.5 * sum(weights[layer, head, i, j] for head in range(heads)) / heads + 0.5 * (i == j)
                for j in range(size)
            ]
            for i in range(size)
        ]
        mixed = [[value / sum(row) for value in row] for row in mixed]
        result = [[sum(mixed[i][k] * result[k][j] for k in range(size)) for j in range(size)] for i in range(size)]
    return result


def test_rollout_equals_its_equation():
    weights = attention(tokens=13)
    np.testing.assert_allclose(attention_rollout(weights), rollout_in_loops(weights), atol=1e-12)
    np.testing.assert_allclose(attention_rollout(weights).sum(axis=1), 1)
    with pytest.raises(ValueError, match="weights.shape=\\(2, 3, 5\\)"):
        attention_rollout(np.ones((2, 3, 5)))


def test_the_classified_vector_attends():
    weights = attention()
    np.testing.assert_array_equal(weights_of_patches(weights, "cls"), weights[:, :, 0, 1:])
    of_all = [[weights[1, 2, :, key].sum() / TOKENS] for key in range(TOKENS)]
    np.testing.assert_allclose(weights_of_patches(weights, "mean")[1, 2], np.ravel(of_all))


def test_maps_have_the_grid_of_the_patches():
    weights = attention()
    view = patch_attention(np.ones((10, 14)), "image", weights, (ROWS, COLUMNS), "cls", "seven", "a note")
    assert view.weights.shape == (LAYERS, HEADS, ROWS, COLUMNS)
    assert view.weights[1, 2, 3, 4] == pytest.approx(weights[1, 2, 0, 1 + 3 * COLUMNS + 4])
    expected = rollout_in_loops(weights)[0][1 + 3 * COLUMNS + 4]
    assert view.rollout[3, 4] == pytest.approx(expected)
    names = [name for name, _ in view.panels]
    assert names[:3] == ["rollout", "layer 1, head 1", "layer 1, head 2"]
    assert len(names) == 1 + LAYERS * HEADS


@pytest.mark.parametrize(
    ("drawing", "values", "grid"),
    [
        ("image", np.full((10, 14), 0.3), (ROWS, COLUMNS)),
        ("image", np.full((10, 14, 3), 0.3), (ROWS, COLUMNS)),
        ("spectrogram", np.full((10, 14), 0.3), (ROWS, COLUMNS)),
        ("spectrogram", np.full((35, 14), 0.3), (35,)),
        ("lines", np.sin(np.arange(70.0))[:, None], (35,)),
    ],
)
def test_pictures_and_pages(drawing, values, grid, tmp_path):
    view = patch_attention(values, drawing, attention(), grid, "cls", "<seven>", "note & more")
    for name in ("map.png", "map.svg", "map.html"):
        view.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    page = (tmp_path / "map.html").read_text()
    assert page.count("<rect ") == (1 + LAYERS * HEADS) * ROWS * COLUMNS
    assert "&lt;seven&gt;" in page
    assert "<script" not in page
    assert view._repr_html_().startswith("<iframe")
    with pytest.raises(UserError, match="must end with"):
        view.save(tmp_path / "map.txt")


def test_time_is_from_left_to_right_and_high_bands_are_above():
    weights = np.zeros((1, 1, TOKENS, TOKENS))
    weights[..., 0] = 1
    weights[0, 0, 0] = 0
    weights[0, 0, 0, 1 + 1 * COLUMNS + 6] = 1  # second frame, highest band
    page = patch_attention(np.ones((10, 14)), "spectrogram", weights, (ROWS, COLUMNS), "cls").html
    of_head = page.split("layer 1, head 1")[1]
    (strongest,) = [part for part in of_head.split("<rect ") if "100.00%" in part]
    assert 'x="2.000" y="0.000" width="2.000" height="2.000"' in strongest


def test_similarities_are_cosines():
    vectors = np.random.default_rng(5).normal(size=(11, 3))
    actual = position_similarities(vectors)
    for i in range(11):
        for j in range(11):
            expected = sum(vectors[i] * vectors[j]) / (sum(vectors[i] ** 2) * sum(vectors[j] ** 2)) ** 0.5
            assert actual[i, j] == pytest.approx(expected)
    assert np.isfinite(position_similarities(np.zeros((2, 3)))).all()


def test_each_place_has_its_map_of_similarities(tmp_path):
    vectors = np.random.default_rng(5).normal(size=(15, 2))
    figure = position_map(vectors, (3, 5)).figure()
    maps = [np.asarray(axes.images[0].get_array()) for axes in figure.axes[:15]]
    np.testing.assert_allclose(maps[7], position_similarities(vectors)[7].reshape(3, 5))
    turned = position_map(vectors, (3, 5), "spectrogram").figure()
    first = np.asarray(turned.axes[0].images[0].get_array())  # first frame, highest band
    np.testing.assert_allclose(first, position_similarities(vectors)[4].reshape(3, 5).T[::-1])
    position_map(vectors, (15,), "lines").save(tmp_path / "line.png")
    with pytest.raises(ValueError, match="15 places"):
        position_map(vectors, (4, 5))
    with pytest.raises(UserError, match="1,089 places"):
        position_map(np.ones((1089, 2)), (33, 33)).figure()
