"""The picture of a confusion matrix."""

import numpy as np
import pytest

from keras_attention.support.errors import UserError
from keras_attention.visualize import score_plots as confusion_matrix
from keras_attention.visualize.score_plots import confusion_matrix_plot

COUNTS = [[90, 7, 3], [5, 0, 2], [0, 0, 0]]
LABELS = ["bad", "good", "не ясно"]


def test_counts_stand_in_their_cells(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(confusion_matrix, "save_figure", lambda figure, path: figures.append(figure))
    confusion_matrix_plot(COUNTS, LABELS, tmp_path / "plot.png", "Reviews")
    axes = figures[0].axes[0]
    shown = {(text.get_position()[1], text.get_position()[0]): text.get_text() for text in axes.texts}
    assert shown == {(row, column): str(COUNTS[row][column]) for row in range(3) for column in range(3)}
    assert [label.get_text() for label in axes.get_yticklabels()] == LABELS
    shares = axes.images[0].get_array()
    assert shares[0, 0] == pytest.approx(0.9)
    assert shares[1].sum() == pytest.approx(1)
    assert shares[2].sum() == 0


def test_many_labels_have_no_numbers(tmp_path):
    labels = [f"label {i}" for i in range(43)]
    confusion_matrix_plot([[1] * 43] * 43, labels, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_refuses(tmp_path):
    with pytest.raises(ValueError, match=r"counts.shape=\(2, 3\)"):
        confusion_matrix_plot(COUNTS[:2], LABELS, tmp_path / "plot.png")
    with pytest.raises(UserError, match="nothing to draw"):
        confusion_matrix_plot(np.zeros((0, 0)), [], tmp_path / "plot.png")
    with pytest.raises(UserError, match="plot.gif"):
        confusion_matrix_plot(COUNTS, LABELS, tmp_path / "plot.gif")
