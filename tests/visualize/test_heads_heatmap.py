"""The grid of heat maps: which maps are on it, and what it refuses."""

import numpy as np
import pytest

from keras_attention.support.errors import UserError
from keras_attention.visualize import figures as module
from keras_attention.visualize.figures import heads_heatmap

SOURCE, TARGET = ["▁A", "▁dog", ".", "</s>", "x"], ["▁Ein", "▁Hund", "</s>"]
WEIGHTS = np.random.default_rng(3).random((2, 7, 3, 5)).astype("float32")


@pytest.fixture
def axes_of(monkeypatch, tmp_path):
    """The axes that a call would write."""

    def draw(**options):
        figures = []
        monkeypatch.setattr(module, "save_figure", lambda figure, path: figures.append(figure))
        heads_heatmap(WEIGHTS, SOURCE, TARGET, tmp_path / "map.png", **options)
        return figures[0].axes

    return draw


def test_every_layer_and_head_has_its_map(axes_of):
    axes = axes_of()
    assert len(axes) == 14
    for i, one in enumerate(axes):
        np.testing.assert_array_equal(one.images[0].get_array(), WEIGHTS[i // 7, i % 7])
        assert one.get_xlabel() == f"layer {i // 7 + 1}, head {i % 7 + 1}"


def test_chosen_layers_and_heads_in_their_order(axes_of):
    axes = axes_of(layers=[2], heads=[5, 1])
    assert [one.get_xlabel() for one in axes] == ["layer 2, head 5", "layer 2, head 1"]
    np.testing.assert_array_equal(axes[1].images[0].get_array(), WEIGHTS[1, 0])
    assert [label.get_text() for label in axes[0].get_yticklabels()] == TARGET
    assert [label.get_text() for label in axes[1].get_yticklabels()] == []


def test_writes_a_picture_and_nothing_else(tmp_path):
    heads_heatmap(WEIGHTS, SOURCE, TARGET, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": [3]}, "There is no layer 3: the model has 2, counted from 1."),
        ({"heads": [0]}, "There is no head 0: the model has 7, counted from 1."),
    ],
)
def test_a_head_that_is_not_there(tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        heads_heatmap(WEIGHTS, SOURCE, TARGET, tmp_path / "map.png", **options)


@pytest.mark.parametrize("weights", [WEIGHTS[0], WEIGHTS[..., :4], np.full_like(WEIGHTS, np.nan)])
def test_wrong_weights(tmp_path, weights):
    with pytest.raises(ValueError, match="Received"):
        heads_heatmap(weights, SOURCE, TARGET, tmp_path / "map.png")
