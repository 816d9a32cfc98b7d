"""Arcs from words to the earlier words that they attend to."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from keras_attention.support.errors import UserError
from keras_attention.visualize.figures import links_plot

WORDS = ["It", "never", "bores", "you"]


def test_draws_one_arc_for_each_strong_link(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr("keras_attention.visualize.figures.save_figure", lambda figure, path: saved.append(figure))
    weights = np.zeros((4, 4))
    weights[1, 0], weights[2, 0], weights[2, 1], weights[3, 2] = 1.0, 0.3, 0.7, 0.05
    links_plot(WORDS, weights, tmp_path / "links.png", title="Recall")
    (figure,) = saved
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    ends = [(round(max(line.get_xdata())), round(min(line.get_xdata()))) for line in axes.lines]
    assert ends == [(1, 0), (2, 0), (2, 1)]
    widths = [line.get_linewidth() for line in axes.lines]
    assert widths[0] > widths[2] > widths[1]
    assert [text.get_text() for text in axes.texts] == WORDS


def test_writes_a_picture(tmp_path):
    links_plot(WORDS, np.tril(np.full((4, 4), 0.25), -1), tmp_path / "links.png")
    assert (tmp_path / "links.png").read_bytes().startswith(b"\x89PNG")


def test_refuses_what_cannot_be_drawn(tmp_path):
    with pytest.raises(ValueError, match=r"`weights` must be \(4, 4\) for 4 words. Received: \(3, 4\)"):
        links_plot(WORDS, np.zeros((3, 4)), tmp_path / "links.png")
    with pytest.raises(UserError, match="nothing to draw"):
        links_plot([], np.zeros((0, 0)), tmp_path / "links.png")
