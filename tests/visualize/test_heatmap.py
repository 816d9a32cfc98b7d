"""The heat map: what is on it, where it goes, and what it refuses."""

import subprocess
import sys
import warnings

import matplotlib.image
import numpy as np
import pytest

from keras_attention.support import atomic_files
from keras_attention.support.errors import UserError
from keras_attention.visualize import figures as figure_file
from keras_attention.visualize import figures as heatmap
from keras_attention.visualize.figures import attention_heatmap

SOURCE = ["▁A", "▁dog", ".", "<end>", " "]  # 5
TARGET = ["▁Ein", "▁Hund", "<end>"]  # 3


def alignment(targets, sources):
    """Weights (T, S) whose rows sum to 1."""
    weights = np.random.default_rng(7).random((targets, sources))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
def test_writes_each_format_and_nothing_else(tmp_path, suffix):
    path = tmp_path / f"map{suffix}"
    attention_heatmap(alignment(3, 5), SOURCE, TARGET, path, title="Ein Hund")
    start = path.read_bytes()[:5]
    assert start.startswith({".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix.lower()])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_cells_are_square_and_grey_from_black_to_white(tmp_path):
    attention_heatmap([[0.0, 0.5, 1.0]], ["a", "b", "c"], ["d"], tmp_path / "map.png")
    cell = round(heatmap.CELL * figure_file.DOTS_PER_INCH)
    picture = matplotlib.image.imread(tmp_path / "map.png")[..., :3]
    assert np.ptp(picture, axis=-1).max() == 0  # grey only
    inside = picture[..., 0][-(cell // 2) - 15, :]  # a line through the only row of cells
    black, grey = (np.flatnonzero(np.abs(inside - value) < 0.01) for value in (0.0, 0.5))
    assert abs(len(black) - cell) <= 3  # with the frame
    assert abs(len(grey) - cell) <= 3
    assert np.median(black) < np.median(grey)


def test_rows_are_targets_from_top_to_bottom(monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(heatmap, "save_figure", lambda figure, path: figures.append(figure))
    attention_heatmap(alignment(3, 5), SOURCE, TARGET, tmp_path / "map.png", title="$x$")
    axes = figures[0].axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), alignment(3, 5), rtol=1e-6)
    assert axes.images[0].get_clim() == (0.0, 1.0)
    assert [label.get_text() for label in axes.get_yticklabels()] == TARGET
    assert axes.get_ylim() == (2.5, -0.5)
    ticks = axes.xaxis.get_major_ticks()
    assert [tick.label2.get_text() for tick in ticks] == ["▁A", "▁dog", ".", "<end>", "␣"]
    assert [tick.label2.get_rotation() for tick in ticks] == [0, 90, 0, 90, 0]
    assert axes.get_title() == "$x$"
    assert not axes.title.get_parse_math()


def test_very_long_sentences_and_tokens_stay_a_picture(tmp_path):
    tokens = ["x" * 1009] * 211
    attention_heatmap(np.full((1, 211), 1 / 211), tokens, ["y"], tmp_path / "map.png")
    height, width, _ = matplotlib.image.imread(tmp_path / "map.png").shape
    assert width < 1.2 * heatmap.LONGEST_SIDE * figure_file.DOTS_PER_INCH
    assert height < width


def test_missing_glyph_is_one_warning_in_one_line(tmp_path):
    unassigned = "\u0378\u0379"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        attention_heatmap(alignment(1, 2), [unassigned, "\u0378"], ["a"], tmp_path / "map.png", title=unassigned)
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)
    assert "0378" in str(caught[0].message)


@pytest.mark.parametrize("name", ["map", "map.jpg", "map.txt", "map.png.gz"])
def test_unknown_suffix(tmp_path, name):
    with pytest.raises(UserError, match=r"\.png, \.svg, \.pdf.*" + name):
        attention_heatmap(alignment(3, 5), SOURCE, TARGET, tmp_path / name)


def test_unwritable_paths(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="nowhere"):
        attention_heatmap(alignment(3, 5), SOURCE, TARGET, tmp_path / "nowhere" / "map.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UserError, match="it is a folder"):
        attention_heatmap(alignment(3, 5), SOURCE, TARGET, tmp_path / "folder.png")
    monkeypatch.setattr(atomic_files.os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match="not writable"):
        attention_heatmap(alignment(3, 5), SOURCE, TARGET, tmp_path / "map.png")


def test_a_failed_write_keeps_the_old_picture(tmp_path, monkeypatch):
    path = tmp_path / "map.png"
    path.write_bytes(b"old")

    def full_disk(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files.os, "replace", full_disk)
    with pytest.raises(UserError, match="No space left"):
        attention_heatmap(alignment(3, 5), SOURCE, TARGET, path)
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["map.png"]


def test_wrong_weights(tmp_path):
    with pytest.raises(ValueError, match=r"\(3, 5\).*weights.shape=\(5, 3\)"):
        attention_heatmap(alignment(5, 3), SOURCE, TARGET, tmp_path / "map.png")
    with pytest.raises(ValueError, match="NaN"):
        attention_heatmap(np.full((3, 5), np.nan), SOURCE, TARGET, tmp_path / "map.png")
    with pytest.raises(UserError, match="nothing to draw"):
        attention_heatmap(np.zeros((0, 5)), SOURCE, [], tmp_path / "map.png")
    assert not list(tmp_path.iterdir())


def test_leaves_matplotlib_as_it_was(tmp_path):
    program = (
        "import sys, matplotlib; before = list(dict.items(matplotlib.rcParams))\n"
        "from keras_attention.visualize.figures import attention_heatmap\n"
        f"attention_heatmap([[1.0]], ['a'], ['b'], {str(tmp_path / 'map.png')!r})\n"
        "assert 'matplotlib.pyplot' not in sys.modules and 'tensorflow' not in sys.modules\n"
        "assert list(dict.items(matplotlib.rcParams)) == before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
