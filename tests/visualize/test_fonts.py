"""Choosing fonts: the base font first, then packages of fonts, then the machine's."""

import shutil
from pathlib import Path

import matplotlib
import pytest
from matplotlib.ft2font import FT2Font

from keras_attention.visualize import figures as fonts

SCRIPTS = {
    "Latin": "Größe",
    "Cyrillic": "декабря",
    "Greek": "Δεκεμβρίου",
    "Arabic": "ديسمبر",
    "Hebrew": "דצמבר",
    "SentencePiece": "▁␣",
}
FONT_FILES = Path(matplotlib.get_data_path()) / "fonts" / "ttf"


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_that_need_nothing_installed(script):
    assert fonts.families_for([SCRIPTS[script]]) == ([fonts.BASE_FAMILY], set())


@pytest.mark.parametrize("text", ["令和5年12月7日", "2023年12月7日 星期四", "2023년 12월 7일 목요일"])
def test_east_asian_dates_with_the_font_package(text):
    pytest.importorskip("noto_cjk_sans_jp_regular")
    families, missing = fonts.families_for([text])
    assert not missing
    assert "Noto Sans CJK JP" in families


def test_font_packages_are_found_without_running_them(tmp_path, monkeypatch):
    package = tmp_path / "a_font_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('code of a font package was run')")
    shutil.copy(FONT_FILES / "LastResortHE-Regular.ttf", package / "Regular.ttf")
    shutil.copy(FONT_FILES / "DejaVuSerif.ttf", package / "Bold.ttf")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(fonts, "FONT_PACKAGES", ("a_font_package", "an_absent_package"))
    monkeypatch.setattr(fonts.font_manager.fontManager, "ttflist", list(fonts.font_manager.fontManager.ttflist))
    assert list(fonts._packaged_files()) == [package / "Regular.ttf"]
    families, missing = fonts.families_for(["a年"])
    assert families == [fonts.BASE_FAMILY, FT2Font(str(package / "Regular.ttf")).family_name]
    assert not missing


def test_replaces_only_what_cannot_be_drawn():
    with pytest.warns(UserWarning, match="No installed font .* Install a font for this script"):
        texts, families = fonts.drawable(["a\u0378b", "c\u200dd"])
    assert texts == ["a\N{REPLACEMENT CHARACTER}b", "c\u200dd"]
    assert families == [fonts.BASE_FAMILY]


def test_east_asian_text_without_its_font_names_the_extra(monkeypatch):
    monkeypatch.setattr(fonts, "_candidates", lambda: [(fonts.BASE_FAMILY, str(FONT_FILES / "DejaVuSans.ttf"))])
    with pytest.warns(UserWarning, match=r"pip install -e '.*\[cjk\]'"):
        texts, _ = fonts.drawable(["3月"])
    assert texts == ["3\N{REPLACEMENT CHARACTER}"]
