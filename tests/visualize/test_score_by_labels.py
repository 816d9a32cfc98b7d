"""The plot of scores against the number of labels."""

import pytest

from keras_attention.support.errors import UserError
from keras_attention.visualize import score_plots as score_by_labels
from keras_attention.visualize.score_plots import score_by_labels_plot

SERIES = {"pre-trained": [(100, [70.0, 74.0]), (1_000, [81.0, 80.0])], "none": [(100, [52.0, 55.0]), (1_000, [63.0])]}


def test_one_line_per_system(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(score_by_labels, "save_figure", lambda figure, path: figures.append(figure))
    score_by_labels_plot(SERIES, tmp_path / "plot.png", "accuracy, %", "Reviews")
    axes = figures[0].axes[0]
    lines = [container.lines[0] for container in axes.containers]
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in lines] == [
        ([100, 1_000], [72.0, 80.5]),
        ([100, 1_000], [53.5, 63.0]),
    ]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(SERIES)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["100", "1,000"]
    assert (axes.get_xscale(), axes.get_ylabel(), axes.get_title()) == ("log", "accuracy, %", "Reviews")


def test_writes_a_picture(tmp_path):
    score_by_labels_plot(SERIES, tmp_path / "plot.png", "accuracy, %")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_refuses(tmp_path):
    with pytest.raises(UserError, match="nothing to draw"):
        score_by_labels_plot({}, tmp_path / "plot.png", "accuracy, %")
    with pytest.raises(UserError, match="plot.gif"):
        score_by_labels_plot(SERIES, tmp_path / "plot.gif", "accuracy, %")
