"""The plot of BLEU against source length."""

import pytest

from keras_attention.support.errors import UserError
from keras_attention.visualize import score_plots as bleu_by_length
from keras_attention.visualize.score_plots import bleu_by_length_plot

SERIES = {
    "attention": [("1-10", 41.0), ("11-20", 39.5), ("21+", 38.0)],
    "none": [("1-10", 38), ("11-20", 29), ("21+", 17)],
}


def test_one_line_per_system(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(bleu_by_length, "save_figure", lambda figure, path: figures.append(figure))
    bleu_by_length_plot(SERIES, tmp_path / "plot.png", "Multi30k")
    axes = figures[0].axes[0]
    assert [(line.get_label(), list(line.get_ydata())) for line in axes.lines] == [
        ("attention", [41.0, 39.5, 38.0]),
        ("none", [38, 29, 17]),
    ]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1-10", "11-20", "21+"]


def test_writes_a_picture(tmp_path):
    bleu_by_length_plot(SERIES, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_refuses(tmp_path):
    with pytest.raises(ValueError, match="same buckets"):
        bleu_by_length_plot({**SERIES, "third": [("1-5", 3.0)]}, tmp_path / "plot.png")
    with pytest.raises(UserError, match="nothing to draw"):
        bleu_by_length_plot({}, tmp_path / "plot.png")
    with pytest.raises(UserError, match="plot.gif"):
        bleu_by_length_plot(SERIES, tmp_path / "plot.gif")
