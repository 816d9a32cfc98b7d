"""The plot of the losses."""

import pytest

from keras_attention.support.errors import UserError
from keras_attention.visualize import score_plots as learning_curve
from keras_attention.visualize.score_plots import learning_curve_plot

HISTORY = [
    {"steps": 11, "loss": 5.0, "val_loss": 5.5},
    {"steps": 23, "loss": 3.5},
    {"steps": 31, "loss": 3.0, "val_loss": 3.9},
]


def test_losses_stand_over_the_updates(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(learning_curve, "save_figure", lambda figure, path: figures.append(figure))
    learning_curve_plot(HISTORY, tmp_path / "curve.png")
    training, validation = figures[0].axes[0].lines
    assert (list(training.get_xdata()), list(training.get_ydata())) == ([11, 23, 31], [5.0, 3.5, 3.0])
    assert (list(validation.get_xdata()), list(validation.get_ydata())) == ([11, 31], [5.5, 3.9])


def test_writes_a_picture_without_validations_too(tmp_path):
    learning_curve_plot([{"steps": 7, "loss": 2.0}], tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_refuses(tmp_path):
    with pytest.raises(UserError, match="no epoch"):
        learning_curve_plot([], tmp_path / "curve.png")
